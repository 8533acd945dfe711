"""forebay.streaming in the scenario `dropin`."""

import dropin
import forebay
from dropin import batches, check  # noqa: F401
from forebay import streaming

# The package imports a name on first use. Its time belongs to the import, as on the reference's side.
from forebay.streaming import LocalDataset, StreamingDataLoader, StreamingDataset  # noqa: F401


def versions():
    return dropin.versions(forebay=forebay.__version__)


def build(config):
    return dropin.build(config, streaming)
