"""Twelve staged bottlenecks, and the limits that `stats()`, `forebay top` and `forebay bench` name for them.

    PYTHONPATH=python/py_src python bench/scripts/bottlenecks.py [NAME ...] [--seconds 12] [--figures FILE]

Each one is real: a store that is slow or refuses requests, a disk under a limit of the kernel, functions that keep Python's
lock, steps that sleep. The times that have to fit together are measured first, so the speed of the machine does not
matter. `stats` has the figures since the start of a loader, `top` has the figures of an interval in the middle of its run, and `bench`
is run on the data sets that have the bottleneck without a training step. The exit status is 1 unless all names are right.
`--figures` writes the figures of all loaders as lines of JSON.

The slow disk needs Linux with the cgroup `blkio` (version 1) and the rights of an administrator; too few threads need two CPUs.
Needs `forebay-bench` in the PATH, numpy and Pillow, and about 200 MB in the folder for temporary files, which has to be on a disk.
"""

import argparse
import contextlib
import functools
import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

RECORD_BYTES, RECORDS, SHARD_BYTES = 32 << 10, 2048, 256 << 10
BATCH = 8
START_S, INTERVAL_S = 4.0, 4.0
"""Seconds of a run before the interval that `forebay top` shows, and its own: at first a loader fetches what it has ahead later."""
RANKS, SLOW_RANK = 3, 1
STEP_S = 0.05
RECORDS_BYTES_PER_S = BATCH * RECORD_BYTES / STEP_S
"""Bytes that a loop over records with steps of STEP_S needs."""
UNEVEN = 8
"""Batches of a loop for each long step."""


@dataclass(frozen=True)
class Scene:
    """Staged bottleneck: the limit that is right, its data and where they are."""

    limit: str
    data: str
    store: dict = field(default_factory=dict)
    """Limits of the store; without them the data are in a folder."""
    disk_bytes_per_s: int = 0
    bench: tuple = ()
    """Arguments of `forebay bench`, if it applies."""
    ranks: int = 1


SCENES = (
    Scene("slow store", "records", {"bytes_per_s": 2_000_000}, bench=("--batch-size", "8")),
    Scene("throttled store", "records", {"requests_per_s": 10}, bench=("--batch-size", "8")),
    Scene("slow disk", "records", disk_bytes_per_s=2_000_000, bench=("--batch-size", "8")),
    Scene("cold cache", "records", {"bytes_per_s": RECORDS_BYTES_PER_S / 1.4}),
    Scene("too few threads", "pictures", bench=("--batch-size", "8", "--threads", "1")),
    Scene("slow consumer", "pictures"),
    Scene("slow transform", "records"),
    Scene("small prefetch", "pictures"),
    Scene("too small memory", "pictures"),
    Scene("one slow rank", "records", {"bytes_per_s": RECORDS_BYTES_PER_S / 4}, ranks=RANKS),
    Scene("huge pictures", "huge", bench=("--batch-size", "8")),
    Scene("GIL-bound map", "records"),
)


# Data


