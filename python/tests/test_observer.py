"""Figures of a loader for functions, for TensorBoard, and in the line of progress."""

import os
import pty
import subprocess
import sys
import warnings

import pytest

import forebay as fb
from forebay._observer import LoopPlace, line_of


@pytest.fixture
def numbers_set(tmp_path, monkeypatch):
    # No look in the middle of an epoch, however slow the machine is.
    monkeypatch.setattr("forebay._observer._SECONDS", float("inf"))
    folder = tmp_path / "set"
    with fb.MDSWriter(out=folder, columns={"x": "int"}) as writer:
        for number in range(64):
            writer.write({"x": number})
    return folder


def loader_of(folder, **options):
    return fb.Loader(local=folder, batch_size=4, framework="numpy", engine=fb.Engine(**options))


def test_a_function_gets_numbers_with_the_step_at_the_end_of_each_epoch(numbers_set):
    calls = []
    with loader_of(numbers_set, metrics=lambda figures, step: calls.append((step, figures))) as loader:
        for _ in range(2):
            list(loader)
    (first, figures), (second, later) = calls[0], calls[-1]
    assert (first, figures["data/batches"]) == (16, 16.0)
    assert (second, later["data/batches"]) == (32, 32.0)
    assert "data/samples_per_s" not in figures and later["data/samples_per_s"] > 0
    assert all(isinstance(value, (int, float)) for value in later.values())
    assert 0 <= later["data/waiting_share"] <= 1 and later["data/wait_p50_s"] <= later["data/wait_p99_s"]


def test_a_resumed_loader_continues_the_steps_and_close_has_the_last_figures(numbers_set):
    calls = []
    with loader_of(numbers_set) as loader:
        batches = iter(loader)
        for _ in range(5):
            next(batches)
        state = loader.state_dict()
    loader = loader_of(numbers_set, metrics=lambda figures, step: calls.append((step, figures["data/batches"])))
    loader.load_state_dict(state)
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    loader.close()
    loader.close()
    assert calls == [(8, 3.0)]


def test_a_loader_without_batches_has_no_figures(numbers_set):
    calls = []
    loader_of(numbers_set, metrics=lambda *figures: calls.append(figures)).close()
    assert calls == []


def test_a_function_that_raises_is_not_called_again(numbers_set):
    calls = []

    def fail(figures, step):
        calls.append(step)
        raise KeyError("project")

    with loader_of(numbers_set, metrics=fail) as loader:
        with pytest.warns(UserWarning, match="metrics of a loader are not taken any more: KeyError: 'project'"):
            assert len(list(loader)) == 16
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(list(loader)) == 16
    assert len(calls) == 1


def test_the_second_loader_of_a_replay_has_no_metrics(numbers_set):
    calls = []
    with loader_of(numbers_set, metrics=lambda figures, step: calls.append(step), progress=True) as loader:
        list(loader)
        loader.replay(3)
        assert calls == [16]


def test_a_value_of_a_different_kind_is_an_error_with_the_forms(numbers_set):
    with pytest.raises(fb.ConfigError, match=r'metrics is "prometheus://:9400", "otlp", "tensorboard:DIR" or a function'):
        loader_of(numbers_set, metrics=9400)
    with pytest.raises(fb.ConfigError, match="prometheus://:PORT"):
        loader_of(numbers_set, metrics="tensorboard:")


TENSORBOARD = '''
import sys, types
class Writer:
    def __init__(self, folder):
        self.folder, self.values = folder, {}
    def add_scalar(self, name, value, step):
        self.values[name] = value
        self.step = step
    def flush(self):
        print(self.folder, self.step, self.values["data/batches"], flush=True)
package = types.ModuleType("tensorboardX")
if sys.argv[2] == "yes":
    package.SummaryWriter = Writer
sys.modules |= {"torch.utils.tensorboard": None, "tensorboardX": package}
import forebay as fb
try:
    world = fb.World(rank=1, world_size=2, local_rank=1, local_world_size=2)
    engine = fb.Engine(metrics="tensorboard:runs/a")
    with fb.Loader(local=sys.argv[1], batch_size=4, framework="numpy", engine=engine, world=world) as loader:
        list(loader)
except fb.UnsupportedError as error:
    print(error)
'''


@pytest.mark.parametrize(("is_there", "expected"), [("yes", "runs/a/rank1 8 8.0\n"), ("no", "pip install tensorboard\n")])
def test_tensorboard_has_a_folder_for_each_rank_or_is_named_if_it_is_not_installed(numbers_set, is_there, expected):
    command = [sys.executable, "-c", TENSORBOARD, str(numbers_set), is_there]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.endswith(expected)


PROGRESS = """
import sys, forebay as fb
world = fb.World(rank=int(sys.argv[2]), world_size=2, local_rank=0, local_world_size=1)
with fb.Loader(local=sys.argv[1], batch_size=4, framework="numpy", engine=fb.Engine(progress=True), world=world) as loader:
    list(loader)
"""


@pytest.mark.parametrize(
    ("is_terminal", "term", "rank", "begin"),
    [(True, "xterm", 0, "epoch 0  100%  8/8 batches"), (True, "dumb", 0, ""), (True, "xterm", 1, ""), (False, "xterm", 0, "")],
)
def test_progress_is_a_line_on_the_terminal_of_the_first_rank(numbers_set, is_terminal, term, rank, begin):
    command, env = [sys.executable, "-c", PROGRESS, str(numbers_set), str(rank)], os.environ | {"TERM": term}
    if not is_terminal:
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert done.stdout + done.stderr == begin
        return
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=theirs, check=True)
        os.write(theirs, b"END")
        text = b""
        while not text.endswith(b"END"):
            text += os.read(ours, 65536)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.stdout == b""
    shown = text.decode().removesuffix("END")
    if not begin:
        assert shown == ""
        return
    # A slow machine has more lines before the last one, each in the place of the one before.
    assert shown.startswith("\r") and shown.endswith("\x1b[K\r\n")
    assert shown.split("\r")[-2].startswith(begin)


def test_the_line_has_the_position_the_rate_the_rest_and_the_wait():
    figures = {"batches_per_s": 20.5, "samples_per_s": 1312.0, "waiting_share": 0.034}
    line = "epoch 3   42%  420/1,000 batches  1,312 samples/s  0:28 left  waiting 3%"
    assert line_of(figures, LoopPlace(3, 420, 1000, 3420)) == line
    unknown = {"batches_per_s": None, "samples_per_s": None, "waiting_share": None}
    assert line_of(unknown, LoopPlace(0, 0, 0, 0)) == "epoch 0    0%  0/0 batches"
