"""`python -m gpu_report --out FOLDER`."""

import argparse
import functools
import json
import os
import pathlib
import signal
import sys
import time

from . import data, frameworks, isolated, page, parts, report, scale

NEEDED = """\
Requirements (nothing is downloaded): a driver and a GPU; a Python with numpy, Pillow and torch with CUDA; the
extension, built by `make build` if libhwloc is installed here too, else a wheel from `make wheel`, which needs none.
Optional; the report names missing ones and skips their parts: torchvision (peers and training step), nvJPEG (decoding
on the device), CuPy and JAX (sharing of memory), git (name of the commit; or set FOREBAY_COMMIT).

Each part runs in a separate process: a crash or a timeout fails only that part. Time limits:

    {limits}

seconds (at most {quick} with --quick). No part runs for more than {grace} seconds after --minutes.

Both files are written before and after each part, so an interrupted run leaves its results and the name of the running
part. Continue with --skip and --only. Samples that differ are stored next to them in up to five files
differs-CHECK.npz. Without `make`:
WHEEL=FILE PYTHON=/path/to/python python/scripts/gpu_report.sh --minutes 8
""".format(
    limits=", ".join(f"{kind} {seconds}" for kind, seconds in scale.LIMITS_SECONDS.items()),
    quick=scale.QUICK_LIMIT_SECONDS,
    grace=report.GRACE_SECONDS,
)


def main():
    parser = argparse.ArgumentParser(
        prog="gpu_report",
        description="Checks and measures forebay on this machine's GPU.",
        epilog=NEEDED,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--out", default=os.environ.get("OUT") or "report", help="folder for gpu.json and gpu.html (default: $OUT, or report)"
    )
    parser.add_argument("--photographs", help="folder with JPEGs of about 100 kB, measured in addition to synthetic ones")
    parser.add_argument("--quick", action="store_true", help="a short run of all parts, to check that they run")
    parser.add_argument("--minutes", type=float, default=8.0, help="no part starts after this time (default: 8)")
    parser.add_argument("--only", action="append", metavar="TEXT", help="run only parts with this text in their names; may be repeated")
    without = "skip parts with this text in their names; may be repeated"
    parser.add_argument("--skip", action="append", default=[], metavar="TEXT", help=without)
    parser.add_argument("--one-process", action="store_true", help="run all parts in this process, without limits, for a debugger")
    arguments = parser.parse_args()
    if arguments.minutes <= 0:
        parser.error(f"--minutes: {arguments.minutes:g} is not a positive time")
    if not arguments.out:
        parser.error("--out: the name of the folder is empty")
    if arguments.photographs and not pathlib.Path(arguments.photographs).is_dir():
        parser.error(f"--photographs: there is no folder {arguments.photographs}")
    try:
        pathlib.Path(arguments.out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out: the folder cannot be used: {error}")
    how_much = scale.Scale(arguments.quick)
    photographs = data.photographs(arguments.photographs, how_much.sets[0][0]) if arguments.photographs else None
    if photographs == []:
        parser.error(f"--photographs: there is no JPEG in {arguments.photographs}")
    for number in isolated.ENDING:
        # Unlike the default action, this runs clean-up code; and background jobs of a shell ignore Ctrl-C.
        signal.signal(number, _end)
    # A part may change the current folder.
    out = pathlib.Path(arguments.out).resolve()
    for old in out.glob("differs-*.npz"):
        old.unlink()
    keep = functools.partial(write, out=out)

    def wanted(name):
        return any(text in name for text in arguments.only or [""]) and not any(text in name for text in arguments.skip)

    try:
        found = parts.run(
            frameworks.Torch(),
            how_much,
            photographs,
            minutes=arguments.minutes,
            spent_seconds=_spent_seconds(),
            keep=keep,
            wanted=wanted,
            isolated=not arguments.one_process,
            out=out,
            arguments=sys.argv[1:],
        )
    except (ImportError, parts.NoDevice) as error:
        raise SystemExit(f"gpu-report needs torch and a GPU that torch sees: {error} (`--help` lists all requirements)") from error
    print(f"{arguments.out}/gpu.json and {arguments.out}/gpu.html")
    return int(report.has_failed(found))


def _spent_seconds():
    """Seconds since the start of the calling shell, which searched for a Python with torch."""
    begun = os.environ.get("GPU_REPORT_BEGUN")
    return max(0.0, time.time() - float(begun)) if begun else 0.0


def _end(number, frame):
    raise SystemExit(f"gpu-report was ended by {signal.Signals(number).name}")


def write(found, out):
    """Writes both files by a rename, so that they are always complete. A full disk is not fatal, because it may
    change."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in (("gpu.json", json.dumps(found, indent=1) + "\n"), ("gpu.html", page.page(found))):
            new = out / f"{name}.new"
            new.write_text(text)
            os.replace(new, out / name)
    except OSError as error:
        print(f"warning: the report could not be written: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
