"""Exit codes, JSON, interrupts and completion of the command."""

import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading

import pytest
from range_server import serving
from terminals import in_terminal, program, run

import forebay as fb
from forebay.__main__ import main
from forebay._command import Results


def test_the_program_prints_its_version(capfd):
    assert main(["--version"]) == 0
    assert capfd.readouterr().out == f"forebay {fb.__version__}\n"


def test_wrong_arguments_are_errors_with_the_usage(capfd):
    for arguments in (["ls"], ["unknown"], ["verify", "a", "--repair"], ["which", "a", "--step", "-1"], []):
        assert main(arguments) == 2
        assert "Usage: forebay" in capfd.readouterr().err


@pytest.fixture
def data(tmp_path):
    with fb.MDSWriter(out=tmp_path / "set", columns={"x": "int"}, hashes=["sha1"]) as writer:
        for x in range(10):
            writer.write({"x": x})
    return tmp_path / "set"


def records(*arguments, code=0):
    """Results of a command as JSON."""
    ended = run(*arguments, "--json")
    assert ended.returncode == code, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_every_command_prints_json(data, tmp_path):
    with fb.Loader(local=data, batch_size=5) as loader:
        loader.save_run(tmp_path / "run.json")
    assert {record["url"].rsplit("/")[-1] for record in records("ls", data)} == {"index.json", "shard.00000.mds"}
    (verified,) = records("verify", data)
    assert (verified["shards"], verified["intact"]) == (1, True)
    assert [sample["index"] for sample in records("which", tmp_path / "run.json", "--step", "1")] == [5, 6, 7, 8, 9]
    (converted,) = records("convert", data, tmp_path / "out", "--threads", "1")
    assert converted == {"samples": 10, "parts": 1, "kept": 0}
    (tmp_path / "files").mkdir()
    (tmp_path / "files/a.png").write_bytes(b"")
    (indexed,) = records("index", "--files", "each", tmp_path / "files")
    assert indexed["samples"] == 1
    assert records("checkpoint", tmp_path / "none") == []
    (copied,) = records("cp", data / "index.json", tmp_path / "copy")
    assert (copied["result"], copied["target"]) == ("copied", str(tmp_path / "copy"))


@pytest.mark.parametrize("command", ["ls", "verify", "index", "cat"])
def test_an_error_is_a_line_and_an_object(command, tmp_path):
    ended = run(command, tmp_path / "none", "--json")
    assert ended.returncode == 2 and ended.stderr.startswith("error: ") and ended.stderr.count("\n") == 1
    error = json.loads(ended.stdout)
    assert error["error"] in ("not found", "config") and "none" in error["message"]


def test_a_path_that_python_cannot_write_is_an_error_with_its_reason(data, tmp_path, capfd):
    # Not even the superuser makes a folder there.
    assert main(["convert", str(data), "/proc/forebay"]) == 2
    assert capfd.readouterr().err.startswith("error: /proc/forebay: ")
    assert main(["checkpoint", str(tmp_path / "none")]) == 0
    assert "there is no such folder" in capfd.readouterr().out


def test_damage_is_not_an_error_of_the_command(data):
    (data / "shard.00000.mds").write_bytes(b"")
    ended = run("verify", data)
    assert ended.returncode == 1 and "shard.00000.mds: " in ended.stdout


