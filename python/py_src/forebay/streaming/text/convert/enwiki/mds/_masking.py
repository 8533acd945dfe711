"""BERT's training samples: pairs of text, half of them from two documents, with some tokens masked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

Sentence = list[str]
Document = list[Sentence]

# Replacement of a token to predict: the mask, the token itself, else a random word.
_MASKED = 0.8
_KEPT = 0.5
_OTHER_DOCUMENTS = 10
"""Attempts to draw a different document."""


@dataclass
class Settings:
    """Settings of the samples."""

    max_seq_length: int
    """Tokens of a sample, with markers."""
    max_predictions_per_seq: int
    """Upper bound of the tokens to predict in a sample."""
    masked_lm_prob: float
    """Share of the tokens to predict."""
    short_seq_prob: float
    """Share of samples that are made shorter."""
    dupe_factor: int
    """Passes over each document, each with new masks."""


@dataclass
class Instance:
    """One sample."""

    tokens: list[str]
    segment_ids: list[int]
    """0 for the first text and 1 for the second."""
    masked_positions: list[int]
    masked_tokens: list[str]
    """Original tokens at these positions."""
    is_random_next: bool
    """True if the second text is from a different document."""


def make_instances(documents: list[Document], words: list[str], settings: Settings, rng: Random) -> list[Instance]:
    """Makes all samples, in a random order.

    Args:
        documents: Sentences of tokens.
        words: Vocabulary.
        settings: Settings of the samples.
        rng: Source of all random decisions.
    """
    documents = [document for document in documents if document]
    rng.shuffle(documents)
    instances = [
        _masked(first, second, is_random_next, words, settings, rng)
        for _ in range(settings.dupe_factor)
        for number in range(len(documents))
        for first, second, is_random_next in _pairs(documents, number, settings, rng)
    ]
    rng.shuffle(instances)
    return instances


def _pairs(
    documents: list[Document], number: int, settings: Settings, rng: Random
) -> Iterator[tuple[list[str], list[str], bool]]:
    """Yields pairs of text from a document, with a flag: the second is from a different document."""
    # A marker before the first text, and one after each text.
    room = settings.max_seq_length - 3
    length = rng.randint(2, room) if rng.random() < settings.short_seq_prob else room
    document = documents[number]
    at = 0
    while at < len(document):
        stop = _end_of_chunk(document, at, length)
        cut = at + (rng.randint(1, stop - at - 1) if stop - at >= 2 else 1)
        first = [token for sentence in document[at:cut] for token in sentence]
        is_random_next = stop - at == 1 or rng.random() < 0.5
        if is_random_next:
            second = _from_elsewhere(documents, number, length - len(first), rng)
            # The unused second part is left for the next pair.
            at = cut
        else:
            second = [token for sentence in document[cut:stop] for token in sentence]
            at = stop
        _shorten(first, second, room, rng)
        yield first, second, is_random_next


def _end_of_chunk(document: Document, start: int, length: int) -> int:
    """Returns the first sentence after `length` tokens from `start`, or the document's end."""
    tokens = 0
    for at in range(start, len(document)):
        tokens += len(document[at])
        if tokens >= length:
            return at + 1
    return len(document)


def _from_elsewhere(documents: list[Document], number: int, length: int, rng: Random) -> list[str]:
    """Returns at least `length` tokens of a different document from a random sentence, or all up to its end."""
    other = number
    for _ in range(_OTHER_DOCUMENTS):
        other = rng.randrange(len(documents))
        if other != number:
            break
    document = documents[other]
    start = rng.randrange(len(document))
    return [token for sentence in document[start : _end_of_chunk(document, start, length)] for token in sentence]


def _shorten(first: list[str], second: list[str], room: int, rng: Random) -> None:
    """Removes tokens from a random end of the longer text until both fit."""
    while len(first) + len(second) > room:
        longer = first if len(first) > len(second) else second
        del longer[0 if rng.random() < 0.5 else -1]


def _masked(
    first: list[str], second: list[str], is_random_next: bool, words: list[str], settings: Settings, rng: Random
) -> Instance:
    tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
    segment_ids = [0] * (len(first) + 2) + [1] * (len(second) + 1)
    candidates = [i for i, token in enumerate(tokens) if token not in ("[CLS]", "[SEP]")]
    wanted = max(1, round(len(tokens) * settings.masked_lm_prob))
    positions = sorted(rng.sample(candidates, min(wanted, settings.max_predictions_per_seq, len(candidates))))
    originals = [tokens[i] for i in positions]
    for i in positions:
        if rng.random() < _MASKED:
            tokens[i] = "[MASK]"
        elif rng.random() >= _KEPT:
            tokens[i] = rng.choice(words)
    return Instance(tokens, segment_ids, positions, originals, is_random_next)
