"""`import streaming` through the alias, each time in a separate process."""

import subprocess
import sys
import textwrap

import pytest


def run(*arguments, code=None, timeout=600, cwd=None):
    """Returns the output of a Python process; its failure fails the test."""
    command = [sys.executable, *(["-c", textwrap.dedent(code)] if code else arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_module_is_the_same_module_under_both_names():
    run(
        code="""
        import forebay.streaming.alias
        import streaming, forebay.streaming
        from streaming.base import spanner
        import streaming.base.spanner
        import forebay.streaming.base.spanner as real
        assert streaming is forebay.streaming
        assert spanner is real is streaming.base.spanner
        assert real.__spec__.name == real.__name__ == "forebay.streaming.base.spanner"
        import importlib
        assert importlib.reload(real) is real
        """
    )


def test_patching_the_alias_by_a_dotted_path_patches_the_package():
    run(
        code="""
        import forebay.streaming.alias
        from unittest.mock import patch
        with patch("streaming.base.spanner.Spanner", 7):
            from forebay.streaming.base import spanner
            assert spanner.Spanner == 7
        """
    )


def test_a_pickle_of_the_references_classes_loads():
    run(
        code="""
        import forebay.streaming.alias
        import pickle
        from forebay.streaming.base.world import World
        assert pickle.loads(b"cstreaming.base.world\\nWorld\\n.") is World
        """
    )


def test_a_module_that_does_not_exist_is_named():
    run(
        code="""
        import forebay.streaming.alias
        try:
            import streaming.nothing
        except ModuleNotFoundError as error:
            assert error.name == "streaming.nothing", error.name
        else:
            raise SystemExit("it was found")
        """
    )


def test_installing_the_alias_after_the_reference_is_an_error():
    run(
        code="""
        import sys, types
        sys.modules["streaming"] = types.ModuleType("streaming")
        try:
            import forebay.streaming.alias
        except ImportError as error:
            assert "before" in str(error)
        else:
            raise SystemExit("two packages of one name")
        """
    )


def test_large_packages_are_imported_only_when_used():
    heavy = "torch torchvision transformers boto3 google pyspark PIL"
    run(
        code=f"""
        import sys
        import forebay.streaming, forebay.streaming.base, forebay.streaming.base.spanner
        found = [name for name in "{heavy}".split() if name in sys.modules]
        assert not found, found
        """
    )


def program(neighbour):
    """A program that runs a subclass of our class in a new process; it imports NAME from module `neighbour`."""
    return textwrap.dedent(
        f"""
        import multiprocessing, os, sys
        from streaming.base.spanner import Spanner
        from {neighbour} import NAME

        class Mine(Spanner):
            pass

        def work(cls):
            return cls is Mine, cls.__mro__[1].__module__

        if __name__ == "__main__":
            with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
                print(pool.apply(work, (Mine,)), NAME, sys.argv[2:], os.path.basename(sys.argv[0]))
        """
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_script_and_its_workers_run_through_the_alias(tmp_path, method):
    script = tmp_path / "train.py"
    script.write_text(program("neighbour"))
    (tmp_path / "neighbour.py").write_text("NAME = 'neighbour'")
    out = run("-m", "forebay.streaming.alias", str(script), method, "--lr", "1")
    assert out.strip() == "(True, 'forebay.streaming.base.spanner') neighbour ['--lr', '1'] train.py"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_module_and_its_workers_run_through_the_alias(tmp_path, method):
    package = tmp_path / "training"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "neighbour.py").write_text("NAME = 'neighbour'")
    (package / "__main__.py").write_text(program(".neighbour"))
    out = run("-m", "forebay.streaming.alias", "-m", "training", method, "--lr", "1", cwd=tmp_path)
    assert out.strip() == "(True, 'forebay.streaming.base.spanner') neighbour ['--lr', '1'] __main__.py"


def test_a_converter_runs_as_a_module_of_the_reference():
    out = run("-m", "forebay.streaming.alias", "-m", "streaming.vision.convert.cifar10", "--help")
    assert "--in_root" in out


def test_the_alias_works_as_a_pytest_plugin(tmp_path):
    test = tmp_path / "test_it.py"
    test.write_text("import streaming\ndef test_it(): assert streaming.__name__ == 'forebay.streaming'\n")
    run("-m", "pytest", "-q", "-p", "forebay.streaming.alias", "-p", "no:cacheprovider", str(test))


def test_the_command_prints_its_usage_and_names_a_script_that_does_not_exist():
    assert "usage: python -m forebay.streaming.alias" in run("-m", "forebay.streaming.alias", "--help")
    for wrong, message in ([], "usage:"), (["--fast"], "'--fast'"), (["no.py"], "no script 'no.py'"):
        command = [sys.executable, "-m", "forebay.streaming.alias", *wrong]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 1 and message in done.stderr and "Traceback" not in done.stderr
