"""Release of the reference whose interface this package has. The engine's own version is `forebay.__version__`."""

__version__ = "0.13.0"
