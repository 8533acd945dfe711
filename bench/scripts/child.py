"""Measures one loader in a separate process.

Usage: child.py PEER CONFIG-AS-JSON

The parent writes lines to standard input. `convert` makes the peer's own form of the data set in the folder that CONFIG
names, `epoch` drains one epoch, `digest` drains one that is not measured. Answers are JSON lines on standard output: `ready` (versions; modules are imported),
`converted`, `first` (on the first epoch: the time from the constructor to the first batch, and the time of the constructor
alone), `epoch` (items, seconds, seconds to its first batch, CPU seconds of the whole process tree, sums of the numbers that a peer
counts in its batches), `digest` (a peer's digest of an epoch), `skip` (a reason), `error`. Output of libraries goes to standard
error, so that it cannot disturb the protocol.
"""

import collections
import importlib
import json
import os
import sys
import time
import traceback

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


def tree_cpu_seconds():
    """User and system time of this process, its live descendants, and those they have waited for."""
    parents, times = {}, {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as f:
                fields = f.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it ended between the listing and the read; its time is included in its parent's
        parents[int(name)] = int(fields[1])
        times[int(name)] = sum(map(int, fields[11:15])) * TICK_S
    total, me = 0.0, os.getpid()
    for pid in parents:
        up = pid
        while up not in (me, 0):
            up = parents.get(up, 0)
        if up == me:
            total += times[pid]
    return total


def check(config, x):
    """Reads the whole batch and returns its mean, by which peers can be compared."""
    if config["kind"] == "bytes":
        assert all(type(file) is bytes and file[:2] == b"\xff\xd8" for file in x), "a batch that is not of JPEG files"
        return {"shape": [len(x)], "dtype": "bytes", "mean": sum(map(len, x)) / len(x)}
    shape = tuple(x.shape)
    if config["kind"] == "images":
        s = config["crop"]
        assert shape[1:] in ((3, s, s), (s, s, 3)), f"a batch of shape {shape}"
        dtype = "uint8" if config.get("recipe", "crop") == "crop" else "float32"
        assert str(x.dtype).endswith(dtype), f"a batch of {x.dtype}"
    else:
        assert shape[1:] == (config["length"],), f"a batch of shape {shape}"
        assert str(x.dtype).rpartition(".")[2] in ("uint16", "int64"), f"a batch of {x.dtype}"
    mean = x.float().mean() if hasattr(x, "float") else x.mean()
    return {"shape": list(shape), "dtype": str(x.dtype), "mean": float(mean)}


def main():
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def report(event, **facts):
        print(json.dumps({"event": event, **facts}), file=out, flush=True)

    peer, config = sys.argv[1], json.loads(sys.argv[2])
    # Before any import, since thread pools read their size at import.
    os.sched_setaffinity(0, config["cpus"])
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    try:
        module = importlib.import_module(f"peer_{peer}")
    except ImportError as e:
        return report("skip", reason=f"{type(e).__name__}: {e}")
    if "recipe" in config:
        # Further comparisons have no recipes, and not their file.
        import recipes

        if config["recipe"] not in getattr(module, "RECIPES", recipes.OF_ONE_VIEW):
            return report("skip", reason=f"it lacks operations of the recipe {config['recipe']}")
    try:
        report("ready", versions=module.versions())
        loader = None
        for line in sys.stdin:
            if line.strip() == "convert":
                module.convert(config)
                report("converted")
                continue
            if line.strip() == "digest":
                report("digest", **module.digest(loader))
                continue
            cpu, start = tree_cpu_seconds(), time.perf_counter()
            first, items, first_seconds, counts = loader is None, 0, None, collections.Counter()
            if first:
                loader = module.build(config)
                open_seconds = time.perf_counter() - start
            for x, y in module.batches(loader):
                if first_seconds is None:
                    first_seconds = time.perf_counter() - start
                if first:
                    facts = getattr(module, "check", check)(config, x)
                    report("first", seconds=first_seconds, open_seconds=open_seconds, **facts)
                    first = False
                items += len(x)
                if isinstance(y, collections.Counter):
                    counts += y
            seconds = time.perf_counter() - start
            cpu_seconds = tree_cpu_seconds() - cpu
            report("epoch", items=items, seconds=seconds, first_seconds=first_seconds, cpu_seconds=cpu_seconds, **counts)
    except Exception as e:
        traceback.print_exc()
        report("error", reason=f"{type(e).__name__}: {e}")
        os._exit(1)
    # Not every library stops its threads and workers at the end of the interpreter.
    out.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
