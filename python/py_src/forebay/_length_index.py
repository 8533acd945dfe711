"""Lengths in tokens of a data set, for `forebay index` and for programs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from . import _forebay
from ._arguments import shown
from ._streams import Stream, config_of
from .errors import ConfigError
from .fields import Chat, Tokenize, Tokens
from .fields.base import specs
from .remotes import library_stores


@dataclass
class LengthReport:
    """Lengths in tokens of a data set."""

    samples: int
    """Samples."""
    tokens: int
    """Tokens of all samples."""
    longest: int
    """Tokens of the longest sample."""
    lengths: memoryview = field(repr=False)
    """Tokens of each sample, in the order of their numbers: unsigned integers of 32 bits, for `numpy.asarray`."""


def index_lengths(
    source: str | os.PathLike[str] | Stream,
    tokens: Chat | Tokenize | Tokens,
    *,
    cache_limit: int | str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> LengthReport:
    """Counts the tokens of each sample once, and keeps the numbers in the cache of this machine, where loaders that pack find them.

    Nothing is read of Megatron's files but their index, and of token ids in MDS shards, in columns of fixed size or of `bytes`, but the
    offsets of the samples. Of Parquet and Arrow files the column is read alone. Texts are read and encoded, in one process of the
    machine, with all of its CPUs; a run that was stopped continues where it was when it is started again. The numbers are made again when
    the tokenizer, an argument of the field on which they depend, the encoder's version or a file changes.

    Args:
        source: Data set, as `remote` of a Loader, or a Stream. A Stream with `select` has the lengths of the samples that it keeps.
        tokens: Field that makes the tokens, as the loader has it. The length and the type of its rows do not count.
        cache_limit: Bytes of shards on local disk, as in a Loader: shards that are fetched for their texts stay there for its epochs.
        progress: Function that is called from time to time with the shards that were read and all shards.

    Returns:
        The lengths, and their sum.

    Raises:
        ConfigError: The column or the tokenizer does not suit the field.
        DecodeError: No tokens can be made of a sample, such as one that is not UTF-8.
        Error: One of the data set or its store.
    """
    if not isinstance(tokens, (Chat, Tokenize, Tokens)):
        raise ConfigError(f"tokens is a Tokenize, Tokens or Chat field, but it is {shown(tokens)}")
    if tokens.length is None and tokens.pad is None:
        # No row is made, but the field's arguments have to be complete.
        tokens = replace(tokens, pad=0)
    stream = source if isinstance(source, Stream) else Stream(remote=source)
    config = config_of(stream)
    given: dict[str, object] = {"streams": [config], "batch_size": 1, "fields": specs({"tokens": tokens})}
    if cache_limit is not None:
        given["cache_limit"] = cache_limit
    index = _forebay.LengthIndex(json.dumps(given), library_stores(config.get("remote")))
    lengths, tokens_of_all, longest = index.make(progress)
    view = memoryview(lengths).cast("I")
    return LengthReport(len(view), tokens_of_all, longest, view)
