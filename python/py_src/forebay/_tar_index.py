"""Indexes of tars, for `forebay index` and for programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from . import _forebay, remotes
from ._arguments import address, whole
from ._file_index import index_url
from .files import StoreOptions
from .files import open as open_file
from .files.stores import settings_of

_AT_ONCE = 16
"""Tars that are read at the same time: enough to hide a store's latency."""


@dataclass
class TarReport:
    """Figures of an index of tars."""

    url: str
    """Address of the index."""
    tars: int = 0
    """Tars in the index."""
    samples: int = 0
    """Samples in all of them."""


def index_tars(
    tars: str,
    out: str | None = None,
    *,
    overwrite: bool = False,
    threads: int | None = None,
    store: StoreOptions | None = None,
    progress: Callable[[TarReport, int], None] | None = None,
) -> TarReport:
    """Makes an index of WebDataset's tar files, with the number of samples of each.

    A loader of these tars then starts at once, on every machine; without an index it makes one in its cache, and reads all tars for
    it. Tars with numbers of samples in a file of wids, Energon, OpenCLIP, timm, DALI or img2dataset next to them are not read.
    A run that was stopped continues where it was when it is started again.

    Args:
        tars: Addresses: braces, wildcards and `::` as in WebDataset, such as "s3://bucket/train-{000..146}.tar", or a folder of tars.
        out: Folder for index.json. None: the folder that all tars have in common, where loaders look for it.
        overwrite: Replace an index that exists.
        threads: Tars that are read at the same time. None: 16.
        store: Options of the store.
        progress: Function that is called after each tar with the report so far and the number of tars.

    Returns:
        The figures of the index.

    Raises:
        ConfigError: `tars` is no list of tars and no folder of them, or there is an index already.
        FormatError: A tar is damaged.
        Error: One of the store.
    """
    if threads is not None:
        whole("threads", threads, least=1)
    tar_set = _forebay.TarSet(address("tars", tars), settings_of(store), remotes.served())
    # Before the pass, since an index that cannot be written would be noticed at its end.
    url = index_url(tar_set.root if out is None else os.fspath(out), overwrite, store)
    names = tar_set.names
    report = TarReport(url)
    entries = [""] * len(names)
    versions: list[str | None] = [None] * len(names)
    pool = ThreadPoolExecutor(threads or _AT_ONCE, "forebay-index")
    try:
        numbers = {pool.submit(tar_set.entry, number): number for number in range(len(names))}
        for done in as_completed(numbers):
            entries[numbers[done]], samples, versions[numbers[done]] = done.result()
            report.tars, report.samples = report.tars + 1, report.samples + samples
            if progress is not None:
                progress(report, len(names))
    finally:
        # A read in flight ends by itself: after an interrupt nothing waits for it.
        pool.shutdown(wait=False, cancel_futures=True)
    with open_file(url, "wb", store=store) as file:
        file.write(_forebay.join_indexes(entries, versions).encode())
    tar_set.end()
    return report
