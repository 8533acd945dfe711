"""Base class of the ready-made data sets. They have the arguments and defaults of their first release, which differ
from `StreamingDataset`'s."""

from __future__ import annotations

from .base.dataset import StreamingDataset

__all__ = ["ReadyMadeDataset"]


class ReadyMadeDataset(StreamingDataset):
    """`StreamingDataset` of one stream with the partitioning "orig", the shuffle "py1s" and a shuffle block of 2**18.

    Args:
        remote: As for `StreamingDataset`, like all arguments.
        local: As above.
        split: As above.
        download_retry: As above.
        download_timeout: As above.
        validate_hash: As above.
        keep_zip: As above.
        epoch_size: As above.
        predownload: As above.
        cache_limit: As above.
        partition_algo: As above.
        num_canonical_nodes: As above.
        batch_size: As above.
        shuffle: As above.
        shuffle_algo: As above.
        shuffle_seed: As above.
        shuffle_block_size: As above.
    """

    def __init__(
        self,
        *,
        remote: str | None = None,
        local: str | None = None,
        split: str | None = None,
        download_retry: int = 2,
        download_timeout: float = 60,
        validate_hash: str | None = None,
        keep_zip: bool = False,
        epoch_size: int | None = None,
        predownload: int | None = None,
        cache_limit: int | None = None,
        partition_algo: str = "orig",
        num_canonical_nodes: int | None = None,
        batch_size: int | None = None,
        shuffle: bool = False,
        shuffle_algo: str = "py1s",
        shuffle_seed: int = 9176,
        shuffle_block_size: int = 1 << 18,
    ) -> None:
        super().__init__(
            remote=remote,
            local=local,
            split=split,
            download_retry=download_retry,
            download_timeout=download_timeout,
            validate_hash=validate_hash,
            keep_zip=keep_zip,
            epoch_size=epoch_size,
            predownload=predownload,
            cache_limit=cache_limit,
            partition_algo=partition_algo,
            num_canonical_nodes=num_canonical_nodes,
            batch_size=batch_size,
            shuffle=shuffle,
            shuffle_algo=shuffle_algo,
            shuffle_seed=shuffle_seed,
            shuffle_block_size=shuffle_block_size,
        )