def jpeg(width, height, seed):
    """A picture with details of many sizes."""
    import numpy as np
    from PIL import Image

    rng, pixels = np.random.default_rng(seed), np.zeros((height, width, 3))
    for cells in (3, 12, 48):
        noise = Image.fromarray(rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        pixels += np.asarray(noise.resize((width, height), Image.Resampling.BICUBIC), dtype="float64") / 3
    out = io.BytesIO()
    Image.fromarray(pixels.astype("uint8")).save(out, "JPEG", quality=90)
    return out.getvalue()


def make(folder, data):
    """Writes a data set."""
    import forebay as fb

    if data == "records":
        values = (os.urandom(RECORD_BYTES) for _ in range(RECORDS))
    else:
        sizes, samples = ((400, 300), 1024) if data == "pictures" else ((3000, 2000), 64)
        files = [jpeg(*sizes, seed) for seed in range(4)]
        values = (files[number % len(files)] for number in range(samples))
    column = "bytes" if data == "records" else "jpeg"
    with fb.MDSWriter(out=folder, columns={"x": column}, size_limit=SHARD_BYTES) as writer:
        for value in values:
            writer.write({"x": value})


# Store


@contextlib.contextmanager
def serving(folder, limits):
    """Yields the address of the folder in a store with `limits`; without limits the folder itself."""
    if not limits:
        yield folder
        return
    command = ["forebay-bench", "serve", folder, "--until-eof"]
    for name, value in limits.items():
        command += [f"--{name.replace('_', '-')}", str(round(value))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        yield server.stdout.readline().split()[-1]


# Disk


@contextlib.contextmanager
def slow_disk(folder, bytes_per_s):
    """Yields the file that a process writes its number to, so that its reads from the disk of `folder` are slow, and the
    file with its reason if that cannot be had."""
    if not bytes_per_s:
        yield None
        return
    device = os.stat(folder).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(FileNotFoundError):
        # A limit is for the whole disk.
        Path(f"/sys/dev/block/{number}/partition").read_text()
        number = (Path(f"/sys/dev/block/{number}").resolve().parent / "dev").read_text().strip()
    group = Path(f"/sys/fs/cgroup/blkio/forebay-bottlenecks-{os.getpid()}")
    group.mkdir()
    try:
        (group / "blkio.throttle.read_bps_device").write_text(f"{number} {bytes_per_s}")
        yield str(group / "cgroup.procs")
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.05)


def drop_from_memory(folder):
    """Removes the files of a folder from the page cache."""
    os.sync()
    for path in Path(folder).rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# Jobs: each is a process with a loader


def hold_lock(sample, rng):
    """Python's own work."""
    return {"n": sum(number * number for number in range(60_000))}


def release_lock(sample, rng):
    """Work of a library that releases Python's lock."""
    return {"n": hashlib.pbkdf2_hmac("sha256", sample["x"], b"salt", 50_000)[0]}


def records(**options):
    """Options of a loader of records."""
    import forebay as fb

    return {"batch_size": BATCH, "fields": {"x": fb.Bytes("x")}, **options}


def pictures(**options):
    """Options of a loader of pictures."""
    import forebay as fb

    fields = {"x": fb.Image("x", fb.RandomResizedCrop(64), dtype="float32")}
    return {"batch_size": BATCH, "shuffle": True, "fields": fields, **options}


def options_of(limit, rank):
    """Options of the loader that has the limit."""
    import forebay as fb

    # A batch of pictures has 0.4 MB: the least memory is three of them.
    return {
        "slow store": lambda: records(),
        "throttled store": lambda: records(fetch=fb.Fetch(retry=50)),
        "slow disk": lambda: records(),
        "cold cache": lambda: records(engine=fb.Engine(prefetch=4)),
        "too few threads": lambda: pictures(threads=1),
        "slow consumer": lambda: pictures(),
        "slow transform": lambda: records(map=fb.Map(release_lock, workers=4)),
        "small prefetch": lambda: pictures(engine=fb.Engine(prefetch=1)),
        "too small memory": lambda: pictures(engine=fb.Engine(prefetch=UNEVEN, memory=1_200_000)),
        "one slow rank": lambda: records(world=fb.World(rank, RANKS, local_rank=rank, local_world_size=RANKS)),
        "huge pictures": lambda: pictures(),
        "GIL-bound map": lambda: records(map=fb.Map(hold_lock, workers=4)),
    }[limit]()


def batch_s(places):
    """Seconds for a batch of pictures in a loop without steps."""
    import forebay as fb

    with fb.Loader(**places, framework="numpy", **pictures(engine=fb.Engine(monitor=False))) as loader:
        batches, begun = 0, time.monotonic()
        while time.monotonic() - begun < 2:
            batches += sum(1 for _ in loader)
        return (time.monotonic() - begun) / batches


def step_of(limit, places, barrier):
    """Training step of a job: a function of the number of the batch."""
    if limit == "cold cache":
        return lambda _: time.sleep(STEP_S)
    if limit == "one slow rank":

        def all_ranks(_):
            time.sleep(STEP_S)
            # A rank that has ended has left.
            with contextlib.suppress(OSError):
                barrier.write(b"x")
                barrier.read(1)

        return all_ranks
    if limit == "slow consumer":
        seconds = 3 * batch_s(places)
        return lambda _: time.sleep(seconds)
    if limit in ("small prefetch", "too small memory"):
        # One step in UNEVEN is long, and the others take no time: the mean of a step is as long as a batch.
        seconds = UNEVEN * batch_s(places)
        return lambda number: time.sleep(seconds if number % UNEVEN == 0 else 0)
    return lambda _: None


def job(limit, places, rank, gate):
    """Runs a loader until the standard input ends, and prints its figures. `gate` is a descriptor for the ranks to meet at."""
    if gate:
        barrier = os.fdopen(gate, "r+b", buffering=0)
    if "slowed_by" in places:
        Path(places.pop("slowed_by")).write_text(str(os.getpid()))
    import forebay as fb

    step = step_of(limit, places, barrier if gate else None)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    numbers = count(1)
    with fb.Loader(**places, framework="numpy", **options_of(limit, rank)) as loader:
        while not ended.is_set():
            for batch in loader:
                number = next(numbers)
                if number == 1:
                    print("in the epoch", flush=True)
                del batch
                if ended.is_set():
                    break
                step(number)
        print(json.dumps(loader.stats()), flush=True)
    # Threads of the map and the barrier are not waited for.
    os._exit(0)


# Observations


def meet(gates):
    """Lets the ranks pass when all have come, until one leaves."""
    with contextlib.suppress(OSError):
        while all([gate.recv(1) for gate in gates]):
            for gate in gates:
                gate.send(b"x")
    for gate in gates:
        gate.close()


def await_socket(pid, root):
    """Waits until `forebay top` can look into a process, which opens its socket while the epoch begins."""
    for _ in range(600):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            return client.connect(f"{root}/forebay/{pid}.sock")
        time.sleep(0.1)
    raise OSError(f"process {pid} has no socket")


@contextlib.contextmanager
def jobs(scene, places, env):
    """Starts the processes of a scene, and yields them in their epochs."""
    pairs = [socket.socketpair() for _ in places] if len(places) > 1 else []
    with contextlib.ExitStack() as stack:
        processes = []
        for rank, place in enumerate(places):
            gate = pairs[rank][1].fileno() if pairs else 0
            command = [sys.executable, __file__, "--job", scene.limit, json.dumps(place), str(rank), str(gate)]
            inherited = (gate,) if gate else ()
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            process = stack.enter_context(subprocess.Popen(command, env=env, pass_fds=inherited, **pipes))
            stack.callback(process.kill)
            processes.append(process)
        for _, theirs in pairs:
            theirs.close()
        if pairs:
            threading.Thread(target=meet, args=([ours for ours, _ in pairs],), daemon=True).start()
        for process in processes:
            if process.stdout.readline() != "in the epoch\n":
                raise OSError("the loader has failed")
            await_socket(process.pid, env["XDG_RUNTIME_DIR"])
        yield processes


def top_of(processes, env):
    """Figures of `forebay top` of an interval."""
    command = [sys.executable, "-m", "forebay", "top", "--json", "-n", str(INTERVAL_S)]
    command += [str(process.pid) for process in processes]
    records = []
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as top:
        wanted = len(processes)
        for line in top.stdout:
            records.append(json.loads(line))
            if len(records) == wanted:
                break
        if wanted > 1:
            # The line about a slow rank follows, or else the next interval.
            records.append(json.loads(top.stdout.readline()))
        top.kill()
    return records


def bench_of(scene, url, local, slowed_by, env):
    """Limit that `forebay bench` names."""
    command = [sys.executable, "-m", "forebay", "bench", url, "--json", "--seconds", "8", *scene.bench]
    if scene.store:
        command += ["--local", local]

    def enter():
        Path(slowed_by).write_text(str(os.getpid()))

    done = subprocess.run(command, env=env, capture_output=True, text=True, preexec_fn=enter if slowed_by else None, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines[-1] if lines and done.returncode == 0 else {"limit": done.stderr.strip().splitlines()[-1], "what": ""}


def places_of(scene, root, folder, url, slowed_by):
    """Places of the data of each rank."""
    if not scene.store:
        return [{"local": folder} | ({"slowed_by": slowed_by} if slowed_by else {})]
    places = [{"remote": url, "local": f"{root}/{scene.limit}-{rank}"} for rank in range(scene.ranks)]
    for rank, place in enumerate(places):
        shutil.rmtree(place["local"], ignore_errors=True)
        if scene.ranks > 1 and rank != SLOW_RANK:
            shutil.copytree(folder, place["local"])
    return places


def play(scene, root, seconds):
    """Runs a scene. Returns the observations: the command, the limit that it names, and the sentence."""
    folder = f"{root}/{scene.data}"
    env = os.environ | {"XDG_RUNTIME_DIR": root}
    found = []
    with serving(folder, scene.store) as url, slow_disk(folder, scene.disk_bytes_per_s) as slowed_by:
        drops = functools.partial(drop_from_memory, folder) if slowed_by else lambda: None
        drops()
        begun = time.monotonic()
        with jobs(scene, places_of(scene, root, folder, url, slowed_by), env) as processes:
            time.sleep(START_S)
            records = top_of(processes, env)
            time.sleep(max(0.0, seconds - (time.monotonic() - begun)))
            for process in processes:
                process.stdin.close()
            stats = [json.loads(process.stdout.readline()) for process in processes]
        found.append(("top", records[-1]["limit"], records[-1].get("message") or records[-1]["bottleneck"]))
        found += [(f"stats {rank}" if scene.ranks > 1 else "stats", of["limit"], of["bottleneck"]) for rank, of in enumerate(stats)]
        if scene.bench:
            drops()
            local = f"{root}/bench-{scene.limit}"
            shutil.rmtree(local, ignore_errors=True)
            report = bench_of(scene, url, local, slowed_by, env)
            found.append(("bench", report["limit"], report["what"]))
    return found, stats, records


def is_right(scene, command, limit):
    """True if the command names the bottleneck. Only `top` sees all ranks; the ones that are not slow wait in their steps."""
    if scene.ranks > 1 and command.startswith("stats"):
        return limit == ("slow store" if command == f"stats {SLOW_RANK}" else "slow consumer")
    return limit == scene.limit


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *(scene.limit for scene in SCENES)], metavar="NAME")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--figures", type=Path)
    arguments = parser.parse_args()
    scenes = [scene for scene in SCENES if not arguments.names or scene.limit in arguments.names]
    right, wrong = 0, 0
    with tempfile.TemporaryDirectory() as root, contextlib.ExitStack() as stack:
        figures = stack.enter_context(arguments.figures.open("a")) if arguments.figures else None
        for data in {scene.data for scene in scenes}:
            make(f"{root}/{data}", data)
        for scene in scenes:
            try:
                found, stats, records = play(scene, root, arguments.seconds)
            except OSError as error:
                found, stats, records = [("staging", f"impossible here: {error}", "")], [], []
            for command, limit, sentence in found:
                is_named = is_right(scene, command, limit)
                right, wrong = right + is_named, wrong + (not is_named)
                print(f"{scene.limit:17} {command:8} {'right' if is_named else 'WRONG':6} {limit:17} {sentence}", flush=True)
            if figures:
                print(json.dumps({"scene": scene.limit, "stats": stats, "top": records}), file=figures, flush=True)
    print(f"{right} right, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--job"]:
        job(sys.argv[2], json.loads(sys.argv[3]), *map(int, sys.argv[4:]))
    else:
        sys.exit(main())
