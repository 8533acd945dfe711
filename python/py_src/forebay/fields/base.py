"""Base of the fields and of their operations, and checks of their arguments."""

from __future__ import annotations

import dataclasses
import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from .._arguments import Check, Value, none_or, shown, text, whole, within
from .._convert.ragged import DTYPES, PAIR_MASKS, Padding, Paddings
from ..errors import ConfigError
from .checks import BY_ANNOTATION


# Classes and not unions: a type checker finds them as the common type of the values of a dict or of a list.
class Field:
    """Type of the values of `fields`."""

    __slots__ = ()

    def _spec(self) -> dict[str, Any] | None:
        """Returns the engine's form. None: the engine has no part in it."""
        raise NotImplementedError

    def _padding(self) -> Padding | None:
        """Returns the padding of the output's rows, if they are padded."""
        return None

    def _is_pair(self) -> bool:
        """Returns True if the field makes prompts, and the engine adds the outputs of two answers."""
        return False

    def _own_tokenizer(self) -> Callable[[], str] | None:
        """Returns the function that reads the field's own `tokenizer.json`, if it has one."""
        return None

    def _has_labels(self) -> bool:
        """Returns True if the engine adds an output `labels` after the field's, with rows of the same form."""
        return False

    def _mask_of(self) -> tuple[str, str] | None:
        """Returns the padded output and the type of a mask, if this is one."""
        return None


