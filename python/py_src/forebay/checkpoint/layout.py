"""Offsets of tensors in a file of torch.save, found without reading the tensors.

torch loads the file, but gets memory without contents for each tensor: the table at the end of the archive has the offsets of
the records, so the headers between them are not read either.
"""

from __future__ import annotations

import collections
import io
import pickle
import pickletools
import struct
import zipfile
from collections.abc import Iterator
from typing import Any

from ..errors import Error

_ALIGNED = 64
"""torch's tensors start at multiples of this."""

_PLAIN = (
    "collections OrderedDict",
    "torch.storage UntypedStorage",
    "torch._utils _rebuild_meta_tensor_no_storage",
    "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_tensor_v3",
)
"""Names in a pickle that do not depend on the contents of tensors. `torch` itself has types of storages and elements."""

_HEADER = struct.Struct("<4s5H3I2H")
"""Header before a record; the name and the padding follow."""

_HAS_DESCRIPTOR = 8
"""Flag of a record that is followed by its sizes."""

_DESCRIPTORS = (16, 24)
"""Bytes of these sizes, with 32 and 64 bits."""


class NoLayout(Exception):
    """The file, or an object in it, has a structure that this module is not sure of."""


class Layout:
    """Object of a file, with memory without contents for its tensors. The table of the file and the pickled object are read.

    Raises:
        NoLayout: The file has to be loaded as a whole.
    """

    def __init__(self, file: Any) -> None:
        import torch

        deferring = _Deferring(file)
        try:
            self.object: Any = torch.load(deferring, map_location="cpu", weights_only=True)
            # Also a check that all tensors are found.
            collections.deque(tensors_in(self.object), maxlen=0)
        except Error:
            raise
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError, pickle.UnpicklingError) as error:
            raise NoLayout(str(error)) from error
        self._positions = deferring.positions

    def first_byte(self, tensor: Any) -> int | None:
        """Returns the first byte of a tensor's storage in the file. None: the contents are there already."""
        return self._positions.get(tensor.untyped_storage().data_ptr())


def tensors_in(value: Any) -> Iterator[Any]:
    """Returns the tensors in dicts, lists and tuples.

    Raises:
        NoLayout: There are objects that may have tensors in a different way, or tensors that are more than their memory.
    """
    import torch

    if type(value) in (torch.Tensor, torch.nn.Parameter):
        if value.layout is not torch.strided or value.is_quantized or value.is_conj() or value.is_neg() or value.__dict__:
            raise NoLayout("a tensor that is more than its memory")
        yield value
    elif isinstance(value, dict):
        for each in (*value.values(), vars(value) if hasattr(value, "__dict__") else None):
            yield from tensors_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)
    elif not isinstance(value, (str, bytes, int, float, complex, type(None), torch.dtype, torch.device)):
        raise NoLayout(f"an object of {type(value).__name__}")


def _check_names(pickled: bytes) -> None:
    """Checks that no function gets the contents of a tensor to make an object of it, which are not there yet."""
    import torch

    for operation, argument, _ in pickletools.genops(pickled):
        if operation.name == "GLOBAL":
            module, _, name = argument.partition(" ")
            is_type = module == "torch" and isinstance(getattr(torch, name, None), (torch.dtype, type))
            if not is_type and argument not in _PLAIN:
                raise NoLayout(f"an object of {argument}")
        elif operation.name in ("STACK_GLOBAL", "INST"):
            raise NoLayout("a pickle of a different version")


class _Deferring(io.RawIOBase):
    """File that leaves memory for tensors as it is, and notes its offsets."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._headers: dict[int, bytes] = {}
        self._records: dict[int, int] = {}
        self.positions: dict[int, int] = {}
        """First byte in the file by the address of the memory."""
        try:
            with zipfile.ZipFile(file) as archive:
                self._find(archive)
            file.seek(0)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
            raise NoLayout(str(error)) from error

    def _find(self, archive: zipfile.ZipFile) -> None:
        records = sorted(archive.infolist(), key=lambda record: record.header_offset)
        for name in archive.namelist():
            # It can be set in torch, and smaller ones leave more than one possible offset.
            if name.endswith("/.storage_alignment") and int(archive.read(name)) % _ALIGNED:
                raise NoLayout("tensors at different positions")
            if name.endswith("/data.pkl"):
                _check_names(archive.read(name))
        ends = [record.header_offset for record in records[1:]] + [archive.start_dir]
        for record, end in zip(records, ends):
            if record.filename.partition("/")[2].startswith("data/") and record.file_size:
                self._add(record, end)

    def _add(self, record: zipfile.ZipInfo, end: int) -> None:
        sizes = _DESCRIPTORS if record.flag_bits & _HAS_DESCRIPTOR else (0,)
        starts = [end - size - record.file_size for size in sizes]
        starts = [start for start in starts if start % _ALIGNED == 0]
        name = len(record.filename.encode())
        if len(starts) != 1 or record.compress_type != zipfile.ZIP_STORED:
            raise NoLayout("a record of a different structure")
        padding = starts[0] - record.header_offset - _HEADER.size - name
        numbers = (0, record.flag_bits, 0, 0, 0, 0, 0, 0)
        self._headers[record.header_offset] = _HEADER.pack(b"PK\3\4", *numbers, name, padding)
        self._records[starts[0]] = record.file_size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def read(self, size: int | None = -1, /) -> bytes:
        return self._file.read(size)

    def readinto(self, buffer: Any, /) -> int:
        import numpy

        at = self._file.tell()
        with memoryview(buffer).cast("B") as view:
            if len(view) == _HEADER.size and at in self._headers:
                view[:] = self._headers[at]
            elif self._records.get(at) == len(view):
                address, _ = numpy.frombuffer(view, numpy.uint8).__array_interface__["data"]
                self.positions[address] = at
            else:
                return self._file.readinto(view)
            self._file.seek(at + len(view))
            return len(view)
