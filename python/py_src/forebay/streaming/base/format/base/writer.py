"""Base classes of the writers of all formats: they cut shards, and pack and upload them in threads.

    write(sample) -- encode_sample --> new_samples -- size_limit --> flush_shard
                                                                        |  raw files of a shard
                                               pack (a thread per CPU): hash, compress, hash, write below `local`
                                                                        |  names of files
                                                     executor (max_workers threads): upload to `remote`
    finish() --> all jobs are done --> index.json: written, then uploaded, as the last file
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Semaphore
from types import TracebackType
from typing import Any

from ..... import _forebay
from ....._writer import FinishWatch
from ..._sizes import bytes_to_int
from ...compression import compress, get_compression_extension, is_compression
from ...hashing import get_hash, is_hash
from ...storage.upload import CloudUploader
from ..index import get_index_basename

__all__ = ["JointWriter", "SplitWriter", "Writer"]

logger = logging.getLogger(__name__)

_SETTINGS = ("progress_bar", "max_workers", "retry", "exist_ok")


class Writer(ABC):
    """Writer of samples as shards and an index.

    Args:
        out: Local folder, remote folder, or a pair of both. A remote folder alone is written through a temporary
            folder.
        keep_local: Keep local files after their upload.
        compression: Compression of files, such as "zstd" or "zstd:7". None: raw files.
        hashes: Algorithms of the hashes to record, in alphabetical order.
        size_limit: Largest raw shard, in bytes or as "64mb". None or 0: one shard.
        extra_bytes_per_shard: Bytes that are added to the size of a shard.
        extra_bytes_per_sample: Bytes that are added to the size of each sample.
        **kwargs: `progress_bar` (False): show uploads. `max_workers` (CPUs + 4, at most 32): threads that upload.
            `retry` (2): attempts of an upload. `exist_ok` (False): empty a local folder that is not empty, instead of
            an error.

    Raises:
        FileExistsError: The local folder is not empty.
        ValueError: An argument is wrong.
    """

    format: str = ""
    """Name of the format in the index and in file names."""

    def __init__(
        self,
        *,
        out: str | tuple[str, str],
        keep_local: bool = False,
        compression: str | None = None,
        hashes: list[str] | None = None,
        size_limit: int | str | None = 1 << 26,
        extra_bytes_per_shard: int = 0,
        extra_bytes_per_sample: int = 0,
        **kwargs: Any,
    ) -> None:
        compression = compression or None
        if compression is not None and not is_compression(compression):
            raise ValueError(f"Invalid compression: {compression}.")
        hashes = hashes or []
        if list(hashes) != sorted(set(hashes)):
            raise ValueError("Hashes must be unique and in sorted order.")
        for algo in hashes:
            if not is_hash(algo):
                raise ValueError(f"Invalid hash: {algo}.")
        unknown = [name for name in kwargs if name not in _SETTINGS]
        if unknown:
            raise ValueError(f"Invalid Writer argument(s): {unknown} ")

        self.keep_local = keep_local
        self.compression = compression
        self.hashes = hashes
        self.size_limit = _size_limit(size_limit)
        self.extra_bytes_per_shard = extra_bytes_per_shard
        self.extra_bytes_per_sample = extra_bytes_per_sample
        self.new_samples: list[bytes]
        self.new_shard_size: int
        self.shards: list[dict[str, Any]] = []

        local = os.path.expanduser(out if isinstance(out, str) else out[0])
        if kwargs.get("exist_ok", False) and os.path.exists(local):
            logger.warning("%s exists and is emptied, because exist_ok is set", local)
            shutil.rmtree(local)
        self.cloud_writer = CloudUploader.get(
            out, keep_local, kwargs.get("progress_bar", False), kwargs.get("retry", 2)
        )
        self.local = self.cloud_writer.local
        self.remote = self.cloud_writer.remote
        self.executor = ThreadPoolExecutor(max_workers=kwargs.get("max_workers"))
        self.event = Event()
        """Set after packing or uploading has failed."""
        packers = _forebay.cpu_count()
        self._packers = ThreadPoolExecutor(packers, "forebay-pack")
        # One shard more than threads, so that no thread is idle. Not more, because raw shards are large.
        self._room = Semaphore(packers + 1)
        self._failure: BaseException | None = None
        # Process of the threads, which start with the first shard. A forked child has none of them.
        self._process: int | None = None
        self._watch = FinishWatch(self, type(self).__name__, _forebay.redact(self.remote or self.local))
        self._reset_cache()

    def _reset_cache(self) -> None:
        """Starts a shard."""
        self.new_samples = []
        self.new_shard_size = self.extra_bytes_per_shard

    @abstractmethod
    def encode_sample(self, sample: dict[str, Any]) -> bytes:
        """Encodes a sample."""
        raise NotImplementedError

    @abstractmethod
    def flush_shard(self) -> None:
        """Makes a shard of the collected samples."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Returns the settings as they are stored in shards and in the index."""
        return {
            "version": 2,
            "format": self.format,
            "compression": self.compression,
            "hashes": self.hashes,
            "size_limit": self.size_limit,
        }

    def write(self, sample: dict[str, Any]) -> None:
        """Adds a sample.

        Raises:
            AttributeError: The type of a value is not the type of its column.
            KeyError: A column is missing.
            Exception: An earlier shard could not be packed or uploaded; the cause is attached.
            RuntimeError: This is a forked child, and the parent has written a shard.
        """
        self._check()
        encoded = self.encode_sample(sample)
        size = len(encoded) + self.extra_bytes_per_sample
        if self.size_limit and self.new_shard_size + size > self.size_limit:
            self.flush_shard()
            self._reset_cache()
        self.new_samples.append(encoded)
        self.new_shard_size += size
        self._watch.samples += 1

    def finish(self) -> None:
        """Writes the last shard, waits for all uploads, and writes the index. No sample can be written after it.

        Raises:
            Exception: A shard could not be packed or uploaded; the cause is attached. No index is written.
        """
        self._watch.end()
        # The files in `local` belong to the process that writes them.
        self._check_process()
        try:
            self._check()
            if self.new_samples:
                self.flush_shard()
                self._reset_cache()
            # Packing submits uploads, so it is shut down first.
            self._packers.shutdown()
            self.executor.shutdown()
            self._check()
            self._write_index()
        finally:
            self.cancel_future_jobs()
            if self.remote and not self.keep_local:
                shutil.rmtree(self.local, ignore_errors=True)

    def cancel_future_jobs(self) -> None:
        """Ends the threads and cancels jobs that have not started."""
        self._packers.shutdown(wait=False, cancel_futures=True)
        self.executor.shutdown(wait=False, cancel_futures=True)

    def exception_callback(self, future: Future[None]) -> None:
        """Records the failure of a job: the next call of the writer raises it."""
        error = None if future.cancelled() else future.exception()
        if error is not None:
            logger.error("writing to %s failed: %s", self.remote or self.local, error)
            self._failure = self._failure or error
            self.event.set()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.finish()

    def _check(self) -> None:
        self._check_process()
        if self.event.is_set():
            self.cancel_future_jobs()
            raise Exception("One of the threads failed. Check other traceback for more details.") from self._failure

    def _check_process(self) -> None:
        if self._process not in (None, os.getpid()):
            raise RuntimeError(
                "a writer that has written a shard works in that process only, and this is a forked child: make one here, for "
                "a different folder"
            )

    def _name_next_shard(self, extension: str | None = None) -> tuple[str, str | None]:
        """Returns the file names of the next shard, raw and compressed."""
        raw = f"shard.{len(self.shards):05}.{self.format}" + (f".{extension}" if extension else "")
        packed = f"{raw}.{get_compression_extension(self.compression)}" if self.compression else None
        return raw, packed

    def _add_shard(self, files: dict[str, tuple[bytes, str, str | None]]) -> None:
        """Adds a shard with these files to the index. Each file has its bytes and its two names."""
        self._check_process()
        self._process = os.getpid()
        shard = {"samples": len(self.new_samples), **self.get_config()}
        self.shards.append(shard)
        self._room.acquire()
        packing = self._packers.submit(self._pack, shard, files)
        packing.add_done_callback(lambda _: self._room.release())
        packing.add_done_callback(self.exception_callback)

    def _pack(self, shard: dict[str, Any], files: dict[str, tuple[bytes, str, str | None]]) -> None:
        """Writes the files of a shard, adds them to the entry `shard`, and submits their uploads."""
        for name, (data, raw_basename, zip_basename) in files.items():
            shard[f"raw_{name}"] = self._hash(data, raw_basename)
            shard[f"zip_{name}"] = None
            if zip_basename is not None:
                data = compress(self.compression, data)
                shard[f"zip_{name}"] = self._hash(data, zip_basename)
            basename = zip_basename or raw_basename
            _write_file(os.path.join(self.local, basename), data)
            upload = self.executor.submit(self.cloud_writer.upload_file, basename)
            upload.add_done_callback(self.exception_callback)

    def _hash(self, data: bytes, basename: str) -> dict[str, Any]:
        """Returns a file's entry in the index."""
        hashes = {algo: get_hash(algo, data) for algo in self.hashes}
        return {"basename": basename, "bytes": len(data), "hashes": hashes}

    def _write_index(self) -> None:
        """Writes and uploads the index as the last file."""
        basename = get_index_basename()
        index = json.dumps({"version": 2, "shards": self.shards}, sort_keys=True)
        _write_file(os.path.join(self.local, basename), index.encode())
        self.cloud_writer.upload_file(basename)


class JointWriter(Writer):
    """Writer of shards of one file; arguments as for `Writer`."""

    @abstractmethod
    def encode_joint_shard(self) -> bytes:
        """Encodes the file of a shard from the collected samples."""
        raise NotImplementedError

    def flush_shard(self) -> None:
        self._add_shard({"data": (self.encode_joint_shard(), *self._name_next_shard())})


class SplitWriter(Writer):
    """Writer of shards of two files, data and a meta file with the offsets; arguments as for `Writer`."""

    @abstractmethod
    def encode_split_shard(self) -> tuple[bytes, bytes]:
        """Encodes the data file and the meta file of a shard from the collected samples."""
        raise NotImplementedError

    def flush_shard(self) -> None:
        data, meta = self.encode_split_shard()
        files = {"data": (data, *self._name_next_shard()), "meta": (meta, *self._name_next_shard("meta"))}
        self._add_shard(files)

    def _encode_split(self, head: bytes) -> tuple[bytes, bytes]:
        """Encodes the two files, with `head` before the first sample."""
        sizes = [len(sample) for sample in self.new_samples]
        config = json.dumps(self.get_config(), sort_keys=True)
        meta = _forebay.offset_table(sizes, len(head), config.encode())
        return b"".join([head, *self.new_samples]), meta


def _size_limit(size_limit: int | str | None) -> int | None:
    if not size_limit:
        return None
    value = bytes_to_int(size_limit)
    if value < 0:
        raise ValueError(f"`size_limit` must be greater than zero, instead, found as {value}.")
    if value >= 1 << 32:
        raise ValueError(
            f"`size_limit` must be less than 2**32, instead, found as {value}: a sample's offset is stored in 32 bits."
        )
    return value


def _write_file(path: str, data: bytes) -> None:
    """Writes a file, which gets its name when it is complete."""
    with open(f"{path}.tmp", "wb") as file:
        file.write(data)
    os.replace(f"{path}.tmp", path)
