"""Jobs that are killed at any point of a save: the last whole checkpoint stays, and the job continues from it."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")

# Each job is a forked child, because the import of torch takes much longer than a job.
JOBS = """
import json, os, signal, sys, traceback
import torch
import forebay as fb
from forebay import checkpoint
from forebay.checkpoint import commit
from forebay.files import stores

torch.set_num_threads(1)
commit.BLOCK = 1 << 16
run_url, overwrites, results = sys.argv[1], sys.argv[2] == "overwrite", sys.argv[3]
PARTS = 3
changes = kills_at = 0


def changes_the_store(action):
    # The process ends before or after a change: `kills_at` counts both.
    def changed(*arguments):
        step()
        result = action(*arguments)
        step()
        return result

    return changed


def step():
    global changes
    changes += 1
    if changes == kills_at:
        os.kill(os.getpid(), signal.SIGKILL)


class Upload:
    def __init__(self, upload):
        self.write, self.send, self.finish = map(changes_the_store, (upload.write, upload.send, upload.finish))
        self.abandon = upload.abandon


class Stores:
    def __init__(self, stores):
        self.stores = stores
        self.remove, self.put_if = changes_the_store(stores.remove), changes_the_store(stores.put_if)

    def upload(self, *arguments):
        return Upload(self.stores.upload(*arguments))

    def __getattr__(self, name):
        return getattr(self.stores, name)


real = stores._forebay.ObjectStores
stores._forebay = type("", (), {"ObjectStores": lambda *settings: Stores(real(*settings))})


def train(url):
    last = checkpoint.latest(url)
    weights = torch.zeros(1 << 15) if last is None else last.load()["weights"]
    for number in range(0 if last is None else last.step + 1, 3):
        weights += 1
        name = "last" if overwrites else f"step-{number}"
        options = {"overwrite": True} if overwrites else {"keep": 1}
        saved = checkpoint.save({"weights": weights}, f"{url}/{name}", step=number, wait=number != 1, **options)
        if number == 1:
            saved.wait()


def child(action):
    # Runs an action in a child, and returns its status and result. This process has no threads, so a fork is safe.
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writes, json.dumps(action()).encode())
            os._exit(0)
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
    os.close(writes)
    found = os.read(reads, 1 << 16)
    os.close(reads)
    return os.waitpid(pid, 0)[1], json.loads(found or "null")


def job(url, kills):
    def action():
        global kills_at
        kills_at = kills
        train(url)
        return changes

    return child(action)


def newest(url):
    # The step of the newest checkpoint, and the values of its weights.
    last = checkpoint.latest(url)
    return None if last is None else [last.step, last.load()["weights"].unique().tolist()]


def files_below(url):
    # Lists leave out files that are not complete.
    if not os.path.isabs(url):
        return [file.url for file in fb.list_files(f"{url}/")]
    return [os.path.join(base, name) for base, _, names in os.walk(url) for name in names]


def files_of_other_jobs(url):
    checkpoint.retain(url, 1)
    checkpoint.remove_incomplete(url, age=0)
    last = checkpoint.latest(url)
    left = {file.removeprefix(f"{last.url}/") for file in files_below(url)}
    own = {"begun.json", "commit.json", *last.parts}
    assert left >= own, left
    return sorted(left - own)


def continued(url):
    # The newest checkpoint before and after a job that is not killed, and the files that do not belong to it then.
    def action():
        before = newest(url)
        train(url)
        return before, newest(url), files_of_other_jobs(url)

    status, found = child(action)
    assert status == 0, url
    return found


def kill_at(points):
    steps = {}
    for kills in points:
        url = f"{run_url}/{kills}"
        status, _ = job(url, kills)
        assert status == signal.SIGKILL, (kills, status)
        before, after, others = continued(url)
        steps[kills] = None if before is None else before[0]
        assert before is None or before[1] == [before[0] + 1], kills
        assert after == [2, [3.0]], kills
        assert not others or steps[kills] == 2 and overwrites, (kills, others)
    return steps


status, count = job(f"{run_url}/undisturbed", 0)
assert status == 0 and count > 20, (status, count)
# Most of the time is spent waiting, so several processes divide the points.
children = {}
for first in range(1, PARTS + 1):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            steps = kill_at(range(first, count + 1, PARTS))
            with open(f"{results}/{first}.json", "w") as file:
                json.dump(steps, file)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    children[first] = pid
assert [os.waitpid(pid, 0)[1] for pid in children.values()] == [0] * PARTS
print(count)
"""


@pytest.mark.parametrize(
    "run_url, mode", [("folder", "keep"), ("folder", "overwrite"), ("bucket", "overwrite")], indirect=["run_url"]
)
def test_no_kill_at_any_point_of_a_save_loses_the_last_whole_checkpoint(run_url, mode, tmp_path):
    command = [sys.executable, "-c", JOBS, run_url, mode, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    count, steps = int(done.stdout), {}
    for path in tmp_path.glob("*.json"):
        steps |= {int(kills): step for kills, step in json.loads(path.read_text()).items()}
    assert sorted(steps) == list(range(1, count + 1))
    # A later kill loses no checkpoint.
    found = [-1 if steps[kills] is None else steps[kills] for kills in sorted(steps)]
    assert found == sorted(found) and found[-1] == 2
