"""Rates through each framework compared with the loader alone: python rates.py --data FOLDER [--tokens FOLDER].

Each framework has a separate process, in which epochs of the loader with framework="dlpack" (no conversion) and epochs
through the framework alternate. The step is empty: a loop over the batches. FOLDER is a data set of `forebay-bench synth`,
or another one with JPEGs in the column `image` and numbers in `class`; that of --tokens has arrays in `tokens`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

VIEWS = {
    "torch": "torch",
    "numpy": "numpy",
    "jax": "jax",
    "jax, 4 devices": "jax",
    "tensorflow": "tensorflow",
    "tf.data": "tensorflow",
    "keras on jax": "jax",
    "keras on tensorflow": "tensorflow",
}
"""Names of the ways to iterate, with the loader's framework."""


def make(options, framework, **more):
    import forebay as fb

    if options.tokens:
        fields = {"x": fb.Array("tokens")}
        data = options.tokens
    else:
        crop = fb.Image("image", fb.RandomResizedCrop(224), fb.RandomHorizontalFlip())
        fields = {"x": crop, "y": fb.Scalar("class", dtype="int32")}
        data = options.data
    return fb.Loader(local=data, batch_size=64, shuffle=True, drop_last=True, fields=fields, framework=framework, **more)


def opened(options):
    """Makes the loader, and returns a function that starts an epoch through the framework."""
    view, framework = options.view, VIEWS[options.view]
    if view == "jax, 4 devices":
        import jax

        mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
        loader = make(options, framework, sharding=sharding)
    else:
        loader = make(options, framework)
    if view == "tf.data":
        from forebay.integrations.tensorflow import dataset

        elements = dataset(loader)
        return lambda: iter(elements)
    if view.startswith("keras"):
        from forebay.integrations.keras import Batches

        batches = Batches(loader, *(["x"] if options.tokens else ["x", "y"]))
        if framework == "tensorflow":
            elements = batches.get_tf_dataset()
            return lambda: iter(elements)
        return batches.get_jax_iterator
    return lambda: iter(loader)


def epoch(start):
    """Runs an epoch, and returns its batches per second, and per second of CPU time."""
    begin, cpu, count = time.perf_counter(), time.process_time(), 0
    for _ in start():
        count += 1
    return count / (time.perf_counter() - begin), count / (time.process_time() - cpu)


def first_batch(open_):
    """Seconds from the constructor to the first batch."""
    begin = time.perf_counter()
    for _ in open_()():
        found = time.perf_counter() - begin
        break
    del _
    if jax := sys.modules.get("jax"):
        # JAX releases what it holds of a batch in its next call: not in the next measurement.
        jax.block_until_ready(jax.device_put(0))
    return found


def child(options):
    bare_of = lambda: (lambda loader: lambda: iter(loader))(make(options, "dlpack"))  # noqa: E731
    # Frameworks open their devices with their first array.
    first_batch(lambda: opened(options))
    first_batch(bare_of)
    firsts = [(first_batch(bare_of), first_batch(lambda: opened(options))) for _ in range(5)]
    bare, through = bare_of(), opened(options)
    epoch(bare), epoch(through)
    pairs = []
    for number in range(options.rounds):
        # The order changes, so that neither has the advantage of the other's warm caches.
        rates = [epoch(start) for start in ((bare, through) if number % 2 else (through, bare))]
        pairs.append(rates if number % 2 else rates[::-1])
    results = {
        "rate": statistics.median(b for _, (b, _) in pairs) * 64,
        "ratio": statistics.median(b / a for (a, _), (b, _) in pairs),
        "cpu_ratio": statistics.median(b / a for (_, a), (_, b) in pairs),
        "more_us": statistics.median(1 / b - 1 / a for (_, a), (_, b) in pairs) * 1e6,
        "first_s": [statistics.median(times) for times in zip(*firsts)],
    }
    print(json.dumps(results))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    parser.add_argument("--tokens")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--view", choices=VIEWS)
    options = parser.parse_args()
    if options.view:
        return child(options)
    print("| | samples/s | ratio | per CPU second, ratio | CPU per batch, us | first batch, s | of the loader alone |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for view in VIEWS:
        env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "TF_CPP_MIN_LOG_LEVEL": "3"}
        env["KERAS_BACKEND"] = VIEWS[view] if VIEWS[view] != "numpy" else "jax"
        command = [sys.executable, __file__, *sys.argv[1:], "--view", view]
        done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"| {view} | skipped: {(done.stderr.splitlines() or ['?'])[-1]} |")
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        first, alone = found["first_s"][1], found["first_s"][0]
        print(
            f"| {view} | {found['rate']:,.0f} | {found['ratio']:.3f} | {found['cpu_ratio']:.3f} | {found['more_us']:,.0f} | "
            f"{first:.3f} | {alone:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
