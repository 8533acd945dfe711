"""WebVid: videos with one sentence each."""

from __future__ import annotations

import os
from typing import Any

from .._ready_made import ReadyMadeDataset
from ..base.dataset import StreamingDataset
from ..base.storage import CloudDownloader

__all__ = ["StreamingInsideWebVid", "StreamingOutsideDTWebVid", "StreamingOutsideGIWebVid"]


class StreamingInsideWebVid(StreamingDataset):
    """WebVid as written by `multimodal.convert.webvid.crawl_webvid`, with the videos in the column `content`; arguments
    as for `StreamingDataset`."""

    def get_item(self, idx: int, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Returns the sample."""
        return super().get_item(idx, *args, **kwargs)


class StreamingOutsideGIWebVid(ReadyMadeDataset):
    """WebVid as written by `multimodal.convert.webvid.extract_webvid_videos`: the videos are separate files. They are
    fetched with their sample and are in `content`.

    Args:
        extra_local: Local folder of the videos.
        extra_remote: Remote of the videos. Without the two, samples have no `content`.
        **kwargs: As for `ReadyMadeDataset`.
    """

    def __init__(self, *, extra_local: str | None = None, extra_remote: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.download_timeout = kwargs.get("download_timeout", 60)
        self.extra_local = extra_local
        self.extra_remote = extra_remote
        self._extra_downloader = CloudDownloader.get(extra_remote)

    def get_item(self, idx: int, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Returns the sample, with the bytes of its video in `content`."""
        sample = super().get_item(idx, *args, **kwargs)
        if self.extra_local and self.extra_remote:
            local = os.path.join(self.extra_local, sample["content_path"])
            remote = os.path.join(self.extra_remote, sample["content_path"])
            self._extra_downloader.download(remote, local, self.download_timeout)
            with open(local, "rb") as file:
                sample["content"] = file.read()
        return sample


class StreamingOutsideDTWebVid(StreamingOutsideGIWebVid):
    """Alias with the reference's name for prefetching of videos, which its releases no longer do; arguments as for
    `StreamingOutsideGIWebVid`."""
