"""Checks a wheel: `wheel_check.py WHEEL`. Its metadata, size and needs, and on a machine of its kind an installation.

The installation goes into a new environment without further packages: the package is imported, and a data set of one
column is written and read.
"""

from __future__ import annotations

import email
import json
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LIBRARY_BYTES_MAX = 24 << 20
"""Largest extension; with symbols it would have several times as many."""

SYSTEM_LIBRARIES = {"libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"}
SYSTEM_LIBRARIES |= {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
"""Libraries of every machine with the wheel's glibc."""

PROGRAM = """
import importlib.metadata, sys, tempfile
import forebay
import forebay.__main__
assert forebay.__version__ == importlib.metadata.version("forebay"), forebay.__version__
with tempfile.TemporaryDirectory() as folder:
    with forebay.MDSWriter(out=folder, columns={"x": "int"}) as writer:
        writer.write({"x": 7})
    reader = forebay.ShardReader(folder)
    assert reader[0] == {"x": 7}, reader[0]
    with forebay.Loader(local=folder, batch_size=1, framework="dlpack", fields={"x": forebay.Scalar("x")}) as loader:
        assert [batch["x"].shape for batch in loader] == [(1,)]
sys.exit(forebay.__main__.main(["--version"]))
"""


def main(path: str) -> None:
    """Checks the wheel at `path`; the first fault ends the program with a message."""
    wheel = Path(path)
    arch = wheel.stem.rpartition("manylinux_2_28_")[2]
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        check_metadata(archive, names)
        (library,) = [name for name in names if name.endswith(".so")]
        assert "forebay/py.typed" in names and "forebay/_forebay.pyi" in names
        assert not any(".libs/" in name for name in names), "the wheel has libraries of the machine that built it"
        check_library(Path(archive.extract(library, folder)))
    print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB")
    if arch != platform.machine():
        print(f"not installed: the wheel is for {arch}, and this machine is {platform.machine()}")
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel.resolve()], check=True)
        subprocess.run([python, "-I", "-c", PROGRAM], check=True, cwd=folder)
        subprocess.run([Path(folder) / "bin" / "forebay", "ls", wheel.resolve().parent], check=True)


def check_metadata(archive: zipfile.ZipFile, names: list[str]) -> None:
    """Checks the licences, the list of crates, the readme and the fields that indexes show."""
    (name,) = [name for name in names if name.endswith(".dist-info/METADATA")]
    metadata = email.message_from_bytes(archive.read(name))
    assert metadata["License-Expression"] == "Apache-2.0", metadata["License-Expression"]
    licences = [name for name in names if "/licenses/" in name]
    assert any(b"Apache License" in archive.read(name) for name in licences), licences
    (crates,) = [name for name in licences if name.endswith("/LICENSE.crates")]
    assert b"libjpeg-turbo" in archive.read(crates), "the licences of the crates are not complete"
    (bill,) = [name for name in names if "/sboms/" in name]
    assert any(component["name"] == "turbojpeg-sys" for component in json.loads(archive.read(bill))["components"]), bill
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    assert metadata.get_payload().startswith("# forebay")
    assert len(metadata.get_all("Classifier")) > 5 and metadata["Summary"] and metadata["Requires-Python"] == ">=3.10"


def check_library(library: Path) -> None:
    """Checks size and symbols of the extension."""
    size = library.stat().st_size
    assert size < LIBRARY_BYTES_MAX, f"{library.name} has {size} bytes: was it stripped?"
    dynamic = subprocess.run(["readelf", "--wide", "--dynamic", library], check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic))
    assert needed <= SYSTEM_LIBRARIES, needed - SYSTEM_LIBRARIES
    versions = subprocess.run(["readelf", "--wide", "--version-info", library], check=True, capture_output=True, text=True).stdout
    newest = max(tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", versions))
    assert newest <= (2, 28), f"{library.name} needs glibc {'.'.join(map(str, newest))}"


if __name__ == "__main__":
    main(*sys.argv[1:])
