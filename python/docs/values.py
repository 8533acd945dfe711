"""Values whose base makes them dataclasses: the site shows their arguments, as it does for classes with the decorator."""

import griffe

BASES = ("ColumnField", "FileField", "ImageOp", "TokenField", "Described", "Value", "_Annotated", "_BatchOp", "_Composition")
"""Classes derived from `forebay._arguments.Value` that values are derived from."""


class _Dataclass(griffe.Decorator):
    """Stand-in for the decorator."""

    callable_path = "dataclasses.dataclass"


class Values(griffe.Extension):
    """Adds the decorator to these classes."""

    def on_class(self, *, cls, **_):
        if any(str(base) in BASES for base in cls.bases):
            cls.decorators.append(_Dataclass("dataclass", lineno=None, endlineno=None))
