"""What the readers and writers of all formats share."""

from .reader import FileInfo, JointReader, Reader, SplitReader

__all__ = ["FileInfo", "JointReader", "Reader", "SplitReader"]
