"""Keras 3 trains with the loader, with each of its backends: see keras_fit.py."""

import importlib.util
import os
import pathlib
import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("keras") is None, reason="keras is not installed")


def run(backend, *arguments):
    script = pathlib.Path(__file__).with_name("keras_fit.py")
    command = [sys.executable, str(script), *map(str, arguments)]
    env = os.environ | {"KERAS_BACKEND": backend, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_keras_trains_on_every_batch_once_and_resumes_in_the_middle_of_an_epoch(backend, mixed, tmp_path):
    pytest.importorskip(backend)
    done = run(backend, "check", mixed, tmp_path / "backup")
    assert done.returncode == 0, done.stderr


def test_a_job_that_is_killed_resumes_after_its_last_backup(mixed, tmp_path):
    pytest.importorskip("jax")
    killed = run("jax", "kill", mixed, tmp_path / "backup")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run("jax", "resume", mixed, tmp_path / "backup")
    assert done.returncode == 0, done.stderr


def test_a_tensorflow_dataset_has_the_batches_of_whole_epochs_also_after_a_resumed_one(mixed, tmp_path):
    pytest.importorskip("tensorflow")
    done = run("tensorflow", "dataset", mixed, tmp_path / "backup")
    assert done.returncode == 0, done.stderr
