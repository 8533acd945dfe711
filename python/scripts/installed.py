"""Exits with 0 when every package of the requirements file given as argument is installed in that version."""

import importlib.metadata
import re
import sys

LINE = re.compile(r"^([\w-]+)==([\w.]+)(?:\s*;\s*python_version\s*(<|>=)\s*\"(\d+)\.(\d+)\")?$")


def main(path: str) -> int:
    wrong = 0
    with open(path) as file:
        for line in file:
            line = line.partition("#")[0].strip()
            if not line:
                continue
            found = LINE.match(line)
            if found is None:
                sys.exit(f"{path}: cannot read this line: {line}")
            name, version, relation, major, minor = found.groups()
            if relation and (sys.version_info >= (int(major), int(minor))) != (relation == ">="):
                continue
            try:
                # torch's version may carry the build it came from, such as +cu130.
                installed = importlib.metadata.version(name).partition("+")[0]
            except importlib.metadata.PackageNotFoundError:
                installed = "not installed"
            if installed != version:
                print(f"{name}: {version} wanted, {installed}")
                wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
