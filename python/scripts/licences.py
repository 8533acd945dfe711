"""Writes the licences of all that a wheel's extension is linked with: `licences.py TARGET FILE`.

TARGET is Rust's name of the machine. Each text is written once, after the crates that have it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

NAMES = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*")
"""Files with texts, in a crate's folder and in those of the C libraries that it contains."""


def main(target: str, path: str) -> None:
    """Writes the file at `path`."""
    by_text: dict[str, list[str]] = defaultdict(list)
    for name, package in sorted(linked(target).items()):
        texts = texts_of(Path(package["manifest_path"]).parent)
        for text in texts or [f"{package['license']}. The package has no text. Source: {package['repository']}\n"]:
            by_text[text].append(name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("forebay's extension contains these crates, with the libraries in them, under these licences.\n")
        for text, names in by_text.items():
            file.write(f"\n{'=' * 79}\n{', '.join(names)}\n{'-' * 79}\n\n{text}")


def linked(target: str) -> dict[str, dict[str, str]]:
    """Returns cargo's description of each foreign crate, by "NAME VERSION"."""
    tree = cargo("tree", "--package=forebay-python", "--no-default-features", f"--target={target}", "--edges=normal", "--prefix=none")
    names = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    packages = json.loads(cargo("metadata", "--format-version=1", f"--filter-platform={target}"))["packages"]
    return {
        f"{package['name']} {package['version']}": package
        for package in packages
        if package["source"] and (package["name"], f"v{package['version']}") in names
    }


def texts_of(folder: Path) -> list[str]:
    """Returns the texts of a crate."""
    files = {file for name in NAMES for pattern in (name, f"*/{name}") for file in folder.glob(pattern)}
    texts = [file.read_text("utf-8", "replace") for file in sorted(files) if file.is_file()]
    return list(dict.fromkeys(text.replace("\r\n", "\n").strip() + "\n" for text in texts))


def cargo(*arguments: str) -> str:
    """Returns the output of cargo."""
    command = [os.environ.get("CARGO", "cargo"), *arguments, "--locked"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main(*sys.argv[1:])
