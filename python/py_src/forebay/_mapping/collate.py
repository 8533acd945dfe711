"""From the results of rows to a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .padding import RowPadding
from .rows import SAME, Given, RowsDiffer, form_of, stacked


def collated(
    results: Sequence[Mapping[str, Any]], rows: Sequence[int], columns: Mapping[str, Any], padding: RowPadding | None = None
) -> dict[str, Any]:
    """Returns the outputs of the results of `rows`, and `columns` has the ones that the function got.

    The results have the same names.

    Raises:
        RowsDiffer: Rows of an output are neither an array nor a list by their types, or have different shapes and no padding.
        ConfigError: The value of `pad` does not fit the type of the rows.
    """
    batch, lengths = {}, {}
    for name in results[0]:
        values = [result[name] for result in results]
        if padding is not None and name in padding:
            batch[name], lengths[name] = padding.padded(name, _plain(values, rows, columns.get(name)), rows)
        elif all(value is SAME for value in values):
            batch[name] = kept_rows(columns[name], rows)
        else:
            batch[name] = _joined(name, values, rows, columns.get(name))
    return batch if padding is None else batch | padding.masks(batch, lengths)


def kept_rows(column: Any, rows: Sequence[int]) -> Any:
    """Returns the rows of an output; without a copy if these are all."""
    if len(rows) == len(column):
        return column
    return [column[row] for row in rows] if isinstance(column, list) else column[list(rows)]


def _joined(name: str, values: Sequence[Any], rows: Sequence[int], column: Any) -> Any:
    """Returns the values of an output as an array, a tensor or a list.

    Arrays of a field with varying shapes stay a list where the function passes them on. Only for some rows it would depend on the
    batch which one of both the output is.
    """
    plain = _plain(values, rows, column)
    if isinstance(column, list):
        are_given = [value is SAME or isinstance(value, Given) for value in values]
        if all(are_given):
            return plain
        if any(are_given) and form_of(plain[are_given.index(True)]) is not None:
            given, new = rows[are_given.index(True)], rows[are_given.index(False)]
            problem = f"{name} as it was, an array of a field with varying shapes, for row {given} of a batch and a new value for row {new}"
            remedy = "return a new array for all samples, such as x.clone() or x.copy(), or fill the rows, as in "
            remedy += f"Map(FUNCTION, pad={{{name!r}: 0}}), or return a list, such as [x] or x.tolist(), which stays a list"
            raise RowsDiffer(new, problem, remedy)
    return stacked(name, plain, rows)


def _plain(values: Sequence[Any], rows: Sequence[int], column: Any) -> list[Any]:
    """Returns the values without their marks."""

    def plain(value: Any, row: int) -> Any:
        if value is SAME:
            return column[row]
        return value.value if isinstance(value, Given) else value

    return [plain(value, row) for value, row in zip(values, rows)]
