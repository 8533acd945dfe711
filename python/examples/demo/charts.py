"""Two kinds of drawing for the report, as inline SVG: lines over time, and stacked bars.

Colours are CSS variables of the page, so one drawing serves a light and a dark one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH = 760
"""Units of the drawing's own coordinates; the page scales it."""


def number(value: float) -> str:
    """A number as a person would write it: 12,300 or 0.25."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def ticks(top: float, wanted: int = 5) -> list[float]:
    """Round numbers from 0 to at least `top`."""
    if not top > 0 or not math.isfinite(top):
        return [0.0, 1.0]
    step = 10 ** math.floor(math.log10(top / wanted))
    step *= next(m for m in (1, 2, 5, 10) if top / (step * m) <= wanted)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def lines(
    series: Sequence[tuple[str, str, Sequence[tuple[float, float]]]],
    x_title: str,
    y_title: str,
    height: int = 260,
    y_top: float | None = None,
) -> str:
    """Curves over one pair of axes. `series` holds name, colour and points."""
    left, right, top, bottom = 64, 16, 14, 44
    xs = ticks(max((x for _, _, points in series for x, _ in points), default=1), 8)
    ys = ticks(y_top or max((y for _, _, points in series for _, y in points), default=1))
    wide, high = WIDTH - left - right, height - top - bottom

    def place(x: float, y: float) -> str:
        return f"{left + wide * x / xs[-1]:.1f},{top + high * (1 - min(y, ys[-1]) / ys[-1]):.1f}"

    out = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(y_title)} over {escape(x_title)}">']
    for y in ys:
        at = top + high * (1 - y / ys[-1])
        out.append(f'<line class="grid" x1="{left}" x2="{left + wide}" y1="{at:.1f}" y2="{at:.1f}"/>')
        out.append(f'<text class="tick" x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{number(y)}</text>')
    for x in xs:
        at = left + wide * x / xs[-1]
        out.append(f'<text class="tick" x="{at:.1f}" y="{top + high + 18}" text-anchor="middle">{number(x)}</text>')
    out.append(
        f'<text class="title" x="{left + wide / 2}" y="{height - 6}" text-anchor="middle">{escape(x_title)}</text>'
        f'<text class="title" transform="translate(14 {top + high / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_title)}</text>"
    )
    for name, colour, points in series:
        path = " ".join(place(x, y) for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="var(--{colour})" stroke-width="2"/>')
        if len(points) == 1:
            x, y = place(*points[0]).split(",")
            out.append(f'<circle cx="{x}" cy="{y}" r="3" fill="var(--{colour})"/>')
    out.append("</svg>")
    if len(series) > 1:
        out.append(legend([(name, colour) for name, colour, _ in series]))
    return "".join(out)


def bars(rows: Sequence[tuple[str, Sequence[float]]], parts: Sequence[tuple[str, str]], unit: str) -> str:
    """A bar for each row, stacked of `parts` (name and colour), as long as their sum."""
    left, right, line, top, bottom = 96, 70, 30, 6, 40
    height = top + line * max(len(rows), 1) + bottom
    scale = ticks(max((sum(values) for _, values in rows), default=1), 6)
    wide = WIDTH - left - right
    out = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="time of each stage">']
    for x in scale:
        at = left + wide * x / scale[-1]
        foot = top + line * len(rows)
        out.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{foot}"/>')
        out.append(f'<text class="tick" x="{at:.1f}" y="{foot + 16}" text-anchor="middle">{number(x)}</text>')
    for row, (name, values) in enumerate(rows):
        y = top + line * row
        out.append(f'<text class="name" x="{left - 8}" y="{y + 20}" text-anchor="end">{escape(name)}</text>')
        x = float(left)
        for value, (part, colour) in zip(values, parts):
            length = wide * value / scale[-1]
            out.append(
                f'<rect x="{x:.1f}" y="{y + 5}" width="{length:.1f}" height="{line - 10}" fill="var(--{colour})">'
                f"<title>{escape(name)}: {escape(part)} {number(value)} {unit}</title></rect>"
            )
            x += length
        total = sum(values)
        # A stage that did next to nothing has no bar, and needs no digits either.
        label = f"{number(round(total, 2))} {unit}" if total >= 0.005 else ""
        out.append(f'<text class="tick" x="{x + 6:.1f}" y="{y + 20}">{label}</text>')
    out.append(f'<text class="title" x="{left + wide / 2}" y="{height - 6}" text-anchor="middle">thread-seconds</text>')
    out.append("</svg>" + legend(parts))
    return "".join(out)


def legend(names: Sequence[tuple[str, str]]) -> str:
    """What the colours mean."""
    items = (f'<li><i style="background:var(--{colour})"></i>{escape(name)}</li>' for name, colour in names)
    return f'<ul class="legend">{"".join(items)}</ul>'
