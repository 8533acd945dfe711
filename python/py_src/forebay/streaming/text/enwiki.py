"""English Wikipedia, tokenised and masked for BERT."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._ready_made import ReadyMadeDataset
from ..base.dataset import StreamingDataset as StreamingDataset

__all__ = ["StreamingEnWiki"]

_IGNORED = -100
"""Label of a token that is not masked; losses ignore it."""


class StreamingEnWiki(ReadyMadeDataset):
    """Masked sequences in the form of MLPerf's BERT: columns are bytes of int32, `masked_lm_weights` of float32.

    Arguments as for `ReadyMadeDataset`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        names = ("input_ids", "input_mask", "attention_mask", "segment_ids", "token_type_ids", "masked_lm_positions")
        names += ("masked_lm_ids", "next_sentence_labels", "labels")
        self.field_dtypes = {**dict.fromkeys(names, np.int32), "masked_lm_weights": np.float32}

    def get_item(self, idx: int, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Returns arrays of one length: `input_ids`, `token_type_ids`, `attention_mask` (int32) and `labels`
        (int64)."""
        sample = super().get_item(idx, *args, **kwargs)
        fields = {name: np.frombuffer(value, self.field_dtypes[name]) for name, value in sample.items()}
        labels = np.full(len(fields["input_ids"]), _IGNORED)
        labels[fields["masked_lm_positions"]] = fields["masked_lm_ids"]
        return {
            "input_ids": fields["input_ids"].copy(),
            "token_type_ids": fields["segment_ids"].copy(),
            "attention_mask": fields["input_mask"].copy(),
            "labels": labels,
        }
