"""Composer's callback that saves checkpoints."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

from composer.callbacks import CheckpointSaver as _CheckpointSaver
from composer.utils import dist, format_name_with_dist, format_name_with_dist_and_time, partial_format, reproducibility
from composer.utils.checkpoint import glob_filter

from ... import checkpoint as checkpoints
from ..._arguments import flag, text, whole
from ...checkpoint import group
from ...checkpoint.commit import folder_of
from ...checkpoint.folder import plain_state
from ...errors import AccessError, ConfigError
from ...files import StoreOptions, remove_files
from ...files import open as open_file
from .object_store import LATEST, ObjectStore

__all__ = ["CheckpointSaver"]

_ONE_FOR_ALL = {"rank": 0, "local_rank": 0, "node_rank": 0}
"""Variables of names, which are equal on all ranks: there is one checkpoint, by rank 0."""

_OF_WEIGHTS = ("model", "integrations", "metadata")
"""Parts of the state that Composer saves with `weights_only`."""


class CheckpointSaver(_CheckpointSaver):
    """Callback of Composer's Trainer, instead of `save_folder`, that saves checkpoints to every store with a commit.

    A checkpoint is whole or absent. It is a folder of `forebay.checkpoint`, and its functions list and remove it. With
    `autoresume=True` and a `run_name` the Trainer resumes from the newest whole one of `folder`. For `load_path` pass an
    `ObjectStore` as `load_object_store`. The Trainer's remaining arguments that begin with `save_` have no effect.

    Models sharded by FSDP are gathered: set `state_dict_type` to "full".

    Args:
        folder: URL or path of the folder of the run, such as "s3://bucket/{run_name}". It takes the variables of Composer's.
        filename: Name of a checkpoint, with Composer's variables. Ranks share it, so `{rank}` is 0.
        save_interval: As in Composer: "1ep", "1000ba", or a function.
        overwrite: Replace a checkpoint of the same name, which stays whole until the commit. It also allows a run to start
            before the last checkpoint of its folder.
        keep: Checkpoints in `folder` that stay after the commit of a new one; older ones are removed. None: all.
        weights_only: Save only the model.
        ignore_keys: As in Composer: patterns of the keys that are left out, or a function that removes them.
        wait: Wait for the commit. Without it, training continues as soon as the state is copied to host memory, and the end
            of training waits.
        store: Settings of the store that differ from the environment's.
    """

    def __init__(
        self,
        folder: Any,
        filename: str = "ep{epoch}-ba{batch}",
        save_interval: Any = "1ep",
        *,
        overwrite: bool = False,
        keep: int | None = None,
        weights_only: bool = False,
        ignore_keys: list[str] | Callable[[dict[str, Any]], None] | None = None,
        wait: bool = False,
        store: StoreOptions | None = None,
    ) -> None:
        self.url = partial_format(folder_of("folder", folder), **_ONE_FOR_ALL)
        self._name = partial_format(text("filename", filename), **_ONE_FOR_ALL).strip("/")
        self._keep = None if keep is None else whole("keep", keep, least=1)
        self._wait, self._store = flag("wait", wait), store
        # The Trainer downloads the checkpoint that it resumes from to this folder.
        self._downloads = tempfile.TemporaryDirectory(prefix="forebay-composer-")
        super().__init__(
            self._downloads.name,
            self._name,
            remote_file_name=None,
            latest_filename=LATEST,
            latest_remote_file_name=LATEST,
            save_interval=save_interval,
            overwrite=flag("overwrite", overwrite),
            weights_only=flag("weights_only", weights_only),
            ignore_keys=ignore_keys,
        )

    def init(self, state: Any, logger: Any) -> None:
        """Finds the run's name, which `folder` may have."""
        self.url: str = format_name_with_dist(self.url, state.run_name)
        self.remote_uploader: Any = _Uploader(ObjectStore(self.url, self._store))
        super().init(state, logger)

    def after_load(self, state: Any, logger: Any) -> None:
        """Removes the copy of the checkpoint that the run resumes from."""
        if dist.get_local_rank() == 0 and state.load_path is not None:
            folder, name = os.path.split(state.load_path)
            # The folder is rank 0's on all machines.
            if name == LATEST and os.path.basename(folder).startswith("forebay-composer-"):
                with contextlib.suppress(FileNotFoundError):
                    os.remove(state.load_path)

    def fit_start(self, state: Any, logger: Any) -> None:
        """Fails now where a save would fail after hours.

        Raises:
            ConfigError: A checkpoint of the folder is ahead of this run; or the model is saved in shards.
            AccessError: The store denies writing.
        """
        if state.fsdp_sharded_state_dict_enabled:
            raise ConfigError(
                'this CheckpointSaver saves no shards of FSDP: set state_dict_type="full" in parallelism_config["fsdp"], or save '
                "with Composer's save_folder"
            )
        batch = int(state.timestamp.batch)
        group.current().first(lambda: self._check(batch))
        super().fit_start(state, logger)

    def _check(self, batch: int) -> None:
        mark = f"{self.url}/.writable"
        with open_file(mark, "wb", store=self._store):
            pass
        with contextlib.suppress(AccessError):
            remove_files([mark], store=self._store)
        if not self.overwrite:
            for each in checkpoints.steps(self.url, store=self._store):
                if each.step is not None and each.step > batch:
                    raise ConfigError(
                        f"{each.url} is ahead of this run, which starts after batch {batch}: save to a different folder, resume with "
                        "autoresume=True, or pass overwrite=True"
                    )

    def _save_checkpoint(self, state: Any, logger: Any) -> None:
        # Composer's class calls it for its events, and the Trainer for `save_checkpoint_to_save_folder`.
        self.last_checkpoint_batch: Any = state.timestamp.batch
        url = f"{self.url}/{format_name_with_dist_and_time(self._name, state.run_name, state.timestamp)}"
        # Before the state is taken, which has it, as Composer's has.
        self.all_saved_checkpoints_to_timestamp[url] = state.timestamp
        saved = self._state_of(state)
        # An error of the last save is raised by this one.
        self.remote_uploader.last = None
        last = checkpoints.save(
            saved,
            url,
            step=int(state.timestamp.batch),
            data=_data_of(saved),
            metadata={"run_name": state.run_name, "epoch": int(state.timestamp.epoch)},
            overwrite=self.overwrite,
            keep=self._keep,
            wait=self._wait,
            store=self._store,
        )
        self.remote_uploader.last = None if self._wait else last
        self.saved_checkpoints.append(url)

    def _state_of(self, state: Any) -> dict[str, Any]:
        """Returns the dict that Composer saves. All ranks call it."""
        found = state.state_dict()
        if self.weights_only:
            result = {"state": {name: found[name] for name in _OF_WEIGHTS}}
        else:
            result = {"state": found, "rng": reproducibility.get_rng_state()}
        if self.ignore_keys:
            remove = self.ignore_keys if callable(self.ignore_keys) else glob_filter(self.ignore_keys)
            remove(result)
            result.setdefault("state", {})
        return result


def _data_of(saved: dict[str, Any]) -> Any:
    """Returns the state of the train data set for the commit, None if it cannot be there."""
    try:
        return plain_state((saved["state"].get("dataset_state") or {}).get("train"))
    except ConfigError:
        # The state of a different library, which is no JSON. It is in the checkpoint's part.
        return None


class _Uploader:
    """Functions of Composer's RemoteUploader that its Trainer and its CheckpointSaver call."""

    def __init__(self, store: ObjectStore) -> None:
        self.remote_backend: ObjectStore = store
        self.last: Any = None

    def init(self) -> None:
        """Does nothing: `fit_start` checks the access."""

    def check_workers(self) -> None:
        """Does nothing: all ranks have to raise the error of a save at the same point, which is the next save."""

    def wait(self) -> None:
        """Waits for the last save, and raises its error."""
        last, self.last = self.last, None
        if last is not None:
            last.wait()

    wait_and_close = wait
