"""Checks of a loader's arguments with packs, and with batches by their tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ._convert.ragged import Paddings
from ._groups import Pack, TokenBatch, loader_window
from .errors import ConfigError
from .fields import Chat, Field, Tokenize, Tokens

_OF_ONE_ROW = ("padding_free", "thd")
"""Forms of a batch that is one row."""


def ids_of(fields: Mapping[str, Field] | None) -> Mapping[str, Field]:
    """Checks the fields of packs, and returns them in a form in which they are complete.

    Raises:
        ConfigError: There are more or fewer fields than one of token ids, or it has an option for rows of documents.
    """
    message = 'batches by tokens and packs are made of one field of token ids, as in fields={"input_ids": Tokenize("text", "tokenizer.json")}'
    if not isinstance(fields, Mapping) or len(fields) != 1:
        raise ConfigError(message)
    name, field = next(iter(fields.items()))
    if not isinstance(field, (Chat, Tokenize, Tokens)):
        raise ConfigError(message)
    rows = {"length": None, "pad": None, "truncate": False, "pad_to_multiple": None, "max_length": None}
    for option, absent in rows.items():
        if getattr(field, option) != absent:
            kind = type(field).__name__
            raise ConfigError(f"{option} of {kind} is for rows of documents, and window makes the rows: leave {option} out of {kind}")
    # The engine's lists of ids have no padding.
    return {name: replace(field, pad=0)}


def check_window(window: object, fields: Mapping[str, Field] | None) -> None:
    """Refuses a window of stored tokens with a field that makes tokens of texts."""
    loader_window("window", window)
    values = fields.values() if isinstance(fields, Mapping) else ()
    kinds = [type(field).__name__ for field in values if isinstance(field, (Chat, Tokenize))]
    if window is not None and kinds:
        advice = "pass window=Pack(...) with the tokens of a pack, or leave window out and pass length to the field"
        raise ConfigError(f"window={window!r} is for tokens that a data set has, such as Megatron's, and {kinds[0]} makes tokens of texts: {advice}")


def check_rows(pack: Pack | TokenBatch, batch_size: object, **arguments: object) -> None:
    """Refuses `arguments` that need a row for each pack, if a batch has none."""
    if isinstance(pack, TokenBatch):
        if batch_size != 1:
            raise ConfigError("batch_size is 1 with TokenBatch, which makes the batches: its max_sequences limits their rows")
        for name, given in arguments.items():
            if given is not None:
                raise ConfigError(f"{name} needs batches of one shape, and TokenBatch makes batches of different shapes: pass a Pack, or no {name}")
        return
    for name, given in arguments.items():
        if given is not None and pack.form in _OF_ONE_ROW:
            raise ConfigError(
                f'{name} needs a row for each pack, and a batch of form="{pack.form}" is one row: pass a different form to Pack, such '
                'as "segments"'
            )


def check_pairs(paddings: Paddings | None, **arguments: object) -> None:
    """Refuses `arguments` that need a row for each sample, if a batch has two for each preference pair."""
    for name, given in arguments.items():
        if given is not None and paddings is not None and paddings.pairs:
            raise ConfigError(f'{name} needs a row for each sample, and part="pair" of Chat with `pad` makes two: leave {name} or pad out')
