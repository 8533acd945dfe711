"""Converters of data sets of texts, each a program: `python -m forebay.streaming.text.convert.pile --help`."""
