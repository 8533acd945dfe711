"""Rates through each framework compared with the loader alone: python rates.py --data FOLDER [--tokens FOLDER].

Each framework has a separate process, in which a loop over the loader with framework="dlpack" (no conversion) and one through
the framework alternate. The step is empty. A rate is the rate of the second of two epochs, from the last batch of the first one
to its own last batch, so that the start of an epoch counts and the start of the job does not. FOLDER is a data set of
`forebay-bench synth`, or a different one with JPEGs in the column `image` and numbers in `class`; the data set of --tokens has arrays in
`tokens`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from views import VIEWS, loop, release

BATCH_SIZE = 64


class FirstBatch(Exception):
    """Ends a job at its first batch."""


def make(options, framework, **more):
    """Makes a loader, with the names of its outputs."""
    import forebay as fb

    if options.tokens:
        data, fields = options.tokens, {"x": fb.Array("tokens")}
    else:
        crop = fb.Image("image", fb.RandomResizedCrop(224), fb.RandomHorizontalFlip())
        data, fields = options.data, {"x": crop, "y": fb.Scalar("class", dtype="int32")}
    if options.threads:
        more["threads"] = options.threads
    loader = fb.Loader(
        local=data, batch_size=BATCH_SIZE, shuffle=True, drop_last=True, fields=fields, framework=framework, **more
    )
    return loader, list(fields)


def opened(options):
    """Makes the loader of the framework, and returns a function that runs epochs through it."""
    framework, run = VIEWS[options.view]
    more = {}
    if "sharded" in options.view:
        import jax

        mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
        more["sharding"] = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    loader, outputs = make(options, framework, **more)
    return lambda epochs, visit: run(loader, outputs, epochs, visit)


def bare(options):
    """The same for the loader alone."""
    loader, outputs = make(options, "dlpack")
    return lambda epochs, visit: loop(loader, outputs, epochs, visit)


def rates(run):
    """Batches per second, batches per second of CPU time, and this thread's CPU time per batch, of the second of two epochs."""
    times = []
    run(2, lambda: times.append((time.perf_counter(), time.process_time(), time.thread_time())))
    count = len(times) // 2
    elapsed, cpu, thread = (end - begin for begin, end in zip(times[count - 1], times[-1]))
    return count / elapsed, count / cpu, thread / count


def first_batch(open_, options):
    """Seconds from the constructor to the first batch."""

    def found():
        raise FirstBatch

    begin = time.perf_counter()
    try:
        open_(options)(1, found)
    except FirstBatch:
        elapsed = time.perf_counter() - begin
    release()
    return elapsed


def child(options):
    # Frameworks open their devices with their first array.
    first_batch(opened, options)
    firsts = [(first_batch(bare, options), first_batch(opened, options)) for _ in range(5)]
    alone, through = bare(options), opened(options)
    pairs = []
    for number in range(options.rounds):
        # The order changes, so that neither has the advantage of warm caches.
        found = [rates(run) for run in ((alone, through) if number % 2 else (through, alone))]
        pairs.append(found if number % 2 else found[::-1])
    results = {
        "rate": statistics.median(b[0] for _, b in pairs) * BATCH_SIZE,
        "ratio": statistics.median(b[0] / a[0] for a, b in pairs),
        "cpu_ratio": statistics.median(b[1] / a[1] for a, b in pairs),
        "thread_us": [statistics.median(run[2] for run in runs) * 1e6 for runs in zip(*pairs)],
        "first_s": [statistics.median(times) for times in zip(*firsts)],
    }
    print(json.dumps(results))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    parser.add_argument("--tokens")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, help="decode threads [default: all CPUs]")
    parser.add_argument("--view", choices=VIEWS)
    options = parser.parse_args()
    if options.view:
        return child(options)
    print("| | samples/s | ratio | per CPU second, ratio | CPU of the thread per batch, us | alone | first batch, s | alone |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for view, (framework, _) in VIEWS.items():
        env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "TF_CPP_MIN_LOG_LEVEL": "3"}
        env["KERAS_BACKEND"] = framework if framework != "numpy" else "jax"
        command = [sys.executable, __file__, *sys.argv[1:], "--view", view]
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"| {view} | skipped: {(done.stderr.splitlines() or ['?'])[-1]} |")
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        (first_alone, first), (thread_alone, thread) = found["first_s"], found["thread_us"]
        print(
            f"| {view} | {found['rate']:,.0f} | {found['ratio']:.3f} | {found['cpu_ratio']:.3f} | {thread:,.0f} | "
            f"{thread_alone:,.0f} | {first:.3f} | {first_alone:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
