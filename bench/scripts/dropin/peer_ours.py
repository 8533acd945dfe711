"""forebay.streaming in the scenario `dropin`."""

import dropin
import forebay
from dropin import batches, check  # noqa: F401
from forebay import streaming


def versions():
    return dropin.versions(forebay=forebay.__version__)


def build(config):
    return dropin.build(config, streaming)
