"""Compression of whole files by the names in an index: "zstd", or "zstd:7" with a level."""

from __future__ import annotations

from collections.abc import Iterator

from ... import _forebay

__all__ = ["compress", "decompress", "get_compression_extension", "get_compressions", "is_compression"]

_LEVELS = dict(_forebay.compressions())


class Compression:
    """Compression family without levels."""

    extension: str = ""
    """Name of the family, and extension of compressed files."""

    @classmethod
    def each(cls) -> Iterator[tuple[str, Compression]]:
        """Yields every name of the family with its compression."""
        yield cls.extension, cls()

    @property
    def _name(self) -> str:
        return self.extension

    def compress(self, data: bytes) -> bytes:
        """Compresses `data`."""
        return _forebay.compress(self._name, data)

    def decompress(self, data: bytes) -> bytes:
        """Unpacks `data`.

        Raises:
            FormatError: `data` is damaged.
        """
        return _forebay.decompress(self._name, data)


class LevelledCompression(Compression):
    """Compression family with levels.

    Args:
        level: One of `levels`. None: the family's default.
    """

    levels: list[int] = []

    def __init__(self, level: int | None = None) -> None:
        if level is None:
            _, _, level = _LEVELS[self.extension]
        assert level in self.levels, f"{self.extension} has levels {self.levels[0]} to {self.levels[-1]}, not {level}"
        self.level = level

    def __init_subclass__(cls) -> None:
        low, high, _ = _LEVELS[cls.extension]
        cls.levels = list(range(low, high + 1))

    @classmethod
    def each(cls) -> Iterator[tuple[str, Compression]]:
        yield cls.extension, cls()
        for level in cls.levels:
            yield f"{cls.extension}:{level}", cls(level)

    @property
    def _name(self) -> str:
        return f"{self.extension}:{self.level}"


class Brotli(LevelledCompression):
    """Brotli: dense and slow; default level 11."""

    extension = "br"

    def __init__(self, level: int = 11) -> None:
        super().__init__(level)


class Bzip2(LevelledCompression):
    """Bzip2; default level 9."""

    extension = "bz2"

    def __init__(self, level: int = 9) -> None:
        super().__init__(level)


class Gzip(LevelledCompression):
    """Gzip; default level 9. Files contain no time stamp, so hashes can be reproduced."""

    extension = "gz"

    def __init__(self, level: int = 9) -> None:
        super().__init__(level)


class Snappy(Compression):
    """Snappy in its raw form: fast and light."""

    extension = "snappy"


class Zstandard(LevelledCompression):
    """Zstandard; default level 3."""

    extension = "zstd"

    def __init__(self, level: int = 3) -> None:
        super().__init__(level)


_families: dict[str, type[Compression]] = {
    family.extension: family for family in (Brotli, Bzip2, Gzip, Snappy, Zstandard)
}

_algorithms: dict[str, Compression] = {
    name: compression for family in _families.values() for name, compression in family.each()
}


def _find(algo: str) -> Compression:
    if algo not in _algorithms:
        raise ValueError(f"{algo} is not a supported compression algorithm.")
    return _algorithms[algo]


def get_compressions() -> set[str]:
    """Returns all names, with and without levels."""
    return set(_algorithms)


def is_compression(algo: str | None) -> bool:
    """Returns true if `algo` is the name of a compression."""
    return algo in _algorithms


def get_compression_extension(algo: str) -> str:
    """Returns the extension of files compressed with `algo`, without the dot.

    Raises:
        ValueError: There is no such compression.
    """
    return _find(algo).extension


def compress(algo: str | None, data: bytes) -> bytes:
    """Compresses `data` with `algo`; returns it unchanged if `algo` is None.

    Raises:
        ValueError: There is no such compression.
    """
    return data if algo is None else _find(algo).compress(data)


def decompress(algo: str | None, data: bytes) -> bytes:
    """Unpacks `data` with `algo`; returns it unchanged if `algo` is None.

    Raises:
        FormatError: `data` is damaged.
        ValueError: There is no such compression.
    """
    return data if algo is None else _find(algo).decompress(data)
