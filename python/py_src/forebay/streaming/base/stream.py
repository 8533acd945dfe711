"""Streams: folders of shards with their weights in the mix."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import catalogue
import numpy as np
from numpy.typing import NDArray

from ... import _forebay
from ...errors import ChecksumError, FormatError, UnsupportedError
from .._lazy import lazy
from . import distributed
from ._locks import locked
from ._originals import Originals
from ._downloader_queue import downloader_queue, making_reader
from ._retry import retry
from ._shards import GivenShards, StreamShards, open_shards
from .compression import decompress
from .format import FileInfo, Reader, get_index_basename, has_python_readers
from .hashing import get_hash
from .registry_utils import create_registry
from .storage._downloader import CloudDownloader, is_native, whole_file
from .world import World

__all__ = ["Stream", "streams_registry"]

# Names of the reference's module that programs may import from it.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "constant": ("TICK",),
        "distributed": ("barrier", "get_local_rank"),
        "util": ("wait_for_file_to_exist",),
    },
    package=__package__,
)

_WEIGHTS = ("proportion", "repeat", "choose")


class Stream:
    """One folder of shards, remote, local or both. An option that is None has the data set's value.

    At most one of `proportion`, `repeat` and `choose` may be given, and either all streams of a data set have a
    proportion or none has. A data set sets all three as attributes; the stream may still be used in a further data set.

    Args:
        remote: URL or path of the shards. None: all shards are in `local`.
        local: Folder that holds the shards, or will. None: a new one in the system's temporary folder, named after
            `remote`.
        split: Sub-folder of both.
        proportion: Share of an epoch, relative to the proportions of all streams.
        repeat: Occurrences of each sample in an epoch.
        choose: Samples of this stream in an epoch.
        download_retry: Total attempts per download.
        download_timeout: Seconds for an answer to begin, and for each 16 KiB of it, before an attempt fails.
        validate_hash: Hash that every download must match.
        keep_zip: Keep the compressed shard next to the unpacked one.

    The engine fetches from folders, http(s):// and s3://. Every other scheme is fetched by its `CloudDownloader` class
    in `base.storage.download`, which may be the program's own. A subclass may fetch files in its own `_download_file`,
    or whole shards in `prepare_shard`.

    Raises:
        ValueError: An argument is out of range, there is more than one weight, or the scheme of `remote` is unknown.
        FileExistsError: `local` is None and its default folder exists already.
    """

    def __init__(
        self,
        *,
        remote: str | os.PathLike[str] | None = None,
        local: str | os.PathLike[str] | None = None,
        split: str | None = None,
        proportion: float | None = None,
        repeat: float | None = None,
        choose: int | None = None,
        download_retry: int | None = None,
        download_timeout: float | None = None,
        validate_hash: str | None = None,
        keep_zip: bool | None = None,
    ) -> None:
        self.remote = None if remote is None else os.fspath(remote)
        self._local = local
        self.split = split or ""

        weights = {"proportion": proportion, "repeat": repeat, "choose": choose}
        if sum(weight is not None for weight in weights.values()) > 1:
            raise ValueError("At most one of `proportion`, `repeat`, and `choose` may be specified; the rest follow")
        for name, weight in weights.items():
            if weight is not None:
                if weight < 0:
                    raise ValueError(f"`{name}` must be non-negative, not {weight}")
                setattr(self, name, weight)
        self._proportion, self._repeat, self._choose = proportion, repeat, choose
        # Weights that a data set has set: not the user's.
        self._derived: dict[str, float] = {}

        self._download_retry = download_retry
        if download_retry is not None:
            if download_retry < 0:
                raise ValueError(f"`download_retry` must be non-negative, not {download_retry}")
            self.download_retry = download_retry
        self._download_timeout = download_timeout
        if download_timeout is not None:
            if download_timeout <= 0:
                raise ValueError(f"`download_timeout` must be positive, not {download_timeout}")
            self.download_timeout = download_timeout
        self.validate_hash = validate_hash
        # The downloader, its process, and its `remote`; None if the program has set it.
        self._downloader_made: tuple[CloudDownloader, int, str | None] | None = None
        # Shards that the program has chosen, in a data set.
        self._given: GivenShards | None = None
        if self._uses_downloader:
            # Raises if the scheme is unknown.
            self._downloader  # noqa: B018
        self.local = self._new_local() if local is None else local
        self._keep_zip = keep_zip
        if keep_zip is not None:
            self._set_keep_zip(keep_zip)

    def _get_temporary_directory(self) -> str:
        """Returns the folder of a stream without `local`."""
        digest = ""
        if self.remote is not None:
            digest = hashlib.blake2s(self.remote.encode(errors="surrogatepass"), digest_size=16).hexdigest()
        return os.path.join(tempfile.gettempdir(), digest, self.split)

    def _new_local(self) -> str:
        local = self._get_temporary_directory()
        if distributed.get_local_rank() == 0:
            if os.path.exists(local):
                raise FileExistsError(
                    f"Could not create a temporary local directory {local}: it exists. Pass it as `local` to use its contents, "
                    "pass a different one, or delete it"
                )
            os.makedirs(local)
        distributed.barrier()
        return local

    def _set_keep_zip(self, keep_zip: bool) -> None:
        self.keep_zip = keep_zip
        self.safe_keep_zip = bool(keep_zip) or self.remote in (None, self.local)

    @property
    def _folder(self) -> str:
        """Folder of the stream's files on local disk."""
        return os.path.join(self.local, self.split)

    @property
    def _index_file(self) -> str:
        return os.path.join(self._folder, get_index_basename())

    @property
    def _uses_downloader(self) -> bool:
        """True if Python fetches the stream's files, and not the engine."""
        return self.remote is not None and (
            self._has_own_download or self._has_given_downloader or not is_native(self.remote)
        )

    @property
    def _has_own_download(self) -> bool:
        """True if the program fetches files in its own `_download_file`."""
        return _DOWNLOADS.are_replaced(self)

    @property
    def _has_given_downloader(self) -> bool:
        """True if the program has set `_downloader`."""
        return self._downloader_made is not None and self._downloader_made[2] is None

    @property
    def _downloader(self) -> CloudDownloader:
        """Downloader of the stream's files in this process, for schemes that the engine does not support."""
        made = self._downloader_made
        if made is None or made[2] not in (None, self.remote):
            made = (CloudDownloader.get(self.remote), os.getpid(), self.remote or "")
        elif made[1] != os.getpid():
            # A child must not use the parent's connections. A copy of a downloader has none.
            made = (copy.copy(made[0]), os.getpid(), made[2])
        self._downloader_made = made
        return made[0]

    @_downloader.setter
    def _downloader(self, downloader: CloudDownloader) -> None:
        self._downloader_made = (downloader, os.getpid(), None)

    def _download_to(self, name: str, path: str, downloader: CloudDownloader) -> None:
        """Fetches the file `name` of this stream to `path` with `downloader`."""
        remote = os.path.join(self.remote or "", self.split, name)

        def attempt() -> None:
            if os.path.exists(path):
                # A downloader would treat the rest of a failed attempt as the file.
                os.remove(path)
            downloader.download(remote, path, self.download_timeout)

        retry(clean_up_fn=downloader.clean_up, num_attempts=max(self.download_retry, 1))(attempt)()

    def _download_file(self, from_basename: str, to_basename: str | None = None) -> str:
        """Fetches a file of this stream into its folder. A program's override replaces the engine's fetches.

        Args:
            from_basename: The file's name below `remote`.
            to_basename: Its name below `local`. None: the same name.

        Returns:
            Path of the file.
        """
        path = os.path.join(self._folder, to_basename or from_basename)
        self._download_to(from_basename, path, self._downloader)
        return path

    def _fetch_into(self, folder: str, name: str, downloader: CloudDownloader) -> str:
        """Fetches the file `name` of this stream into `folder` with `downloader`; returns its path."""
        if not self._has_own_download:
            path = os.path.join(folder, os.path.basename(name))
            self._download_to(name, path, downloader)
            return path
        # A program's override writes into the stream's folder, which is `folder` for this one file.
        stream = copy.copy(self)
        stream.local = folder
        stream._downloader_made = (downloader, os.getpid(), None if self._has_given_downloader else self.remote)
        return stream._download_file(name)

    def _place(self) -> dict[str, Any]:
        """Returns the engine's form."""
        remote = None if self.remote is None else os.path.join(self.remote, self.split)
        return {
            # For a remote that the engine does not fetch from, this is only a name in messages.
            "remote": _forebay.redact(remote) if remote and self._uses_downloader else remote,
            "dir": self._folder,
            "keep_zip": self.safe_keep_zip,
            # 0 is accepted, as in the reference, and means one attempt.
            "download_retry": max(self.download_retry, 1),
            "download_timeout": float(self.download_timeout),
            "validate_hash": self.validate_hash or None,
        }

    def apply_default(self, default: dict[str, Any]) -> None:
        """Sets the options that are None from a data set's options.

        Args:
            default: `split`, `download_retry`, `download_timeout`, `validate_hash` and `keep_zip`.

        Raises:
            ValueError: The stream has neither `remote` nor `local`.
        """
        if not (self.remote or self._local):
            raise ValueError("`remote` and/or `local` path must be provided")
        if not self.split:
            self.split = default["split"] or ""
        if self._download_retry is None:
            self.download_retry = default["download_retry"]
        if self._download_timeout is None:
            self.download_timeout = default["download_timeout"]
        if self.validate_hash is None:
            self.validate_hash = default["validate_hash"] or None
        if self._keep_zip is None:
            self._set_keep_zip(default["keep_zip"])

    def _given_weights(self) -> dict[str, float]:
        """Returns the user's weight by its name: set in the constructor or later, but not by a data set."""
        given = {}
        # An object of a different class may replace a stream.
        derived = getattr(self, "_derived", {})
        for name in _WEIGHTS:
            value = getattr(self, name, None)
            if name in derived and value == derived[name]:
                value = getattr(self, f"_{name}", None)
            if value is not None:
                given[name] = value
        return given

    @classmethod
    def validate_weights(cls, streams: Sequence[Stream]) -> tuple[bool, bool]:
        """Returns two flags: the streams have proportions; the streams have no weights at all.

        Raises:
            ValueError: A stream has several weights, or some have proportions and some have not.
        """
        given = [Stream._given_weights(stream) for stream in streams]
        is_relative = "proportion" in given[0]
        for number, weights in enumerate(given):
            if len(weights) > 1:
                raise ValueError(
                    f"Streams must provide at most one of `proportion`, `repeat`, or `choose` (error in stream {number})"
                )
            if ("proportion" in weights) != is_relative:
                raise ValueError(
                    "Relative (`proportion`) and absolute (`repeat`, `choose`, none) stream weights are incompatible with "
                    f"each other (error in stream {number})"
                )
        return is_relative, not any(given)

    @classmethod
    def apply_weights(
        cls,
        streams: Sequence[Stream],
        samples_per_stream: NDArray[np.int64],
        choose_per_epoch: int | None,
        seed: int,
    ) -> int:
        """Computes proportion, repeat and choose of all streams, and sets them.

        Args:
            streams: All streams of a data set.
            samples_per_stream: Samples of each.
            choose_per_epoch: Samples of an epoch. None: from the weights.
            seed: Seed of the choice of streams that get the samples left over by rounding.

        Returns:
            Samples of an epoch.

        Raises:
            ValueError: As `validate_weights`; or `choose_per_epoch` is given along with absolute weights.
        """
        cls.validate_weights(streams)
        weights = [next(iter(Stream._given_weights(stream).items()), None) for stream in streams]
        samples = list(map(int, samples_per_stream))
        epoch_size, choose, proportion = _forebay.epoch_shares(weights, samples, choose_per_epoch or None, seed)
        for stream, count, chosen, share in zip(streams, samples, choose, proportion):
            derived = {"proportion": share, "repeat": chosen / count, "choose": chosen}
            stream._derived = derived
            for name, value in derived.items():
                setattr(stream, name, value)
        return epoch_size

    def get_shards(self, world: World, allow_unsafe_types: bool) -> StreamShards | list[Reader]:
        """Reads the stream's index, and fetches it if it is not on local disk.

        Args:
            world: This process; for compatibility. Any process fetches, and the remaining processes of its node wait.
            allow_unsafe_types: Allow columns of Python pickles, which can run code of the data.

        Raises:
            RuntimeError: There is neither a remote nor an index.
            json.JSONDecodeError: The index is empty or not JSON.
            ValueError: The version of the index is not supported, or the index has a column of pickles without permission.
        """
        if not os.path.exists(self._index_file):
            if self.remote is None:
                raise RuntimeError(
                    f"No `remote` provided, but local file {_forebay.redact(self._index_file)} does not exist either: check "
                    "`local` and `split`"
                )
            self._install_index()
        shards = open_shards(self.local, self.split)
        if isinstance(shards, list):
            for shard in shards:
                shard.validate(allow_unsafe_types)
            return shards
        column = shards.index.pickled_column()
        if column is not None and not allow_unsafe_types:
            raise ValueError(
                f"Column {column!r} of {self._index_file} contains an unsafe type: a pickle runs code when it is read. Set "
                "`allow_unsafe_types` if you trust the author of the data"
            )
        return shards

    def _install_index(self) -> None:
        if self.remote is not None and _forebay.is_file_list(self.remote):
            message = "a list of files is read by forebay.Loader and forebay.ShardReader, not by forebay.streaming"
            raise UnsupportedError(f"{message} (remote {_forebay.redact(self.remote)})")
        asked = downloader_queue([self])
        try:
            _forebay.install_index(json.dumps(self._place()), asked and asked[0])
        except FormatError as error:
            # The reference keeps such an answer and fails to read it, in every later run too.
            message = f"Index file at {self._index_file} is empty or corrupted. {error}"
            raise json.JSONDecodeError(message, "", 0) from error
        except UnsupportedError:
            # The engine may reject a format of the program's.
            if not has_python_readers():
                raise
            with locked(self._folder, None, blocking=True):
                if not os.path.exists(self._index_file):
                    os.replace(self._download_file(get_index_basename(), f"{get_index_basename()}.tmp"), self._index_file)
        finally:
            if asked is not None and self._has_given_downloader:
                # Forked processes cannot use this connection.
                self._downloader.clean_up()

    def prepare_shard(self, shard: Reader) -> int:
        """Fetches and unpacks a shard of this stream, if it is not on local disk.

        Args:
            shard: Reader of the shard.

        Returns:
            Bytes by which the local folder has grown.
        """
        return sum(self._prepare_shard_part(raw, packed, shard.compression) for raw, packed in shard.file_pairs)

    def _prepare_shard_part(
        self, raw_info: FileInfo, zip_info: FileInfo | None = None, compression: str | None = None
    ) -> int:
        """Fetches and unpacks a file of a shard, together with the remaining files of the shard.

        Args:
            raw_info: The file.
            zip_info: Its compressed form.
            compression: Compression of that form.

        Returns:
            Bytes by which the local folder has grown.
        """
        if _UNPACKS.are_replaced(self):
            return self._prepare_in_python(raw_info, zip_info, compression)
        reader, numbers = self._engine()
        if reader is None or raw_info.basename not in numbers:
            return self._prepare_in_python(raw_info, zip_info, compression)
        before = reader.bytes_here()
        reader.fetch(numbers[raw_info.basename], True)
        return reader.bytes_here() - before

    def _prepare_in_python(self, raw_info: FileInfo, zip_info: FileInfo | None, compression: str | None) -> int:
        """As `_prepare_shard_part`, without the engine."""
        raw = os.path.join(self._folder, raw_info.basename)
        if zip_info is None:
            if os.path.isfile(raw):
                return 0
            path = self._download_file(raw_info.basename)
            self._check_size(raw_info, path)
            if self.validate_hash:
                with open(path, "rb") as file:
                    self._check_hash(raw_info, path, file.read())
            return raw_info.bytes
        packed, grown = os.path.join(self._folder, zip_info.basename), 0
        has_packed = os.path.isfile(packed)
        if not os.path.isfile(raw):
            if not has_packed:
                self._check_size(zip_info, self._download_file(zip_info.basename))
            self._decompress_shard_part(zip_info, packed, raw, compression)
            grown = raw_info.bytes
        elif has_packed and not self.safe_keep_zip:
            os.remove(packed)
        return grown + zip_info.bytes * (os.path.isfile(packed) - has_packed)

    def _decompress_shard_part(
        self, zip_info: FileInfo, zip_filename: str, raw_filename: str, compression: str | None
    ) -> None:
        """Checks and unpacks a file. The engine does it instead of this function, unless a class overrides it.

        Args:
            zip_info: The compressed file.
            zip_filename: Its path.
            raw_filename: Path of the unpacked file.
            compression: Its compression.

        Raises:
            ValueError: The file differs from its hash, or has none of that kind.
        """
        with open(zip_filename, "rb") as file:
            data = file.read()
        if self.validate_hash:
            self._check_hash(zip_info, zip_filename, data)
        with whole_file(raw_filename) as path, open(path, "wb") as file:
            file.write(decompress(compression, data))
        if not self.safe_keep_zip:
            os.remove(zip_filename)

    @staticmethod
    def _check_size(info: FileInfo, path: str) -> None:
        """Removes a file if its size differs from the index."""
        size = os.path.getsize(path)
        if size != info.bytes:
            os.remove(path)
            raise ChecksumError(f"{path} has {size} bytes, and {info.bytes} in the index")

    def _check_hash(self, info: FileInfo, path: str, data: bytes) -> None:
        """Compares the content of a file with the index."""
        algo = self.validate_hash
        if algo not in info.hashes:
            raise ValueError(
                f"Hash algorithm `{algo}` chosen for data validation does not match with those provided during dataset "
                f"creation `{sorted(info.hashes)}`. Provide one of those."
            )
        if get_hash(algo, data) != info.hashes[algo]:
            raise ValueError(f"Checksum failure: {path}")

    def _prepares_itself(self) -> bool:
        """Returns true if the program prepares shards of this stream, at least in part."""
        return _PREPARES.are_replaced(self)

    def _engine(self) -> tuple[_forebay.Reader | None, dict[str, int]]:
        """Engine's reader of this stream alone, and the number of each shard by the name of its raw files."""
        with making_reader:
            return self._make_engine()

    def _make_engine(self) -> tuple[_forebay.Reader | None, dict[str, int]]:
        made = self.__dict__.get("_engine_made")
        if made is None or made[0] != os.getpid():
            try:
                index = StreamShards(self.local, self.split).index
            except (FileNotFoundError, UnsupportedError):
                # The program has a different index, or shards of different formats.
                index = self._given and self._given.index_of_files(self._folder)
            made = (os.getpid(), *((None, {}) if index is None else self._engine_reader(index)))
            self._engine_made = made
        return made[1], made[2]

    def _engine_reader(self, index: _forebay.Index) -> tuple[_forebay.Reader, dict[str, int]]:
        data = _forebay.DataSet(json.dumps({"streams": [self._place()], "cache_limit": None}), [index])
        shards = json.loads(index.describe())
        numbers = {file["raw"]: at for at, shard in enumerate(shards) for file in shard["files"]}
        # Its service gets a copy, because an object that the stream owns must not own the stream.
        return _forebay.Reader(data, lambda encoding, is_built_in: None, downloader_queue([copy.copy(self)])), numbers

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_engine_made"}

    def set_up_local(self, shards: Sequence[Reader], cache_usage_per_shard: NDArray[np.int64]) -> None:
        """Determines the files of the shards that are on local disk.

        Args:
            shards: All shards of this stream.
            cache_usage_per_shard: Receives the bytes of each shard's files, int64.
        """
        here = {
            os.path.join(folder, name) for folder, _, names in os.walk(self._folder) for name in names
        }
        for number, shard in enumerate(shards):
            files = [info for pair in shard.file_pairs for info in pair if info is not None]
            present = (info.bytes for info in files if os.path.join(self._folder, info.basename) in here)
            cache_usage_per_shard[number] = sum(present)

    def get_index_size(self) -> int:
        """Bytes of the index on local disk."""
        return os.stat(self._index_file).st_size


# Functions by which a program prepares shards, or a part of them, instead of the engine.
_PREPARES = Originals(Stream, "prepare_shard", "_prepare_shard_part", "_decompress_shard_part")
_UNPACKS = Originals(Stream, "_decompress_shard_part")
_DOWNLOADS = Originals(Stream, "_download_file")

streams_registry = create_registry(
    "streaming",
    "streams_registry",
    generic_type=type[Stream],
    entry_points=True,
    description="Classes of streams that `StreamingDataset(stream_name=...)` finds by name.",
)


def is_of_reference(entry: object) -> bool:
    """Returns true if `entry` is the reference's own `Stream`.

    The registry is global in the process. If the reference is imported too, its class also has the name "stream", and
    each side must get its own class.
    """
    name = (getattr(entry, "__module__", ""), getattr(entry, "__qualname__", ""))
    return name == ("streaming.base.stream", "Stream")


# The reference uses the entry that it finds, so its own class stays in the registry.
if not catalogue.check_exists("streaming", "streams_registry", "stream"):
    streams_registry.register("stream", func=Stream)
