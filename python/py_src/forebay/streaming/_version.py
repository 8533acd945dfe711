"""Release of the reference with the interface of this package. The engine's own version is `forebay.__version__`."""

__version__ = "0.13.0"
