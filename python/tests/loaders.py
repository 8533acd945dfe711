"""Loaders that several test files use."""

import os
import subprocess
import sys
import textwrap

import forebay as fb

NUMBER = {"number": fb.Scalar("number")}


def numbers(loader):
    """The samples of an epoch, batch by batch."""
    return [batch["number"].tolist() for batch in loader]


def ordered(folder, **kwargs):
    kwargs.setdefault("batch_size", 16)
    return fb.Loader(local=folder, fields=NUMBER, **kwargs)


def alone(code, **env):
    """Runs `code` in a separate Python."""
    code = textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, **env}, capture_output=True, text=True, timeout=600)
