"""Base class of uploaders, and the choice of an uploader by the scheme of a URL."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import shutil
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator

from ...._forebay import redact
from .._retry import retry as attempts
from ._secrets import without_secrets

__all__ = ["UPLOADERS", "CloudUploader", "LocalUploader"]

# The module by which programs know the classes.
logger = logging.getLogger(f"{__package__}.upload")

UPLOADERS = {
    "s3": "S3Uploader",
    "gs": "GCSUploader",
    "oci": "OCIUploader",
    "hf": "HFUploader",
    "azure": "AzureUploader",
    "azure-dl": "AzureDataLakeUploader",
    "dbfs:/Volumes": "DatabricksUnityCatalogUploader",
    "dbfs": "DBFSUploader",
    "alipan": "AlipanUploader",
    "": "LocalUploader",
}
"""Names of the classes in the module `upload` by scheme."""


class CloudUploader:
    """Uploader of the files of one folder. A subclass makes its client in `_connect`, uploads a file in `_upload` and
    lists files in `_list`. Errors of the client are raised without the secrets of the remote folder's URL.

    Args:
        out: Local folder, remote folder, or a pair of both. A remote folder alone uses a temporary folder.
        keep_local: Keep local files after their upload.
        progress_bar: Show uploads.
        retry: Attempts of an upload.
        exist_ok: Accept a local folder that is not empty.

    Raises:
        FileExistsError: The local folder is not empty.
        ValueError: `out` is invalid, or its scheme is unknown.
    """

    def __init__(
        self,
        out: str | tuple[str, str],
        keep_local: bool = False,
        progress_bar: bool = False,
        retry: int = 2,
        exist_ok: bool = False,
    ) -> None:
        self._validate(out)
        self.keep_local = keep_local
        self.progress_bar = progress_bar
        self.retry = retry
        self.local: str
        self.remote: str | None
        if not isinstance(out, str):
            self.local, self.remote = out
        elif urllib.parse.urlparse(out).scheme:
            self.local, self.remote = tempfile.mkdtemp(), out
        else:
            self.local, self.remote = out, None
        if os.path.exists(self.local) and os.listdir(self.local) and not exist_ok:
            raise FileExistsError(f"Directory is not empty: {self.local}")
        os.makedirs(self.local, exist_ok=True)
        with without_secrets(self.remote):
            self._connect()

    def _connect(self) -> None:
        """Makes the client of the store and checks that the target exists; the last step of the constructor."""

    @classmethod
    def get(
        cls,
        out: str | tuple[str, str],
        keep_local: bool = False,
        progress_bar: bool = False,
        retry: int = 2,
        exist_ok: bool = False,
    ) -> CloudUploader:
        """Returns the uploader for `out`; arguments and errors are as for the class."""
        cls._validate(cls, out)
        remote = out if isinstance(out, str) else out[1]
        scheme = urllib.parse.urlparse(remote).scheme
        name = UPLOADERS["dbfs:/Volumes" if remote.startswith("dbfs:/Volumes") else scheme]
        # In the module where programs replace a class, or add one.
        cls = getattr(importlib.import_module(f"{__package__}.upload"), name)
        return cls(out, keep_local, progress_bar, retry, exist_ok)

    def _validate(self: CloudUploader | type[CloudUploader], out: str | tuple[str, str]) -> None:
        if not isinstance(out, str) and len(out) != 2:
            raise ValueError(
                "Invalid `out` argument. It is either a string of local/remote directory or a list of two strings with "
                "[local, remote]."
            )
        scheme = urllib.parse.urlparse(out if isinstance(out, str) else out[1]).scheme
        if scheme not in UPLOADERS:
            raise ValueError(f"Invalid Cloud provider prefix: {scheme}.")

    def upload_file(self, filename: str) -> None:
        """Uploads a file of the local folder in up to `retry` attempts.

        Args:
            filename: Name relative to the folder.
        """
        local = os.path.join(self.local, filename)
        remote = os.path.join(self.remote or "", filename)

        def upload() -> None:
            logger.debug("uploading to %s", redact(remote))
            with without_secrets(self.remote), self._progress(local, remote) as advance:
                self._upload(local, remote, advance)
            self.clear_local(local)

        attempts(num_attempts=self.retry)(upload)()

    def _upload(self, local: str, remote: str, advance: Callable[[int], object]) -> None:
        """Uploads a file once; `advance` is called with the number of bytes sent."""
        raise NotImplementedError(f"{type(self).__name__}.upload_file is not implemented")

    @contextlib.contextmanager
    def _progress(self, local: str, remote: str) -> Iterator[Callable[[int], object]]:
        if not self.progress_bar:
            yield lambda _: None
            return
        import tqdm

        size = os.stat(local).st_size
        with tqdm.tqdm(total=size, unit="B", unit_scale=True, desc=f"Uploading to {redact(remote)}") as bar:
            yield bar.update

    def list_objects(self, prefix: str | None = None) -> list[str]:
        """Returns the keys of the store below the folder for which the rest of the key starts with `prefix`."""
        with without_secrets(self.remote):
            return self._list(prefix)

    def _list(self, prefix: str | None) -> list[str]:
        """Returns the result of `list_objects`."""
        raise NotImplementedError(f"{type(self).__name__}.list_objects is not implemented")

    def clear_local(self, local: str) -> None:
        """Removes a local file, unless local files are kept."""
        if not self.keep_local and os.path.isfile(local):
            os.remove(local)


class LocalUploader(CloudUploader):
    """Copies files to a second local folder; does nothing if there is only one."""

    def _connect(self) -> None:
        if self.remote is not None:
            os.makedirs(self.remote, exist_ok=True)

    def upload_file(self, filename: str) -> None:
        if self.remote is not None:
            super().upload_file(filename)

    def _upload(self, local: str, remote: str, advance: Callable[[int], object]) -> None:
        shutil.copy(local, f"{remote}.tmp")
        os.replace(f"{remote}.tmp", remote)
        advance(os.stat(remote).st_size)

    def list_objects(self, prefix: str | None = None) -> list[str]:
        """Returns the sorted paths of the files in the local folder for which the rest of the path starts with `prefix`."""
        start = os.path.join(self.local, prefix or "")
        paths = (os.path.join(folder, file) for folder, _, files in os.walk(self.local) for file in files)
        return sorted(path for path in paths if path.startswith(start))
