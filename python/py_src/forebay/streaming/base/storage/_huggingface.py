"""Data sets on Hugging Face's hub, with its library. URLs are hf://datasets/organisation/name/path."""

from __future__ import annotations

import os
import shutil
import tempfile
import urllib.parse
from collections.abc import Callable

from ._downloader import CloudDownloader
from ._uploader import CloudUploader

__all__ = ["HFDownloader", "HFUploader"]


class HFUploader(CloudUploader):
    """Uploads to a data set of the hub, with the token HF_TOKEN; arguments as for `CloudUploader`."""

    def _connect(self) -> None:
        import huggingface_hub

        self.api = huggingface_hub.HfApi()
        self.fs = huggingface_hub.HfFileSystem(token=os.environ.get("HF_TOKEN"))
        if urllib.parse.urlparse(self.remote).scheme != "hf":
            raise ValueError(f"Expected remote path to start with `hf://`, got {self.remote}.")
        _, _, _, self.repo_org, self.repo_name, self.path = self.remote.split("/", 5)
        self.dataset_id = f"{self.repo_org}/{self.repo_name}"
        self.check_dataset_exists()

    def check_dataset_exists(self) -> None:
        """Raises FileNotFoundError if the data set does not exist."""
        import huggingface_hub

        try:
            list(huggingface_hub.list_repo_tree(self.dataset_id, repo_type="dataset"))
        except Exception as error:
            raise FileNotFoundError(
                f"The HF dataset {self.dataset_id} could not be found. Please make sure that the dataset exists and you "
                "have the correct access permissions."
            ) from error

    def _upload(self, local: str, remote: str, advance: Callable[[int], object]) -> None:
        target = os.path.join("datasets", self.dataset_id, self.path, os.path.basename(remote))
        with open(local, "rb") as data, self.fs.open(target, "wb") as file:
            shutil.copyfileobj(data, file)
        advance(os.stat(local).st_size)


class HFDownloader(CloudDownloader):
    """Fetches from a data set of the hub."""

    @staticmethod
    def _client_identifier() -> str:
        return "hf"

    def clean_up(self) -> None:
        pass

    def _download_file_impl(self, remote: str, local: str, timeout: float) -> None:
        _, _, _, organisation, name, filename = remote.split("/", 5)
        from huggingface_hub import hf_hub_download

        # Into a folder of our own, because the hub's cache would keep every shard forever.
        with tempfile.TemporaryDirectory(prefix=".hub-", dir=os.path.dirname(local)) as folder:
            fetched = hf_hub_download(
                f"{organisation}/{name}", filename, repo_type="dataset", etag_timeout=timeout, local_dir=folder
            )
            os.replace(fetched, local)
