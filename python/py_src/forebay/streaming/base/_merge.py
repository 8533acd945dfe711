"""Merging of the indexes of a data set that was written in parts, each in a separate folder."""

from __future__ import annotations

import json
import logging
import os
import shutil
import urllib.parse
from collections.abc import Sequence
from typing import Any

from ..._forebay import redact, redact_in
from ..._arguments import shown
from ._scratch import scratch_folder
from .format.index import get_index_basename
from .storage import download, upload

# The module by which programs know the functions.
logger = logging.getLogger(f"{__package__}.util")

_FILES = ("raw_data", "zip_data", "raw_meta", "zip_meta")


def merge_index(*args: Any, **kwargs: Any) -> None:
    """Writes an index of all shards in the indexes of the parts.

        merge_index(index_file_urls, out, keep_local=True, download_timeout=60)
        merge_index(out, keep_local=True, download_timeout=60)

    Args:
        *args: `index_file_urls`: the parts' indexes: local paths, remote ones, or pairs of both. Of a pair the local
            one is read if it exists. `out`: folder with the parts' folders, for the merged index: local, remote, or a
            pair of both. Without `index_file_urls` every index below it belongs to a part.
        **kwargs: `keep_local` (True): keep the local folder; False removes a local `out`. `download_timeout` (60):
            timeout of each index in seconds.

    Raises:
        FileNotFoundError: An index is missing, and its remote is not a URL.
        RuntimeError: An index could not be fetched.
        ValueError: The arguments are neither of the two forms.
    """
    if args and isinstance(args[0], list) and len(args) + len(kwargs) in (2, 3, 4):
        _merge_index_from_list(*args, **kwargs)
    elif args and isinstance(args[0], (str, tuple)) and len(args) + len(kwargs) in (1, 2, 3):
        _merge_index_from_root(*args, **kwargs)
    else:
        raise ValueError(f"Invalid arguments to merge_index: {shown(args)}, {shown(kwargs)}")


def _merge_index_from_list(
    index_file_urls: Sequence[str | tuple[str, str]],
    out: str | tuple[str, str],
    keep_local: bool = True,
    download_timeout: int = 60,
) -> None:
    if not index_file_urls or not out:
        logger.warning("No index merged: both index_file_urls and out have to be given")
        return
    uploader = upload.CloudUploader.get(out, keep_local=True, exist_ok=True)
    shards: list[dict[str, Any]] = []
    with scratch_folder() as folder:
        # Each once, in the given order.
        for url in dict.fromkeys(index_file_urls):
            path = _fetch(url, folder, download_timeout)
            with open(path, encoding="utf-8") as file:
                part = json.load(file)
            shards += [_moved(shard, os.path.basename(os.path.dirname(path))) for shard in part["shards"]]
        merged = os.path.join(folder, get_index_basename())
        with open(merged, "w", encoding="utf-8") as file:
            json.dump({"version": 2, "shards": shards}, file)
        # Renamed when complete, so a partial file never has this name.
        target = os.path.join(uploader.local, get_index_basename())
        shutil.copyfile(merged, f"{target}.tmp")
        os.replace(f"{target}.tmp", target)
    if uploader.remote is not None:
        uploader.upload_file(get_index_basename())
    if not keep_local:
        shutil.rmtree(uploader.local, ignore_errors=True)


def _fetch(url: str | tuple[str, str], folder: str, timeout: float) -> str:
    """Copies a part's index below `folder`, in a folder of the part's name."""
    local, remote = (url, None) if isinstance(url, str) else url
    source = local.rstrip("/").strip()
    if remote is not None and not os.path.exists(source):
        source = remote.rstrip("/").strip()
    if not source:
        raise FileNotFoundError(
            f"Check data availability! local index {local} is not accessible, and remote index {remote} is no URL"
        )
    target = os.path.join(folder, urllib.parse.urlparse(source).path.lstrip("/"))
    try:
        download.CloudDownloader.direct_download(source, target, timeout)
    except Exception as error:
        shown_target = redact_in(target, source)
        raise RuntimeError(f"Failed to download index.json: {redact(source)} to {shown_target}") from error
    return target


def _moved(shard: dict[str, Any], folder: str) -> dict[str, Any]:
    """Returns a shard's entry with paths relative to the parent of `folder`."""
    files = {
        name: {**shard[name], "basename": os.path.join(folder, shard[name]["basename"])}
        for name in _FILES
        if shard.get(name)
    }
    return {**shard, **files}


def _merge_index_from_root(out: str | tuple[str, str], keep_local: bool = True, download_timeout: int = 60) -> None:
    if not out:
        logger.warning("No index merged: no folder is given")
        return
    uploader = upload.CloudUploader.get(out, exist_ok=True, keep_local=True)
    below = upload.CloudUploader.get(uploader.local, exist_ok=True, keep_local=True).list_objects()
    urls: list[Any] = [path for path in below if path.endswith(".json") and _not_merged_index(path, uploader.local)]
    if uploader.remote is not None:
        remote = _format_remote_index_files(uploader.remote, uploader.list_objects())
        urls = list(zip(urls, remote)) if len(urls) == len(remote) else remote
    _merge_index_from_list(urls, out, keep_local=keep_local, download_timeout=download_timeout)


def _not_merged_index(index_file_path: str, out: str) -> bool:
    """Returns true if an index is in a sub-folder of `out`, and not in `out` itself like the merged one."""
    return os.path.dirname(index_file_path).strip("/") != urllib.parse.urlparse(out).path.strip("/")


def _format_remote_index_files(remote: str, files: list[str]) -> list[str]:
    """Returns the URLs of the parts' indexes among the keys below `remote`."""
    url = urllib.parse.urlparse(remote)
    between = ":/" if remote.startswith("dbfs:/Volumes") else "://"
    return [
        url.scheme + between + os.path.join(url.netloc, file)
        for file in files
        if file.endswith(get_index_basename()) and _not_merged_index(file, remote)
    ]
