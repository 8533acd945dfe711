"""Packs of documents: the same on any number of ranks and after every interruption, in each form of a batch."""

import hashlib
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys

import megatron_files
import numpy as np
import pytest
from test_length_index import WORDS, megatron, parquet, tokenize, write_jsonl

import forebay as fb
from forebay.errors import ConfigError, StateError

GLOBAL_BATCH = 24
LENGTH = 16

TEXTS = [" ".join(WORDS[(number * 3 + place) % 5] for place in range(number * 31 % 41)) for number in range(300)]

# Random lengths, with documents that are longer than a pack.
DOCUMENTS = megatron_files.random_documents(3, 500, longest=40)


def of_texts(folder):
    with fb.MDSWriter(out=str(folder / "texts"), columns={"text": "str"}, size_limit=1 << 12) as writer:
        for text in TEXTS:
            writer.write({"text": text})
    return str(folder / "texts")


def of_ids(folder, documents=DOCUMENTS):
    with fb.MDSWriter(out=str(folder / "ids"), columns={"ids": "bytes"}, size_limit=1 << 12) as writer:
        for document in documents:
            writer.write({"ids": document.tobytes()})
    return str(folder / "ids")


IDS = {"input_ids": fb.Tokens("ids", stored="uint16")}


def mixed(folder):
    first, second = write_jsonl(folder / "jsonl", TEXTS[:100]), of_texts(folder)
    return {"streams": [fb.Stream(remote=first, proportion=2), fb.Stream(remote=second, proportion=1)]}, tokenize()


SOURCES = {
    "jsonl": lambda folder: ({"remote": write_jsonl(folder / "jsonl", TEXTS)}, tokenize()),
    "mds": lambda folder: ({"remote": of_texts(folder)}, tokenize()),
    "parquet": lambda folder: ({"remote": parquet(folder)[0]}, tokenize()),
    "megatron": lambda folder: ({"remote": megatron(folder)[0]}, fb.Tokens("tokens")),
    "mixed": mixed,
}


def loader(data, field, rank=0, ranks=1, **options):
    """A loader of one rank, on one machine of `ranks`."""
    pack = {"length": LENGTH, "form": "segments", **options.pop("pack", {})}
    options = {
        "fields": {"input_ids": field},
        "window": fb.Pack(**pack),
        "batch_size": GLOBAL_BATCH // ranks,
        "order": fb.Order(num_canonical_nodes=2),
        "shuffle": True,
        "threads": 1,
        "framework": "numpy",
        "world": fb.World(rank, ranks, rank, ranks),
        **options,
    }
    return fb.Loader(**data, **options)


def digests(batches):
    """Digest of each step from the batches of all ranks: its packs, whichever ranks they are on."""

    def rows(batch):
        return zip(batch["input_ids"], batch["segment_ids"], batch["positions"], strict=True)

    steps = []
    for of_ranks in zip(*batches, strict=True):
        packs = sorted(b"".join(array.tobytes() for array in row) for batch in of_ranks for row in rows(batch))
        steps.append(hashlib.sha256(b"".join(packs)).hexdigest())
    return steps


def run(data, field, ranks, state=None, steps=None, **options):
    """Digests of the steps, and the state after them."""
    batches, states = [], []
    for rank in range(ranks):
        with loader(data, field, rank, ranks, **options) as each:
            if state is not None:
                each.load_state_dict(state)
            iterator = iter(each)
            taken = list(iterator) if steps is None else [next(iterator) for _ in range(steps)]
            batches.append(taken)
            states.append(each.state_dict())
    assert all(other == states[0] for other in states)
    return digests(batches), states[0]


def sequences(batch):
    """The sequences of a batch of the form "segments"."""
    found = []
    for ids, segments in zip(batch["input_ids"], batch["segment_ids"], strict=True):
        found += [ids[segments == number].tolist() for number in range(1, segments.max() + 1)]
    return found


