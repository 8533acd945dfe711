"""The steps of the reference's tutorials on generated data, as programs written for the reference."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIALS = sorted((Path(__file__).parent / "tutorials").glob("*.py"))


@pytest.mark.parametrize("program", ["forebay", "reference"])
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(tutorial, program, tmp_path):
    """Runs with the reference too: the results hold for both."""
    alias = ["-m", "forebay.streaming.alias"] if program == "forebay" else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *alias, str(tutorial)], cwd=tmp_path, env=environment, check=True, timeout=600)
    assert (tmp_path / "local").is_dir()
