"""Field of token ids that are made of text."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .._arguments import by_name, one_of, shown, text
from .._choices import DType
from .._convert.padding import Padding
from ..errors import ConfigError
from .base import Field, column_of, path_of
from .values import padding_of, token_rows

__all__ = ["Tokenize"]


@by_name(max_length="length and truncate", padding="pad")
@dataclass(frozen=True)
class Tokenize(Field):
    """Token ids of a text: a tensor of shape (N, length), or (N, L) where L is the length of the longest row of the batch.

        Tokenize("text", "tokenizer.json", length=1024, pad=0, truncate=True)     # (N, 1024)
        Tokenize("text", "tokenizer.json", pad=0, pad_to_multiple=8)              # (N, L), L a multiple of 8

    The ids are the ids of Hugging Face's `tokenizers` 1.0. Special tokens such as "</s>" inside of a text are text, because the text of a
    data set is not trusted; `allowed_special="all"` finds them, as `tokenizers` does by default. Truncation and padding of the file are
    ignored. A process loads a tokenizer once.

    The ids differ from `tokenizers` 0.22 for rare characters that Unicode has added or changed since: with WordPiece, WordLevel and Unigram,
    and seldom with BPE. A file with a pattern (`Split` with a `Regex`) is an `UnsupportedError`, unless it
    is the pattern of GPT-2, Llama 3, o200k or Qwen 2.

    Args:
        column: Column with the text, or with bytes that are UTF-8.
        tokenizer: Path or URL of a `tokenizer.json` of Hugging Face, or its contents as bytes or as text that begins with "{".
        path: The text's path in a column of JSON documents, as in `Json`. None: the column is the text.
        add_bos: Tokens before each text. None: the tokens of the tokenizer's post-processor. True: the same, and none is a
            `ConfigError`. False: none. Text: this token, such as "<s>".
        add_eos: Tokens after each text, in the same way.
        allowed_special: Special tokens that a text may contain: a list of their texts, or "all".
        errors: "strict": bytes that are not UTF-8 are a `DecodeError`. "replace": U+FFFD takes their position.
        length: Ids in a row, as in `Tokens`. None: rows are as long as the longest one of the batch.
        dtype: Type of the result. A type that is too narrow for the tokenizer's largest id is a `ConfigError`.
        pad: Id that fills a short row.
        truncate: Keep only the first `length` ids of a longer text.
        pad_to_multiple: Without `length`, the length of rows is a multiple of it.
        max_length: Without `length`, keep only this many ids of a text.
    """

    column: str
    tokenizer: str | os.PathLike[str] | bytes
    path: str | Sequence[str | int] | None = None
    add_bos: bool | str | None = None
    add_eos: bool | str | None = None
    allowed_special: Literal["all"] | Sequence[str] = ()
    errors: Literal["strict", "replace"] = "strict"
    length: int | None = None
    dtype: DType = "int64"
    pad: int | None = None
    truncate: bool = False
    pad_to_multiple: int | None = None
    max_length: int | None = None

    def _spec(self) -> dict[str, Any]:
        allowed = self.allowed_special
        if allowed != "all":
            if isinstance(allowed, (str, bytes)) or not isinstance(allowed, Sequence):
                raise ConfigError(f'allowed_special of Tokenize is "all" or a list of tokens, but it is {shown(allowed)}')
            allowed = [text("a token of allowed_special of Tokenize", token) for token in allowed]
        spec = {
            "kind": "tokenize",
            "column": column_of(self),
            "add_bos": _end("add_bos", self.add_bos),
            "add_eos": _end("add_eos", self.add_eos),
            "allowed_special": allowed,
            "errors": one_of("errors of Tokenize", self.errors, ("strict", "replace")),
            **path_of(self),
            **token_rows(self),
        }
        return spec | {"tokenizer": _contents(self.tokenizer)}

    def _padding(self) -> Padding | None:
        return padding_of(self) if self.length is None else None


def _end(name: str, value: Any) -> bool | str | None:
    """Checks the tokens at an end of each text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    raise ConfigError(f"{name} of Tokenize is True, False or a token's text, but it is {shown(value)}")


def _contents(tokenizer: Any) -> str:
    """Returns the text of a tokenizer."""
    if isinstance(tokenizer, str) and tokenizer.lstrip().startswith("{"):
        return tokenizer
    if not isinstance(tokenizer, (bytes, str, os.PathLike)):
        raise ConfigError(f"tokenizer of Tokenize is a path or URL of a tokenizer.json, or its contents, but it is {shown(tokenizer)}")
    data = tokenizer
    if not isinstance(data, bytes):
        from ..files.opened import open as open_file  # Imported late: most loaders need no files.

        with open_file(os.fspath(tokenizer)) as file:
            data = file.read()
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConfigError("tokenizer of Tokenize is not a tokenizer.json: its bytes are not UTF-8") from None
