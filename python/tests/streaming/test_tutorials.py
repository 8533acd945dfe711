"""The steps of the reference's tutorials on generated data, as programs written for the reference."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIALS = sorted((Path(__file__).parent / "tutorials").glob("*.py"))


IS_ASKED = bool(os.environ.get("FOREBAY_TEST_REFERENCE"))
WITH_REFERENCE = pytest.mark.skipif(not IS_ASKED, reason="only the programs are tested by it: FOREBAY_TEST_REFERENCE=1 does")


@pytest.mark.parametrize("program", ["forebay", pytest.param("reference", marks=WITH_REFERENCE)])
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(tutorial, program, tmp_path):
    """The results hold for both. A program that was changed is tried with the reference."""
    alias = ["-m", "forebay.streaming.alias"] if program == "forebay" else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, *alias, str(tutorial)], cwd=tmp_path, env=environment, check=True, timeout=600)
    assert (tmp_path / "local").is_dir()
