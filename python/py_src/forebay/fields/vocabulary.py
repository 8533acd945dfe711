"""Contents of the files of tokenizers, and the tokens in them that continue a word."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from .._arguments import shown
from ..errors import ConfigError, NotFoundError

_MARKS = {"▁": ("▁",), "ByteLevel": ("Ġ", "Ċ", "ĉ", "č")}
"""Characters that begin a word in a vocabulary, by a part of the tokenizer's document. Byte-level vocabularies have spaces, line breaks and
tabs as visible characters."""


def is_contents(tokenizer: Any) -> bool:
    """Returns True for the contents of a tokenizer's file, and False for its path."""
    return isinstance(tokenizer, bytes) or isinstance(tokenizer, str) and (tokenizer.lstrip().startswith("{") or "\n" in tokenizer)


def contents_of(kind: str, tokenizer: Any) -> str:
    """Returns the text of the tokenizer of a field of this kind."""
    if not isinstance(tokenizer, (bytes, str, os.PathLike)):
        example = ", such as tokenizer.to_str()" if hasattr(tokenizer, "to_str") else ""
        raise ConfigError(f"tokenizer of {kind} is a path or URL of a file, or its contents{example}, but it is {shown(tokenizer)}")
    advice = f"tokenizer of {kind} is not a tokenizer.json or a file of ranks, because its bytes are not UTF-8: pass the path of one"
    if is_contents(tokenizer):
        return text_of(tokenizer, advice)
    return text_of(file_of(f"tokenizer of {kind}", os.fspath(tokenizer), "tokenizer.json"), advice)


def read(path: str) -> bytes:
    """Returns the bytes of a file of any store."""
    from ..files.opened import open as open_file  # Imported late: most loaders need no files.

    with open_file(path) as file:
        return file.read()


def file_of(argument: str, path: str, name: str) -> bytes:
    """Returns the bytes of the file of an argument, which usually has the name `name`."""
    try:
        return read(path)
    except NotFoundError as error:
        if os.path.isdir(path):
            raise NotFoundError(f"{argument} is {path}, which is a folder: pass the path of a file in it, such as {name}") from error
        advice = f"pass the path or URL of a file, such as {name}; a name on a hub is no path, so fetch its files first"
        raise NotFoundError(f"{argument} is {path}, and there is no such file: {advice}") from error


def text_of(data: str | bytes, advice: str) -> str:
    """Returns the text of a file; `advice` is the message if it has none."""
    try:
        return data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError:
        raise ConfigError(advice) from None


def continuing_ids(contents: str) -> list[int]:
    """Returns the ids of the tokens that continue the word of the token before them, by the text of a `tokenizer.json`.

    Raises:
        ConfigError: The text is no `tokenizer.json`, or its vocabulary does not mark words.
    """
    try:
        document = json.loads(contents)
        model = document["model"]
        vocabulary = model["vocab"]
        pairs = vocabulary.items() if isinstance(vocabulary, dict) else [(piece[0], id) for id, piece in enumerate(vocabulary)]
        added = {token["content"] for token in document.get("added_tokens") or ()}
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise ConfigError("whole_words of MaskedLM needs a tokenizer.json, such as the file next to a model of BERT") from None
    prefix = model.get("continuing_subword_prefix")
    if prefix:
        return [id for token, id in pairs if token.startswith(prefix) and token not in added]
    starts = _starts(document)
    if starts is None:
        raise ConfigError(
            "the vocabulary of the tokenizer marks neither the beginning nor the continuation of a word: pass the ids of the tokens that "
            "continue a word as whole_words of MaskedLM"
        )
    return [id for token, id in pairs if not token.startswith(starts) and token not in added]


def _starts(document: dict[str, Any]) -> tuple[str, ...] | None:
    """Returns the characters that begin a word in the vocabulary; None if there are none."""
    parts = json.dumps([document.get(part) for part in ("normalizer", "pre_tokenizer")], ensure_ascii=False)
    found: Sequence[tuple[str, ...]] = [starts for name, starts in _MARKS.items() if name in parts]
    return found[0] if found and not document["model"].get("end_of_word_suffix") else None
