"""Fixtures that import modules of the installed reference and of this package."""

import atexit
import contextlib
import importlib
import os
import sys
import threading
import time
import traceback
from unittest.mock import patch

import pytest


@pytest.fixture(scope="session")
def imported_reference(mosaicml):
    """The reference, imported for all tests: it takes 5 seconds. Its writer looks once a second whether its uploads are through."""
    writer = importlib.import_module("streaming.base.format.base.writer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "sleep", lambda _: time.sleep(0.001))
        yield mosaicml


@pytest.fixture
def reference(imported_reference, monkeypatch):
    """Imports a module of the reference: `reference("base.spanner")`. The alias is never installed in this process.

    The reference keeps the shared memory of all data sets until the process ends: six descriptors or more for each.
    """
    memory = importlib.import_module("streaming.base.shared.memory").SharedMemory
    made, init = [], memory.__init__

    def remember(self, *arguments, **named):
        init(self, *arguments, **named)
        made.append(self)

    def module(name):
        found = importlib.import_module(f"streaming.{name}")
        assert found.__name__ == f"streaming.{name}", "the alias replaces the reference"
        return found

    monkeypatch.setattr(memory, "__init__", remember)
    yield module
    for one in made:
        atexit.unregister(one.cleanup)
        with contextlib.suppress(BufferError):
            one.cleanup()


@pytest.fixture(scope="session")
def ours():
    """Imports the module of ours with the same name."""
    return lambda name: importlib.import_module(f"forebay.streaming.{name}")


@pytest.fixture(params=["reference", "ours"])
def either(request, ours):
    """Imports a module of the reference or of this package, so that a test checks both."""
    return request.getfixturevalue("reference") if request.param == "reference" else ours


@pytest.fixture(autouse=True)
def custom_schemes():
    """Unregisters the downloader classes that a test defines."""
    with patch.dict(importlib.import_module("forebay.streaming.base.storage.download").DOWNLOADER_MAPPINGS):
        yield


def pytest_sessionfinish(exitstatus):
    """Ends the process without waiting for threads at exit if one of the reference is left.

    One that waits for a shard never ends if a different thread failed to prepare the shard, and Python waits for it at exit.
    """
    stacks = sys._current_frames()
    for thread in threading.enumerate():
        frames = traceback.extract_stack(stacks.get(thread.ident))
        if thread is not threading.main_thread() and any("/site-packages/streaming/" in frame.filename for frame in frames):
            threading._register_atexit(leave, thread, frames, exitstatus)
            return


def leave(thread, frames, exitstatus):
    print(f"the reference's thread {thread.name} is left:", *traceback.format_list(frames), file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exitstatus)
