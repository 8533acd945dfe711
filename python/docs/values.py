"""Values whose base makes them dataclasses: the site shows their arguments, as it does for classes with the decorator."""

import griffe

BASES = ("ColumnField", "Described", "FileField", "ImageOp", "TokenField", "Value", "_Annotated", "_BatchOp", "_Composition")
"""Classes derived from `forebay._arguments.Value` that values are derived from."""


class _Dataclass(griffe.Expr):
    """Stand-in for the decorator."""

    canonical_path = "dataclasses.dataclass"

    def iterate(self, *, flat=True):
        yield "dataclass"


class Values(griffe.Extension):
    """Adds the decorator to these classes."""

    def on_class_instance(self, *, cls, **_):
        if any(str(base) in BASES for base in cls.bases):
            cls.decorators.append(griffe.Decorator(_Dataclass(), lineno=None, endlineno=None))