@pytest.mark.parametrize("name", SOURCES)
def test_packs_are_the_same_on_any_number_of_ranks_and_after_a_change_of_it(name, tmp_path):
    data, field = SOURCES[name](tmp_path)
    # A last step that is not full has repeats, as with samples: ranks need different numbers of them.
    whole, _ = run(data, field, 1, drop_last=True)
    assert len(whole) > 5
    for ranks in (2, 4, 8):
        assert run(data, field, ranks, drop_last=True)[0] == whole
    before, state = run(data, field, 2, steps=3)
    assert before == whole[:3]
    assert len(json.dumps(state)) < 4096
    for ranks in (6, 1, 8):
        assert run(data, field, ranks, state, drop_last=True)[0] == whole[3:]


def test_every_token_is_in_one_pack_and_no_document_that_fits_is_cut(tmp_path):
    data = {"remote": of_ids(tmp_path)}
    for method in ("best_fit", "cut"):
        with loader(data, IDS["input_ids"], pack={"method": method}) as each:
            assert len(each) == sum(1 for _ in each)
            # The packs that make canonical nodes equal have these tokens twice.
            named = [sample for step in range(len(each)) for sample in each.samples_of(step, epoch=1)]
            batches = list(each)
        parts = {}
        for sample in named:
            if not sample.repeat:
                parts.setdefault(sample.number, []).append((sample.first_token, sample.tokens))
        for number, document in enumerate(DOCUMENTS):
            end = 0
            for first, tokens in sorted(parts[number]):
                assert first == end
                end += tokens
            assert end == len(document)
            assert method == "cut" or len(document) > LENGTH or len(parts[number]) == 1
        found = [ids for batch in batches for ids in sequences(batch)]
        assert found == [DOCUMENTS[s.number][s.first_token : s.first_token + s.tokens].tolist() for s in named]


def test_long_documents_are_split_truncated_or_dropped(tmp_path):
    documents = [np.arange(40, dtype=np.uint16), np.arange(100, 104, dtype=np.uint16)]
    found = {}
    for overflow in ("split", "truncate", "drop"):
        with loader({"remote": of_ids(tmp_path / overflow, documents)}, IDS["input_ids"], pack={"overflow": overflow}, shuffle=False) as each:
            batch = next(iter(each))
        found[overflow] = sorted({tuple(ids) for ids in sequences(batch)})
    short = (100, 101, 102, 103)
    assert found["split"] == [tuple(range(16)), tuple(range(16, 32)), tuple(range(32, 40)), short]
    assert found["truncate"] == [tuple(range(16)), short]
    assert found["drop"] == [short]


def test_a_batch_without_padding_has_what_flash_attention_of_hugging_face_takes(tmp_path):
    torch = pytest.importorskip("torch")
    with loader(
        {"remote": of_ids(tmp_path)}, IDS["input_ids"], pack={"form": "padding_free"}, framework="torch", batch_size=3
    ) as each:
        for step, batch in enumerate(each):
            named = each.samples_of(step)
            parts = [DOCUMENTS[s.number][s.first_token : s.first_token + s.tokens].astype(np.int64) for s in named]
            starts = np.cumsum([0, *map(len, parts)])
            assert list(batch) == [
                "input_ids", "labels", "position_ids", "cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k",
            ]  # fmt: skip
            assert batch["input_ids"].dtype == batch["labels"].dtype == batch["position_ids"].dtype == torch.int64
            assert batch["input_ids"].tolist() == [np.concatenate(parts).tolist()]
            assert batch["labels"].tolist() == [[label for part in parts for label in [-100, *part[1:].tolist()]]]
            assert batch["position_ids"].tolist() == [[place for part in parts for place in range(len(part))]]
            for name in ("q", "k"):
                assert batch[f"cu_seq_lens_{name}"].dtype == torch.int32
                assert batch[f"cu_seq_lens_{name}"].tolist() == starts.tolist()
                longest = batch[f"max_length_{name}"]
                assert type(longest) is int and longest == max(map(len, parts))


def packs_of(named):
    """The documents' parts of each pack, by the names of the samples of a step."""
    packs = []
    for sample in named:
        if sample.row == len(packs):
            packs.append([])
        packs[-1].append(DOCUMENTS[sample.number][sample.first_token : sample.first_token + sample.tokens].astype(np.int64))
    return packs


