"""Trainers of released libraries: a job that is killed in mid-epoch resumes on another number of processes, and every step
has the samples of a job without an interruption. python/scripts/frameworks.sh makes an environment that has the
libraries."""

import importlib.util

import pytest
from jobs import check, run

LIBRARIES = {"lightning": "lightning"}
"""Each job file's library."""


@pytest.mark.parametrize("job", LIBRARIES)
def test_a_job_that_was_killed_resumes_on_another_number_of_processes(job, tmp_path):
    if importlib.util.find_spec(LIBRARIES[job]) is None:
        pytest.skip(f"{LIBRARIES[job]} is not installed: python/scripts/frameworks.sh")
    check(run(f"{job}_job.py", tmp_path))
