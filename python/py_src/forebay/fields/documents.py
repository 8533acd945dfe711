"""Changes of the token ids of a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._arguments import by_name, real, shown, whole
from ..errors import ConfigError

__all__ = ["FillInMiddle", "spec_of_fim"]

_ID_MAX = 1 << 32
"""Above every token id."""


@by_name(fim_rate="rate", fim_spm_rate="spm_rate")
@dataclass(frozen=True, kw_only=True)
class FillInMiddle:
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

    def _spec(self) -> dict[str, Any]:
        """Returns the engine's form."""
        spec: dict[str, Any] = {name: _probability(f"{name} of FillInMiddle", getattr(self, name)) for name in ("rate", "spm_rate")}
        for name in ("prefix", "middle", "suffix", "bos", "eod"):
            value = getattr(self, name)
            if value is not None or name in ("prefix", "middle", "suffix"):
                spec[name] = whole(f"{name} of FillInMiddle", value, 0, _ID_MAX)
        return spec


def _probability(name: str, value: Any) -> float:
    """Checks a probability."""
    expected = "a probability, from 0 to 1"
    probability = real(name, value, expected, 0)
    if probability > 1:
        raise ConfigError(f"{name} is {expected}, but it is {shown(value)}")
    return probability


def spec_of_fim(kind: str, fim: Any) -> dict[str, Any]:
    """Returns the engine's form of the option `fim` of a field of this kind, as a part of the field's."""
    if fim is None:
        return {}
    if not isinstance(fim, FillInMiddle):
        raise ConfigError(f"fim of {kind} is a FillInMiddle, such as FillInMiddle(rate=0.5, prefix=1, middle=2, suffix=3), but it is {shown(fim)}")
    return {"fim": fim._spec()}
