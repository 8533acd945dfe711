"""Types of arguments that take one of a few values, so that type checkers and editors know the values."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypedDict, Union

Framework = Literal["torch", "jax", "tensorflow", "numpy", "dlpack"]
"""Type of a batch's tensors."""

Extra = Literal["repeat", "sample_ids", "sample_draws", "sample_keys"]
"""Output that a batch may have in addition to the fields."""

ShuffleAlgo = Literal["py1e", "py1br", "py1s", "py2s", "naive"]
PartitionAlgo = Literal["relaxed", "orig"]
SamplingMethod = Literal["balanced", "fixed"]
BatchingMethod = Literal["random", "stratified", "per_stream", "device_per_stream"]

PackMethod = Literal["best_fit", "cut"]
"""Way to fill packs."""
PackOverflow = Literal["split", "truncate", "drop"]
"""Treatment of documents that are longer than a pack, or than a row."""
ProportionUnit = Literal["samples", "tokens"]
"""Unit of the proportions of streams."""
PackForm = Literal["padding_free", "segments", "indexed_mask", "sequence_id", "thd", "document_ids"]
"""Outputs of a batch of packs."""

Hash = Literal[
    "blake2b", "blake2s", "md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_224", "sha3_256", "sha3_384", "sha3_512",
    "xxh32", "xxh64", "xxh128", "xxh3_64", "xxh3_128",
]
"""Hash of a shard's files."""


class _DeviceObject(Protocol):
    """torch.device."""

    @property
    def index(self) -> Any: ...
    @property
    def type(self) -> str: ...


Device = Union[
    Literal["cpu", "cuda", "cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:4", "cuda:5", "cuda:6", "cuda:7"],
    Literal["cuda:8", "cuda:9", "cuda:10", "cuda:11", "cuda:12", "cuda:13", "cuda:14", "cuda:15"],
    _DeviceObject,
]
"""Name of a device, or a torch.device. A number that is known at run time makes one: `torch.device("cuda", local_rank)`."""


class _TypeObject(Protocol):
    """torch.dtype or numpy.dtype."""

    @property
    def itemsize(self) -> int: ...


DTypeName = Literal[
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
]
"""Name of a type of numbers, in the order of the engine's numbers for the types."""

DType = Union[DTypeName, _TypeObject, type[Any]]
"""Type of numbers: its name, or an object of torch or numpy."""

Layout = Literal["NCHW", "NHWC"]
Mode = Literal["RGB", "L", "RGBA", "I;16"]
Interpolation = Union[Literal["nearest", "bilinear", "bicubic"], enum.Enum]
"""Filter of a resize: its name, or a member of torchvision's or Pillow's enumeration."""
PaddingMode = Literal["constant", "edge", "reflect", "symmetric"]
BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
Grouping = Literal["each", "stem"]
"""Files of any kind as samples: each file alone, or the files of one stem together."""
MapKind = Literal["threads", "processes", "interpreters"]

Shard = Literal["auto", "none"]
"""Division of files among ranks and workers."""
StageName = Literal["schedule", "shard", "fetch", "unpack", "publish", "read", "decode", "place", "map", "next"]
Compression = Literal["auto", "none", "gz", "zst", "bz2", "br"]
OpenMode = Literal["rb", "wb", "r", "w", "rt", "wt"]


MetricsFunction = Callable[[dict[str, float], int], Any]
"""Function of figures by their names, such as "data/waiting_share", and of the number of the step."""


class StageStats(TypedDict):
    """Figures of a stage since the loader was made."""

    busy_s: float
    """Seconds of work, summed over the stage's threads."""
    input_s: float
    """Seconds of waiting for the previous stage."""
    output_s: float
    """Seconds of waiting for the next stage."""
    items: int
    bytes: int


class WaitStats(TypedDict):
    """Waits for batches since the loader was made, each from the request until the batch is there."""

    count: int
    """Batches."""
    sum_s: float
    p50_s: float | None
    """Seconds that half of the waits did not exceed, at most a quarter too large. None before the first batch."""
    p95_s: float | None
    p99_s: float | None


class ThreadStats(TypedDict):
    """Threads that work on samples."""

    decode: int
    usable: int
    """Decode threads of a loader without `threads`: the CPUs of this process, shared by the node's ranks."""


class Stats(TypedDict):
    """Figures of a loader since it was made."""

    bottleneck: str
    """One line that names what limits the rate, and what to change."""
    limit: str
    """Short name of the limit, such as "slow store"."""
    threads: ThreadStats
    waits: WaitStats
    """Waits of the loop for batches."""
    stages: dict[StageName, StageStats]
    """Figures by the name of the stage."""
    counters: dict[str, int]
    notes: list[str]
    """Sentences about choices of the loader."""
    elapsed_s: float
    """The loader's age in seconds."""
