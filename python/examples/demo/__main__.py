"""Demonstration: `make run`, or `python python/examples/demo` with the package on the path.

It makes a data set once, serves it on loopback, measures a cold and a cached epoch of `forebay.Loader`, trains a
ResNet-18 for some steps, and writes the figures into one page. With --data it reads the given data instead.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from typing import Any

import dataset
import report
import server
from measure import Progress, drain, stage_lines

import forebay as fb

HINT = """\
# a folder or bucket of MDS shards with index.json
make run RUN_ARGS="--data s3://bucket/imagenet/train --image-column image --label-column class --classes 1000"
make run RUN_ARGS="--data ./my-shards"

# in your own program
import forebay as fb
train = fb.Loader(remote="s3://bucket/imagenet", split="train", batch_size=256, shuffle=True,
                  fields={"x": fb.Image("image", fb.RandomResizedCrop(224), fb.RandomHorizontalFlip()),
                          "y": fb.Scalar("class", dtype="int64")})
for batch in train:
    batch["x"], batch["y"]
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder or URL of MDS shards [default: the demonstration's own set]")
    parser.add_argument("--image-column", default="image", help="column with the encoded pictures")
    parser.add_argument("--label-column", default="class", help="column with the class as a number")
    parser.add_argument("--classes", type=int, help="number of classes of --data")
    parser.add_argument("--folder", default=".forebay/demo", help="folder of the set and the local copies")
    parser.add_argument("--report", default="report/index.html", help="page to write")
    parser.add_argument("--server", help="the object-server binary; without it the data set is read from its folder")
    parser.add_argument("--pictures", type=int, default=dataset.PICTURES, help="size of the demonstration's own set")
    parser.add_argument("--batch-size", type=int, help="default: 64, and 16 for training on a CPU")
    parser.add_argument("--steps", type=int, default=100, help="steps of training; 0: no training")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    classes, served, remote, local = args.classes or 1000, None, None, None
    cache = os.path.join(args.folder, "cache")
    if args.data is None:
        made = os.path.join(args.folder, f"photos-{args.pictures}-{dataset.VERSION}")
        print(f"data: {args.pictures:,} JPEGs in zstd-compressed MDS shards, in {made}")
        classes = dataset.make(made, args.pictures, report=Progress("data"))
        if args.server:
            served = server.start(args.server, made)
            remote = served.url
            print(f"server: {remote}, an object store in a separate process")
        else:
            remote = os.path.abspath(made)
    elif "://" in args.data:
        remote = args.data
    else:
        local = args.data
    try:
        measure(args, remote, local or cache, classes)
    finally:
        if served:
            served.stop()


def measure(args: argparse.Namespace, remote: str | None, local: str, classes: int) -> None:
    """Runs both epochs and the training, and writes tables and page."""
    if remote is not None:
        # Cold: no shard is resident yet.
        shutil.rmtree(local, ignore_errors=True)
    data: dict[str, Any] = {"remote": remote, "local": local, "batch_size": args.batch_size or 64, "shuffle": True}
    size = 224
    fields = {
        "x": fb.Image(args.image_column, fb.RandomResizedCrop(size), fb.RandomHorizontalFlip()),
        "y": fb.Scalar(args.label_column, dtype="int64"),
    }
    about = f"{size} pixels, random crop and flip, uint8, batches of {data['batch_size']}"
    with fb.Loader(fields=fields, **data) as loader:
        print(f"epochs: {len(loader):,} batches each, {about}")
        epochs = [drain(loader, "cold epoch", about), drain(loader, "cached epoch", about)]
    training = None
    if args.steps:
        import training as train

        training = train.run(args, data, classes)
    phases = [*epochs, *([training.phase] if training else [])]
    for phase in phases:
        print(f"\n{phase.name}: {phase.rate:,.0f} images/s, {phase.images:,} images in {phase.seconds:.1f} s")
        print("\n".join(stage_lines(phase.stats)))
        print(f"  bottleneck: {phase.stats['bottleneck']}")
    notes = dict.fromkeys(note for phase in phases for note in phase.stats["notes"])
    results = report.Results("forebay: the demonstration", facts(remote or local), epochs, training, HINT, list(notes))
    os.makedirs(os.path.dirname(args.report) or ".", exist_ok=True)
    with open(args.report, "w", encoding="utf-8") as file:
        file.write(report.render(results))
    print(f"\nreport: {os.path.abspath(args.report)}")
    print("your own data: make run RUN_ARGS=\"--data s3://bucket/set --classes 1000\" (see the page)")


def facts(data: str) -> list[tuple[str, str]]:
    """Returns facts about machine and data."""
    import torch

    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    return [
        ("data", data),
        ("processor", f"{model}, {len(os.sched_getaffinity(0))} CPUs for this process"),
        ("GPU", gpu),
        ("forebay", fb.__version__),
        ("torch", torch.__version__),
        ("Python", platform.python_version()),
        ("kernel", platform.release()),
    ]


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nstopped")
    except fb.Error as error:
        sys.exit(f"\nerror: {error}")