class Described(Value):
    """Value with a form for the engine: the name of its class, and each argument by its check."""

    __slots__ = ()

    _KEY: ClassVar[str | None] = "kind"
    """Key of the name in the form. None: the form has no name."""

    _NAME: ClassVar[str | None] = None
    """Name. None: the name of the class, in lower case with underscores."""

    _CHECKS: ClassVar[Mapping[str, Check]] = {}
    """Checks of the arguments by their names, where the annotation does not name the check."""

    def _spec(self) -> dict[str, Any]:
        """Returns the engine's form, without the arguments for which their check returns None."""
        kind = type(self)
        name = kind._NAME or re.sub("(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()
        spec: dict[str, Any] = {} if kind._KEY is None else {kind._KEY: name}
        for field in dataclasses.fields(self):
            check = kind._CHECKS.get(field.name) or BY_ANNOTATION[field.type]
            value = check(f"{field.name} of {kind.__name__}", getattr(self, field.name))
            if value is not None:
                spec[field.name] = value
        return spec


class ImageOp(Described):
    """Operation of an `Image`: a dataclass of its arguments."""

    __slots__ = ()

    _KEY = "op"


def dtype_of(name: str, value: Any) -> str | None:
    """Returns the name of a type, which may be an object of torch or numpy. None stays."""
    if value is None:
        return None
    found = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
    found = found.removeprefix("torch.")
    if found not in DTYPES:
        raise ConfigError(f"{name} is a type, one of {', '.join(DTYPES)}, but it is {value!r}")
    return found


def _default(name: str, value: Any) -> Any:
    """Returns the value of samples without the column as JSON has it. None: such a sample is an error."""
    if isinstance(value, (str, bool)) or value is None:
        return value
    if isinstance(value, bytes):
        return list(value)
    if isinstance(value, Mapping):
        return {text(f"a key in {name}", key): _default(name, item) for key, item in value.items()}
    if hasattr(value, "tolist"):  # An array or a number of numpy or torch.
        return _default(name, value.tolist())
    if isinstance(value, Iterable):
        return [_default(name, item) for item in value]
    if isinstance(value, numbers.Integral):
        return whole(name, value, -(1 << 63))
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else str(float(value))
    raise ConfigError(f"{name} is a number, text, bytes or a list of numbers, but it is {shown(value)}")


def json_path(name: str, value: Any) -> str | list[str | int]:
    """Checks a path inside a JSON document."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [part if isinstance(part, str) else whole(f"a position in {name}", part) for part in value]
    raise ConfigError(f"{name} is text such as 'meta.width', or a list of keys and positions, but it is {value!r}")


column_of: Check = partial(text, expected="a column's name")
"""Check of a column."""

_field_of = partial(none_or, partial(text, expected="a field's name"))


class ColumnField(Described, Field):
    """Field of a column: a dataclass of its arguments."""

    __slots__ = ()

    _CHECKS = {
        "boxes": _field_of,
        "column": column_of,
        "default": _default,
        "dtype": dtype_of,
        "of": _field_of,
        "path": partial(none_or, json_path),
        "stored": dtype_of,
    }


def spec_of(part: Field | ImageOp) -> dict[str, Any] | None:
    """Returns the engine's form of a field or an operation."""
    return part._spec()


def pairs_of(fields: Mapping[str, Field]) -> list[list[Any]]:
    """Returns the engine's form of the fields that a field holds: pairs of name and description."""
    pairs = []
    for name, field in fields.items():
        with within(name):
            pairs.append([name, field._spec()])
    return pairs


def mask_of(field: Field) -> tuple[str, str] | None:
    """Returns the padded output and the type of a mask, if the field is one."""
    return field._mask_of()


def is_pair(field: Field) -> bool:
    """Returns True if the field makes prompts, and the engine adds the outputs of two answers."""
    return field._is_pair()


def own_tokenizer(field: Field) -> Callable[[], str] | None:
    """Returns the function that reads the field's own `tokenizer.json`, if it has one."""
    return field._own_tokenizer()


def specs(fields: Mapping[str, Field] | None) -> list[list[Any]] | None:
    """Returns the engine's form of `fields`: pairs of name and description, in the batch's order."""
    if fields is None:
        return None
    if not isinstance(fields, Mapping):
        raise ConfigError(f"fields maps names to fields, such as {{'x': Image('jpg')}}, but it is {fields!r}")
    pairs = []
    for name, field in fields.items():
        if not isinstance(field, Field):
            raise ConfigError(f"fields: {name} is {field!r}, which is not a field such as Image('jpg')")
        with within(f"fields[{name!r}]"):
            spec = field._spec()
            if spec is not None:
                pairs.append([text("its name", name), spec])
    return pairs


def paddings(fields: Mapping[str, Field] | None) -> Paddings | None:
    """Returns the padding of the outputs of `fields`, if any is padded."""
    paddings = {name: field._padding() for name, field in (fields or {}).items()}
    padded = {name: padding for name, padding in paddings.items() if padding is not None}
    pairs = {name: padded.pop(name) for name, field in (fields or {}).items() if field._is_pair() and name in padded}
    if pairs and (taken := next((mask for mask in PAIR_MASKS if mask in (fields or {})), None)):
        raise ConfigError(f"fields[{taken!r}]: part=\"pair\" of Chat adds an output of that name, so leave it out, or pair's pad")
    for name, field in (fields or {}).items():
        if field._has_labels() and name in padded:
            padded["labels"] = dataclasses.replace(padded[name], value=-100)
    masks = {name: field._mask_of() for name, field in (fields or {}).items()}
    masks = {name: of for name, of in masks.items() if of is not None}
    for name, (of, _) in masks.items():
        if of not in padded:
            problem = f"{of!r} is not an output with `pad` and without a length: {_padded_instead(of, fields or {}, padded)}"
            raise ConfigError(f"fields[{name!r}]: {problem}")
    return Paddings(padded, masks, pairs) if padded or pairs else None


def _padded_instead(of: str, fields: Mapping[str, Field], padded: Mapping[str, Padding]) -> str:
    """Returns the remedy for a mask of `of`, which is not among the padded outputs, as the end of a sentence."""
    import difflib  # Imported late, because it is needed for errors only.

    field = fields.get(of)
    if field is not None and hasattr(field, "pad"):
        length = next((f", and leave out its {name}" for name in ("length", "shape") if getattr(field, name, None) is not None), "")
        return f"give the {type(field).__name__} a value that fills its rows, such as pad=0{length}"
    of_column = [name for name in padded if field is None and getattr(fields[name], "column", None) == of]
    if near := of_column or difflib.get_close_matches(of, padded, 1):
        return f"did you mean {near[0]!r}?"
    return f"these are: {', '.join(padded)}" if padded else 'add one, such as Tokens("ids", pad=0)'
