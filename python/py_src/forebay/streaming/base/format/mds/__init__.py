"""MDS: binary samples, with their offsets at the front of the same file."""

from .reader import MDSReader
from .writer import MDSWriter

__all__ = ["MDSReader", "MDSWriter"]
