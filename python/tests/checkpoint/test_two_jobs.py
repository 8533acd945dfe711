"""Two jobs that save to one folder: one of them has a whole checkpoint, and the second one fails."""

import io
import itertools
import json
import subprocess
import sys
import threading

import pytest

import forebay as fb
from forebay import checkpoint
from forebay.checkpoint import commit, marks, retention
from forebay.checkpoint.folder import Folder

URL = "/run/step-1"


class Store:
    """Store in memory that two jobs use in a given order of their operations.

    Job 0 begins. At each number of operations in `switches` the waiting job continues, if it has not ended. Writes of the commit
    are conditional.
    """

    def __init__(self, switches, files):
        self.files, self.operations, self._switches = dict(files), 0, switches
        self._has_whole = f"{URL}/{commit.COMMIT}" in files
        self._turns, self._ended = [threading.Semaphore(0) for _ in range(2)], set()
        self._job = threading.local()

    def run(self, actions):
        """Runs the action of each job, and returns its result or its error."""
        results = [None, None]

        def job(number):
            self._job.number = number
            self._turns[number].acquire()
            try:
                results[number] = actions[number]()
            except BaseException as error:
                results[number] = error
            self._ended.add(number)
            self._turns[1 - number].release()

        threads = [threading.Thread(target=job, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        self._turns[0].release()
        for thread in threads:
            thread.join()
        return results

    def _turn(self):
        other = 1 - self._job.number
        self.operations += 1
        if self._has_whole:
            whole_of(self.files)
        if self.operations in self._switches and other not in self._ended:
            self._turns[other].release()
            self._turns[self._job.number].acquire()

    def open(self, url, mode, store=None):
        if mode == "wb":
            return Upload(self, url)
        self._turn()
        if url not in self.files:
            raise fb.NotFoundError(url)
        return io.BytesIO(self.files[url])

    def put(self, url, content):
        self._turn()
        self.files[url] = content

    def version(self, url):
        self._turn()
        return self.files[url].decode() if url in self.files else None

    def put_if(self, url, content, version):
        self._turn()
        is_expected = (self.files[url].decode() if url in self.files else None) == version
        if is_expected:
            self.files[url] = content
        return is_expected

    def list(self, prefix, store=None):
        self._turn()
        return [fb.File(url, len(content), None, None) for url, content in self.files.items() if url.startswith(prefix)]

    def remove(self, urls, store=None):
        for url in urls:
            self._turn()
            self.files.pop(getattr(url, "url", url), None)


class Upload(io.BytesIO):
    def __init__(self, store, url):
        super().__init__()
        self._store, self._url = store, url

    def __exit__(self, *_):
        self._store.put(self._url, self.getvalue())


def save(store, number, overwrite):
    """Saves a part with the number of the job."""
    folder = Folder(URL, step=number, overwrite=overwrite)
    name = f"{folder.begin()}rank-00000.pt"
    store.put(f"{URL}/{name}", b"%d" % number)
    return folder.commit([commit.CheckpointPart(name, 1, (str(number),), 8)])


def whole_of(files):
    """Returns the number of the job that saved the checkpoint, which is whole."""
    found = commit.parse("commit", files[f"{URL}/commit.json"])
    (part,) = found.parts.values()
    assert files[f"{URL}/{part.name}"] == b"%d" % found.step and part.digests == (str(found.step),)
    return found.step


@pytest.fixture
def run(monkeypatch):
    """Function that runs two saves with switches between them, and returns their results and the store."""

    def run(switches, files, overwrites):
        store = Store(switches, files)
        monkeypatch.setattr(commit, "open_file", store.open)
        monkeypatch.setattr(commit, "opened", lambda _: store)
        monkeypatch.setattr(marks, "open_file", store.open)
        monkeypatch.setattr(retention, "list_files", store.list)
        for module in (marks, retention):
            monkeypatch.setattr(module, "remove_files", store.remove)
        actions = [lambda number=number: save(store, number, overwrites[number]) for number in range(2)]
        return store.run(actions), store

    return run


# By an older version, so it has no token.
UNFINISHED = {f"{URL}/begun.json": b'{"format": "forebay checkpoint", "version": 1}', f"{URL}/rank-00000.pt": b"9"}


@pytest.mark.parametrize("before", ["nothing", "unfinished", "whole"])
@pytest.mark.parametrize("overwrites", [(True, True), (True, False), (False, True), (False, False)])
def test_in_any_order_of_their_operations_one_of_two_saves_has_a_whole_checkpoint(run, before, overwrites):
    files = {} if before == "nothing" else UNFINISHED
    if before == "whole":
        _, store = run((), {}, (True, False))
        files = store.files
    _, store = run((), files, overwrites)
    points = range(1, store.operations + 3)
    # A third switch shows nothing more but in a new folder, where the names of parts may be the same.
    counts = range(4 if before == "nothing" else 3)
    for switches in itertools.chain.from_iterable(itertools.combinations(points, count) for count in counts):
        results, store = run(switches, files, overwrites)
        case = (switches, results)
        step = whole_of(store.files)
        saved = [number for number, result in enumerate(results) if isinstance(result, commit.Commit)]
        refused = [number for number, result in enumerate(results) if isinstance(result, fb.ConfigError)]
        assert len(saved) + len(refused) + sum(isinstance(result, fb.StateError) for result in results) == 2, case
        assert not any(overwrites[number] for number in refused), case
        if saved:
            assert step in saved, case
        else:
            # One was refused because of the competing job's commit, and that job found a different save when it had committed.
            assert refused or before == "whole", case
        if all(overwrites):
            assert saved, case


def test_a_save_that_is_overtaken_at_its_commit_fails(run_url, monkeypatch):
    first, second = (Folder(f"{run_url}/step-1", step=number) for number in range(2))
    first.begin()
    write = commit.write

    def overtaken(*arguments):
        monkeypatch.setattr(commit, "write", write)
        assert second.begin() != ""
        write(*arguments)

    monkeypatch.setattr(commit, "write", overtaken)
    with pytest.raises(fb.StateError, match="a second save to .*/step-1 has begun"):
        first.commit([])
    second.commit([])
    assert [found.step for found in checkpoint.steps(run_url)] == [1]


# The ranks are forked children, because the import of torch takes much longer than a save. Pipes bring them into an order.
JOBS = """
import json, os, signal, sys
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import forebay as fb
from forebay import checkpoint
from forebay.checkpoint import marks, saving
from forebay.checkpoint.distributed import StorageReader, StorageWriter
from forebay.checkpoint.folder import Folder

torch.set_num_threads(1)
run_url, results = sys.argv[1:]
POINTS = ("announced", "begun-first", "begun-second", "written-0", "written-1", "ended")


def around(owner, name, before=lambda: None, after=lambda: None):
    action = getattr(owner, name)

    def changed(*arguments):
        before()
        try:
            return action(*arguments)
        finally:
            after()

    setattr(owner, name, changed)


def set_order(kind, order, job, rank, pipes):
    def reached(name):
        os.write(pipes[name][1], b".")

    def after(name):
        os.read(pipes[name][0], 1)

    owner = {"save": saving.Writer, "dcp": StorageWriter}[kind]
    is_in_turn = order == "in turn"
    if job == "first":
        around(Folder, "begin", after=lambda: reached("begun-first"))
        if not is_in_turn:
            around(marks, "announce", after=lambda: (reached("announced"), after("begun-second")))
        around(owner, "_write", before=lambda: after(f"written-{rank}"))
        around(Folder, "commit", before=lambda: is_in_turn or after("ended"), after=lambda: reached("ended"))
    else:
        around(
            Folder,
            "begin",
            before=lambda: after("begun-first" if is_in_turn else "announced"),
            after=lambda: reached("begun-second"),
        )
        around(owner, "_write", after=lambda: reached(f"written-{rank}"))
        # The save that began first commits first, after its rival has begun.
        around(Folder, "commit", before=lambda: after("ended" if is_in_turn else "begun-first"), after=lambda: reached("ended"))


def save(kind, job, rank, url):
    state = {f"rank-{rank}": torch.full((1000,), float(["first", "second"].index(job)))}
    try:
        if kind == "save":
            checkpoint.save(state, url, per_rank=True)
        else:
            dcp.save(state, storage_writer=StorageWriter(url))
        return "saved"
    except fb.StateError as error:
        return f"StateError: {error}"
    except dcp.CheckpointException as error:
        return [type(reason[0]).__name__ for reason in error.failures.values()]


def load(kind, rank, url):
    if kind == "save":
        return checkpoint.latest(url).load(part=rank)[f"rank-{rank}"].unique().tolist()
    state = {f"rank-{rank}": torch.zeros(1000)}
    dcp.load(state, storage_reader=StorageReader(url), no_dist=True)
    return state[f"rank-{rank}"].unique().tolist()


def child(action, *arguments):
    pid = os.fork()
    if pid == 0:
        # A rank that waits for one that has failed would wait forever.
        signal.alarm(200)
        try:
            action(*arguments)
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{arguments}: {error!r}".encode())
            os._exit(1)
    return pid


def wait(pids):
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * len(pids)


def rank_main(case, job, rank, pipes):
    kind, order = case.split(", ")
    set_order(kind, order, job, rank, pipes)
    dist.init_process_group("gloo", store=dist.FileStore(f"{results}/{case}, {job}", 2), rank=rank, world_size=2)
    found = save(kind, job, rank, f"{run_url}/{case}")
    with open(f"{results}/{case}, {job}, {rank}.json", "w") as file:
        json.dump(found, file)
    dist.barrier()
    dist.destroy_process_group()


def loads(case):
    url = f"{run_url}/{case}"
    names = {file.url.removeprefix(f"{url}/") for file in fb.list_files(f"{url}/")}
    others = sorted(names - {"begun.json", "commit.json", *checkpoint.latest(url).parts})
    with open(f"{results}/{case}.json", "w") as file:
        json.dump([others, *(load(case.partition(",")[0], rank, url) for rank in range(2))], file)


for case in ("save, in turn", "save, at once", "dcp, in turn", "dcp, at once"):
    pipes = {name: os.pipe() for name in POINTS}
    wait([child(rank_main, case, job, rank, pipes) for job in ("first", "second") for rank in range(2)])
    wait([child(loads, case)])
"""


def test_of_two_jobs_of_several_ranks_all_ranks_of_one_fail(run_url, tmp_path):
    pytest.importorskip("torch")
    command = [sys.executable, "-c", JOBS, run_url, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    check_jobs(tmp_path, run_url)


def check_jobs(results, run_url):
    """Checks the checkpoints that the jobs have found: the job that began last has saved."""

    def found(*names):
        return json.loads((results / f"{', '.join(names)}.json").read_text())

    for order, winner, loser in [("in turn", "second", "first"), ("at once", "first", "second")]:
        values = [[0.0] if winner == "first" else [1.0]] * 2
        for kind in ("save", "dcp"):
            assert [found(kind, order, winner, rank) for rank in "01"] == ["saved"] * 2
            assert found(kind, order) == [[], *values]
        message = f"a second save to {run_url}/save, {order} has begun"
        first, second = (found("save", order, loser, rank) for rank in "01")
        assert first.startswith(f"StateError: {message}")
        assert second.startswith(f"StateError: rank 0 has failed: StateError: {message}")
        assert [found("dcp", order, loser, rank) for rank in "01"] == [["StateError"]] * 2
