"""Runs the reference's test files, each in a separate process, and prints a table. `reference_suite.sh` calls it."""

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

TIERS = {
    "A": "array partition encodings compression hashing sampling shuffle spanner",
    "B": "streaming reader writer eviction mixing stream laziness unsafe_types local",
    "C": "util shared barrier registry distributed",
    "D": "upload download",
    "E": "base/converters/dataframe_to_mds",
}
"""Pure functions; data sets and writers; internals; wrappers of clouds' libraries (we do not claim all); Spark."""

ON_PURPOSE: dict[str, str] = {}
"""Cases that pin a fault of the reference which we have fixed, and why: "file::name": reason. They must fail."""

TIMEOUT_S = 1200
"""For one file."""


def path_of(name: str) -> str:
    folder, _, stem = name.rpartition("/")
    return os.path.join("tests", folder, f"test_{stem}.py")


def run(checkout: Path, path: str, alias: bool) -> tuple[Counter, list[str]]:
    """Counts of a file's outcomes, and the names of the cases that failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-o", "log_cli=false"]
        command += ["-m", "not daily and not remote", "-p", "no:cacheprovider", f"--junitxml={report}", path]
        if alias:
            command += ["-p", "forebay.streaming.alias"]
        output = os.path.join(folder, "output")
        try:
            with open(output, "wb") as out:
                subprocess.run(
                    command,
                    cwd=checkout,
                    # Spark's workers are this Python as well, and its server needs no network.
                    env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    timeout=TIMEOUT_S,
                )
        except subprocess.TimeoutExpired:
            return Counter(failed=1), [f"{path}::(no end within {TIMEOUT_S} s)"]
        if not os.path.exists(report):
            sys.stderr.write(Path(output).read_text(errors="replace")[-4000:])
            return Counter(failed=1), [f"{path}::(no report)"]
        return read(report, path)


def read(report: str, path: str) -> tuple[Counter, list[str]]:
    counts: Counter = Counter()
    failed = []
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            name = f"{path}::{case.get('name')}"
            counts["on purpose" if name in ON_PURPOSE else "failed"] += 1
            if name not in ON_PURPOSE:
                failed.append(name)
        else:
            counts["skipped" if "skipped" in kinds else "passed"] += 1
    return counts, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("files", nargs="*", help="names such as tests/test_array.py; default: the files of the tiers")
    parser.add_argument("--tiers", default="ABCE")
    parser.add_argument("--reference", action="store_true", help="without the alias: run the reference itself")
    arguments = parser.parse_args()
    tiers = [(tier, path_of(name)) for tier in arguments.tiers for name in TIERS[tier].split()]
    files = [("-", path) for path in arguments.files] or tiers
    total: Counter = Counter()
    all_failed = []
    print("| tier | file | passed | failed | on purpose | skipped |\n| --- | --- | --- | --- | --- | --- |")
    for tier, path in files:
        counts, failed = run(arguments.checkout, path, alias=not arguments.reference)
        total += counts
        all_failed += failed
        print(row(tier, path, counts), flush=True)
    print(row("", "all", total))
    for name in all_failed:
        print(f"failed: {name}")
    for name, reason in ON_PURPOSE.items():
        print(f"on purpose: {name}: {reason}")
    return 1 if all_failed else 0


def row(tier: str, path: str, counts: Counter) -> str:
    numbers = " | ".join(str(counts[kind]) for kind in ("passed", "failed", "on purpose", "skipped"))
    return f"| {tier} | {path} | {numbers} |"


if __name__ == "__main__":
    sys.exit(main())
