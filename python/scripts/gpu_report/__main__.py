"""`python -m gpu_report --out FOLDER`."""

import argparse
import faulthandler
import functools
import json
import os
import pathlib
import sys

from . import frameworks, page, report

HUNG_SECONDS = 75
"""After the time is over, for the part that is running then."""

NEEDED = """\
What must be there beforehand, since nothing is fetched: a driver and a GPU; a Python with numpy, Pillow and torch with CUDA;
the extension, built by `make build` where libhwloc is installed here too, or else a wheel from `make wheel`, which brings it
along. What may be missing is said in the report, and the parts that need it are left out: torchvision (the peers and the
training step), nvJPEG (decoding on the device), git (the commit's name).

Both files are written before and after each part, so a run that is cut off leaves what it had found, and which part it was;
another run can go on with --skip and --only. Without a shell's `make`:
WHEEL=FILE PYTHON=/path/to/python python/scripts/gpu_report.sh --minutes 8
"""


def main():
    parser = argparse.ArgumentParser(
        prog="gpu_report",
        description="Checks and measures forebay on this machine's GPU.",
        epilog=NEEDED,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", default="report", help="folder for gpu.json and gpu.html")
    parser.add_argument("--photographs", help="folder with JPEGs of some 100 kB to measure with, beside synthetic ones")
    parser.add_argument("--quick", action="store_true", help="little of everything, to see that it runs")
    parser.add_argument("--minutes", type=float, default=8.0, help="no part begins after so many (default: 8)")
    parser.add_argument("--only", action="append", metavar="TEXT", help="parts with this in their names alone; may be repeated")
    parser.add_argument("--skip", action="append", default=[], metavar="TEXT", help="no parts with this in their names; may be repeated")
    arguments = parser.parse_args()
    try:
        framework = frameworks.Torch()
    except (ImportError, RuntimeError) as error:
        raise SystemExit(f"gpu-report needs torch and a GPU that it sees: {error}\n\n{NEEDED}") from error
    # A device that hangs would keep the part that waits for it until somebody ends the process without a word.
    faulthandler.dump_traceback_later(60 * arguments.minutes + HUNG_SECONDS, exit=True)
    keep = functools.partial(write, out=pathlib.Path(arguments.out))
    scale = report.Scale(arguments.quick)

    def wanted(name):
        return any(text in name for text in arguments.only or [""]) and not any(text in name for text in arguments.skip)

    found = report.run(framework, scale, arguments.photographs, minutes=arguments.minutes, keep=keep, wanted=wanted)
    faulthandler.cancel_dump_traceback_later()
    print(f"{arguments.out}/gpu.json and {arguments.out}/gpu.html")
    return int(report.has_failed(found))


def write(found, out):
    """Writes both files, each at once: they are whole whenever the process ends."""
    out.mkdir(parents=True, exist_ok=True)
    for name, text in (("gpu.json", json.dumps(found, indent=1) + "\n"), ("gpu.html", page.page(found))):
        new = out / f"{name}.new"
        new.write_text(text)
        os.replace(new, out / name)


if __name__ == "__main__":
    sys.exit(main())
