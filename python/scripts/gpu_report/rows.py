"""Checks of rows that need no decoding and come from disk."""

import os
import pathlib

import forebay as fb

from . import data
from .outcome import Skipped, so_far
from .setting import each, loader

EARLY_BYTES_MIN = 64 << 10
"""Minimum bytes of rows that are copied to the device directly from their read slot."""

COUNTERS = ("rows_copied_early", "reads_direct", "reads_buffered", "reads_page_cache")


def fields():
    return {"tokens": fb.Array("tokens")}


def forget(folder):
    """Removes a folder's shards from the page cache; returns true on success, None if the system does not report it."""
    answers = set()
    for path in pathlib.Path(folder).glob("shard*"):
        with open(path, "rb") as file:
            # Pages that are not on disk yet stay in the cache.
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            answers.add(_is_forgotten(file.fileno()))
    return None if None in answers else all(answers)


def _is_forgotten(descriptor):
    """Returns true if the last byte is in the page cache; the check causes no read-ahead."""
    try:
        os.preadv(descriptor, [bytearray(1)], max(0, os.fstat(descriptor).st_size - 1), os.RWF_NOWAIT)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return None


def digests(folder, batch_size, epochs=1):
    """Returns digests of batches on the host, epoch by epoch, and the bytes of all."""
    with loader(folder, "cpu", "numpy", fields=fields(), batch_size=batch_size) as batches:
        arrays = [[(hash(batch["tokens"].tobytes()), batch["tokens"].nbytes) for batch in each(batches)] for _ in range(epochs)]
    return [[digest for digest, _ in epoch] for epoch in arrays], sum(size for epoch in arrays for _, size in epoch)


def assert_equal(setting, batches, expected, by):
    """Checks that an epoch's batches have the digests `digests`."""
    seen = []
    for batch in each(batches):
        seen.append(hash(setting.framework.array(batch["tokens"]).tobytes()))
        del batch
    wrong = [number for number, pair in enumerate(zip(seen, expected)) if pair[0] != pair[1]]
    so_far({"by": by, "batches": len(seen), "batches_expected": len(expected), "batches_that_differ": wrong})
    assert len(seen) == len(expected), f"{len(seen)} batches of rows by {by} instead of {len(expected)}"
    assert not wrong, f"rows by {by} differ from the host's in {len(wrong)} of {len(seen)} batches"


def rows_from_disk_are_exact(setting):
    """Rows that are copied to the device before their batch is full equal the host's."""
    folder, batch = setting.scratch / "early", setting.scale.batch
    data.write_rows(folder, 4 * batch, max(setting.scale.row_bytes, EARLY_BYTES_MIN))
    expected, _ = digests(folder, batch, epochs=2)
    forgotten = []
    with setting.on_device(folder, fields=fields(), batch_size=batch, engine={"memory": setting.memory()}) as batches:
        for epoch in expected:
            forgotten.append(forget(folder))
            assert_equal(setting, batches, epoch, "host memory")
        stats = batches.stats()
    counters = {name: stats["counters"].get(name, 0) for name in COUNTERS}
    so_far(found := {**counters, "forgotten": forgotten, "notes": stats["notes"]})
    if not any(forgotten):
        raise Skipped("the page cache keeps the shards here, so nothing is read from disk")
    assert counters["rows_copied_early"] > 0, "no row was copied directly from its read slot"
    return found
