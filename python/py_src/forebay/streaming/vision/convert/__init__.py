"""Converters of picture data sets, each a program: `python -m forebay.streaming.vision.convert.imagenet --help`."""
