"""Groups of a loader's options: each is a small value with named options, and is an argument of `Loader`, or of `Stream` as well."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from dataclasses import MISSING, dataclass, fields
from functools import partial
from typing import Any, get_args

from ._arguments import U32, ByteSize, Check, Count, Samples, Seconds, Steps, by_name, checked, checks, none_or, one_of, shown, text, whole, within
from ._choices import BatchingMethod, Extra, Hash, MetricsFunction, PackForm, PackMethod, PackOverflow, PartitionAlgo, ProportionUnit, SamplingMethod, ShuffleAlgo
from .errors import ConfigError
from ._selections import Fraction, SampleValues, Subset, fraction, sample_values, subset


class _Group:
    """Group of options. Its text has the options that differ from their defaults."""

    def __repr__(self) -> str:
        # Values may be addresses with a password or a signature.
        given = ((option, getattr(self, option.name)) for option in fields(self))  # type: ignore[arg-type]
        changed = [f"{option.name}={shown(value)}" for option, value in given if not _is_default(value, option.default)]
        return f"{type(self).__name__}({', '.join(changed)})"


def elsewhere() -> dict[str, str]:
    """Returns advice for options that are in a group, but not in the object that they were passed to."""
    of_loader = {name: f". it is an argument of the loader, as in Loader({name}=...)" for name in _OF_LOADER}
    of_loader["shuffle_seed"] = of_loader["seed"]
    return of_loader | moved("Loader", [*GROUPS, "window", "extra", "world"])


def _is_default(value: Any, default: Any) -> bool:
    # The comparison of an array is an array.
    return default is not MISSING and (value is default or type(value) is type(default) and value == default)


@by_name('filter="class < 100", fraction=(0, 0.9)', elsewhere)
@dataclass(frozen=True, kw_only=True, repr=False)
class Select(_Group):
    """Samples of a stream to keep or draw, as in `Select(filter="class < 100", fraction=(0, 0.9))`.

    `subset`, `fraction` and `filter` choose samples before the shares of the streams count, and all hold together. Sizes of fractions are
    exact: (0, 0.8), (0.8, 0.9) and (0.9, 1) make three parts, and (k/5, (k+1)/5) five folds. Membership follows from the seed, the number
    of the sample in its stream and the stream's length, and from nothing else.

    With `weights` or `balance` the stream's part of an epoch is drawn with replacement among the samples that are kept, each
    with a probability in proportion to its weight. An array has a number for every sample, kept or not.

    The options of a `Stream` take precedence over the same options of its loader; `weights` and `balance` replace both.

    Args:
        subset: Samples to keep, by number: text such as "0:1000, 5000:6000", a list of numbers, or a file of them.
        fraction: Seeded part to keep, such as (0, 0.9) and (0.9, 1): neighbouring parts share no sample and miss none.
        fraction_seed: Seed of `fraction`. None: 0.
        filter: Condition on number and text columns of the samples to keep, such as `class < 100 and name != "unknown"`.
            The columns are read once, and the answer stays in the stream's folder.
        weights: Weight of each sample, to draw with replacement: a number column, an array of numbers, or its `.npy` file.
            An epoch has `Order(epoch_size=)` draws, by default as many as samples.
        balance: Column of the classes that an epoch draws equally often, with replacement.
            The weight of a sample is 1 / the samples of its class that are kept.
    """

    subset: Subset | None = None
    fraction: Fraction | None = None
    fraction_seed: int | None = None
    filter: str | None = None
    weights: SampleValues | None = None
    balance: str | None = None


@by_name("", elsewhere, window_stride="stride")
@dataclass(frozen=True, repr=False)
class TokenWindow(_Group):
    """Windows of tokens, which are the samples of files of token ids instead of documents: `TokenWindow(2048, stride=1024)`.

    Args:
        tokens: Tokens of a sample.
        stride: Tokens from the start of a window to the start of the next one. None: `tokens`.
    """

    tokens: Count
    stride: Count | None = None


@by_name("", elsewhere, max_length="length", packing_strategy="method", strategy="method", pad_token_id="pad", max_sequences_per_bin="max_sequences")
@dataclass(frozen=True, repr=False)
class Pack(_Group):
    """Packs of token sequences, which are the rows of a batch in place of documents: `Pack(4096, form="segments")`.

    The plan of an epoch has the packs, so they are the same on any number of ranks, and a checkpoint names one. Documents are
    packed in windows of 65,536 of the shuffled order. A batch is made of one field, a `Tokenize` or a `Tokens` without `length`, and
    has the outputs of `form`:

    * "padding_free": `input_ids` (the name of the field), `labels`, `position_ids` (1 row of all tokens), `cu_seq_lens_q` and
      `cu_seq_lens_k` (int32), and the numbers `max_length_q` and `max_length_k`, for models of Hugging Face.
    * "segments": the ids, `segment_ids` (from 1, 0 is padding) and `positions`, both int32, for JAX.
    * "indexed_mask": the ids, `labels`, `attention_mask` (numbers of the sequences from 1, 0 is padding) and `position_ids`.
    * "sequence_id": the ids, `labels`, `attention_mask` and `sequence_id` (from 0, -1 is padding), for llm-foundry.
    * "thd": 1 row of all packs with the padding of each sequence, for Megatron and Transformer Engine: the ids, `labels`, `loss_mask`
      (float32), `position_ids`, and the int32 `cu_seqlens` (tokens before each sequence), `cu_seqlens_padded` (with their padding) and
      `max_seqlen` (with padding; 1 element). `pad_sequences_to` is 2 * the size of context parallelism.
    * "document_ids": the ids, `labels`, `positions` and `document_ids` (int32, from 0, -1 is padding), for FlexAttention.

    Labels are the ids, with -100 at the first token of each sequence and for padding; a model shifts them. Labels of "thd" and
    "document_ids" are shifted: the label of a token is the next one of its sequence, and -100 at the last one.

    Args:
        length: Tokens of a pack.
        method: Method of packing: "best_fit", which cuts no document that fits into a pack, or "cut", one after the other.
        overflow: Documents that are longer than a pack: "split" into several sequences, "truncate" or "drop".
        max_sequences: Most sequences of a pack. None: no limit.
        pad_sequences_to: Multiple of tokens at which each sequence begins, with padding before the next one.
        lengths: Numbers of tokens, as for `weights`. None: taken from the sizes of stored ids, or counted once and kept.
        form: Outputs of a batch: "padding_free", "segments", "indexed_mask", "sequence_id", "thd" or "document_ids".
        pad: Token id that fills the rest of a row.
        proportion_unit: Unit of the proportions of streams: "samples" or "tokens".
    """

    length: Count
    method: PackMethod = "best_fit"
    overflow: PackOverflow = "split"
    max_sequences: Count | None = None
    pad_sequences_to: Count = 1
    lengths: SampleValues | None = None
    form: PackForm = "padding_free"
    pad: int = 0
    proportion_unit: ProportionUnit = "samples"


@by_name("", elsewhere, batch_size="max_sequences", length="max_length", max_rows="max_sequences", pad_sequences_to="pad_to_multiple_of", pad_token_id="pad", tokens="max_tokens")
@dataclass(frozen=True, repr=False)
class TokenBatch(_Group):
    """Batches of rows of similar length under a limit of tokens, in place of a number of rows: `TokenBatch(16_384)`.

    The plan of an epoch has the batches, so they are the same on any number of ranks, and a checkpoint names one. Documents are
    sorted by length in windows of 65,536 of the shuffled order, and cut into batches, which are shuffled. All ranks have equally many. A batch is
    made of one field, a `Tokenize`, `Tokens` or `Chat` without `length`, `batch_size` is 1, and the outputs are as Hugging Face's
    collators make them, with a row for each document, as long as the longest one: `input_ids` (the name of the field), `labels` (the ids, -100 for
    padding; a model shifts them), `attention_mask` (0 for padding) and `position_ids`. Each batch has its own shape.

    Args:
        max_tokens: Most tokens of a batch with its padding: its rows times the longest of them.
        max_sequences: Most rows of a batch. None: no limit.
        max_length: Most tokens of a row. None: `max_tokens`.
        overflow: Documents that are longer than a row: "split" into several rows, "truncate" or "drop".
        pad_to_multiple_of: Multiple of tokens that the rows of a batch are padded to.
        lengths: Numbers of tokens, as for `weights`. None: taken from the sizes of stored ids, or counted once and kept.
        pad: Token id that fills the rest of a row.
        proportion_unit: Unit of the proportions of streams: "samples" or "tokens".
    """

    max_tokens: Count
    max_sequences: Count | None = None
    max_length: Count | None = None
    overflow: PackOverflow = "split"
    pad_to_multiple_of: Count = 1
    lengths: SampleValues | None = None
    pad: int = 0
    proportion_unit: ProportionUnit = "samples"


@by_name('shuffle_algo="py1s"', elsewhere, algo="shuffle_algo", canonical_nodes="num_canonical_nodes", block_size="shuffle_block_size")
@dataclass(frozen=True, kw_only=True, repr=False)
class Order(_Group):
    """Order of the samples, besides `shuffle` and `seed`, as in `Order(shuffle_algo="py1br", num_canonical_nodes=8)`.

    MosaicML streaming has the same names where it has the option.

    Args:
        shuffle_algo: Shuffle algorithm: "py1e", "py1br", "py1s", "py2s" or "naive".
        shuffle_block_size: Samples that are shuffled together. None: max(4,000,000 / canonical nodes, 262,144).
        partition_algo: Partition algorithm: "relaxed" or "orig".
        num_canonical_nodes: Nodes that define the order. None: this job's nodes, or 64 times as many for py1s and py2s.
        replication: Number of consecutive ranks that get the same samples.
        epoch_size: Samples of an epoch. None: the sum of the streams' shares.
        repeat_augment: Rows of each sample, with separate draws; an epoch keeps its length and has fewer samples.
        augment_seed: Seed of random crops and flips. None: `seed`.
        sampling_method: Sampling of stream shares: "balanced" draws again in each epoch, "fixed" draws once.
        sampling_granularity: Samples that are drawn together.
        batching_method: Mix of streams in a batch: "random", "stratified", "per_stream" or "device_per_stream".
        bucket_by: Lengths, to batch samples of similar length: a number column, bytes of any column, or as in `weights`.
        bucket_batches: Global batches that `bucket_by` sorts together.
        skip_steps: Steps to leave out on all ranks, counted through all epochs. Checkpoints keep them.
    """

    shuffle_algo: ShuffleAlgo = "py1e"
    shuffle_block_size: Samples | None = None
    partition_algo: PartitionAlgo = "relaxed"
    num_canonical_nodes: Count | None = None
    replication: Count | None = None
    epoch_size: int | None = None
    repeat_augment: Count = 1
    augment_seed: int | None = None
    sampling_method: SamplingMethod = "balanced"
    sampling_granularity: Count = 1
    batching_method: BatchingMethod = "random"
    bucket_by: SampleValues | None = None
    bucket_batches: Count = 64
    skip_steps: Steps | None = None


@by_name("retry=5, timeout=30.0", elsewhere, download_retry="retry", download_timeout="timeout", retries="retry")
@dataclass(frozen=True, kw_only=True, repr=False)
class Fetch(_Group):
    """Fetches of shards: attempts, time limit and check, and the files that remain, as in `Fetch(retry=5, timeout=30.0)`.

    The group of a `Stream` replaces the loader's as a whole.

    Args:
        retry: Total attempts per download.
        timeout: Seconds for an answer to begin, and for each 16 KiB of it, before an attempt fails.
        validate_hash: Hash to match when a shard is fetched or unpacked, such as "xxh64". None: the cheapest in the index.
            Shards that are read where they are, or are in `local` already, are not checked.
        keep_zip: Keep compressed shards next to the unpacked ones.
    """

    retry: Count = 2
    timeout: Seconds = 60.0
    validate_hash: Hash | None = None
    keep_zip: bool = False


@by_name('prefetch=8, memory="4gb"', elsewhere, nvjpeg="device_decode", prefetch_factor="prefetch", timeout="stall_timeout")
@dataclass(frozen=True, kw_only=True, repr=False)
class Engine(_Group):
    """Resources and limits of this process, on which the order does not depend, as in `Engine(prefetch=8, memory="4gb")`.

    Args:
        prefetch: Batches made ahead. None: 3, and more of batches below 2 MiB: as many as 8 MiB hold, at most 31.
        memory: Bytes for batches and encoded samples, as a number or "2gb". None: a share of the machine's memory.
        mmap: Copy samples of up to 16 KiB from memory maps; a failing disk then ends the process with SIGBUS.
        pin_threads: Bind each decode thread to one CPU.
        fetch_threads: Threads that talk to the store. None: one per 4 CPUs.
        predownload: Samples whose shards are fetched ahead. None: enough for `prefetch` batches, at least 8 batches.
        ca_file: File of certificates (PEM) that stores may have, in addition to the system's.
        stall_timeout: Seconds without progress before the next batch fails with an error.
        sample_bytes_max: Largest sample that is read, in bytes or as "1gb".
        allow_unsafe_types: Accept columns of Python pickles; they are delivered as bytes.
        device_decode: Decode baseline JPEGs on the CUDA device (nvJPEG). Its grey levels may differ by a few.
        share_decode: With `device_decode`, idle decode threads take pictures too; grey levels may vary between runs.
        gpu_direct_storage: Read stored rows of 4 KiB or more from local disk into CUDA memory (cuFile).
        metrics: Serve the figures to Prometheus, "prometheus://:9400" (the local rank is added to the port), or send them: "otlp". Python has "tensorboard:DIR" and functions of figures and step too.
        monitor: Let `forebay top` of the same user look into this process, by a Unix socket.
        trace: Record every timed span for `trace_json`.
        progress: Show the position in the epoch, the rate and the wait in a line on the standard error of rank 0, if it is a terminal.
    """

    prefetch: Count | None = None
    memory: ByteSize | None = None
    mmap: bool = False
    pin_threads: bool = False
    fetch_threads: Count | None = None
    predownload: int | None = None
    ca_file: str | os.PathLike[str] | None = None
    stall_timeout: Seconds = 600.0
    sample_bytes_max: ByteSize = 1 << 30
    allow_unsafe_types: bool = False
    device_decode: bool = False
    share_decode: bool = False
    gpu_direct_storage: bool = False
    metrics: str | MetricsFunction | None = None
    monitor: bool = True
    trace: bool = False
    progress: bool = False


@by_name("errors=100", elsewhere, max_errors="errors", on_error="errors", on_missing="missing")
@dataclass(frozen=True, kw_only=True, repr=False)
class Skip(_Group):
    """Samples that an epoch leaves out instead of failing, as in `Skip(errors=100)`. Without this group it leaves out none.

    A sample that counts in `errors` makes its batch one row shorter. A batch that loses every row is not delivered if this
    is the only rank. If more ranks wait for it, it is delivered with one row: a sample of a different batch of this rank,
    marked as a repeat if repeats are marked, and the same one in every run.

    Args:
        errors: Samples per epoch and rank that are left out if they cannot be read or decoded; one more is an error.
        missing: Plan without the samples that lack a field without a default.
    """

    errors: int = 0
    missing: bool = False


GROUPS: dict[str, tuple[type[Any], str]] = {
    "select": (Select, 'filter="class < 100"'),
    "order": (Order, 'shuffle_algo="py1s"'),
    "fetch": (Fetch, "retry=5"),
    "engine": (Engine, "prefetch=8"),
    "skip": (Skip, "errors=100"),
}
"""Class of each argument that is a group, and an example of its options."""

TENSORBOARD = "tensorboard:"
"""Start of `metrics` for TensorBoard, before the folder."""

_PYTHON_ONLY = ("progress",)
"""Options of groups that the engine does not have."""


def _engine_metrics(name: str, value: Any) -> str | None:
    """Checks `metrics`, and returns the engine's part of them: functions and TensorBoard are the package's."""
    if value is None or callable(value):
        return None
    value = text(name, value, '"prometheus://:9400", "otlp", "tensorboard:DIR" or a function of figures and step')
    return None if value.startswith(TENSORBOARD) and value != TENSORBOARD else value


_CHOICES = {"form": PackForm, "method": PackMethod, "overflow": PackOverflow, "proportion_unit": ProportionUnit}
_OWN_CHECKS: dict[str, Check] = {
    **{name: partial(one_of, choices=get_args(choices)) for name, choices in _CHOICES.items()},
    "bucket_by": sample_values,
    "fraction": partial(none_or, fraction),
    "lengths": sample_values,
    "metrics": _engine_metrics,
    "subset": partial(none_or, subset),
    "weights": sample_values,
}
_CHECKS = {
    cls: checks(cls.__annotations__, without=_OWN_CHECKS) | {name: check for name, check in _OWN_CHECKS.items() if name in cls.__annotations__}
    for cls in (*(cls for cls, _ in GROUPS.values()), TokenWindow, Pack, TokenBatch)
}


def _checked(cls: type[Any], name: str, value: Any) -> dict[str, Any]:
    """Returns the options of a group of the class `cls`, the argument `name`, as plain Python values."""
    with within(name):
        options = checked(_CHECKS[cls], {option.name: getattr(value, option.name) for option in fields(value)})
    return {option: setting for option, setting in options.items() if option not in _PYTHON_ONLY}


def group(name: str, value: Any) -> dict[str, Any]:
    """Returns the engine's form of the group of the argument `name`; None has the defaults."""
    cls, example = GROUPS[name]
    if value is None:
        value = cls()
    elif not isinstance(value, cls):
        article = "an" if cls.__name__[0] in "AEIO" else "a"
        raise ConfigError(f"{name} is {article} {cls.__name__}, such as {cls.__name__}({example}), but it is {shown(value)}")
    elif value == Skip():
        raise ConfigError("skip leaves nothing out: pass a number of samples, as in Skip(errors=100), or Skip(missing=True)")
    return _checked(cls, name, value)


