"""A program that uses the public interface: type checkers find nothing in it, in their strict mode. It is not run."""

from collections.abc import Iterator
from typing import Any, TypedDict

import numpy as np
import torch

import forebay as fb
from forebay import checkpoint

image = fb.Image("jpg", fb.RandomResizedCrop(224), fb.RandomHorizontalFlip(), fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD))
fields = {
    "x": image,
    "small": fb.Image("jpg", fb.Resize((64, 64), interpolation="bicubic"), dtype=torch.float16, layout="NHWC", mode="L"),
    "y": fb.Scalar("class", dtype="int32", default=-1),
    "ids": fb.Tokens("tokens", pad=0, dtype=np.uint16),
    "mask": fb.AttentionMask("ids"),
    "text": fb.Text("caption"),
    "meta": fb.Json("json", "width", dtype="int64"),
    "caption": fb.Json("json", "caption", "str"),
    "boxes": fb.Joint(image=image, boxes=fb.Boxes("boxes", format="xywh")),
    "objects": fb.Joint(image=image, masks=fb.ObjectMasks("objects", "masks"), map=fb.ClassMap("objects", "masks", "classes")),
    "array": fb.Array("embedding", dtype=np.dtype("float32"), shape=(16,)),
    "raw": fb.Bytes("blob"),
}


def epochs(rank: int) -> Iterator[torch.Tensor]:
    streams = [
        fb.Stream(remote="s3://bucket/a", proportion=0.7, select=fb.Select(subset="0:1000"), fetch=fb.Fetch(validate_hash="xxh64")),
        fb.Stream(remote="s3://bucket/b", proportion=0.3, select=fb.Select(fraction=(0, 0.9))),
    ]
    with fb.Loader(
        streams=streams,
        batch_size=64,
        shuffle=True,
        fields=fields,
        window=fb.TokenWindow(2048, stride=1024),
        extra=["sample_keys", "repeat"],
        device=torch.device("cuda", rank),
        order=fb.Order(shuffle_algo="py1br"),
        skip=fb.Skip(errors=10),
        engine=fb.Engine(memory="2gb"),
        world=fb.World(rank=rank, world_size=8),
    ) as loader:
        for epoch in range(loader.epoch, 3):
            for batch in loader:
                yield batch["x"]
            print(epoch, len(loader), loader.classes)
        stats = loader.stats()
        print(stats["bottleneck"], stats["stages"]["decode"]["busy_s"] / stats["elapsed_s"], stats["counters"]["samples_skipped"])
        loader.load_state_dict(loader.state_dict())
        print([sample.index for sample in loader.samples_of(3)])


def pair(batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    return batch["x"], batch["y"]


def augment(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return sample | {"noise": rng.normal()}


def own_batches() -> torch.Tensor:
    total = torch.zeros(())
    for x, y in fb.Loader(local="set", batch_size=4, transform=pair, map=fb.Map(augment, workers=2, kind="processes")):
        total = total + x.sum() + y.sum()
    on_two: fb.Loader[list[dict[str, Any]]] = fb.Loader(local="set", batch_size=4, device=["cuda:0", "cuda:1"])
    for first, second in on_two:
        print(first["x"], second["x"])
    return total


class Batch(TypedDict):
    """Outputs of a loader with their types, so that a wrong key is found."""

    x: torch.Tensor
    name: list[str]


def typed() -> None:
    loader: fb.Loader[Batch] = fb.Loader(local="set", batch_size=4, fields={"x": image, "name": fb.Text("name")})
    for batch in loader:
        print(batch["x"].shape, batch["name"][0].upper())


def files() -> None:
    store = fb.StoreOptions(endpoint="http://127.0.0.1:9000", part_size="16mb")
    listed = fb.list_files("s3://bucket/texts/", masks="*.txt", store=store)
    print(len(listed), listed[0].url, [file.size for file in listed[:3]])
    for url, data in fb.load_files(listed, shard="none", failed="return"):
        if isinstance(data, fb.Error):
            print(url, data.kind, data.context)
        else:
            print(data.splitlines())
    for _, content in fb.load_files(listed, whole_max=1 << 20):
        print(None if content is None else len(content))
    print([len(content) for _, content in fb.load_files(listed)])
    print([line.decode() for line in fb.load_lines(listed)], [name.upper() for _, name, _ in fb.load_tars(listed)])
    with fb.open("s3://bucket/a.txt", "wb") as file:
        file.write(b"text")
    with fb.open("s3://bucket/a.txt") as binary, fb.open("s3://bucket/a.txt", "r", encoding="utf-8") as text:
        print(binary.read(4).hex(), [line.strip() for line in text])


def shards() -> None:
    with fb.MDSWriter(out="out", columns={"x": "jpeg", "y": "int"}, hashes=["xxh64"], compression="zstd:7") as writer:
        writer.write({"x": b"", "y": 1})
    reader = fb.ShardReader("out")
    print(len(reader), reader[0]["y"])
    try:
        reader[10**9]
    except fb.SampleIndexError as error:
        print(error.context)


def checkpoints(loader: fb.Loader[Any]) -> None:
    saved = checkpoint.save({"model": 1}, "run/step-1", step=1, data=loader, metadata={"loss": 0.5}, format="safetensors")
    saving = checkpoint.save({"model": 2}, "run/step-2", wait=False)
    print(saved.url, saving.is_done, saving.wait().step)


def files_of_modes(whole_max: int | None, wait: bool) -> None:
    for _, data in fb.load_files("s3://bucket/", whole_max=whole_max):
        print(data is None or data.hex())
    done = checkpoint.save({}, "run/step-3", wait=wait)
    print(done.url if isinstance(done, checkpoint.Checkpoint) else done.wait().url)


def newest() -> None:
    last = checkpoint.latest("run", damaged="skip")
    if last is not None:
        print(last.step, last.url, last.load())
