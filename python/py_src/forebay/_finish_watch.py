"""Warning about samples that a writer has not made a data set of."""

from __future__ import annotations

import os
import warnings
import weakref


class FinishWatch:
    """Watch over the samples of a writer that has not written its index.

    If the writer is collected, or the interpreter ends, before `end` is called, a RuntimeWarning names the folder and
    the number of samples. Python hides a ResourceWarning by default, and this one is about lost data.

    Args:
        writer: The writer.
        name: Name of its class.
        folder: Destination, as it is shown.
    """

    def __init__(self, writer: object, name: str, folder: str) -> None:
        self.samples = 0
        self._file = name, folder
        # A forked child has a copy of the writer, and the parent continues to write.
        self._process = os.getpid()
        self._finalizer = weakref.finalize(writer, self._warn)

    @property
    def has_ended(self) -> bool:
        """True after `end`."""
        return not self._finalizer.alive

    def end(self) -> None:
        """Ends the watch: the writer has been finished, has failed or has been abandoned with an exception."""
        self._finalizer.detach()

    def _warn(self) -> None:
        if self.samples and os.getpid() == self._process:
            name, folder = self._file
            warnings.warn(
                f"a {name} was dropped before finish(): the {self.samples} samples that it got are not a data set, because "
                f"{folder} has no index.json. Write in a `with` block, or call finish()",
                RuntimeWarning,
                stacklevel=3,
            )
