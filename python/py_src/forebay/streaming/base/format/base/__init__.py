"""Base classes of the readers and writers of all formats."""

from .reader import FileInfo, JointReader, Reader, SplitReader

__all__ = ["FileInfo", "JointReader", "Reader", "SplitReader"]
