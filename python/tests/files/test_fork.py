"""Stores, lists and file objects in a forked child, which has no copy of their threads."""

import os
import signal

import pytest

import forebay as fb
from forebay.files import stores


def in_child(check):
    """Runs `check` in a forked child; fails with its exception."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        # A lock that is never released must not end as a test that never ends.
        signal.alarm(120)
        try:
            check()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001: reported to the parent
            os.write(write, repr(error).encode())
            os._exit(1)
    os.close(write)
    with os.fdopen(read) as messages:
        message = messages.read()
    assert os.waitpid(child, 0)[1] == 0, message


def test_everything_that_was_opened_before_a_fork_is_an_error_and_dropped_at_once(tmp_path):
    (tmp_path / "a").write_bytes(bytes(10 << 20))
    path = f"{tmp_path}/a"
    opened = stores.opened(None)
    reads, upload = opened.reads(2, 1 << 20, None), opened.upload(f"{path}2", None)
    held = [opened, opened.list(f"{tmp_path}/", True, False), reads, opened.open(path, 10), upload]
    held.append(held[3].fetch(5 << 20, 6 << 20))
    held[2].push(path, None)

    def check():
        stores_, pages, reads, ranges, upload, part = held
        uses = [
            lambda: stores_.list(f"{tmp_path}/", True, False),
            lambda: stores_.reads(1, 1, None),
            lambda: stores_.remove([path]),
            lambda: stores_.open(path, 1),
            lambda: stores_.upload(path, None),
            pages.next,
            lambda: reads.has_room(None),
            lambda: reads.push(path, None),
            lambda: reads.next(True),
            lambda: ranges.fetch(0, 1),
            part.wait,
            lambda: upload.write(b"a"),
            upload.finish,
            upload.abandon,
        ]
        for number, use in enumerate(uses):
            with pytest.raises(fb.ClosedError, match="after a fork"):
                use()
                raise AssertionError(number)
        uses.clear()
        del stores_, pages, reads, ranges, upload, part
        held.clear()
        with fb.open(path) as file:
            assert len(file.read()) == 10 << 20

    in_child(check)
    # The parent's are as they were.
    assert len(held[5].wait()) == 1 << 20
    number, data, *_ = held[2].next(False)
    assert (number, len(data)) == (0, 10 << 20)
    held[4].write(b"abc")
    held[4].finish()
    assert (tmp_path / "a2").read_bytes() == b"abc"


def test_a_list_that_was_begun_before_a_fork_is_whole_in_the_child(tmp_path):
    for number in range(2500):
        (tmp_path / f"{number:04}").touch()
    files = fb.list_files(f"{tmp_path}/")
    iterator = iter(files)
    assert next(iterator).url.endswith("/0000")

    def check():
        assert [file.url[-4:] for file in files] == [f"{number:04}" for number in range(2500)]
        assert next(iterator).url.endswith("/0001") and len(list(iterator)) == 2498

    in_child(check)
    assert len(files) == 2500
