"""Base class of texts that are tokenised at read time."""

from __future__ import annotations

from typing import Any

from .._ready_made import ReadyMadeDataset

__all__ = ["TokenisedDataset"]


class TokenisedDataset(ReadyMadeDataset):
    """Column `text`, tokenised, and cut or padded to one length.

    Args:
        tokenizer_name: Name or folder of a Hugging Face tokenizer.
        max_seq_len: Tokens of each sample.
        group_method: Treatment of longer texts: "truncate".
        **kwargs: As for `ReadyMadeDataset`.

    Raises:
        ValueError: There is no such `group_method`.
    """

    def __init__(self, *, tokenizer_name: str, max_seq_len: int, group_method: str, **kwargs: Any) -> None:
        if group_method != "truncate":
            raise ValueError(f"group_method='{group_method}' must be one of {{'truncate'}}.")
        super().__init__(**kwargs)
        from transformers import AutoTokenizer

        self.tokenizer_name = tokenizer_name
        self.max_seq_len = max_seq_len
        self.group_method = group_method
        self.tokenizer = AutoTokenizer.from_pretrained(tokenizer_name)
        if self.tokenizer.pad_token is None:
            # GPT-2's tokenizer has no padding token, and a batch needs one length.
            self.tokenizer.pad_token = self.tokenizer.eos_token

    def get_item(self, idx: int, *args: Any, **kwargs: Any) -> Any:
        """Returns the tokenizer's output for a text."""
        sample = super().get_item(idx, *args, **kwargs)
        return self.tokenizer(sample["text"], truncation=True, padding="max_length", max_length=self.max_seq_len)
