"""The pages about trainers: every Python block runs."""

import pytest
import test_docs

pytest.importorskip("lightning", reason="the trainers are not installed: python/scripts/frameworks.sh")

FOLDER = test_docs.ROOT / "python" / "docs" / "trainers"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.md")), ids=test_docs.name_of)
def test_every_block_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    test_docs.run_blocks(page, {}, {"__name__": "__main__"})


def test_the_pages_are_on_the_site():
    site = (test_docs.ROOT / "python" / "mkdocs.yml").read_text()
    assert [page.name for page in FOLDER.glob("*.md") if f"trainers/{page.name}" not in site] == []
