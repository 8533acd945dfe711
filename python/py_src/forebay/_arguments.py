"""Checks of arguments. Each returns a plain Python value, or raises ConfigError with the argument's name.

The engine gets one JSON document. Values that do not fit in it are rejected here, so that no message is about the
document. Numbers of numpy and torch are accepted.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import os
import re
import reprlib
import textwrap
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_origin

from . import _choices
from ._forebay import is_file_list, is_url, redact
from .errors import ConfigError

if TYPE_CHECKING:
    # Type checkers have this module; programs need not install it.
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        return lambda cls: cls


U32 = 1 << 32
"""Exclusive upper bound of the engine's 32-bit counts."""

_NAMED_MAX = 8
"""Upper bound of the arguments that an error lists."""

_NEAR = 0.75
"""Likeness from which an argument may be meant by an unknown name. Below it, `max_errors` would be near `max_tokens`."""

_LINE_MAX = 76
"""Characters of a line of a signature in `help`, which indents it by four, on a terminal of 80 columns."""

Check = Callable[[str, Any], Any]
"""Function of an argument's name and value that returns a plain value or raises ConfigError."""

# Types of options. Signatures use them, so that `checks` finds the check of an option in its annotation.
ByteSize = Union[int, str]
"""A number of bytes, or a size such as "2gb"."""
Count = int
"""A whole number, at least 1, of 32 bits."""
Samples = int
"""A whole number, at least 1."""
Seconds = float
"""A positive number of seconds."""
Steps = Iterable[int]
"""Numbers of steps."""

_Class = TypeVar("_Class", bound=type)


def by_name(example: str = "", others: Callable[[], dict[str, str]] = dict, **elsewhere: str) -> Callable[[_Class], _Class]:
    """Decorates a class so that the TypeError about an unknown argument suggests the right name.

    Args:
        example: Example of the first arguments, for a class with keyword-only arguments.
        others: Function that returns more of `elsewhere`. It is called for an error.
        **elsewhere: Names of arguments in libraries, and the names here, or after ". " advice.
    """

    def decorate(cls: _Class) -> _Class:
        construct = cls.__init__
        signature = _Wrapped.from_callable(construct)
        signature.name = cls.__name__
        _, *parameters = signature.parameters.values()
        names = [parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_POSITIONAL]
        listed = {parameter.name for parameter in parameters} - set(names)

        @functools.wraps(construct)
        def checked(self: Any, *args: Any, **kwargs: Any) -> None:
            if args and example:
                raise TypeError(f"{cls.__name__} takes its arguments by name: {example}")
            if (name := next((name for name in kwargs if name not in names), None)) is not None:
                raise TypeError(f"{cls.__name__} has no argument {name!r}" + _meant(name, names, listed, others() | elsewhere))
            construct(self, *args, **kwargs)

        checked.__signature__ = signature
        cls.__init__ = checked
        return cls

    return decorate


