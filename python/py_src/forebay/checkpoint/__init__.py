"""Checkpoints on every store: whole or absent, with the loader's state.

    checkpoint.save({"model": model.state_dict()}, "s3://bucket/run/step-1000", step=1000, data=loader, keep=3)
    last = checkpoint.latest("s3://bucket/run")
    if last is not None:
        model.load_state_dict(last.load()["model"])
        loader.load_state_dict(last.data)

A checkpoint is a folder. `begun.json` is written first and marks the folder as one of ours, the parts follow, and
`commit.json` is written last: it has the size and the digests of every part, the loader's state and the user's metadata.
A folder without it is not a checkpoint, so a save that is killed at any time leaves the last checkpoint as the newest.
A removal goes backwards: the commit first, the mark last. The mark has the token of the save that began last, which alone
may commit.

`commit` has the format of `commit.json`, `marks` has the format of `begun.json`, `parts` writes and verifies parts block by
block, `folder` begins and commits a folder, `group` runs a step on all ranks so that it fails on all or none, `formats` and
`tensors` have the formats of parts. Tensors are sent from their memory, which `memory` finds and copies for a save behind
training, and `direct` fetches blocks into it: `layout` finds the offsets of tensors in a part, `memory` pairs them with their
memory, `into` matches a state with the one to load into. `saving` and `loading` are made of all these; `retention` finds and
removes checkpoints, with the leftovers of killed processes in local folders; `command` is its command.
`distributed` is the storage of `torch.distributed.checkpoint`, imported separately. torch is imported by the functions that need
it, so that checkpoints can be listed without it.
"""

from .loading import Checkpoint, load
from .retention import latest, remove, remove_incomplete, retain, steps
from .saving import Saving, save

__all__ = ["Checkpoint", "Saving", "latest", "load", "remove", "remove_incomplete", "retain", "save", "steps"]
