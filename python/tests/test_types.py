"""Types of the public interface, for type checkers and editors.

It needs basedpyright, which `python/scripts/types.sh` installs in a separate environment.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

TYPING = pathlib.Path(__file__).with_name("typing")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("basedpyright") is None, reason="basedpyright is not installed: run python/scripts/types.sh"
)


@pytest.fixture(scope="module")
def found():
    """Lines with errors of each program."""
    command = [sys.executable, "-m", "basedpyright", "--project", str(TYPING), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 2
    lines = {"program.py": {}, "mistakes.py": {}}
    for error in report["generalDiagnostics"]:
        # A file that is not among them has to have no error, too.
        of_file = lines.setdefault(pathlib.Path(error["file"]).name, {})
        of_file.setdefault(error["range"]["start"]["line"] + 1, []).append(error["message"])
    return lines


def test_a_program_that_uses_the_public_interface_has_no_error_in_strict_mode(found):
    assert found["program.py"] == {}


def test_every_planted_mistake_is_found_and_nothing_else(found):
    planted = {
        number
        for number, line in enumerate((TYPING / "mistakes.py").read_text().splitlines(), 1)
        if line.endswith("# mistake")
    }
    assert len(planted) >= 10 and set(found["mistakes.py"]) == planted
