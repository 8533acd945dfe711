"""Converters of text data sets, each a program: `python -m forebay.streaming.text.convert.pile --help`."""