def given(name: str, value: Any) -> dict[str, Any]:
    """Returns the options of a group that are not None, in the engine's form."""
    return {option: setting for option, setting in group(name, value).items() if setting is not None}


_TOKEN_WINDOW = "a window such as TokenWindow(2048, stride=1024)"


def token_window(name: str, value: Any, forms: str = f"or {_TOKEN_WINDOW}") -> int | dict[str, int | None] | None:
    """Returns the engine's form of a number of tokens or a `TokenWindow`. An error names these and further `forms`."""
    if value is None:
        return None
    if isinstance(value, TokenWindow):
        return _checked(TokenWindow, name, value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ConfigError(f"{name} is a number of tokens, {forms}, but it is {shown(value)}")
    return whole(name, value, 1, U32)


def loader_window(name: str, value: Any) -> int | dict[str, Any] | None:
    """Returns the engine's form of the `window` of a loader, which may be a `Pack` or a `TokenBatch`."""
    if isinstance(value, (Pack, TokenBatch)):
        return _checked(type(value), name, value)
    return token_window(name, value, f"{_TOKEN_WINDOW}, packs such as Pack(2048), or batches such as TokenBatch(16_384)")


_OUTPUTS = get_args(Extra)


def extra_outputs(name: str, value: Any) -> list[str]:
    """Returns the names of the outputs to add."""
    example = 'names of outputs, such as extra=["sample_keys"]'
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise ConfigError(f"{name} is a list of {example}, but it is {shown(value)}")
    names = list(value)
    for output in names:
        if not isinstance(output, str) or output not in _OUTPUTS:
            raise ConfigError(f"{name} has {shown(output)}, but the outputs to add are {', '.join(map(repr, _OUTPUTS))}")
    return list(dict.fromkeys(names))


_OF_LOADER = ("batch_size", "cache_limit", "device", "drop_last", "fields", "framework", "seed", "shuffle", "threads")
"""Arguments of the loader that may be looked for in a group."""

_RENAMED = {
    "download_retry": ("fetch", "Fetch(retry=5)"),
    "download_timeout": ("fetch", "Fetch(timeout=30.0)"),
    "max_errors": ("skip", "Skip(errors=100)"),
    "on_error": ("skip", "Skip(errors=100)"),
    "on_missing": ("skip", "Skip(missing=True)"),
    "window_stride": ("window", "TokenWindow(2048, stride=1024)"),
    "mark_repeats": ("extra", '["repeat"]'),
    **{name: ("extra", f'["{name}"]') for name in _OUTPUTS if name != "repeat"},
}
"""Groups of options that had a different name as arguments of the loader, and the value to write there."""


def moved(owner: str, groups: Container[str]) -> dict[str, str]:
    """Returns advice, as `by_name` takes it, for options that are in one of the `groups` of `owner` and no arguments of it."""
    numbers = ("rank", "world_size", "local_rank", "local_world_size")
    meanings = _RENAMED | {name: ("world", f"World({name}=..., ...)") for name in numbers}
    for argument, (cls, _) in GROUPS.items():
        meanings |= {name: (argument, f"{cls.__name__}({name}=...)") for name in cls.__annotations__}
    return {
        name: f". it is in {argument}, as in {owner}({argument}={call})"
        for name, (argument, call) in meanings.items()
        if argument in groups
    }
