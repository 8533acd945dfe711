"""Start and end of a loader: the import, the first batch and `close`, in wall milliseconds and in those of CPU time of all threads.

    PYTHONPATH=python/py_src python bench/scripts/start.py [CASE ...]

Each round of a case is a separate process, and the medians are printed. `import` is the package alone; `names` the first
use of a loader and its fields, after it; the rest have imported both. `folder` and `cache` have 10,000 shards, in place and
in a complete cache. `loaders` are 64 at once on that folder. `tars` fetches 64 tars with an index from a forebay-bench in
the PATH, which answers after 50 ms; they are read in order, and `shuffled` needs 63 of them for its first batch.
"""

import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

ROUNDS = 5
SHARDS, LOADERS, BATCH = 10_000, 64, 64
TARS, SAMPLES_OF_A_TAR, SAMPLE_BYTES = 64, 64, 20_000
LATENCY_MS = 50
CASES = ("import", "names", "folder", "cache", "loaders", "tars", "shuffled")


def make(root):
    """Makes the data sets."""
    import forebay as fb

    # Shards of twelve samples.
    with fb.MDSWriter(out=f"{root}/folder", columns={"n": "int", "x": "bytes"}, size_limit=1200) as writer:
        for number in range(12 * SHARDS):
            writer.write({"n": number, "x": bytes(64)})
    assert len(fb.read_index(f"{root}/folder")) == SHARDS
    os.mkdir(f"{root}/tars")
    for number in range(TARS):
        with tarfile.open(f"{root}/tars/train-{number:06}.tar", "w") as tar:
            for sample in range(SAMPLES_OF_A_TAR):
                entry = tarfile.TarInfo(f"{number:03}{sample:05}.x")
                entry.size = SAMPLE_BYTES
                tar.addfile(entry, io.BytesIO(os.urandom(SAMPLE_BYTES)))
    subprocess.run([sys.executable, "-m", "forebay", "index", f"{root}/tars"], check=True, stdout=subprocess.DEVNULL)


def timed(times, name, work):
    """Returns the result of `work`, and adds its times."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    times[name] = [1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - cpu)]
    return result


def measure(case, root, url):
    """Measures one case in this process."""
    times = {}
    fb = timed(times, "import", lambda: __import__("forebay"))
    timed(times, "names", lambda: (fb.Loader, fb.Scalar, fb.Image, fb.RandomResizedCrop))
    if case in ("import", "names"):
        return {case: times[case]}
    import numpy  # noqa: F401

    times, places = {}, {"remote": f"{root}/folder"}
    if case == "cache":
        places["local"] = f"{root}/cache"
        shutil.copytree(f"{root}/folder", f"{root}/cache", dirs_exist_ok=True)
    elif case in ("tars", "shuffled"):
        places = {"remote": f"{url}/tars", "local": tempfile.mkdtemp(dir=root)}

    def loader():
        fields = {"x": fb.Bytes("x")}
        return fb.Loader(**places, batch_size=BATCH, shuffle=case != "tars", fields=fields, framework="numpy")

    count = LOADERS if case == "loaders" else 1
    loaders = timed(times, "constructor", lambda: [loader() for _ in range(count)])
    epochs = [iter(one) for one in loaders]
    timed(times, "first batch", lambda: [next(epoch) for epoch in epochs])
    timed(times, "close", lambda: [one.close() for one in loaders])
    return times


def rounds(case, root, url):
    """Prints the medians of a case."""
    command = [sys.executable, __file__, "--measure", case, root, url]
    found = [json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout) for _ in range(ROUNDS)]
    for name in found[0]:
        wall, cpu = (statistics.median(times[name][kind] for times in found) for kind in (0, 1))
        print(f"{case:9} {name:12} {wall:7.1f} ms, {cpu:7.1f} ms of CPU", flush=True)


def main(cases):
    with tempfile.TemporaryDirectory() as root:
        make(root)
        serve = ["forebay-bench", "serve", root, "--latency-ms", str(LATENCY_MS), "--until-eof"]
        if not {"tars", "shuffled"} & set(cases):
            serve = ["cat"]
        with subprocess.Popen(serve, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            url = "" if serve == ["cat"] else server.stdout.readline().split()[-1]
            for case in cases:
                rounds(case, root, url)
            server.stdin.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(*sys.argv[2:])))
    else:
        main(sys.argv[1:] or CASES)
