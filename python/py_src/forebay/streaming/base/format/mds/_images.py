"""Pictures, and lists of pictures, as MDS columns. Pillow is imported at the first encode or decode."""

from __future__ import annotations

import io
import os
import struct
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from ._encoding import Encoding

__all__ = ["JPEG", "PIL", "PNG", "JPEGArray", "JPEGList", "List", "PILList", "PNGList"]


class _Picture(Encoding):
    def _validate_picture(self, obj: Any) -> None:
        from PIL import Image

        self._validate(obj, Image.Image)


class PIL(_Picture):
    """Stores raw pixels: u32 width, u32 height, u32 length of the mode, mode, pixels. A palette is lost."""

    def encode(self, obj: Any) -> bytes:
        self._validate_picture(obj)
        mode = obj.mode.encode()
        return struct.pack("<3I", *obj.size, len(mode)) + mode + obj.tobytes()

    def decode(self, data: bytes) -> Any:
        from PIL import Image

        width, height, mode_bytes = struct.unpack_from("<3I", data)
        pixels = 12 + mode_bytes
        return Image.frombytes(data[12:pixels].decode(), (width, height), data[pixels:])


class _PictureFile(_Picture):
    """Stores pictures as files of a format. Pixels are decoded at their first use."""

    format: str

    def encode(self, obj: Any) -> bytes:
        self._validate_picture(obj)
        out = io.BytesIO()
        obj.save(out, format=self.format)
        return out.getvalue()

    def decode(self, data: bytes) -> Any:
        from PIL import Image

        return Image.open(io.BytesIO(data))


class JPEG(_PictureFile):
    """Stores JPEG. A picture that was opened from a JPEG file is stored as that file, without a loss of quality."""

    format = "JPEG"

    def encode(self, obj: Any) -> bytes:
        self._validate_picture(obj)
        filename = getattr(obj, "filename", "")
        if obj.format == "JPEG" and filename and os.path.exists(filename):
            with open(filename, "rb") as file:
                return file.read()
        return super().encode(obj)


class PNG(_PictureFile):
    """Stores PNG."""

    format = "PNG"


class List(Encoding):
    """Stores a list of values of one encoding: u32 0, u32 values, u32 length of each in bytes, then the values."""

    @abstractmethod
    def underlying_encoder(self) -> Encoding:
        """Returns the encoding of the values."""
        raise NotImplementedError

    def encode(self, obj: list[Any]) -> bytes:
        self._validate(obj, list)
        encoder = self.underlying_encoder()
        parts = [encoder.encode(item) for item in obj]
        return b"".join([bytes(4), _sizes(parts), *parts])

    def decode(self, data: bytes) -> list[Any]:
        decoder = self.underlying_encoder()
        return [decoder.decode(part) for part in _parts(data, 4)]


class PILList(List):
    """Stores a list of pictures, each like `PIL`."""

    def underlying_encoder(self) -> Encoding:
        return PIL()


class JPEGList(List):
    """Stores a list of pictures, each like `JPEG`."""

    def underlying_encoder(self) -> Encoding:
        return JPEG()


class PNGList(List):
    """Stores a list of pictures, each like `PNG`."""

    def underlying_encoder(self) -> Encoding:
        return PNG()


class JPEGArray(Encoding):
    """Stores at least one JPEG file: u32 files, u32 length of each in bytes, then the files. Decodes to pictures."""

    def encode(self, obj: Sequence[bytes | bytearray]) -> bytes:
        return b"".join([_sizes(obj), *obj])

    def decode(self, data: bytes) -> list[Any]:
        if len(data) < 4:
            raise ValueError("Input data is too short to contain valid jpeg arrays")
        (count,) = struct.unpack_from("<I", data)
        if count == 0:
            raise ValueError("A jpeg array holds at least one picture")
        if len(data) < 4 + 4 * count:
            raise ValueError(f"Data is too short w.r.t the number of images decoded: {len(data)} bytes, {count} images")
        decoder = JPEG()
        return [decoder.decode(part) for part in _parts(data, 0)]


def _sizes(parts: Sequence[bytes | bytearray]) -> bytes:
    """Encodes the number of parts and their lengths."""
    lengths = [len(part) for part in parts]
    return struct.pack(f"<{1 + len(lengths)}I", len(lengths), *lengths)


def _parts(data: bytes, at: int) -> list[bytes]:
    """Splits the parts after the table of `_sizes` at `at`."""
    (count,) = struct.unpack_from("<I", data, at)
    lengths = struct.unpack_from(f"<{count}I", data, at + 4)
    at += 4 + 4 * count
    parts = []
    for length in lengths:
        parts.append(data[at : at + length])
        at += length
    return parts