class _Wrapped(inspect.Signature):
    """Signature that `help` prints in lines of a readable width.

    A long one has no annotations, which fill pages, and for `__init__` no arguments, which the class has.
    """

    name = ""
    """Name of the class."""

    def __str__(self) -> str:
        return self.format()

    def replace(self, **changes: Any) -> _Wrapped:
        """Returns a copy with changes, such as the one without `self` that `help` makes."""
        changed = super().replace(**changes)
        changed.name = self.name
        return changed

    def format(self, **_: Any) -> str:
        """Returns the signature as text. Python's own class has this method since 3.13, which `help` calls there."""
        parameters = list(self.parameters.values())
        whole = str(inspect.Signature(parameters, return_annotation=self.return_annotation))
        if len(self.name + whole) <= _LINE_MAX:
            return whole
        if "self" in self.parameters:
            return "(self, ...)"
        plain = inspect.Signature([parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters])
        lines = textwrap.wrap(self.name + str(plain), _LINE_MAX, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        return "\n".join(lines).removeprefix(self.name)


@dataclass_transform(frozen_default=True)
class Value:
    """Base of plain values. Each class derived from it is a frozen dataclass with the TypeErrors of `by_name`.

    `elsewhere` is as for `by_name`, and `options` are as for `dataclass`.
    """

    __slots__ = ()

    def __init_subclass__(cls, elsewhere: Mapping[str, str] = {}, **options: bool) -> None:
        super().__init_subclass__()
        by_name(**elsewhere)(dataclass(frozen=True, **options)(cls))


def readable(cls: _Class) -> _Class:
    """Decorates a NamedTuple, so that `help` prints its annotations as they are written: Python's own are like `ForwardRef('int')`."""
    new = cls.__new__
    cls.__annotations__ = {name: getattr(kind, "__forward_arg__", kind) for name, kind in new.__annotations__.items()}
    new.__annotations__ = cls.__annotations__
    new.__signature__ = _Wrapped.from_callable(new)
    new.__signature__.name = cls.__name__
    return cls


def _meant(name: str, names: Sequence[str], listed: set[str], elsewhere: dict[str, str]) -> str:
    """Returns a suggestion for the unknown argument `name` as the end of a sentence."""
    if name in listed:
        return f": {name} are passed one by one, without a name"
    import difflib  # Imported late, because it is needed for errors only.

    if (meant := elsewhere.get(name)) is not None:
        return f": {meant.removeprefix('. ')}" if meant.startswith(". ") else f": did you mean {meant}?"
    # A near name of a different library would mislead.
    known = [*names, *(other for other, meant in elsewhere.items() if meant.startswith(". ") and other not in names)]
    lower = name.lower()
    near = difflib.get_close_matches(lower, known, 1, _NEAR) or _with_words_of(lower, names) or _with_words_of(lower, known)
    if not near:
        return f": it has {', '.join(names)}" if len(names) <= _NAMED_MAX else ""
    return f": did you mean {near[0]}?" + ("" if near[0] in names else elsewhere[near[0]][1:])


def _with_words_of(name: str, names: Sequence[str]) -> list[str]:
    """Returns the first name that has all words of `name`, such as `stall_timeout` for `timeout`; none for a word that many have."""
    words = set(name.split("_"))
    found = [other for other in names if words < set(other.split("_"))]
    return found[:1] if len(found) <= 2 else []


class _Shown(reprlib.Repr):
    """Texts of values. Long collections are abridged, and addresses are without their secrets."""

    def repr_str(self, value: str, level: int) -> str:
        return repr(redact(value))

    def repr_bytes(self, value: bytes, level: int) -> str:
        return f"b{self.repr_str(value.decode(errors='backslashreplace'), level)}"

    def repr_instance(self, value: Any, level: int) -> str:
        if isinstance(value, os.PathLike):
            return f"{type(value).__name__}({self.repr1(os.fspath(value), level)})"
        if isinstance(value, str):
            return self.repr_str(value, level)
        return repr(value)


shown = _Shown().repr
"""Returns `repr` of a value for a message, without the secrets of addresses in it."""


def whole(name: str, value: Any, least: int = 0, below: int = 1 << 64) -> int:
    """Checks a whole number from `least`, below `below`."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise ConfigError(f"{name} is a whole number, at least {least}, but it is {shown(value)}")
    if number >= below:
        raise ConfigError(f"{name} is a whole number, at most {below - 1}, but it is {shown(value)}")
    return number


def real(name: str, value: Any, expected: str = "a number", least: float = -math.inf) -> float:
    """Checks a finite number from `least`; `expected` describes the range in words."""
    try:
        number = math.nan if isinstance(value, (bool, str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        number = math.nan
    if not math.isfinite(number) or number < least:
        raise ConfigError(f"{name} is {expected}, but it is {shown(value)}")
    return number


def seconds(name: str, value: Any) -> float:
    """Checks a positive number of seconds."""
    return real(name, value, "a positive number of seconds", least=math.ulp(0.0))


def steps(name: str, value: Any) -> list[int]:
    """Checks numbers of steps."""
    return [whole(f"{name}[{index}]", step) for index, step in enumerate(several(name, value, "numbers of steps"))]


def reals(name: str, value: Any, count: int) -> list[float]:
    """Checks a list of `count` finite numbers."""
    try:
        numbers = [] if isinstance(value, (str, bytes)) else list(value)
    except TypeError:
        numbers = []
    if len(numbers) != count:
        raise ConfigError(f"{name} is a list of {count} numbers, but it is {shown(value)}")
    return [real(f"{name}[{index}]", number) for index, number in enumerate(numbers)]


def flag(name: str, value: Any) -> bool:
    """Checks True or False; bools of numpy, 0 and 1 are accepted."""
    try:
        is_one = value in (True, False)
    except Exception:  # The exception of an array's `==` depends on its library.
        is_one = False
    if not is_one:
        raise ConfigError(f"{name} is True or False, but it is {shown(value)}")
    return bool(value)


def text(name: str, value: Any, expected: str = "text") -> str:
    """Checks a `str` that UTF-8 can encode."""
    try:
        if isinstance(value, str):
            value.encode()
            return str(value)
    except UnicodeEncodeError:
        expected = f"{expected} in UTF-8"
    raise ConfigError(f"{name} is {expected}, but it is {shown(value)}")


def several(name: str, value: Any, expected: str) -> Iterable[Any]:
    """Checks that `value` can be iterated. Its elements are not checked."""
    if not isinstance(value, Iterable):
        raise ConfigError(f"{name} has to be a sequence of {expected}, but it is {shown(value)}")
    return value


def path(name: str, value: Any, expected: str = "a path") -> str:
    """Checks a path and returns it as text, with the home directory instead of `~`."""
    return os.path.expanduser(text(name, os.fspath(value) if isinstance(value, os.PathLike) else value, expected))


def address(name: str, value: Any, expected: str = "a URL or a path") -> str:
    """Checks a URL or path, as `path` does, or a list of files, which is returned as one text."""
    if isinstance(value, (list, tuple)):
        return _listed(name, value, expected)
    if isinstance(value, (set, frozenset)):
        raise ConfigError(f"{name} is {expected}, or a list of files, but it is a set, which has no order: pass sorted(files)")
    return path(name, value, expected)


def _listed(name: str, files: Sequence[Any], expected: str) -> str:
    """Returns the files of a list as one text, in which each has its exact name, but for wildcards."""
    names = [path(f"{name}[{index}]", file, expected) for index, file in enumerate(files)]
    for index, file in enumerate(names):
        if not file or "::" in file:
            raise ConfigError(f"{name}[{index}] is one file of a list, but it is {shown(file)}: pass an entry for each file")
    joined = "::".join(map(quoted, names))
    if len(names) == 1 and not is_file_list(joined):
        return names[0]
    if not names or not is_file_list(joined):
        raise ConfigError(f"{name} is {expected}, or a list of files, but it is {shown(files)}: pass each folder as a Stream")
    return joined


def quoted(file: str) -> str:
    """Returns the exact name of a file as an entry of a list of files, in which braces have a meaning."""
    return file.replace("\\", "\\\\").replace("{", "\\{").replace("}", "\\}")


def folder(name: str, value: Any) -> str:
    """Checks the path of a local folder, and returns it for any working directory."""
    where = path(name, value, "the path of a local folder")
    if not where:
        # Otherwise it would be the working directory, where no one looks for files of a variable without a value.
        raise ConfigError(f'{name} is the path of a folder, and it is empty: pass "." for the working directory')
    if "\0" in where:
        raise ConfigError(f"{name} is a path, which has no null character, but it is {shown(where)}")
    if is_url(where):
        raise ConfigError(f"{shown(where)} is a URL, and this works on a local folder: copy from or to the store yourself")
    return os.path.abspath(where)


def anywhere(source: str) -> str:
    """Returns the address of a data set, or its list of files, for any working directory.

    Two colons are between files of a list, and a part of some addresses, such as `http://[::1]/train`.
    """

    def whole(part: str) -> str:
        is_path = part != "" and not is_url(part) and not part.startswith("pipe:")
        # A slash at the end has a meaning, so paths are not normalised.
        return os.path.join(os.getcwd(), part.removeprefix("./")) if is_path and not os.path.isabs(part) else part

    return "::".join(map(whole, source.split("::"))) if is_file_list(source) else whole(source)


def destination(name: str, value: Any) -> str:
    """Checks a folder to write to: the address of a folder of a store, or a path, which is returned for any directory."""
    where = path(name, value, "a path, or the address of a folder of a store")
    return where if is_url(where) else folder(name, value)


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """Checks that `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        *others, last = (f'"{choice}"' for choice in choices)
        raise ConfigError(f"{name} is {', '.join(others)} or {last}, but it is {shown(value)}")
    return str(value)


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:b|([kmgtp])(?:i?b)?)?")


def byte_size(name: str, value: Any) -> int | None:
    """Returns the bytes of a size: a number, or text such as "2gb" or "1.5 tb" in powers of 1,024."""
    if value is None:
        return None
    expected = 'a number of bytes or a size such as "2gb"'
    match = _SIZE.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    size = float(match[1]) * 1024 ** "bkmgtp".index(match[2] or "b") if match else real(name, value, expected)
    if not 0 <= size < 2**63:
        raise ConfigError(f"{name} is {expected}, but it is {shown(value)}")
    return int(size)


_TEXTS = ("str", *(name for name, kind in vars(_choices).items() if get_origin(kind) is Literal))
"""Types of options that are texts."""

_CHECKS: dict[str, Check] = {
    "bool": flag,
    "ByteSize": byte_size,
    "Count": partial(whole, least=1, below=U32),
    "float": partial(real, expected="a number, at least 0", least=0),
    "int": whole,
    "Samples": partial(whole, least=1),
    "Seconds": seconds,
    "Steps": steps,
    # The engine has the values of the next ones, and names them in its errors.
    **dict.fromkeys(_TEXTS, text),
    "str | os.PathLike[str]": path,
}


def checks(annotations: Mapping[str, str], without: Container[str] = ()) -> dict[str, Check]:
    """Returns the check of each option, which its annotation names; `| None` accepts None too."""
    table = {}
    for name, annotation in annotations.items():
        if name not in without and name != "return":
            kind = annotation.removesuffix(" | None")
            table[name] = _CHECKS[kind] if kind == annotation else partial(none_or, _CHECKS[kind])
    return table


def none_or(check: Check, name: str, value: Any) -> Any:
    """Checks a value that may be None."""
    return None if value is None else check(name, value)


def checked(table: Mapping[str, Check], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `values` as plain Python values, each by its check in `table`."""
    return {name: table[name](name, value) for name, value in values.items()}


@contextmanager
def within(prefix: str) -> Iterator[None]:
    """Adds `prefix` to the messages of the checks inside."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{prefix}: {error}") from None
