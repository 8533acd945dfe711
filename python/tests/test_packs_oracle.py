"""Packs of random data sets, compared with sequences, outputs and numbers of packs that are computed here, from the documents."""

import itertools
import json
import random

import numpy as np
import pytest

import forebay as fb
from forebay.errors import ConfigError

PAD = 7

OUTPUTS = {
    "padding_free": ["input_ids", "labels", "position_ids", "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k"],
    "segments": ["input_ids", "segment_ids", "positions"],
    "indexed_mask": ["input_ids", "labels", "attention_mask", "position_ids"],
    "sequence_id": ["input_ids", "labels", "attention_mask", "sequence_id"],
}

INT32 = {"segment_ids", "positions", "cu_seq_lens_q", "cu_seq_lens_k"}


def lengths(draw, length):
    """Lengths of documents: none, some or all of them empty, as long as a pack, or longer."""
    sizes = {
        "any": lambda: draw.randint(0, 3 * length),
        "short": lambda: draw.randint(1, max(1, length // 2)),
        "full": lambda: length * draw.choice([1, 1, 2]),
        "long": lambda: draw.randint(length + 1, 4 * length + 1),
        "empty": lambda: 0,
    }
    kinds = draw.choice([["any"], ["short"], ["long"], ["full"], ["any", "full", "empty"], [*sizes]])
    found = [sizes[draw.choice(kinds)]() for _ in range(draw.choice([1, 2, 3, 5, 12, 40, 120]))]
    return found if any(0 < size <= length for size in found) else [*found, 1]


class Drawn:
    """A data set and the arguments of its loaders. A token is in one document alone."""

    def __init__(self, seed, folder):
        draw = self.draw = random.Random(seed)
        self.length = draw.choice([1, 4, 8, 16, 24])
        self.form = draw.choice([*OUTPUTS])
        multiple = draw.choice([1, 1, 1, 2, 4])
        self.multiple = multiple if self.length % multiple == 0 and self.form != "padding_free" else 1
        self.method, self.overflow = draw.choice(["best_fit", "cut"]), draw.choice(["split", "truncate", "drop"])
        self.most = draw.choice([None, None, 1, 2, 3])
        self.global_batch = draw.choice([2, 4, 6, 8, 24])
        self.nodes = draw.choice([1, 2, 4])
        self.drop_last = draw.random() < 0.5
        first, self.documents, self.streams = 0, [], []
        for stream in range(draw.choice([1, 1, 2, 3])):
            documents = []
            with fb.MDSWriter(out=str(folder / f"{stream}"), columns={"ids": "bytes", "class": "int"}, size_limit=512) as writer:
                for number, size in enumerate(lengths(draw, self.length)):
                    ids = np.arange(first, first + size)
                    first += size
                    writer.write({"ids": ids.astype(np.uint32).tobytes(), "class": number % 3})
                    documents.append(ids)
            self.documents.append(documents)
            self.streams.append(str(folder / f"{stream}"))
        self.mixed = draw.choice([None, None, "proportion", "repeat", "choose"]) if len(self.streams) > 1 else None
        self.kept = draw.choice([None, None, "class != 1"])
        order = {"num_canonical_nodes": self.nodes, "shuffle_algo": draw.choice(["py1e", "py1s", "py1br", "naive", "py2s"])}
        window = {"overflow": self.overflow, "max_sequences": self.most, "pad_sequences_to": self.multiple, "form": self.form}
        self.options = {
            "streams": [self.stream(remote) for remote in self.streams],
            "fields": {"input_ids": fb.Tokens("ids", stored="uint32")},
            "window": fb.Pack(self.length, method=self.method, pad=PAD, **window),
            "select": self.kept and fb.Select(filter=self.kept),
            "shuffle": draw.random() < 0.7,
            "seed": draw.randint(0, 1000),
            "drop_last": self.drop_last,
            "framework": "numpy",
            "threads": 1,
        }
        self.order = order

    def stream(self, remote):
        weights = {"proportion": [0.5, 1, 2], "repeat": [0.5, 1, 1.5, 2], "choose": [1, 5, 30]}
        return fb.Stream(remote=remote, **({} if self.mixed is None else {self.mixed: self.draw.choice(weights[self.mixed])}))

    def loader(self, rank=0, ranks=1, **order):
        world = fb.World(rank, ranks, rank, ranks)
        return fb.Loader(batch_size=self.global_batch // ranks, world=world, order=fb.Order(**self.order, **order), **self.options)

    def is_kept(self, number):
        return self.kept is None or number % 3 != 1

    def tokens_of(self, stream, number):
        """Tokens of a document that an epoch has."""
        tokens = len(self.documents[stream][number]) if self.is_kept(number) else 0
        return tokens if tokens <= self.length else {"split": tokens, "truncate": self.length, "drop": 0}[self.overflow]

    def packs_by_best_fit(self):
        """Packs of one window: the longest sequence first, each into the fullest pack with room."""
        tokens = [self.tokens_of(stream, number) for stream, all in enumerate(self.documents) for number in range(len(all))]
        sequences = [min(self.length, each - first) for each in tokens for first in range(0, each, self.length)]
        packs = []
        for need in sorted((-(-each // self.multiple) * self.multiple for each in sequences), reverse=True):
            fitting = [pack for pack in packs if pack[0] >= need and (self.most is None or pack[1] < self.most)]
            pack = min(fitting, key=lambda pack: pack[0], default=None)
            if pack is None:
                packs.append([self.length - need, 1])
            else:
                pack[0] -= need
                pack[1] += 1
        return len(packs)

    def outputs(self, named, packs):
        """The outputs of a batch with these sequences."""
        of = [[sample for sample in named if sample.row == row] for row in range(packs)]
        ids = {sample: self.documents[sample.stream][sample.number][sample.first_token :][: sample.tokens] for sample in named}
        if self.form == "padding_free":
            parts = [ids[sample] for sample in named]
            starts = np.cumsum([0, *map(len, parts)])
            longest = max(map(len, parts))
            return {
                "input_ids": np.concatenate(parts)[None],
                "labels": np.concatenate([[-100, *part[1:]] for part in parts])[None],
                "position_ids": np.concatenate([np.arange(len(part)) for part in parts])[None],
                "cu_seq_lens_q": starts, "cu_seq_lens_k": starts, "max_length_q": longest, "max_length_k": longest,
            }  # fmt: skip
        shape = packs, self.length
        tokens, labels, positions, numbers = np.full(shape, PAD), np.full(shape, -100), np.zeros(shape, int), np.zeros(shape, int)
        for row, samples in enumerate(of):
            end = 0
            for number, sample in enumerate(samples, 1):
                assert sample.offset >= end and sample.offset % self.multiple == 0
                end = sample.offset + sample.tokens
                place = row, slice(sample.offset, end)
                tokens[place], labels[place] = ids[sample], [-100, *ids[sample][1:]]
                positions[place], numbers[place] = np.arange(sample.tokens), number
            assert end <= self.length and len(samples) <= (self.most or self.length)
        all = {"input_ids": tokens, "labels": labels, "position_ids": positions, "positions": positions}
        all |= {"segment_ids": numbers, "sequence_id": numbers - 1}
        all["attention_mask"] = numbers if self.form == "indexed_mask" else (numbers > 0).astype(int)
        return {name: all[name] for name in OUTPUTS[self.form]}

    def epoch(self, loader, number, ranks=1):
        """The packs of each step that are no repeats, after a check of each batch."""
        steps, count = [], len(loader)
        for step, batch in enumerate(loader):
            named = loader.samples_of(step, epoch=number)
            packs = len({sample.row for sample in named})
            assert packs == self.global_batch // ranks or (step == count - 1 and not self.drop_last)
            expected = self.outputs(named, packs)
            assert list(batch) == list(expected)
            for name, value in expected.items():
                if isinstance(value, np.ndarray):
                    assert batch[name].dtype == (np.int32 if name in INT32 else np.int64), name
                assert np.array_equal(batch[name], value), name
            rows = [[sample for sample in named if sample.row == row and not sample.repeat] for row in range(packs)]
            steps.append(sorted([(s.stream, s.number, s.offset, s.first_token, s.tokens) for s in row] for row in rows if row))
        assert len(steps) == count
        return steps

    def check_tokens(self, steps):
        """Checks that an epoch has each token once, apart from tokens that `overflow` leaves out."""
        parts = {}
        for stream, number, _, first, tokens in itertools.chain.from_iterable(itertools.chain.from_iterable(steps)):
            assert self.is_kept(number)
            parts.setdefault((stream, number), []).append((first, tokens))
        if self.mixed is not None or self.drop_last:
            return
        for stream, documents in enumerate(self.documents):
            for number, document in enumerate(documents):
                end, found = 0, sorted(parts.get((stream, number), []))
                for first, tokens in found:
                    assert first == end
                    end += tokens
                assert end == self.tokens_of(stream, number)
                assert self.method == "cut" or len(document) > self.length or len(found) <= 1
        if self.method == "best_fit" and self.nodes == 1:
            assert sum(map(len, steps)) == self.packs_by_best_fit()


@pytest.mark.filterwarnings("ignore:an epoch has no batch")
@pytest.mark.parametrize("seed", range(24))
def test_packs_are_those_of_the_documents(seed, tmp_path):
    drawn = Drawn(seed, tmp_path)
    draw = drawn.draw
    try:
        with drawn.loader() as loader:
            whole = [drawn.epoch(loader, number) for number in (0, 1)]
    except ConfigError as error:
        # Streams with a small share may have nothing but documents that are dropped, or too few for py1e.
        few = "at least one with a token" in str(error) and drawn.mixed is not None
        assert few or "assigned to a canonical node is 0" in str(error)
        return
    for steps in whole:
        drawn.check_tokens(steps)
    numbers = [ranks for ranks in (2, 3, 4, 6, 8) if drawn.global_batch % ranks == 0]
    for ranks in draw.sample(numbers, min(2, len(numbers))):
        epochs = []
        for rank in range(ranks):
            with drawn.loader(rank, ranks) as loader:
                epochs.append([drawn.epoch(loader, number, ranks) for number in (0, 1)])
        for number, expected in enumerate(whole):
            steps = [sorted(itertools.chain.from_iterable(step)) for step in zip(*(of[number] for of in epochs), strict=True)]
            # With drop_last, ranks may leave out a last step that is not full, or fill it with repeats.
            shorter = min(len(steps), len(expected)) if drawn.drop_last else None
            assert steps[:shorter] == expected[:shorter] and abs(len(steps) - len(expected)) <= 1
    number = draw.choice([number for number, steps in enumerate(whole) if steps] or [None])
    if number is None:
        return
    before, ranks, after = draw.randrange(len(whole[number])), draw.choice([1, *numbers]), draw.choice([1, *numbers])
    with drawn.loader(0, ranks) as loader:
        for _ in range(number):
            list(loader)
        taken = iter(loader)
        found = [next(taken, None) for _ in range(before)]
        state = json.dumps(loader.state_dict())
        del taken
    if None in found:
        return
    assert len(state) < 4096
    parts = []
    for rank in range(after):
        with drawn.loader(rank, after) as loader:
            loader.load_state_dict(json.loads(state))
            parts.append([set(batch["input_ids"].ravel().tolist()) for batch in loader])
    for step, expected in zip(zip(*parts, strict=True), whole[number][before:], strict=not drawn.drop_last):
        tokens = {token for s in itertools.chain.from_iterable(expected) for token in drawn.documents[s[0]][s[1]][s[3] :][: s[4]].tolist()}
        assert tokens <= set().union(*step)
    with drawn.loader() as loader:
        step = sum(map(len, whole[:number])) + before
        named = loader.samples_of(step)
        expected = drawn.outputs(named, len({sample.row for sample in named}))
        batch = loader.replay(step)
        assert all(np.array_equal(batch[name], value) for name, value in expected.items())
    with drawn.loader(skip_steps=[step]) as loader:
        found = [len(list(loader)) for _ in whole]
        assert found == [len(steps) - (number == place) for place, steps in enumerate(whole)]