@pytest.mark.parametrize("limit", [None, 4])
@pytest.mark.parametrize("parallel", [1, 2, 4])
def test_a_batch_of_thd_has_sequences_that_each_rank_of_context_parallelism_has_an_equal_part_of(parallel, limit, tmp_path):
    torch = pytest.importorskip("torch")
    pack = {"form": "thd", "pad_sequences_to": 2 * parallel, "pad": 9, "max_sequences": limit}
    options = {"framework": "torch", "batch_size": 3}
    tokens = 0
    with loader({"remote": of_ids(tmp_path)}, IDS["input_ids"], pack=pack, **options) as each:
        for step, batch in enumerate(each):
            packs = packs_of(each.samples_of(step))
            ids, labels, mask, places = ([] for _ in range(4))
            starts, padded = [0], []
            for number, parts in enumerate(packs, 1):
                for last, part in zip([*([False] * (len(parts) - 1)), True], parts, strict=True):
                    room = -len(part) % (2 * parallel)
                    end = len(ids) + len(part) + room
                    assert end <= number * LENGTH, "a pack is full with the padding of its sequences"
                    room += number * LENGTH - end if last else 0
                    padded.append(len(ids))
                    starts.append(starts[-1] + len(part))
                    ids += [*part, *[9] * room]
                    labels += [*part[1:], *[-100] * (room + 1)]
                    mask += [1] * (len(part) - 1) + [0] * (room + 1)
                    places += [*range(len(part)), *[0] * room]
            padded.append(len(ids))
            longest = max(np.diff(padded))
            if limit is not None:
                starts += [starts[-1]] * (len(packs) * limit + 1 - len(starts))
                padded += [padded[-1]] * (len(packs) * limit + 1 - len(padded))
            expected = {
                "input_ids": torch.tensor([ids]),
                "labels": torch.tensor([labels]),
                "loss_mask": torch.tensor([mask], dtype=torch.float32),
                "position_ids": torch.tensor([places]),
                "cu_seqlens": torch.tensor(starts, dtype=torch.int32),
                "cu_seqlens_padded": torch.tensor(padded, dtype=torch.int32),
                "max_seqlen": torch.tensor([longest], dtype=torch.int32),
            }
            assert list(batch) == list(expected)
            for name, values in expected.items():
                assert batch[name].dtype == values.dtype and torch.equal(batch[name], values), name
            assert (batch["cu_seqlens_padded"] % (2 * parallel) == 0).all()
            tokens += starts[-1]
    assert tokens >= sum(map(len, DOCUMENTS))


def test_forms_with_a_row_for_each_pack_show_the_same_packs(tmp_path):
    data = {"remote": of_ids(tmp_path)}
    batches = {}
    for form in ("segments", "indexed_mask", "sequence_id", "document_ids"):
        with loader(data, IDS["input_ids"], pack={"form": form, "pad": 60_000}) as each:
            batches[form] = next(iter(each))
    segments, mask, numbers, documents = batches.values()
    ids = segments["input_ids"]
    assert ids.shape == (GLOBAL_BATCH, LENGTH) and (ids[segments["segment_ids"] == 0] == 60_000).all()
    assert (mask["input_ids"] == ids).all() and (numbers["input_ids"] == ids).all()
    assert (mask["attention_mask"] == segments["segment_ids"]).all() and mask["attention_mask"].dtype == np.int64
    assert (numbers["sequence_id"] == segments["segment_ids"] - 1).all()
    assert (numbers["attention_mask"] == (segments["segment_ids"] > 0)).all()
    assert (mask["position_ids"] == segments["positions"]).all() and segments["positions"].dtype == np.int32
    labels = np.where((segments["segment_ids"] > 0) & (segments["positions"] > 0), ids, -100)
    assert (mask["labels"] == labels).all() and (numbers["labels"] == labels).all()
    assert (documents["document_ids"] == numbers["sequence_id"]).all() and documents["document_ids"].dtype == np.int32
    assert (documents["positions"] == segments["positions"]).all() and documents["positions"].dtype == np.int64
    assert (documents["labels"] == np.pad(labels[:, 1:], ((0, 0), (0, 1)), constant_values=-100)).all()


