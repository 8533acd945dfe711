"""Pages of the documentation and the Python on them."""

import pathlib
import re

__all__ = ["LANGUAGES", "PAGES", "ROOT", "blocks"]

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "python" / "docs").glob("*.md"))]

LANGUAGES = {"c", "cpp", "sh", "text"}
"""Languages of blocks that are no Python. `tests/suite/ffi/page.rs` runs the blocks of the page about C."""

_BLOCK = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.M | re.S)


def blocks(page):
    """The Python of a page: line and text without its indent, in order."""
    text = page.read_text()
    for block in _BLOCK.finditer(text):
        language, shown = block.groups()
        if language == "python":
            indent = len(shown) - len(shown.lstrip(" "))
            yield text.count("\n", 0, block.start(2)), re.sub(rf"^ {{{indent}}}", "", shown, flags=re.M)
        else:
            assert language in LANGUAGES, f"{page.name}: no test runs a block of the language {language!r}"
