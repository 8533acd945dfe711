"""Pages of the site that are files elsewhere in the repository, and links between both.

On the pages a link to such a file is relative to the repository, so that it works in a checkout as well.
"""

import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).parents[2]

PAGES = {
    "bench/README.md": "measurements.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""File in the repository, and page of the site."""

FIGURES = ROOT / "bench" / "figures"


def on_files(files, config):
    """Adds the pages from elsewhere, and the figures they show."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text()
        text = re.sub(r"\]\((?:\.\./)?python/docs/", "](", text)
        files.append(File.generated(config, page, content=text))
    for figure in sorted(FIGURES.glob("*.svg")):
        files.append(File.generated(config, f"figures/{figure.name}", abs_src_path=str(figure)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links to files of the repository become links to their pages; the glossary gets its table."""
    if page.file.src_uri == "glossary.md":
        table = re.search(r"^\| word \|.*?(?=^$|\Z)", (ROOT / "CONTRIBUTING.md").read_text(), re.M | re.S)
        markdown += "\n" + table[0]
    for source, target in PAGES.items():
        markdown = markdown.replace(f"](../../{source}", f"]({target}")
    return markdown.replace("](../../bench/figures/", "](figures/")