def test_a_pack_has_at_most_max_sequences_and_they_begin_at_multiples(tmp_path):
    pack = {"max_sequences": 2, "pad_sequences_to": 8}
    with loader({"remote": of_ids(tmp_path)}, IDS["input_ids"], pack=pack) as each:
        for batch in each:
            assert batch["segment_ids"].max() <= 2
            starts = np.argwhere((batch["positions"] == 0) & (batch["segment_ids"] > 0))[:, 1]
            assert (starts % 8 == 0).all()


KILLED = """
import os, pickle, signal, sys
sys.path.insert(0, {tests!r})
import test_packs
data, field, steps = pickle.loads(bytes.fromhex({arguments!r}))
with test_packs.loader(data, field) as each:
    for batch in each:
        print(test_packs.digests([[batch]])[0], pickle.dumps(each.state_dict()).hex(), flush=True)
        steps -= 1
        if not steps:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_continues_with_its_next_pack(tmp_path):
    data, field = {"remote": of_texts(tmp_path)}, tokenize()
    whole, _ = run(data, field, 1, drop_last=True)
    arguments = pickle.dumps((data, field, 4)).hex()
    code = KILLED.format(tests=str(pathlib.Path(__file__).parent), arguments=arguments)
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, env=os.environ, check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    lines = [line.split() for line in process.stdout.decode().splitlines()]
    assert [digest for digest, _ in lines] == whole[:4]
    state = pickle.loads(bytes.fromhex(lines[-1][1]))
    assert run(data, field, 2, state, drop_last=True)[0] == whole[4:]


def test_steps_of_later_epochs_are_named_replayed_and_left_out(tmp_path):
    data = {"remote": of_ids(tmp_path)}
    with loader(data, IDS["input_ids"]) as each:
        epochs = [list(each) for _ in range(2)]
        first = len(epochs[0])
        batch = each.replay(first + 1)
        assert all((batch[name] == epochs[1][1][name]).all() for name in batch)
        assert each.samples_of(first + 1) == each.samples_of(1, epoch=1)
        each.save_run(tmp_path / "run.json")
    found = subprocess.run(
        [sys.executable, "-m", "forebay", "which", tmp_path / "run.json", "--step", str(first + 1), "--json"],
        capture_output=True, env=os.environ, check=True,
    )  # fmt: skip
    named = [json.loads(line) for line in found.stdout.splitlines()]
    assert [DOCUMENTS[s["number"]][s["first_token"] : s["first_token"] + s["tokens"]].tolist() for s in named] == sequences(batch)
    with loader(data, IDS["input_ids"], order=fb.Order(num_canonical_nodes=2, skip_steps=[0, first + 1])) as each:
        left = [list(each) for _ in range(2)]
    assert digests([left[0]]) == digests([epochs[0][1:]])
    assert digests([left[1]]) == digests([[epochs[1][0], *epochs[1][2:]]])


def test_a_checkpoint_has_the_first_step_of_its_epoch(tmp_path):
    data = {"remote": of_ids(tmp_path)}
    with loader(data, IDS["input_ids"]) as each:
        counts = [len(list(each)) for _ in range(2)]
        taken = iter(each)
        next(taken)
        state = each.state_dict()
        named = each.samples_of(sum(counts))
        del taken
    first = state["forebay"]["first_step"]
    assert first == {"step": sum(counts), "rows": GLOBAL_BATCH, "drop_last": False}
    # A different number shows that no earlier epoch is planned to count its steps.
    state["forebay"]["first_step"] = {**first, "step": 1_000_000}
    for ranks in (1, 2):
        found = []
        for rank in range(ranks):
            with loader(data, IDS["input_ids"], rank, ranks) as each:
                each.load_state_dict(state)
                found += each.samples_of(1_000_000)
                assert each.samples_of(1_000_000) == each.samples_of(0, epoch=2)
        assert sorted((s.number, s.first_token) for s in found) == sorted((s.number, s.first_token) for s in named)
    # Steps of a different size have different numbers, which are counted from the first epoch.
    with loader(data, IDS["input_ids"], batch_size=GLOBAL_BATCH // 2) as each:
        each.load_state_dict(state)
        assert each.samples_of(0) == each.samples_of(0, epoch=0)
        with pytest.raises(ConfigError, match="pass the step's epoch"):
            each.samples_of(10**12)


def test_the_state_has_the_numbers_of_packs_whatever_epochs_were_asked_for(tmp_path):
    with loader({"remote": of_ids(tmp_path)}, IDS["input_ids"]) as each:
        taken = iter(each)
        next(taken)
        packs = each.state_dict()["forebay"]["packs"]
        for epoch in range(1, 8):
            each.samples_of(0, epoch=epoch)
        assert each.state_dict()["forebay"]["packs"] == packs


def test_filters_subsets_and_weights_choose_the_documents_of_packs(tmp_path):
    data = {"remote": of_ids(tmp_path)}
    with loader(data, IDS["input_ids"], select=fb.Select(subset="10:20"), shuffle=False, batch_size=2) as each:
        numbers = {sample.number for step in range(len(each)) for sample in each.samples_of(step)}
        assert numbers == set(range(10, 20))
        found = {tuple(ids) for batch in each for ids in sequences(batch)}
        assert {tuple(DOCUMENTS[number].tolist()) for number in numbers if len(DOCUMENTS[number]) <= LENGTH} <= found
    weights = np.zeros(len(DOCUMENTS))
    weights[[3, 5]] = 1
    with loader(data, IDS["input_ids"], select=fb.Select(weights=weights), batch_size=2) as each:
        assert {sample.number for sample in each.samples_of(0)} <= {3, 5}


def test_a_wrong_number_of_tokens_is_an_error_that_names_the_sample(tmp_path):
    lengths = np.array([len(document) for document in DOCUMENTS], float)
    good = {"remote": of_ids(tmp_path)}
    with loader(good, IDS["input_ids"], pack={"lengths": lengths}) as each, loader(good, IDS["input_ids"]) as same:
        assert digests([list(each)]) == digests([list(same)])
    # Of a different data set, perhaps: 4 billion tokens would be 268 million packs.
    wrong = np.array([4e9, *lengths[1:]])
    with pytest.raises(ConfigError, match="check the lengths in tokens"):
        with loader(good, IDS["input_ids"], pack={"lengths": wrong}) as each:
            list(each)
    lengths[7] += 1
    with loader(good, IDS["input_ids"], pack={"lengths": lengths}) as each:
        with pytest.raises(ConfigError, match=r"number of tokens of a sample differs.*sample 7"):
            list(each)


def test_a_state_belongs_to_the_packing_and_its_lengths(tmp_path):
    data = {"remote": of_ids(tmp_path)}
    _, state = run(data, IDS["input_ids"], 1, steps=2)
    for pack in ({"length": 32}, {"method": "cut"}, {"overflow": "drop"}, {"max_sequences": 1}):
        with loader(data, IDS["input_ids"], pack=pack) as each:
            with pytest.raises(StateError, match="packing was best_fit of 16 tokens"):
                each.load_state_dict(state)
    with loader(data, IDS["input_ids"]) as each:
        damaged = json.loads(json.dumps(state))
        damaged["forebay"]["packs"] = "AA"
        with pytest.raises(StateError, match="packs"):
            each.load_state_dict(damaged)
        # Without the numbers they are counted again.
        del damaged["forebay"]["packs"]
        each.load_state_dict(damaged)
        assert digests([list(each)]) == run(data, IDS["input_ids"], 1)[0][2:]


def test_a_document_that_cannot_be_decoded_leaves_padding_within_the_limit(tmp_path):
    lengths = np.array([len(document) for document in DOCUMENTS], float)
    documents = [document.tobytes() for document in DOCUMENTS]
    with fb.MDSWriter(out=str(tmp_path / "ids"), columns={"ids": "bytes"}) as writer:
        for number, document in enumerate(documents):
            writer.write({"ids": document[:-1] if number == 7 else document})
    data = {"remote": str(tmp_path / "ids")}
    with loader(data, IDS["input_ids"], pack={"lengths": lengths}, skip=fb.Skip(errors=3), shuffle=False) as each:
        batches = list(each)
        assert each.stats()["counters"]["samples_skipped"] >= 1
    found = {tuple(ids) for batch in batches for ids in sequences(batch)}
    assert tuple(DOCUMENTS[7].tolist()) not in found and tuple(DOCUMENTS[8][:LENGTH].tolist()) in found


@pytest.mark.parametrize("form", ["padding_free", "segments"])
def test_ranks_stay_equal_where_a_rank_loses_all_documents_of_a_batch(form, tmp_path):
    documents = [np.arange(number * LENGTH, (number + 1) * LENGTH, dtype=np.uint16) for number in range(8)]
    with fb.MDSWriter(out=str(tmp_path / "ids"), columns={"ids": "bytes"}) as writer:
        for number, document in enumerate(documents):
            writer.write({"ids": document.tobytes()[: -1 if number == 2 else None]})
    options = {
        "pack": {"lengths": np.full(8, float(LENGTH)), "form": form},
        "skip": fb.Skip(errors=1),
        "batch_size": 1,
        "shuffle": False,
        "order": fb.Order(num_canonical_nodes=1),
    }
    found = []
    for rank in range(2):
        with loader({"remote": str(tmp_path / "ids")}, IDS["input_ids"], rank, 2, **options) as each:
            found.append([batch["input_ids"].tolist() for batch in each])
            assert each.stats()["counters"]["batches_refilled"] == (rank == 0)
    assert [ids for step in zip(*found, strict=True) for ids in step] == [
        # The document of the next batch of its rank.
        [documents[4 if number == 2 else number].tolist()]
        for number in range(8)
    ]


def put(bucket, prefix, remote):
    for path in pathlib.Path(remote).iterdir():
        bucket.objects[f"{prefix}/{path.name}"] = path.read_bytes()
    return f"s3://bucket/{prefix}"


@pytest.mark.parametrize("algo", ["py1e", "py1s", "naive"])
def test_packs_under_a_cache_limit_are_those_of_the_folder(algo, tmp_path, bucket, bucket_environment):
    remote = of_ids(tmp_path)
    options = {"order": fb.Order(num_canonical_nodes=2, shuffle_algo=algo)}
    with loader({"remote": remote}, IDS["input_ids"], **options) as each:
        whole = [digests([list(each)]) for _ in range(3)]
    stream = fb.Stream(remote=put(bucket, f"packs-{algo}", remote), local=tmp_path / "local")
    # Each batch has documents of most of the six shards, and two of them fit.
    limit = 17_000
    with loader({"streams": [stream]}, IDS["input_ids"], cache_limit=limit, **options) as each:
        assert [digests([list(each)]) for _ in range(3)] == whole
    assert sum(path.stat().st_size for path in (tmp_path / "local").rglob("*") if path.is_file()) <= limit


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": None}, "packs are made of one field"),
        ({"fields": IDS | {"more": fb.Bytes("ids")}}, "packs are made of one field"),
        ({"fields": {"input_ids": fb.Tokens("ids", stored="uint16", length=8, pad=0)}}, "length of Tokens is for rows"),
        ({"extra": ["sample_ids"]}, "`extra` adds an output for each sample"),
        ({"order": fb.Order(repeat_augment=2)}, "repeat_augment"),
        ({"order": fb.Order(batching_method="stratified")}, "batching_method"),
        ({"pack": {"method": "first_fit"}}, "window: method is"),
        ({"pack": {"form": "flat"}}, "window: form is"),
        ({"pack": {"form": "padding_free"}, "map": lambda sample, draws: sample}, "map needs a row for each pack"),
        ({"pack": {"form": "thd"}, "sharding": 0}, "a batch of form=\"thd\" is one row"),
        ({"pack": {"form": "thd", "pad_sequences_to": 3}}, "pad_sequences_to"),
        ({"pack": {"length": 0}}, "length is a whole number, at least 1"),
        ({"pack": {"length": 1 << 24}, "batch_size": 128}, "at most 2,147,483,647 tokens"),
    ],
)  # fmt: skip
def test_what_packs_do_not_have_is_refused(options, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        loader({"remote": of_ids(tmp_path)}, IDS["input_ids"], **options)


def test_the_names_of_other_libraries_lead_to_the_options():
    with pytest.raises(TypeError, match="did you mean length"):
        fb.Pack(max_length=4096)
    assert repr(fb.Pack(4096, form="segments")) == "Pack(length=4096, form='segments')"
