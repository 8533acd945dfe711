"""WebVid: videos with a sentence each."""

from __future__ import annotations

import os
from typing import Any

from .._ready_made import ReadyMadeDataset
from ..base.dataset import StreamingDataset
from ..base.storage import CloudDownloader

__all__ = ["StreamingInsideWebVid", "StreamingOutsideDTWebVid", "StreamingOutsideGIWebVid"]


class StreamingInsideWebVid(StreamingDataset):
    """WebVid as `multimodal.convert.webvid.crawl_webvid` writes it, the videos in the column `content`; arguments as for
    `StreamingDataset`."""


class StreamingOutsideGIWebVid(ReadyMadeDataset):
    """WebVid as `multimodal.convert.webvid.extract_webvid_videos` writes it: the videos are files of their own, fetched
    when their sample is asked for, and come in `content`.

    Args:
        extra_local: The folder in which the videos are kept.
        extra_remote: Where they come from. Without the two, samples have no `content`.
        **kwargs: As for `ReadyMadeDataset`.
    """

    def __init__(self, *, extra_local: str | None = None, extra_remote: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.download_timeout = kwargs.get("download_timeout", 60)
        self.extra_local = extra_local
        self.extra_remote = extra_remote
        self._extra_downloader = CloudDownloader.get(extra_remote)

    def get_item(self, sample_id: int, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The sample, with the bytes of its video in `content`."""
        sample = super().get_item(sample_id, *args, **kwargs)
        if self.extra_local and self.extra_remote:
            local = os.path.join(self.extra_local, sample["content_path"])
            remote = os.path.join(self.extra_remote, sample["content_path"])
            self._extra_downloader.download(remote, local, self.download_timeout)
            with open(local, "rb") as file:
                sample["content"] = file.read()
        return sample


class StreamingOutsideDTWebVid(StreamingOutsideGIWebVid):
    """The same under the name that the reference has for fetching videos ahead, which its releases no longer do; arguments
    as for `StreamingOutsideGIWebVid`."""
