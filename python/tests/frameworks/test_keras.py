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
    """With TensorFlow also as a `tf.data.Dataset`, and with JAX a job that is killed. The import takes longer than a mode."""
    pytest.importorskip(backend)
    modes = {"tensorflow": ["check", "dataset"], "jax": ["resume", "check"], "torch": ["check"]}[backend]
    if "resume" in modes:
        killed = run(backend, mixed, tmp_path, "kill")
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    done = run(backend, mixed, tmp_path, *modes)
    assert done.returncode == 0, done.stderr
