"""Trainers of released libraries: a job that is killed in mid-epoch resumes on a different number of processes, and every step
has the samples of a job without an interruption. python/scripts/frameworks.sh makes an environment that has the
libraries."""

import os

import pytest
from jobs import check, run

pytest.importorskip("lightning", reason="the trainers are not installed: python/scripts/frameworks.sh")


# Ray starts a cluster of its own processes, which takes most of a minute.
ray = pytest.param("ray", marks=pytest.mark.skipif("RAY" not in os.environ, reason="set RAY=1 to start Ray"))


@pytest.mark.parametrize(
    "job", ["accelerate", "checkpoint", "composer", "ddp", "lightning", "lightning_launcher", ray, "torchtitan", "transformers"]
)
def test_a_job_that_was_killed_resumes_on_a_different_number_of_processes(job, tmp_path):
    check(run(f"{job}_job.py", tmp_path))
