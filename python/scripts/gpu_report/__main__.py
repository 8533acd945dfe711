"""`python -m gpu_report --out FOLDER`."""

import argparse
import json
import pathlib
import sys

from . import frameworks, page, report


def main():
    parser = argparse.ArgumentParser(prog="gpu_report", description="Checks and measures forebay on this machine's GPU.")
    parser.add_argument("--out", default="report", help="folder for gpu.json and gpu.html")
    parser.add_argument("--photographs", help="folder with JPEGs of some 100 kB to measure with, beside synthetic ones")
    parser.add_argument("--quick", action="store_true", help="little of everything, to see that it runs")
    arguments = parser.parse_args()
    try:
        framework = frameworks.Torch()
    except (ImportError, RuntimeError) as error:
        raise SystemExit(f"gpu-report needs torch and a GPU that it sees: {error}") from error
    found = report.run(framework, report.Scale(arguments.quick), arguments.photographs)
    return write(found, pathlib.Path(arguments.out))


def write(found, out):
    """Writes both files; 1 if a part failed."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "gpu.json").write_text(json.dumps(found, indent=1) + "\n")
    (out / "gpu.html").write_text(page.page(found))
    print(f"{out / 'gpu.json'} and {out / 'gpu.html'}")
    return int(any(part["outcome"] == "failed" for part in found["parts"]))


if __name__ == "__main__":
    sys.exit(main())
