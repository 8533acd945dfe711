"""Separated values: a row of names, then one row per sample, with the offsets in a meta file."""

from .reader import CSVReader, TSVReader, XSVReader
from .writer import CSVWriter, TSVWriter, XSVWriter

__all__ = ["CSVReader", "CSVWriter", "TSVReader", "TSVWriter", "XSVReader", "XSVWriter"]
