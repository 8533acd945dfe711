"""Converters of data sets of pictures, each a program: `python -m forebay.streaming.vision.convert.imagenet --help`."""
