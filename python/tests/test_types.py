"""Types of the public interface, for type checkers and editors.

It needs basedpyright, which `python/scripts/types.sh` installs in a separate environment.
"""

import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from pages import PAGES, ROOT, blocks
from untyped import write_stubs

TYPING = pathlib.Path(__file__).with_name("typing")
DOCS = ROOT / "python" / "docs"

WRONG = {
    "README.md": ("shuffle=True", "shufle=True"),
    "python/docs/get-started.md": ('columns=columns', 'columns=["image"]'),
    "python/docs/fields.md": ('dtype="float32"', 'dtype="float23"'),
    "python/docs/checkpoints.md": ('shuffle_algo="naive"', 'shuffle_algo="none"'),
    "python/docs/metrics.md": ('["bottleneck"]', '["bottlneck"]'),
}
"""Mistakes, each in a copy of a page: the text there, and the wrong one."""

DERIVED = ("checkpoint.distributed", "datapipes", "integrations", "s3torch")
"""Modules with classes and values of libraries without complete types, or that are not installed here: a class that is derived from
such a class has an unknown base."""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("basedpyright") is None, reason="basedpyright is not installed: run python/scripts/types.sh"
)


def report_of(*arguments):
    """The report of the type checker."""
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return json.loads(done.stdout)


def checked(project, files):
    """The errors in the `files` of a project: lists of lines and messages, by the names of the files."""
    report = report_of("--project", str(project))
    assert report["summary"]["filesAnalyzed"] == len(files)
    found = {name: [] for name in files}
    for error in report["generalDiagnostics"]:
        # A file that is not among them has to have no error, too.
        found.setdefault(error["file"], []).append((error["range"]["start"]["line"] + 1, error["message"]))
    return found


@pytest.fixture(scope="module")
def found():
    """Errors of each program."""
    return checked(TYPING, [str(TYPING / "program.py"), str(TYPING / "mistakes.py")])


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Errors of the Python on each page, on pages with a mistake, and in the programs of `python/examples`.

    The blocks of a page are one program, with the page's lines. Every rule of the strict mode is on. `untyped` has the reason for
    stubs of the remaining libraries.
    """
    project = tmp_path_factory.mktemp("examples")
    shown = {}
    for page in [PAGES[0], *sorted(DOCS.rglob("*.md"))]:
        text = ""
        for line, block in blocks(page):
            text += "\n" * (line - text.count("\n")) + block
        if text:
            name = str(page.relative_to(ROOT))
            shown[name] = text
            if name in WRONG:
                assert WRONG[name][0] in text, name
                shown[f"wrong/{name}"] = text.replace(*WRONG[name], 1)
    files = {}
    for name, text in shown.items():
        # A page is a separate module.
        file = project / "pages" / f"{re.sub(r'[/.-]', '_', name)}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        files[str(file)] = name
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "python" / "examples", project / "examples", ignore=ignored)
    files |= {str(file): str(file.relative_to(project)) for file in (project / "examples").rglob("*.py")}
    # Names in this file are known in every program.
    builtins = shutil.copy(TYPING / "reader.pyi", project / "__builtins__.pyi")
    write_stubs([pathlib.Path(file) for file in files] + [pathlib.Path(builtins)], project / "typings")
    # The stubs have no sources.
    options = {"typeCheckingMode": "strict", "include": ["pages", "examples"], "reportMissingModuleSource": False}
    (project / "pyrightconfig.json").write_text(json.dumps(options))
    return {files.get(file, file): errors for file, errors in checked(project, files).items()}


def test_a_program_that_uses_the_public_interface_has_no_error_in_strict_mode(found):
    assert found[str(TYPING / "program.py")] == []


def test_every_planted_mistake_is_found_and_nothing_else(found):
    planted = {
        number
        for number, line in enumerate((TYPING / "mistakes.py").read_text().splitlines(), 1)
        if line.endswith("# mistake")
    }
    assert len(planted) >= 10 and {line for line, _ in found[str(TYPING / "mistakes.py")]} == planted


def test_every_example_of_the_documentation_has_no_error_in_strict_mode(examples):
    assert len(examples) > 40
    assert {name: errors for name, errors in examples.items() if errors and not name.startswith("wrong/")} == {}


def test_a_mistake_in_an_example_of_the_documentation_is_found(examples):
    assert {name for name in WRONG if not examples[f"wrong/{name}"]} == set()


def test_the_type_of_every_public_name_is_known():
    symbols = report_of("--verifytypes", "forebay", "--ignoreexternal")["typeCompleteness"]["symbols"]
    assert len(symbols) > 2000
    unknown = {}
    for symbol in symbols:
        # `streaming` has the interface of MosaicML streaming, which has few types.
        if symbol["isExported"] and not symbol["name"].startswith("forebay.streaming"):
            messages = [found["message"] for found in symbol["diagnostics"] if found["severity"] == "error"]
            if symbol["name"].removeprefix("forebay.").startswith(DERIVED):
                derived = re.compile("Type of (metaclass|base class)|Return type is|Type of parameter")
                messages = [message for message in messages if not derived.match(message)]
            if messages:
                unknown[symbol["name"]] = messages
    assert unknown == {}
