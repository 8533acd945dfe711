"""Charts of the report, drawn by matplotlib as inline SVG: lines over time, and stacked bars.

The colours become CSS variables of the page, so that one chart fits a light and a dark theme.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

COLOURS = {
    "busy": "#2563a8",
    "input": "#d98a29",
    "output": "#7a9a3c",
    "line": "#d9dce1",
    "text": "#20242a",
    "soft": "#667080",
}
"""CSS variables of the page, and their placeholders in matplotlib."""

_STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": "none",
    "axes.labelcolor": COLOURS["soft"],
    "font.size": 9,
    "grid.color": COLOURS["line"],
    "legend.frameon": False,
    "legend.labelcolor": COLOURS["soft"],
    # Text stays text: the page sets the font, and a reader can select it.
    "svg.fonttype": "none",
    "xtick.color": COLOURS["soft"],
    "xtick.major.pad": 6,
    "xtick.major.size": 0,
    "ytick.color": COLOURS["soft"],
    "ytick.major.pad": 6,
    "ytick.major.size": 0,
}


def number(value: float, _: object = None) -> str:
    """Formats a number for readers: 12,300 or 0.25."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def lines(
    series: Sequence[tuple[str, str, Sequence[tuple[float, float]]]],
    x_title: str,
    y_title: str,
    height: int = 260,
    y_top: float | None = None,
) -> str:
    """Draws curves over one pair of axes. `series` has name, colour and points of each."""

    def draw(axes: Axes) -> None:
        for name, colour, points in series:
            x, y = [x for x, _ in points], [y for _, y in points]
            axes.plot(x, y, label=name, color=COLOURS[colour], linewidth=2, marker="o" if len(points) == 1 else None)
        axes.grid(axis="y")
        axes.set(xlabel=x_title, ylabel=y_title)
        axes.set_xlim(left=0)
        axes.set_ylim(0, y_top)
        axes.yaxis.set_major_formatter(FuncFormatter(number))

    return _svg(draw, height, len(series) > 1)


def bars(rows: Sequence[tuple[str, Sequence[float]]], parts: Sequence[tuple[str, str]], unit: str) -> str:
    """Draws a bar for each row, stacked of `parts` (name and colour)."""
    names = [name for name, _ in rows]

    def draw(axes: Axes) -> None:
        left = [0.0] * len(rows)
        for place, (part, colour) in enumerate(parts):
            widths = [values[place] for _, values in rows]
            drawn = axes.barh(names, widths, 0.65, left=left, label=part, color=COLOURS[colour])
            left = [start + width for start, width in zip(left, widths)]
            if place == len(parts) - 1:
                # A bar that is too short to see has no label.
                labels = [f"{number(round(total, 2))} {unit}" if total >= 0.005 else "" for total in left]
                axes.bar_label(drawn, labels, padding=5, color=COLOURS["soft"])
        axes.grid(axis="x")
        axes.invert_yaxis()
        axes.margins(x=0.1)
        axes.set_xlabel("thread-seconds")
        axes.tick_params(axis="y", labelcolor=COLOURS["text"])
        axes.xaxis.set_major_formatter(FuncFormatter(number))

    return _svg(draw, 76 + 30 * len(rows), True)


def _svg(draw: Callable[[Axes], None], height: int, has_legend: bool) -> str:
    """Returns a chart of `height` pixels as an SVG element."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure((7.6, (height + 24 * has_legend) / 100), layout="constrained")
        axes = figure.subplots()
        draw(axes)
        if has_legend:
            handles, labels = axes.get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower left", ncols=len(labels), handlelength=1)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    svg = out.getvalue()
    # An element of a page needs neither the XML prologue nor namespaces.
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg[svg.index("<svg") :])
    for name, colour in COLOURS.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg
