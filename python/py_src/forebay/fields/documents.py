"""Changes of the token ids of a document."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .._arguments import none_or, real, several, shown, whole
from ..errors import ConfigError
from .base import Described, own_tokenizer
from .vocabulary import contents_of, continuing_ids

_ID_MAX = 1 << 32
"""Above every token id."""


_id = partial(whole, below=_ID_MAX)
_ENDS = dict.fromkeys(("bos", "eod"), partial(none_or, _id))


def _ids(name: str, ids: Any) -> list[int]:
    """Checks a list of token ids."""
    option, _, owner = name.partition(" ")
    return [_id(f"{option}[{place}] {owner}", id) for place, id in enumerate(several(name, ids, "token ids"))]


def _probability(name: str, value: Any) -> float:
    """Checks a probability."""
    expected = "a probability, from 0 to 1"
    probability = real(name, value, expected, 0)
    if probability > 1:
        raise ConfigError(f"{name} is {expected}, but it is {shown(value)}")
    return probability


class FillInMiddle(Described, kw_only=True, elsewhere={"fim_rate": "rate", "fim_spm_rate": "spm_rate"}):
    """Fill-in-the-middle: the middle of a document is moved to its end, so that a model learns to fill gaps.

        Tokens("ids", fim=FillInMiddle(rate=0.5, prefix=1, middle=2, suffix=3, eod=0))

    Two positions between tokens are drawn, and cut a document into prefix, middle and suffix. PSM has them in the order
    `<prefix> prefix <suffix> suffix <middle> middle`, SPM in the order `<prefix> <suffix> suffix <middle> prefix middle`, as in
    Megatron and StarCoder. A document has three tokens more then; documents of fewer than three tokens stay as they are. The draws belong
    to the document and the epoch, so they are the same on any number of ranks and after a resume, and packs count the tokens.

    Args:
        rate: Probability that a document is rearranged.
        spm_rate: Probability that a rearranged document is in the order SPM, and not PSM.
        prefix: Token id before the prefix.
        middle: Token id before the middle.
        suffix: Token id before the suffix.
        bos: Token id that stays the first one, where a document begins with it.
        eod: Token id that stays the last one, where a document ends with it.
    """

    rate: float
    spm_rate: float = 0.5
    prefix: int
    middle: int
    suffix: int
    bos: int | None = None
    eod: int | None = None

    _KEY = None
    _CHECKS = dict.fromkeys(("rate", "spm_rate"), _probability) | dict.fromkeys(("prefix", "middle", "suffix"), _id) | _ENDS


_OF_COLLATORS = {
    "mlm_probability": "probability",
    "mask_token_id": "mask",
    "mask_replace_prob": "mask_replace",
    "random_replace_prob": "random_replace",
    "whole_word_mask": "whole_words",
}


class MaskedLM(Described, kw_only=True, elsewhere=_OF_COLLATORS):
    """Masked language modelling: tokens are drawn, and a model such as BERT predicts them from the rest.

        Tokens("ids", 512, pad=0, mask=MaskedLM(mask=103, vocab_size=30_522, special=[101, 102]))

    The field has masked ids, and the batch has an output `labels` next to it: the drawn tokens, and -100 for the rest and for padding. The
    draws belong to the document and the epoch, so they are the same on any number of ranks and after a resume, and differ in each epoch.

    Args:
        mask: Token id of the mask.
        vocab_size: Random token ids are below it.
        probability: Probability that a token is drawn.
        mask_replace: Part of the drawn tokens that become the mask.
        random_replace: Part of the drawn tokens that become a random token. The rest of them stays.
        special: Token ids that are never drawn.
        whole_words: Draw whole words instead of tokens, so that all tokens of a drawn word have labels. True, of a `Tokenize`: the words of
            its tokenizer, where tokens such as "##ing" continue a word of BERT, and tokens without a space before them a word of byte-level and
            SentencePiece vocabularies. Or the path, URL or contents of such a `tokenizer.json`, or the ids of the tokens that continue a word.
    """

    mask: int
    vocab_size: int
    probability: float = 0.15
    mask_replace: float = 0.8
    random_replace: float = 0.1
    special: Sequence[int] = ()
    whole_words: bool | str | os.PathLike[str] | bytes | Sequence[int] = False

    _KEY = None
    _CHECKS = dict.fromkeys(("probability", "mask_replace", "random_replace"), _probability) | {
        "mask": _id,
        "vocab_size": partial(whole, least=1, below=_ID_MAX),
        "special": _ids,
        "whole_words": lambda name, value: None,  # It needs the field.
    }

    def _spec(self, tokenizer: Callable[[], str] | None = None) -> dict[str, Any]:
        """Returns the engine's form. `tokenizer` returns the contents of the field's own, if it has one."""
        spec = super()._spec()
        words = self.whole_words
        if words is True:
            if tokenizer is None:
                raise ConfigError(
                    "whole_words=True of MaskedLM has the words of a Tokenize field's tokenizer.json: pass the path of a tokenizer.json, or the "
                    "ids of the tokens that continue a word"
                )
            words = continuing_ids(tokenizer())
        elif isinstance(words, (str, bytes, os.PathLike)):
            words = continuing_ids(contents_of("MaskedLM", words))
        return spec if words is False else spec | {"continues": _ids("whole_words of MaskedLM", words)}


_OPTIONS = {
    "fim": (FillInMiddle, "rate=0.5, prefix=1, middle=2, suffix=3"),
    "mask": (MaskedLM, "mask=103, vocab_size=30_522"),
}
"""Options that change the ids of a document: the class of each, and an example of its arguments."""


def spec_of_changes(field: Any) -> dict[str, Any]:
    """Returns the engine's form of the options of a field that change the ids of documents."""
    spec: dict[str, Any] = {}
    for option, (cls, example) in _OPTIONS.items():
        value = getattr(field, option)
        if value is None:
            continue
        if not isinstance(value, cls):
            article = f"{option} of {type(field).__name__} is a {cls.__name__}"
            raise ConfigError(f"{article}, such as {cls.__name__}({example}), but it is {shown(value)}")
        spec[option] = value._spec(own_tokenizer(field)) if isinstance(value, MaskedLM) else value._spec()
    return spec
