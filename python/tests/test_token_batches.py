"""Batches under a limit of tokens, compared with batches that are computed here, from the documents in the order of a plain loader."""

import itertools
import json
import os
import pathlib
import pickle
import random
import shutil
import signal
import subprocess
import sys

import megatron_files
import numpy as np
import pytest
from test_length_index import PARQUET
from test_packs import DOCUMENTS, IDS, of_ids, packs_of

import forebay as fb
from forebay.errors import ConfigError, StateError

PAD = 7

OUTPUTS = ["input_ids", "labels", "attention_mask", "position_ids"]


def documents(draw, first, longest):
    """Ids of documents of random lengths, some of them longer than a row."""
    found = []
    for _ in range(draw.choice([1, 3, 20, 90])):
        size = draw.choice([1, draw.randint(1, longest // 4 + 1), draw.randint(1, longest), draw.randint(1, 3 * longest)])
        found.append(np.arange(first, first + size))
        first += size
    return [*found, np.arange(first, first + 2)]


def as_mds(folder, found):
    with fb.MDSWriter(out=str(folder), columns={"tokens": "ndarray:uint16"}, size_limit=512) as writer:
        for ids in found:
            writer.write({"tokens": ids.astype(np.uint16)})
    return str(folder)


def as_parquet(folder, found):
    """Two files that are ready, with documents that replace `found`."""
    folder.mkdir()
    for number in (0, 1):
        shutil.copy(PARQUET / f"set-{number}.parquet", folder)
    with fb.Loader(remote=f"{folder}/*.parquet", batch_size=1, fields={"ids": fb.Tokens("tokens", dtype="int64", pad=0)}, framework="numpy") as all:
        found[:] = [batch["ids"][0] for batch in all]
    return f"{folder}/*.parquet"


def as_megatron(folder, found):
    folder.mkdir()
    megatron_files.write(folder / "a", [ids.astype(np.uint16) for ids in found])
    return f"{folder}/*.bin"


def as_jsonl(folder, found):
    folder.mkdir()
    (folder / "0.jsonl").write_text("".join(json.dumps({"tokens": ids.tolist()}) + "\n" for ids in found))
    return f"{folder}/*.jsonl"


KINDS = {"mds": as_mds, "parquet": as_parquet, "megatron": as_megatron, "jsonl": as_jsonl}


class Drawn:
    """A data set of several kinds of files, and the arguments of its loaders."""

    def __init__(self, seed, folder):
        draw = self.draw = random.Random(seed)
        self.max_tokens = draw.choice([8, 24, 64, 100])
        self.multiple = draw.choice([1, 1, 2, 4])
        whole = self.max_tokens - self.max_tokens % self.multiple
        self.given = draw.choice([None, None, max(self.multiple, whole // 2 // self.multiple * self.multiple)])
        self.length = self.given or whole
        self.most, self.overflow = draw.choice([None, None, 1, 4]), draw.choice(["split", "truncate", "drop"])
        self.nodes = draw.choice([1, 1, 2, 4])
        first, self.documents, self.streams = 0, [], []
        for number, kind in enumerate(draw.sample([*KINDS], draw.choice([1, 2, 4]))):
            self.documents.append(documents(draw, first, self.length))
            first += sum(map(len, self.documents[-1]))
            self.streams.append(KINDS[kind](folder / f"{number}-{kind}", self.documents[-1]))
        self.proportions = [draw.choice([None, 0.5, 2]) for _ in self.streams]
        if None in self.proportions:
            self.proportions = [None] * len(self.streams)
        self.kept = draw.choice([None, None, (0, 0.7)])
        self.options = {
            "streams": [fb.Stream(remote=remote, proportion=share) for remote, share in zip(self.streams, self.proportions, strict=True)],
            "select": self.kept and fb.Select(fraction=self.kept),
            "shuffle": draw.random() < 0.7,
            "seed": draw.randint(0, 1000),
            "framework": "numpy",
            "threads": 2,
        }
        self.window = {"max_sequences": self.most, "max_length": self.given, "overflow": self.overflow, "pad_to_multiple_of": self.multiple}
        algo = draw.choice(["py1e", "py1s", "py1br", "naive"])
        self.order = {"num_canonical_nodes": self.nodes, "shuffle_algo": algo}

    def loader(self, rank=0, ranks=1, **order):
        return fb.Loader(
            batch_size=1, window=fb.TokenBatch(self.max_tokens, pad=PAD, **self.window), world=fb.World(rank, ranks, rank, ranks),
            fields={"input_ids": fb.Tokens("tokens", dtype="int64")}, order=fb.Order(**self.order, **order), **self.options,
        )  # fmt: skip

    def expected(self, epochs):
        """The rows of the batches of each epoch, sorted, by sort and division of the documents in the order of a loader without batches."""
        found = []
        plain = {"batch_size": 1, "extra": ["sample_ids", "repeat"], "fields": {"ids": fb.Tokens("tokens", dtype="int64", pad=0)}}
        with fb.Loader(order=fb.Order(**self.order), **plain, **self.options) as loader:
            numbers = [np.cumsum([0, *sizes]) for sizes in self.shard_sizes()]
            for _ in range(epochs):
                order = [
                    (stream, numbers[stream][shard] + index, batch["repeat"][0])
                    for batch in loader
                    for stream, shard, index in batch["sample_ids"].tolist()
                ]
                batches = []
                for canonical in range(self.nodes):
                    # One node has the documents of the canonical nodes in turn.
                    rows = [row for s, n, repeat in order[canonical :: self.nodes] if not repeat for row in self.rows_of(s, n)]
                    batches += self.divided(rows)
                found.append(sorted(batches))
        return found

    def shard_sizes(self):
        for remote in self.streams:
            with fb.Loader(remote=remote, batch_size=1, extra=["sample_ids"], fields={"ids": fb.Tokens("tokens", pad=0)}, framework="numpy") as all:
                shards = [batch["sample_ids"][0, 1] for batch in all]
            yield [shards.count(number) for number in range(max(shards) + 1)]

    def rows_of(self, stream, number):
        tokens = len(self.documents[stream][number])
        if tokens > self.length and self.overflow == "drop":
            return []
        end = self.length if self.overflow == "truncate" else tokens
        firsts = range(0, min(tokens, end), self.length)
        return [(stream, number, first, min(self.length, tokens - first)) for first in firsts]

    def padded(self, tokens):
        return -(-tokens // self.multiple) * self.multiple

    def divided(self, rows):
        rows = sorted(rows, key=lambda row: -self.padded(row[3]))
        while rows:
            count = self.max_tokens // self.padded(rows[0][3])
            count = min(count, self.most or count)
            yield sorted(rows[:count])
            rows = rows[count:]

    def batches(self, loader, number):
        """The rows of the batches, with the marks of repeats, after a check of each batch."""
        batches, count = [], len(loader)
        for step, batch in enumerate(loader):
            named = loader.samples_of(step, epoch=number)
            assert [sample.row for sample in named] == [*range(len(named))] and not any(sample.offset for sample in named)
            width = self.padded(max(sample.tokens for sample in named))
            shape = len(named), width
            assert len(named) * width <= self.max_tokens and list(batch) == OUTPUTS
            ids, labels, mask, places = np.full(shape, PAD), np.full(shape, -100), np.zeros(shape, int), np.zeros(shape, int)
            for row, sample in enumerate(named):
                part = self.documents[sample.stream][sample.number][sample.first_token :][: sample.tokens]
                place = row, slice(0, len(part))
                ids[place], labels[place], mask[place], places[place] = part, part, 1, np.arange(len(part))
            for name, value in zip(OUTPUTS, (ids, labels, mask, places), strict=True):
                assert batch[name].dtype == np.int64 and np.array_equal(batch[name], value), name
            assert len({sample.repeat for sample in named}) == 1
            batches.append((sorted((s.stream, s.number, s.first_token, s.tokens) for s in named), named[0].repeat))
        assert len(batches) == count
        return batches


def firsts(batches):
    """The batches that are no repeats."""
    return [rows for rows, repeat in batches if not repeat]


@pytest.mark.parametrize("seed", range(12))
def test_batches_are_the_sorted_documents_in_pieces_on_any_ranks_and_after_a_resume(seed, tmp_path):
    drawn = Drawn(seed, tmp_path)
    draw = drawn.draw
    expected = drawn.expected(2)
    try:
        with drawn.loader() as loader:
            whole = [drawn.batches(loader, number) for number in (0, 1)]
    except ConfigError as error:
        assert "at least one with a token" in str(error) and not any(expected)
        return
    for batches, wanted in zip(whole, expected, strict=True):
        assert sorted(firsts(batches)) == wanted
        if drawn.proportions[0] is None and drawn.kept is None:
            rows = sorted(itertools.chain(*firsts(batches)))
            assert rows == [row for s, all in enumerate(drawn.documents) for n in range(len(all)) for row in drawn.rows_of(s, n)]
    for ranks in (2, 4, 8):
        of_ranks = []
        for rank in range(ranks):
            with drawn.loader(rank, ranks) as loader:
                of_ranks.append([drawn.batches(loader, number) for number in (0, 1)])
        for number, batches in enumerate(whole):
            # As many steps on each rank. Steps of all ranks are as many batches of one rank.
            steps = zip(*(of_rank[number] for of_rank in of_ranks), strict=True)
            assert firsts(itertools.chain(*steps)) == firsts(batches)
    number = draw.randrange(2)
    before, ranks, after = draw.randrange(len(whole[number])) // 2, draw.choice([1, 2]), draw.choice([1, 2, 3, 8])
    with drawn.loader(0, ranks) as loader:
        for _ in range(number):
            list(loader)
        taken = iter(loader)
        for _ in range(before // ranks):
            next(taken)
        state = json.dumps(loader.state_dict())
        del taken
    assert len(state) < 4096
    parts = []
    for rank in range(after):
        with drawn.loader(rank, after) as loader:
            loader.load_state_dict(json.loads(state))
            parts.append([batch["input_ids"] for batch in loader])
    rest = [set(ids.ravel().tolist()) for ids in itertools.chain(*zip(*parts, strict=True))]
    assert len(rest) >= len(whole[number]) - before // ranks * ranks
    for found, (rows, _) in zip(rest, whole[number][before // ranks * ranks :], strict=False):
        assert found >= {token for s, n, first, tokens in rows for token in drawn.documents[s][n][first:][:tokens].tolist()}
    with drawn.loader() as loader:
        step = sum(map(len, whole[:number])) + before
        batch, named = loader.replay(step), loader.samples_of(step)
        assert [ids[: sample.tokens].tolist() for ids, sample in zip(batch["input_ids"], named, strict=True)] == [
            drawn.documents[s.stream][s.number][s.first_token :][: s.tokens].tolist() for s in named
        ]
    with drawn.loader(skip_steps=[step]) as loader:
        found = [len(list(loader)) for _ in whole]
        assert found == [len(batches) - (number == place) for place, batches in enumerate(whole)]


def loader(data, rank=0, ranks=1, batch=None, **options):
    """A loader of one rank, on one machine of `ranks`."""
    options = {"fields": IDS, "order": fb.Order(num_canonical_nodes=2), "shuffle": True, "threads": 1, "framework": "numpy", **options}
    window = fb.TokenBatch(**{"max_tokens": 64, "max_length": 16, **(batch or {})})
    return fb.Loader(batch_size=1, world=fb.World(rank, ranks, rank, ranks), window=window, **data, **options)


KILLED = """
import os, pickle, signal, sys
sys.path.insert(0, {tests!r})
import test_token_batches
data, steps = pickle.loads(bytes.fromhex({arguments!r}))
with test_token_batches.loader(data, 0, 2) as each:
    for batch in each:
        print(pickle.dumps(each.state_dict()).hex(), flush=True)
        steps -= 1
        if not steps:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_continues_with_its_next_batch_on_a_different_number_of_ranks(tmp_path):
    data = {"remote": of_ids(tmp_path)}
    with loader(data) as each:
        whole = [batch["input_ids"].tolist() for batch in each]
    code = KILLED.format(tests=str(pathlib.Path(__file__).parent), arguments=pickle.dumps((data, 4)).hex())
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, env=os.environ, check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    state = pickle.loads(bytes.fromhex(process.stdout.decode().split()[-1]))
    for ranks in (1, 2, 4, 8):
        parts = []
        for rank in range(ranks):
            with loader(data, rank, ranks) as each:
                each.load_state_dict(state)
                parts.append([batch["input_ids"].tolist() for batch in each])
        rest = [*itertools.chain(*zip(*parts, strict=True))]
        # Ranks are made equal by repeats at the end.
        assert rest[: len(whole) - 8] == whole[8:] or rest[: len(whole) - 8 - ranks] == whole[8 : len(whole) - ranks]


def test_the_command_which_names_the_documents_of_a_batch(tmp_path):
    data = {"remote": of_ids(tmp_path)}
    with loader(data) as each:
        first = len(list(each))
        batch = each.replay(first + 1)
        each.save_run(tmp_path / "run.json")
    found = subprocess.run(
        [sys.executable, "-m", "forebay", "which", tmp_path / "run.json", "--step", str(first + 1), "--json"],
        capture_output=True, env=os.environ, check=True,
    )  # fmt: skip
    named = [json.loads(line) for line in found.stdout.splitlines()]
    assert [sample["row"] for sample in named] == [*range(len(batch["input_ids"]))]
    parts = [DOCUMENTS[s["number"]][s["first_token"] :][: s["tokens"]].tolist() for s in named]
    assert parts == [ids[mask == 1].tolist() for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)]


def test_tensors_of_torch_have_the_types_that_models_take(tmp_path):
    torch = pytest.importorskip("torch")
    with loader({"remote": of_ids(tmp_path)}, framework="torch") as each:
        for step, batch in enumerate(each):
            parts = [torch.as_tensor(part) for (part,) in packs_of(each.samples_of(step))]
            padded = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
            assert torch.equal(batch["input_ids"], padded) and all(batch[name].dtype == torch.int64 for name in OUTPUTS)
            assert torch.equal(batch["labels"], torch.nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=-100))


def test_a_document_that_cannot_be_decoded_makes_its_batch_a_row_shorter(tmp_path):
    lengths = np.full(12, 4.0)
    with fb.MDSWriter(out=str(tmp_path / "ids"), columns={"ids": "bytes"}) as writer:
        for number in range(12):
            writer.write({"ids": np.arange(4, dtype=np.uint16).tobytes()[: -1 if number in (2, 8) else None]})
    batch = {"max_tokens": 8, "max_length": 4, "lengths": lengths}
    options = {"batch": batch, "skip": fb.Skip(errors=2), "shuffle": False, "order": fb.Order(num_canonical_nodes=1)}
    with loader({"remote": str(tmp_path / "ids")}, **options) as each:
        assert [batch["input_ids"].shape for batch in each] == [(2, 4), (1, 4), (2, 4), (2, 4), (1, 4), (2, 4)]
    # A rank with a batch that lost all its rows gets a row of a different one.
    options["batch"] = batch | {"max_sequences": 1}
    for rank in range(2):
        with loader({"remote": str(tmp_path / "ids")}, rank, 2, **options) as each:
            assert [batch["input_ids"].shape for batch in each] == [(1, 4)] * 6
            assert each.stats()["counters"]["batches_refilled"] == (2 if rank == 0 else 0)


def test_a_state_belongs_to_the_limits_and_the_lengths(tmp_path):
    data = {"remote": of_ids(tmp_path)}
    with loader(data) as each:
        next(iter(each))
        state = each.state_dict()
    for batch in ({"max_tokens": 32}, {"max_length": 8}, {"max_sequences": 3}, {"pad_to_multiple_of": 2}, {"overflow": "drop"}):
        with loader(data, batch=batch) as each:
            with pytest.raises(StateError, match="packing was batches of 64 tokens"):
                each.load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": None}, "made of one field"),
        ({"fields": {"input_ids": fb.Tokens("ids", stored="uint16", length=8, pad=0)}}, "length of Tokens is for rows"),
        ({"extra": ["sample_ids"]}, "leave `extra` out"),
        ({"order": fb.Order(batching_method="stratified")}, "batching_method"),
        ({"order": fb.Order(bucket_by="ids")}, "bucket_by"),
        ({"map": lambda sample, draws: sample}, "map needs batches of one shape"),
        ({"batch": {"max_length": 65}}, "max_length must be from 1 token to max_tokens"),
        ({"batch": {"max_length": 12, "pad_to_multiple_of": 8}}, "multiple of pad_to_multiple_of"),
        ({"batch": {"overflow": "cut"}}, "window: overflow is"),
        ({"batch": {"max_tokens": 1 << 31, "max_length": None}}, "at most 2,147,483,647 tokens"),
    ],
)  # fmt: skip
def test_what_batches_by_tokens_do_not_have_is_refused(options, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        loader({"remote": of_ids(tmp_path)}, **options)


def test_the_names_of_other_libraries_lead_to_the_options(tmp_path):
    with pytest.raises(ConfigError, match="batch_size is 1 with TokenBatch"):
        fb.Loader(remote=of_ids(tmp_path), batch_size=8, fields=IDS, window=fb.TokenBatch(64))
    with pytest.raises(TypeError, match=r"TokenBatch\(max_tokens"):
        fb.Loader(remote="data", batch_size=8, max_tokens=4096)
    assert repr(fb.TokenBatch(4096, pad_to_multiple_of=8)) == "TokenBatch(max_tokens=4096, pad_to_multiple_of=8)"


@pytest.mark.parametrize("kind", ["packs", "batches"])
@pytest.mark.parametrize("seed", range(4))
def test_the_tokens_of_an_epoch_have_the_proportions_of_the_streams(kind, seed, tmp_path):
    draw = random.Random(seed)
    overflow, shares, streams, sizes = draw.choice(["split", "truncate", "drop"]), [], [], []
    for number, made in enumerate(KINDS.values()):
        longest = draw.choice([12, 30, 120])
        found = [np.arange(draw.randint(1, longest)) for _ in range(draw.choice([40, 300]))]
        remote = made(tmp_path / str(number), found)
        shares.append(draw.choice([1, 2, 0.5]))
        streams.append(fb.Stream(remote=remote, proportion=shares[-1]))
        sizes.append([len(ids) if len(ids) <= 32 else {"split": len(ids), "truncate": 32, "drop": 0}[overflow] for ids in found])
    options = {"overflow": overflow, "proportion_unit": "tokens"}
    window = fb.Pack(32, **options) if kind == "packs" else fb.TokenBatch(96, max_length=32, **options)

    def loader(rank, ranks):
        return fb.Loader(
            streams=streams, batch_size=4 // ranks if kind == "packs" else 1, window=window, world=fb.World(rank, ranks, rank, ranks),
            fields={"input_ids": fb.Tokens("tokens", dtype="int64")}, framework="numpy", shuffle=True, order=fb.Order(num_canonical_nodes=2), threads=1,
        )  # fmt: skip

    with loader(0, 1) as each:
        for epoch in range(2):
            tokens = np.zeros(len(streams))
            for step in itertools.count():
                try:
                    named = each.samples_of(step, epoch=epoch)
                except ConfigError:
                    break
                for sample in named:
                    tokens[sample.stream] += 0 if sample.repeat else sample.tokens
            # Within 1 %, or half a document of these few.
            wanted = np.array(shares) / sum(shares) * sum(map(sum, sizes))
            assert (np.abs(tokens - wanted) <= np.maximum(wanted / 100, np.array([max(each) for each in sizes]) / 2)).all()
        names = [sorted((s.stream, s.number, s.first_token) for s in each.samples_of(step, epoch=1) if not s.repeat) for step in range(8)]
        taken = iter(each)
        next(taken)
        state = each.state_dict()
        following = next(taken)["input_ids"].tolist()
        del taken
    for ranks in (2, 4):
        found = []
        for rank in range(ranks):
            with loader(rank, ranks) as other:
                count = 8 if kind == "packs" else 8 // ranks
                found.append([[(s.stream, s.number, s.first_token) for s in other.samples_of(step, epoch=1) if not s.repeat] for step in range(count)])
        steps = [sorted(itertools.chain(*step)) for step in zip(*found, strict=True)]
        size = 1 if kind == "packs" else ranks
        assert steps == [sorted(itertools.chain(*names[first : first + size])) for first in range(0, 8, size)]
    with loader(0, 1) as other:
        other.load_state_dict(state)
        assert next(iter(other))["input_ids"].tolist() == following
