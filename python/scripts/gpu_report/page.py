"""The report as one HTML page, without scripts or anything from elsewhere."""

import collections
import html

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: .5em 0 1.5em; }
td, th { border-bottom: 1px solid #ddd; padding: .2em .8em .2em 0; text-align: left; vertical-align: top; }
h3 { font-size: 1em; margin: 0; } pre { overflow-x: auto; }
.passed { color: #176d2b; } .failed { color: #b00020; font-weight: bold; } .skipped { color: #7a6000; } .running { color: #b00020; }
"""


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
    """In the unit that leaves one to three digits before the point."""
    for unit in ("B", "kB", "MB"):
        if abs(value) < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def _cell(name, value):
    if isinstance(value, (int, float)) and name.endswith(("bytes", "bytes_per_s")):
        return _bytes(value) + ("/s" if name.endswith("_per_s") else "")
    return _text(value)


def _table(rows):
    names = list(dict.fromkeys(name for row in rows for name in row if name != "stages"))
    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in names)
    cells = ("".join(f"<td>{html.escape(_cell(name, row.get(name, '')))}</td>" for name in names) for row in rows)
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


def _part(part):
    outcome = part["outcome"]
    seconds = part["seconds"]
    title = f'<h2>{html.escape(part["name"])} <small class="{outcome}">{outcome}, {seconds:.1f} s</small></h2>'
    if "why" in part:
        stack = f"<pre>{html.escape(part['stack'])}</pre>" if "stack" in part else ""
        return title + f"<p>{html.escape(part['why'])}</p>{stack}"
    return title + (_found(part["found"]) if isinstance(part["found"], dict) else _table(part["found"]))


def _found(found):
    """A table of what is one value, and one for each list of rows."""
    plain = {name: value for name, value in found.items() if not _is_rows(value)}
    tables = [_table([plain])] if plain else []
    for name, value in found.items():
        if _is_rows(value):
            tables += [f"<h3>{html.escape(name.replace('_', ' '))}</h3>", _table(value)]
    return "".join(tables)


def _is_rows(value):
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def page(report):
    """The report, as HTML."""
    machine = _table([report["machine"]])
    parts = "".join(_part(part) for part in report["parts"])
    outcomes = collections.Counter(part["outcome"] for part in report["parts"])
    summary = ", ".join(f'<span class="{name}">{count} {name}</span>' for name, count in outcomes.items())
    date = html.escape(report["date"])
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>forebay on a GPU</title>'
        f"<style>{STYLE}</style><h1>forebay on a GPU, {date}</h1><p>{summary}</p>{machine}{parts}</html>\n"
    )
