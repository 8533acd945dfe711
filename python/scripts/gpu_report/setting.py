"""Shared state of the parts: framework, device, amount of work and folders. Also makes the loaders of the parts."""

import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import tempfile
import typing

import forebay as fb

from .outcome import Skipped

PREFIX = "gpu-report-"
"""Prefix of scratch folders, followed by the pid of their process."""


@dataclasses.dataclass
class Setting:
    framework: typing.Any
    device: str
    scale: typing.Any
    scratch: pathlib.Path
    out: pathlib.Path | None = None
    """Folder of differing samples. None: they are not stored."""
    data: dict = dataclasses.field(default_factory=dict)
    """Data that was made, by name."""
    part: str = ""
    """Running part."""

    def needs(self, name):
        """Returns the data `name`.

        Raises:
            Skipped: It could not be made.
        """
        if name not in self.data:
            raise Skipped("its data could not be made")
        return self.data[name]

    def on_device(self, folder, **kwargs):
        """Makes a loader with batches of the framework on the device."""
        return loader(folder, self.device, self.framework.framework, **kwargs)

    def memory(self):
        """Returns the arguments of a loader of the scale's batches."""
        return "2gb" if self.scale.batch >= 64 else "256mb"


def crops(side):
    """Returns the fields of a training picture and its number."""
    return {
        "x": fb.Image("image", fb.RandomResizedCrop(side), fb.RandomHorizontalFlip()),
        "y": fb.Scalar("number", dtype="int64"),
    }


def loader(folder, device, framework, times=1, engine=None, **kwargs):
    """Makes a loader of a folder's shards, with repetitions of each sample. `engine` has options of `fb.Engine`."""
    source = {"local": folder} if times == 1 else {"streams": [fb.Stream(local=folder, repeat=times)]}
    kwargs = {"batch_size": 16, "shuffle": True, **source, **kwargs}
    engine = fb.Engine(**{"memory": "256mb", **(engine or {})})
    return fb.Loader(device=device, framework=framework, engine=engine, **kwargs)


def each(batches):
    """Yields the batches of an epoch without keeping one, unlike `zip` or `enumerate`."""
    iterator = iter(batches)
    while True:
        try:
            yield next(iterator)
        except StopIteration:
            return


@contextlib.contextmanager
def scratch_folder(bytes_wanted):
    """Makes a folder for data, on a file system with room for `bytes`, or else with the most room. First removes folders of
    killed processes.
    """
    folders = dict.fromkeys(os.path.realpath(path) for path in (tempfile.gettempdir(), "/var/tmp", os.getcwd(), "/dev/shm"))
    free = {folder: _free_bytes(folder) for folder in folders}
    for folder in folders:
        _remove_left_behind(pathlib.Path(folder))
    enough = (folder for folder in folders if free[folder] >= bytes_wanted)
    with tempfile.TemporaryDirectory(
        prefix=f"{PREFIX}{os.getpid()}-", dir=next(enough, max(free, key=free.get)), ignore_cleanup_errors=True
    ) as folder:
        yield pathlib.Path(folder)


def _free_bytes(folder):
    if not os.access(folder, os.W_OK):
        return -1
    with contextlib.suppress(OSError):
        return shutil.disk_usage(folder).free
    return -1


def _remove_left_behind(folder):
    for path in folder.glob(f"{PREFIX}*"):
        made_by = re.fullmatch(rf"{PREFIX}(\d+)-[a-z0-9_]{{8}}", path.name)
        if made_by and not os.path.exists(f"/proc/{made_by[1]}"):
            shutil.rmtree(path, ignore_errors=True)
