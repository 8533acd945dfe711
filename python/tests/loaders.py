"""Loaders that several test files use."""

import forebay as fb

NUMBER = {"number": fb.Scalar("number")}


def numbers(loader):
    """The samples of an epoch, batch by batch."""
    return [batch["number"].tolist() for batch in loader]


def ordered(folder, **kwargs):
    kwargs.setdefault("batch_size", 16)
    return fb.Loader(local=folder, fields=NUMBER, **kwargs)
