"""The pages about frameworks: every Python block runs."""

import pytest
import test_docs

FOLDER = test_docs.ROOT / "python" / "docs" / "frameworks"
NEEDED = {"jax": ["jax", "orbax.checkpoint"], "keras": ["keras"], "tensorflow": ["tensorflow"], "numpy": ["numpy"]}
"""Packages that the blocks of a page import."""


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.md")), ids=lambda page: page.stem)
def test_every_block_of_the_page_runs(page, tmp_path, monkeypatch):
    for package in NEEDED[page.stem]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    test_docs.run_blocks(page, {'"/tmp/': f'"{tmp_path}/'}, {"__name__": "__main__"})


def test_the_pages_are_on_the_site():
    site = (test_docs.ROOT / "python" / "mkdocs.yml").read_text()
    assert all(f"frameworks/{page.name}" in site for page in FOLDER.glob("*.md"))
