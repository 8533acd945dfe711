"""The report as one HTML page, without scripts or anything from elsewhere."""

import html

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: .5em 0 1.5em; }
td, th { border-bottom: 1px solid #ddd; padding: .2em .8em .2em 0; text-align: left; vertical-align: top; }
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


def _table(rows):
    names = list(dict.fromkeys(name for row in rows for name in row if name != "stages"))
    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in names)
    cells = ("".join(f"<td>{html.escape(_text(row.get(name, '')))}</td>" for name in names) for row in rows)
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in cells) + "</table>"


def _part(part):
    outcome = part["outcome"]
    seconds = part["seconds"]
    title = f'<h2>{html.escape(part["name"])} <small class="{outcome}">{outcome}, {seconds:.1f} s</small></h2>'
    if "why" in part:
        return title + f"<p>{html.escape(part['why'])}</p>"
    found = part["found"]
    plain = {name: value for name, value in found.items() if not _is_rows(value)} if isinstance(found, dict) else {}
    tables = [_table([plain])] if plain else []
    if isinstance(found, dict):
        tables += [_table(value) for value in found.values() if _is_rows(value)]
    else:
        tables += [_table(found)]
    return title + "".join(tables)


def _is_rows(value):
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def page(report):
    """The report, as HTML."""
    machine = _table([report["machine"]])
    parts = "".join(_part(part) for part in report["parts"])
    date = html.escape(report["date"])
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>forebay on a GPU</title>'
        f"<style>{STYLE}</style><h1>forebay on a GPU, {date}</h1>{machine}{parts}</html>\n"
    )
