"""Training of a ResNet-18 at 128 pixels, on the GPU if there is one."""

from __future__ import annotations

import argparse
import time
from typing import Any

import report
import torch
import torchvision
from measure import Progress, difference

import forebay as fb

PIXELS = 128

SECONDS_MAX = 200
"""Time limit, so that a slow machine makes fewer steps."""


def run(args: argparse.Namespace, data: dict[str, Any], classes: int) -> report.Training:
    """Trains for `args.steps` steps, over several epochs if needed."""
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and args.batch_size is None:
        # Small enough for a hundred steps on a few cores before SECONDS_MAX is over.
        data = {**data, "batch_size": 16}
    torch.manual_seed(7)
    model = torchvision.models.resnet18(num_classes=classes).to(device, memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05 * data["batch_size"] / 64, momentum=0.9, weight_decay=1e-4)
    norm = fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD)
    fields = {
        "x": fb.Image(args.image_column, fb.RandomResizedCrop(PIXELS), fb.RandomHorizontalFlip(), norm, dtype="float32", layout="NHWC"),
        "y": fb.Scalar(args.label_column, dtype="int64"),
    }
    where = torch.cuda.get_device_name() if device != "cpu" else f"the CPU, {torch.get_num_threads()} threads"
    about = f"ResNet-18 at {PIXELS} pixels, batches of {data['batch_size']}, on {where}."
    print(f"training: {about}")
    progress = Progress("training")
    arrivals: list[tuple[float, int]] = []
    losses: list[tuple[int, float]] = []
    stalls: list[tuple[float, float]] = []
    waited, images = 0.0, 0
    with fb.Loader(device=device, fields=fields, drop_last=True, **data) as loader:
        before, start = loader.stats(), time.perf_counter()
        first = recent_start = start
        recent_wait = 0.0
        while len(losses) < args.steps and time.perf_counter() - start < SECONDS_MAX:
            batches = iter(loader)
            while len(losses) < args.steps:
                asked = time.perf_counter()
                batch = next(batches, None)
                got = time.perf_counter()
                if batch is None or got - start > SECONDS_MAX:
                    break
                # NHWC batches become torch's channels_last as a view, without a copy.
                x, y = batch["x"].permute(0, 3, 1, 2), batch["y"]
                if not losses and not 0 <= int(y.min()) <= int(y.max()) < classes:
                    raise SystemExit(
                        f"the labels are not all below {classes}: pass --classes (there is {int(y.max())} among them)"
                    )
                # Usual mixed precision on the GPU.
                with torch.autocast("cuda", torch.bfloat16, enabled=device != "cpu"):
                    loss = torch.nn.functional.cross_entropy(model(x), y)
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()
                losses.append((len(losses) + 1, loss.item()))
                now = time.perf_counter()
                if len(losses) == 1:
                    first, recent_start = got, got
                else:
                    waited += got - asked
                    recent_wait += got - asked
                images += len(x)
                arrivals.append((now - start, len(x)))
                if len(losses) % 4 == 0:
                    stalls.append((now - start, recent_wait / (now - recent_start)))
                    recent_start, recent_wait = now, 0.0
                share = waited / (now - first)
                rate = images / (now - start)
                progress(f"step {len(losses)} of {args.steps}, {rate:,.0f} images/s, stall {share:.1%}, loss {loss.item():.3f}")
            if not losses:
                raise SystemExit("the data set has fewer pictures than a batch: pass a smaller --batch-size")
        seconds = time.perf_counter() - start
        stats = difference(before, loader.stats())
    share = waited / max(seconds - (first - start), 1e-9)
    # The reason for fewer steps, on the terminal and on the page.
    short = f" of {args.steps}, because of the limit of {SECONDS_MAX} s" if len(losses) < args.steps else ""
    about += f" {len(losses)} steps{short}."
    progress.end(f"{len(losses)} steps{short}, {images / seconds:,.0f} images/s, stall {share:.1%}, loss {losses[-1][1]:.3f}")
    phase = report.Phase("training", about, seconds, images, arrivals, stats, first - start)
    return report.Training(phase, losses, stalls, share)
