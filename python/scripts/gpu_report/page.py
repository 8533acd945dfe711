"""Report as one HTML page, without scripts or external files."""

import collections
import html

from . import summary

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222; }
.wide { overflow-x: auto; margin: .5em 0 1.5em; } table { border-collapse: collapse; }
td, th { border-bottom: 1px solid #ddd; padding: .2em 1em .2em 0; text-align: left; vertical-align: top; }
.wide td { white-space: nowrap; } .named td { overflow-wrap: anywhere; }
.named th { white-space: nowrap; font-weight: normal; color: #666; }
h2 { font-size: 1.15em; margin: 1.6em 0 .3em; } h3 { font-size: 1em; margin: 0; } small { font-weight: normal; }
pre { overflow-x: auto; background: #f6f6f6; padding: .6em; font-size: 12px; max-height: 40em; }
ul { margin: 0 0 1em; padding-left: 1.2em; color: #555; }
.passed { color: #176d2b; } .failed { color: #b00020; font-weight: bold; } .skipped { color: #7a6000; } .running { color: #b00020; }
tr.wrong td { color: #b00020; }
"""

APART = ("notes", "warnings", "stages", "counters", "libraries")
"""Keys of a row that are shown below the table instead of in a column."""

NAMES = {"fell_back": "invalid because"}
"""Names of columns that differ from the JSON's."""

MEANS = "Rates are means. A column named best has the best of several rounds."


def _text(value):
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(one)}" for name, one in value.items())
    if isinstance(value, list):
        return "; ".join(map(_text, value))
    return str(value)


def _bytes(value):
    """Formats a number in a unit with one to three digits before the point."""
    for unit in ("B", "kB", "MB"):
        if abs(value) < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def _cell(name, value):
    if isinstance(value, (int, float)) and name.endswith(("bytes", "bytes_per_s")):
        return _bytes(value) + ("/s" if name.endswith("_per_s") else "")
    return _text(value)


def _title(name):
    return html.escape(NAMES.get(name, name.replace("_", " ")))


def _table(rows):
    """Makes a table of rows; a single row becomes names and values."""
    names = list(dict.fromkeys(name for row in rows for name in row if name not in APART))
    if len(rows) == 1:
        (row,) = rows
        pairs = ((name, html.escape(_cell(name, row[name]))) for name in names if not _is_long(row[name]))
        plain = "".join(f"<tr><th>{_title(name)}</th><td>{value}</td></tr>" for name, value in pairs)
        long = "".join(_folded(name, row[name]) for name in names if _is_long(row[name]))
        return f'<table class="named">{plain}</table>{long}{_apart(rows)}'
    head = "".join(f"<th>{_title(name)}</th>" for name in names)
    lines = []
    for row in rows:
        cells = "".join(f"<td>{html.escape(_cell(name, row.get(name, '')))}</td>" for name in names)
        lines.append(f"<tr{' class=wrong' if 'fell_back' in row or 'failed' in row else ''}>{cells}</tr>")
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(lines)}</table></div>{_apart(rows)}'


def _is_long(value):
    return isinstance(value, str) and "\n" in value


def _folded(name, text):
    return f"<details><summary>{_title(name)}</summary><pre>{html.escape(text)}</pre></details>"


def _apart(rows):
    """Returns notes and warnings once each, and folded counters and stages of each row."""
    sentences = dict.fromkeys(sentence for row in rows for name in ("warnings", "notes") for sentence in row.get(name) or [])
    notes = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    more = []
    for number, row in enumerate(rows, 1):
        lines = [f"row {number}"] if len(rows) > 1 else []
        if row.get("counters"):
            lines.append(_text(row["counters"]))
        lines += [f"{stage}: {_text(figures)}" for stage, figures in (row.get("stages") or {}).items()]
        lines += [f"{path}: {version}" for path, version in (row.get("libraries") or {}).items()]
        if any(row.get(name) for name in ("counters", "stages", "libraries")):
            more.append("\n".join(lines))
    return (f"<ul>{notes}</ul>" if notes else "") + (_folded("counters, stages, libraries", "\n\n".join(more)) if more else "")


def _part(part):
    outcome = part["outcome"]
    seconds = part["seconds"]
    title = f'<h2>{html.escape(part["name"])} <small class="{outcome}">{outcome}, {seconds:.1f} s</small></h2>'
    why = f"<p>{html.escape(part['why'])}</p>" if "why" in part else ""
    found = _found(part["found"]) if part.get("found") else ""
    return title + why + found + "".join(_folded(name, part[name]) for name in ("stack", "traceback", "output") if name in part)


def _found(found):
    """Makes a table of single values, and one for each list of rows."""
    if not isinstance(found, dict):
        return _table(found)
    plain = {name: value for name, value in found.items() if not _is_rows(value)}
    tables = [_table([plain])] if plain else []
    for name, value in found.items():
        if _is_rows(value):
            tables += [f"<h3>{_title(name)}</h3>" if name != "rows" else "", _table(value)]
    return "".join(tables)


def _is_rows(value):
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def page(report):
    """Returns the report as HTML."""
    tables = "".join(_table(rows) for rows in summary.tables(report) if rows)
    figures = f"<h2>In short</h2>{tables}<p>{MEANS}</p>" if tables else ""
    parts = "".join(_part(part) for part in report["parts"])
    outcomes = collections.Counter(part["outcome"] for part in report["parts"])
    counts = ", ".join(f'<span class="{name}">{count} {name}</span>' for name, count in outcomes.items())
    bad = [part["name"] for part in report["parts"] if part["outcome"] == "failed"]
    failed = f'<p class="failed">failed: {html.escape("; ".join(bad))}</p>' if bad else ""
    date = html.escape(report["date"])
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>forebay on a GPU</title>'
        f"<style>{STYLE}</style><h1>forebay on a GPU, {date}</h1><p>{counts}</p>{failed}{figures}"
        f"<h2>The machine</h2>{_table([report['machine']])}{parts}</html>\n"
    )
