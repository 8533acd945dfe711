"""Texts of the command in terminals of several widths, with and without colours, and in pipes.

`FOREBAY_WRITE_GOLDEN=1` writes the expected texts again.
"""

import os
import re

import pytest
from terminals import compared, run, shown

import forebay as fb

COMMANDS = re.findall(r"^  ([a-z]+) ", run("--help").stdout.partition("Commands:")[2].partition("Options:")[0], re.MULTILINE)


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_all_commands_are_known():
    assert {"ls", "cat", "cp", "verify", "which", "index", "convert", "checkpoint", "completion", "help"} <= set(COMMANDS)


@pytest.mark.parametrize("command", ["", *(name for name in COMMANDS if name != "help")])
def test_the_help_of_a_command_fits_into_the_terminal(command):
    words = {}
    for columns in (80, 200):
        code, text = shown(*command.split(), "--help", columns=columns)
        assert code == 0 and len(text.splitlines()) > 3
        assert [line for line in plain(text).splitlines() if len(line) > columns] == []
        words[columns] = plain(text).split()
    assert words[80] == words[200]


@pytest.mark.parametrize("command", ["ls", "cp", "verify", "which"])
def test_the_short_help_of_a_command(command):
    code, text = shown(command, "-h", columns=80)
    assert code == 0
    compared(f"help-{command}", plain(text))


@pytest.fixture
def data(tmp_path):
    with fb.MDSWriter(out=tmp_path / "set", columns={"x": "int"}, hashes=["sha1"], size_limit=400) as writer:
        for x in range(40):
            writer.write({"x": x})
    (tmp_path / "set/sub").mkdir()
    (tmp_path / "set/sub/large").write_bytes(bytes(1_234_567))
    for path in (tmp_path / "set").rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return tmp_path / "set"


def results(data):
    """Commands by name, with results that are compared."""
    with fb.Loader(local=data, batch_size=4) as loader:
        loader.save_run(data.parent / "run.json")
    return {
        "ls": ("ls", data),
        "ls-long": ("ls", "-rl", data),
        "ls-none": ("ls", data / "none"),
        "verify": ("verify", data),
        "which": ("which", data.parent / "run.json", "--step", "2"),
    }


@pytest.mark.parametrize("name", ["ls", "ls-long", "ls-none", "verify", "which"])
def test_results_are_the_same_in_every_terminal_but_for_colours(data, name):
    arguments = results(data)[name]
    texts = {}
    for columns, variable in ((80, {}), (200, {}), (80, {"NO_COLOR": "1"}), (80, {"TERM": "dumb"})):
        _, texts[columns, *variable] = shown(*arguments, columns=columns, term=variable.get("TERM", "xterm"), **variable)
    root = str(data.parent)
    text = texts[80, "NO_COLOR"].replace(root, "ROOT")
    # Progress is replaced by the results, where a terminal can do that.
    text = re.sub(r"(\r\x1b\[K[^\r\n]*)*\r\x1b\[K", "", text)
    compared(name, text)
    for (_, *variable), found in texts.items():
        found = re.sub(r"(\r\x1b\[K[^\r\n]*)*\r\x1b\[K", "", found).replace(root, "ROOT")
        assert plain(found) == text
        assert ("\x1b[" in found) == (name == "ls-none" and not variable), variable
    assert "\x1b" not in texts[80, "TERM"]
    piped = run(*arguments)
    assert (piped.stdout + piped.stderr).replace(root, "ROOT") == text


def test_errors_in_a_file_have_no_colours(tmp_path):
    with (tmp_path / "errors").open("w+") as errors:
        code, text = shown("ls", tmp_path / "none", columns=80, stderr=errors)
        errors.seek(0)
        assert (code, text) == (2, "") and errors.read().startswith("error: ")


@pytest.mark.parametrize("when", ["always", "never"])
def test_an_option_precedes_the_terminal(tmp_path, when):
    code, text = shown("--color", when, "ls", tmp_path / "none", columns=80, NO_COLOR="1")
    assert code == 2 and ("\x1b[1;31merror:" in text) == (when == "always")
    assert ("\x1b[" in run("--color", when, "ls", tmp_path / "none").stderr) == (when == "always")
