"""Report of the demonstration: one page without further files.

`render` is a function of the measured figures, so a page can be made without a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from charts import bars, lines, number

PARTS = (("busy", "busy"),)
"""Parts of a stage's time that bars show, and their colours."""


@dataclass
class Phase:
    """Part of the run."""

    name: str
    about: str
    seconds: float
    images: int
    arrivals: Sequence[tuple[float, int]]
    """Seconds since the start, and images of the batch that arrived then."""
    stats: Mapping[str, Any]
    """Figures of `Loader.stats` for this part."""
    first_batch: float
    """Seconds from the start of the epoch to its first batch."""

    @property
    def rate(self) -> float:
        """Images per second over the whole phase."""
        return self.images / self.seconds if self.seconds else 0.0


@dataclass
class Training:
    """Figures of the training."""

    phase: Phase
    losses: Sequence[tuple[int, float]]
    """Step from 1, and its loss."""
    stalls: Sequence[tuple[float, float]]
    """Seconds since the start, and the share of time waiting for data in the steps before."""
    stall_share: float
    """Share of time waiting for data over all steps except the first, which includes the start of the loader."""


@dataclass
class Results:
    """Contents of the page."""

    title: str
    facts: Sequence[tuple[str, str]]
    epochs: Sequence[Phase]
    training: Training | None
    hint: str
    notes: Sequence[str] = field(default_factory=tuple)


def rates(arrivals: Sequence[tuple[float, int]], bins: int = 40) -> list[tuple[float, float]]:
    """Returns images per second over time, for groups of equally many batches, at least four.

    Intervals of equal time would contain one or two batches in turn, and the rate would jump.
    """
    size = max(4, -(-len(arrivals) // bins))
    out: list[tuple[float, float]] = []
    start = 0.0
    for first in range(0, len(arrivals), size):
        group = arrivals[first : first + size]
        # An incomplete group at the end would be noise; a short run has only that group.
        if len(group) < size and out:
            break
        end = group[-1][0]
        out.append(((start + end) / 2, sum(images for _, images in group) / max(end - start, 1e-9)))
        start = end
    return out


def stage_table(stats: Mapping[str, Any]) -> list[list[str]]:
    """Returns the stages as rows of text: name, items, megabytes, the three times in seconds."""
    rows = [["stage", "items", "MB", "busy s", "waiting for input s", "waiting for output s"]]
    for name, stage in stats["stages"].items():
        times = (f"{stage[key]:.2f}" for key in ("busy_s", "input_s", "output_s"))
        rows.append([name, f"{stage['items']:,}", f"{stage['bytes'] / 1e6:,.1f}", *times])
    return rows


def _table(rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:])
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _stages(phase: Phase) -> str:
    # Work alone: a stage that has nothing to do waits on all its threads, and would have the longest bar.
    busy = [(name, [s["busy_s"]]) for name, s in phase.stats["stages"].items() if s["items"] or s["busy_s"]]
    rows = sorted(busy, key=lambda row: -row[1][0])
    counters = [["counter", "value"], *([name, f"{value:,}"] for name, value in phase.stats["counters"].items() if value)]
    return (
        f"<h3>{escape(phase.name)}</h3><p><b>Bottleneck</b>: {escape(phase.stats['bottleneck'])}</p>{bars(rows, PARTS, 's')}"
        f"<details><summary>figures</summary>{_table(stage_table(phase.stats))}{_table(counters)}</details>"
    )


def _card(value: str, unit: str, label: str) -> str:
    return f'<div class="card"><b>{escape(value)}</b> <span>{escape(unit)}</span><p>{escape(label)}</p></div>'


def render(results: Results) -> str:
    """Returns the page."""
    phases = [*results.epochs, *([results.training.phase] if results.training else [])]
    cards = [_card(number(p.rate), "images/s", p.name) for p in phases]
    if results.training:
        cards.append(_card(f"{results.training.stall_share:.1%}", "of the time", "training waited for data"))
    colours = ("busy", "output", "input")
    out = [f"<h1>{escape(results.title)}</h1>", f'<div class="cards">{"".join(cards)}</div>']

    out.append("<h2>Throughput over time</h2><p>Batches of the loader alone, without training.</p>")
    series = [(p.name, colour, rates(p.arrivals)) for p, colour in zip(results.epochs, colours)]
    out.append(lines(series, "seconds since the epoch began", "images/s"))
    if results.training:
        training = results.training
        out.append(f"<h2>Training</h2><p>{escape(training.phase.about)}</p>")
        out.append(lines([("images/s", "busy", rates(training.phase.arrivals))], "seconds", "images/s", 220))
        out.append(lines([("loss", "output", [(float(s), v) for s, v in training.losses])], "step", "loss", 200))
        stall = [(at, 100 * share) for at, share in training.stalls]
        out.append(lines([("stall", "input", stall)], "seconds", "% of time waiting", 180, 100))
    out.append(
        "<h2>Work of each stage</h2><p>Seconds of work, summed over a stage's threads; the figures below each chart have its times of "
        "waiting as well. The bottleneck is the stage that is busy while the next one waits for input, or your loop.</p>"
    )
    out += [_stages(phase) for phase in phases]

    rows = [["", "images", "seconds", "images/s", "first batch after"]]
    rows += [[p.name, f"{p.images:,}", f"{p.seconds:.2f}", number(p.rate), f"{p.first_batch:.2f} s"] for p in phases]
    out.append(f"<h2>Figures</h2>{_table(rows)}")
    out.append(f"<h2>The run</h2>{_table([['', ''], *map(list, results.facts)])}")
    if results.notes:
        out.append("<ul>" + "".join(f"<li>{escape(note)}</li>" for note in results.notes) + "</ul>")
    out.append(f"<h2>Your own data</h2><pre>{escape(results.hint)}</pre>")
    return _PAGE.format(title=escape(results.title), body="\n".join(out))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --busy: #2563a8; --input: #d98a29; --output: #7a9a3c; --line: #d9dce1; --text: #20242a;
  --soft: #667080; --back: #fff; --card: #f4f6f8 }}
@media (prefers-color-scheme: dark) {{ :root {{ --busy: #5b9bd9; --input: #e0a050; --output: #9dbd5e; --line: #363c45;
  --text: #e4e7eb; --soft: #98a2b0; --back: #16191d; --card: #20252b }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 860px; margin: 2rem auto;
  padding: 0 1rem }}
h1 {{ font-size: 1.5rem }} h2 {{ font-size: 1.15rem; margin: 2.2rem 0 .3rem }} h3 {{ font-size: 1rem; margin: 1.2rem 0 .2rem }}
p {{ margin: .2rem 0 .6rem; color: var(--soft) }}
.cards {{ display: flex; flex-wrap: wrap; gap: .7rem }}
.card {{ background: var(--card); border-radius: 8px; padding: .7rem 1rem; flex: 1 1 150px }}
.card b {{ font-size: 1.5rem }} .card span {{ color: var(--soft) }} .card p {{ margin: 0 }}
svg {{ width: 100%; height: auto; display: block }} svg text {{ font-family: system-ui, sans-serif !important }}
.scroll {{ overflow-x: auto }} table {{ border-collapse: collapse; margin: .5rem 0; font-size: 13px }}
th, td {{ text-align: right; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line) }}
th:first-child, td:first-child {{ text-align: left }}
th {{ font-weight: 600; color: var(--soft) }} summary {{ cursor: pointer; color: var(--soft); font-size: 13px }}
pre {{ background: var(--card); border-radius: 8px; padding: .8rem 1rem; overflow-x: auto; font-size: 12px }}
</style></head><body>
{body}
</body></html>
"""
