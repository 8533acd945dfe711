"""MosaicML streaming in the scenario `dropin`."""

import importlib.metadata

import dropin
import streaming
from dropin import batches, check  # noqa: F401


def versions():
    return dropin.versions(streaming=importlib.metadata.version("mosaicml-streaming"))


def build(config):
    return dropin.build(config, streaming)
