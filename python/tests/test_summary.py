"""Short texts for people: facts of Python, `help(Loader)`, and the line about the bottleneck."""

import platform
import pydoc
import re

from loaders import numbers, ordered

import forebay as fb
from forebay import _machine


def test_the_facts_of_python_have_names():
    facts = dict(_machine.facts())
    assert facts["Python"] == platform.python_version()
    assert re.search(r"(no )?tensorflow", facts["libraries"])


def test_help_has_lines_of_a_readable_width():
    shown = pydoc.plain(pydoc.render_doc(fb.Loader)).splitlines()
    of_class = shown[: shown.index(" |  Methods defined here:")]
    assert len(of_class) <= 100
    assert [line for line in shown if len(line) > 124] == []
    assert any("batch_size, drop_last=False," in line for line in of_class)


def test_stats_begin_with_the_bottleneck(pictures):
    with ordered(pictures) as loader:
        assert loader.stats()["bottleneck"] == "unknown: no batch was delivered yet"
        numbers(loader)
        stats = loader.stats()
    assert list(stats) == ["bottleneck", "limit", "elapsed_s", "threads", "waits", "stages", "counters", "notes"]
    assert " s for batches" in stats["bottleneck"]
    waits = stats["waits"]
    assert waits["count"] == stats["stages"]["next"]["items"]
    assert 0 < waits["p50_s"] <= waits["p95_s"] <= waits["p99_s"]