@pytest.mark.parametrize("arguments", [("ls", "-r"), ("cat",), ("which", "--step", "0")])
def test_a_reader_may_have_seen_enough(tmp_path, arguments):
    if arguments[0] == "which":
        with fb.MDSWriter(out=tmp_path / "set", columns={"x": "int"}) as writer:
            for x in range(20_000):
                writer.write({"x": x})
        with fb.Loader(local=tmp_path / "set", batch_size=20_000) as loader:
            loader.save_run(tmp_path / "it")
    elif arguments[0] == "cat":
        (tmp_path / "it").write_bytes(bytes(10_000_000))
    else:
        (tmp_path / "it").mkdir()
        for number in range(3000):
            (tmp_path / "it" / f"{number:0100}").touch()
    process = subprocess.Popen(program(*arguments, tmp_path / "it"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.read(1)
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(600) == 0
    process.stderr.close()


@pytest.mark.parametrize("arguments", [("ls",), ("ls", "--json"), ("verify",)])
def test_results_that_cannot_be_written_are_an_error(data, arguments):
    with open("/dev/full", "w") as full:
        ended = subprocess.run(program(*arguments, data), stdout=full, stderr=subprocess.PIPE, text=True, timeout=600)
    assert ended.returncode == 2 and ended.stderr.startswith("error: the standard output cannot be written"), ended.stderr
    assert ended.stderr.count("\n") == 1


class Slow(http.server.BaseHTTPRequestHandler):
    """Server that sends the first 40 MiB of an object of 100 MB, and nothing of the rest."""

    ended = threading.Event()

    def do_GET(self):
        start, last = map(int, re.findall(r"\d+", self.headers["Range"]))
        if last >= 40 << 20:
            Slow.ended.wait()
            return
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{last}/100000000")
        self.send_header("Content-Length", str(last + 1 - start))
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(bytes(last + 1 - start))

    def log_message(self, *_):
        pass


def test_an_interrupt_ends_a_copy_with_one_line_and_leaves_no_file(tmp_path):
    # Background processes of a shell ignore an interrupt, and so do their children.
    code = "import signal, sys; from forebay.__main__ import main; signal.signal(signal.SIGINT, signal.default_int_handler)"
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        arguments = [sys.executable, "-c", f"{code}; sys.exit(main(sys.argv[1:]))", "cp", f"{address}/a", str(tmp_path / "copies/a")]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            while not list(tmp_path.glob("copies/.forebay-*")):
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            out, messages = process.communicate()
        finally:
            process.kill()
            Slow.ended.set()
    assert (process.returncode, out, messages) == (130, "", "stopped\n")
    assert not (tmp_path / "copies").exists()


@pytest.mark.parametrize(("shell", "check"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")])
def test_completion_is_a_script_of_the_shell(shell, check, tmp_path):
    script = run("completion", shell).stdout
    assert "checkpoint" in script and "recursive" in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(script)
    subprocess.run([shell, check, tmp_path / "script"], check=True, timeout=600)


def test_bash_completes_commands_and_options(tmp_path):
    (tmp_path / "script").write_text(run("completion", "bash").stdout)
    code = 'source "$1"; COMP_WORDS=(forebay c); COMP_CWORD=1; _forebay forebay c forebay; echo "${COMPREPLY[@]}"'
    ended = subprocess.run(["bash", "-c", code, "bash", tmp_path / "script"], capture_output=True, text=True, timeout=600)
    assert {"cat", "cp", "convert", "checkpoint", "completion"} <= set(ended.stdout.split()), ended.stderr


def test_zsh_completes_commands_and_options(tmp_path):
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    (tmp_path / "_forebay").write_text(run("completion", "zsh").stdout)
    typed = [
        f"PS1=; fpath=({tmp_path} $fpath); autoload -U compinit; compinit -u -D; zstyle ':completion:*' insert-tab false",
        'forebay() { print -r -- "got $*" > got }',
        "forebay chec\t--remov\t",
        "exit",
    ]
    environment = {"TERM": "xterm", "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    in_terminal(["zsh", "-f", "-i"], "".join(f"{line}\n" for line in typed), cwd=tmp_path, env=environment)
    assert (tmp_path / "got").read_text() == "got checkpoint --remove-incomplete\n"


def test_fish_completes_commands_and_options(tmp_path):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    (tmp_path / "script").write_text(run("completion", "fish").stdout)
    code = f"source {tmp_path}/script; complete -C 'forebay c'; complete -C 'forebay cp --sk'"
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    ended = subprocess.run(["fish", "-N", "-c", code], capture_output=True, text=True, env=environment, timeout=600)
    found = {line.split("\t")[0] for line in ended.stdout.splitlines()}
    assert {"cat", "cp", "convert", "checkpoint", "completion", "--skip-existing"} <= found, ended.stderr


def test_a_script_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w") as full:
        ended = subprocess.run(program("completion", "bash"), stdout=full, stderr=subprocess.PIPE, text=True, timeout=600)
    assert ended.returncode == 2 and ended.stderr.startswith("error: the standard output cannot be written")


def test_results_of_the_package_are_valid_json_and_control_no_terminal(capfd):
    Results(True).show("", rows=[1.5, None])
    assert json.loads(capfd.readouterr().out) == {"rows": [1.5, None]}
    Results(False).show("a\x1b[31m\nb\udcff\u202e猫")
    Results(False).fail("config", "c\x9b\r")
    out, messages = capfd.readouterr()
    assert (out, messages) == ("a\\u{1b}[31m⏎b\\udcff\\u{202e}猫\n", "error: c\\u{9b}\\r\n")


def test_the_entry_point_is_the_program():
    text = (os.path.dirname(fb.__file__) + "/../../pyproject.toml",)
    with open(text[0]) as file:
        assert 'forebay = "forebay.__main__:main"' in file.read()
