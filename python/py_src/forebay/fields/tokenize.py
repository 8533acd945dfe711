"""Field of token ids that are made of text."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from .._arguments import one_of, shown, text, whole
from .._choices import DType
from ..errors import ConfigError
from .base import column_of, json_path
from .documents import FillInMiddle, MaskedLM
from .values import TokenField, token_rows
from .vocabulary import contents_of

_Contents = TypeVar("_Contents")


class FileField(TokenField):
    """Field of token ids with the contents of files, which each process reads once."""

    def _once(self, read: Callable[[], _Contents]) -> _Contents:
        """Returns the result of `read`, which is called the first time."""
        if "_read" not in self.__dict__:
            object.__setattr__(self, "_read", read())
        return self.__dict__["_read"]

    def __getstate__(self) -> dict[str, Any]:
        """Returns the arguments: each process reads the files itself."""
        return {name: value for name, value in self.__dict__.items() if name != "_read"}


class Tokenize(FileField, elsewhere={"padding": "pad"}):
    """Token ids of a text: a tensor of shape (N, length), or (N, L) where L is the length of the longest row of the batch.

        Tokenize("text", "tokenizer.json", length=1024, pad=0, truncate=True)     # (N, 1024)
        Tokenize("text", "tokenizer.json", pad=0, pad_to_multiple=8)              # (N, L), L a multiple of 8

    The ids are the ids of Hugging Face's `tokenizers` 0.22 and 0.23, for every kind of model and every pattern. With `encoding` the
    tokenizer is a file of ranks of `tiktoken`, and the ids are tiktoken's:

        Tokenize("text", "cl100k_base.tiktoken", encoding="cl100k_base", add_eos="<|endoftext|>", pad=0)

    Special tokens such as "</s>" inside of a text are text, because the text of a data set is not trusted; `allowed_special="all"` finds
    them, as `tokenizers` does by default. Truncation and padding of the file are ignored. A process loads a tokenizer once.

    Args:
        column: Column with the text, or with bytes that are UTF-8.
        tokenizer: Path or URL of a `tokenizer.json` of Hugging Face, or of a file of ranks of tiktoken, or the contents of one: bytes, or
            text that begins with "{" or has several lines. The file is read once, when the first loader is made of the field.
        encoding: With a file of ranks, the name of tiktoken's encoding: "gpt2", "r50k_base", "p50k_base", "p50k_edit", "cl100k_base",
            "o200k_base" or "o200k_harmony". For a different vocabulary a dict: "pattern", a regular expression as `tiktoken.Encoding` takes
            it, and "special_tokens", their ids. None: the tokenizer is a `tokenizer.json`.
        path: The text's path in a column of JSON documents, as in `Json`. None: the column is the text.
        add_bos: Tokens before each text. None: the tokens of the tokenizer's post-processor; a file of ranks has none. True: the same, and none is a
            `ConfigError`. False: none. Text: this token, such as "<s>".
        add_eos: Tokens after each text, in the same way.
        allowed_special: Special tokens that a text may contain: a list of their texts, or "all".
        errors: "strict": bytes that are not UTF-8 are a `DecodeError`. "replace": U+FFFD takes their position.
        length: Ids in a row, as in `Tokens`. None: rows are as long as the longest one of the batch.
        dtype: Type of the result. A type that is too narrow for the tokenizer's largest id is a `ConfigError`.
        pad: Id that fills a short row.
        truncate: Keep only the first `length` ids of a longer text. The rest of a long text is not tokenised.
        pad_to_multiple: Without `length`, the length of rows is a multiple of it.
        max_length: Without `length`, keep only this many ids of a text.
        fim: Fill-in-the-middle, before rows are cut and filled. None: texts stay as they are.
        mask: Masked language modelling, with an additional output `labels`. None: tokens stay as they are.
    """

    column: str
    tokenizer: str | os.PathLike[str] | bytes
    encoding: str | Mapping[str, Any] | None = None
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
    fim: FillInMiddle | None = None
    mask: MaskedLM | None = None

    def _spec(self) -> dict[str, Any]:
        allowed = self.allowed_special
        if allowed != "all":
            if isinstance(allowed, (str, bytes)) or not isinstance(allowed, Sequence):
                raise ConfigError(f'allowed_special of Tokenize is "all" or a list of tokens, but it is {shown(allowed)}')
            allowed = [text("a token of allowed_special of Tokenize", token) for token in allowed]
        spec = {
            "kind": "tokenize",
            "column": column_of("column of Tokenize", self.column),
            "add_bos": _end("add_bos", self.add_bos),
            "add_eos": _end("add_eos", self.add_eos),
            "allowed_special": allowed,
            "encoding": _encoding(self.encoding),
            "errors": one_of("errors of Tokenize", self.errors, ("strict", "replace")),
            "path": None if self.path is None else json_path("path of Tokenize", self.path),
            **token_rows(self),
        }
        return spec | {"tokenizer": self._contents()}

    def _own_tokenizer(self) -> Callable[[], str] | None:
        return self._contents if self.encoding is None else None

    def _contents(self) -> str:
        """Returns the contents of the tokenizer's file."""
        return self._once(lambda: contents_of("Tokenize", self.tokenizer))


def _end(name: str, value: Any) -> bool | str | None:
    """Checks the tokens at an end of each text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    raise ConfigError(f"{name} of Tokenize is True, False or a token's text, but it is {shown(value)}")


def _encoding(encoding: Any) -> str | dict[str, Any] | None:
    """Checks the pattern and the special tokens of a file of ranks."""
    if encoding is None or isinstance(encoding, str):
        return encoding
    if not isinstance(encoding, Mapping) or not {"pattern"} <= encoding.keys() <= {"pattern", "special_tokens"}:
        raise ConfigError(f'encoding of Tokenize is a name, or a dict with "pattern" and "special_tokens", but it is {shown(encoding)}')
    special = encoding.get("special_tokens", {})
    if not isinstance(special, Mapping):
        raise ConfigError(f"special_tokens of Tokenize maps texts to ids, but it is {shown(special)}")
    ids = {text("a token of special_tokens of Tokenize", token): whole("an id of special_tokens of Tokenize", id) for token, id in special.items()}
    return {"pattern": text("pattern of Tokenize", encoding["pattern"]), "special_tokens": ids}
