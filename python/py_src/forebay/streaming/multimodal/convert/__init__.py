"""Converters of data sets of texts with pictures or videos, each a program."""
