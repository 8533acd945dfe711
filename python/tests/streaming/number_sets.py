"""Data sets of numbers in shards of a few samples, and the numbers that were read from them."""

from forebay.streaming import MDSWriter


def write(folder, count=117, first=0, size_limit=1 << 9, **settings):
    """Writes `count` numbers from `first` on; the folder's name."""
    with MDSWriter(out=str(folder), columns={"number": "int"}, size_limit=size_limit, **settings) as writer:
        for number in range(first, first + count):
            writer.write({"number": number})
    return str(folder)


def numbers(samples):
    return [int(sample["number"]) for sample in samples]


def of_loader(loader):
    """The numbers of a loader's batches, in order."""
    return [int(number) for batch in loader for number in batch["number"]]
