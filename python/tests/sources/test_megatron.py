"""Megatron's files of token ids: documents and windows, on this machine and from a bucket."""

import itertools
import os
import struct

import megatron_files
import numpy as np
import pytest
from source_matrix import Case, SourceMatrix, opened

import forebay as fb

_prefixes = itertools.count()

NAMES = ["a_text_document", "b_text_document", "c_text_document"]

IDS = {"ids": fb.Tokens("tokens", 96, pad=0, dtype="int32"), "length": fb.Length("tokens")}


def document_rows(batch):
    return [tuple(ids[:length].tolist()) for ids, length in zip(batch["ids"], batch["length"], strict=True)]


def window_rows(batch):
    return [tuple(ids.tolist()) for ids in batch["tokens"]]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("megatron")
    for seed, name in enumerate(NAMES):
        # 160 documents and 96 windows, so that every number of ranks divides an epoch.
        megatron_files.write(folder / name, megatron_files.random_documents(seed, 160, 80, tokens=64 * 96 + 11))
    return folder


@pytest.fixture
def stored(corpus, bucket):
    """Prefix of the same files in the bucket."""
    prefix = f"megatron-{next(_prefixes)}"
    bucket.objects.update({f"{prefix}/{name}": (corpus / name).read_bytes() for name in os.listdir(corpus)})
    return prefix


class TestDocuments(SourceMatrix):
    CACHE_LIMIT = 25_000

    @pytest.fixture
    def case(self, corpus, stored):
        return Case(
            remote=f"{corpus}/{{a,b,c}}_text_document.bin",
            stored=f"s3://bucket/{stored}/{{a,b,c}}_text_document.bin",
            options={"fields": IDS},
            rows=document_rows,
            samples=[tuple(ids.tolist()) for name in NAMES for ids in megatron_files.documents(corpus / name)],
            object_suffix=("bin", "idx"),
        )


class TestWindows(SourceMatrix):
    CACHE_LIMIT = 25_000

    @pytest.fixture
    def case(self, corpus, stored):
        return Case(
            remote=f"{corpus}/*_text_document.bin",
            stored=f"s3://bucket/{stored}/*_text_document.bin",
            options={"window": fb.TokenWindow(65, stride=64)},
            rows=window_rows,
            samples=[tuple(ids.tolist()) for name in NAMES for ids in megatron_files.windows(corpus / name, 65, 64)],
            object_suffix="bin",
        )


def read(remote, rows=window_rows, **options):
    with fb.Loader(remote=remote, batch_size=16, framework="numpy", **options) as loader:
        return [row for batch in loader for row in rows(batch)]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "uint16"])
def test_ids_have_the_type_of_the_file(tmp_path, dtype):
    megatron_files.write(tmp_path / "one", megatron_files.random_documents(1, 64, dtype=dtype), dtype)
    with fb.Loader(remote=f"{tmp_path}/one.bin", batch_size=64, framework="numpy") as loader:
        (batch,) = loader
    expected = megatron_files.documents(tmp_path / "one")
    assert [ids.dtype for ids in batch["tokens"]] == [np.dtype(dtype)] * 64
    assert [ids.tolist() for ids in batch["tokens"]] == [ids.tolist() for ids in expected]
    with fb.Loader(remote=f"{tmp_path}/one.bin", batch_size=1, window=7, framework="numpy") as loader:
        batch = next(iter(loader))
    assert (batch["tokens"].dtype, batch["tokens"].shape) == (np.dtype(dtype), (1, 7))


def test_the_prefix_of_files_on_this_machine_is_their_name(tmp_path, monkeypatch):
    prefix = tmp_path / "a_text_document"
    megatron_files.write(prefix, megatron_files.random_documents(1, 100))
    expected = [tuple(ids.tolist()) for ids in megatron_files.windows(prefix, 32, 32)]
    assert read(f"{prefix}.bin", window=32) == read(str(prefix), window=32) == read(prefix, window=32) == expected
    monkeypatch.chdir(tmp_path)
    assert read("a_text_document", window=32) == expected
    # Megatron's cache is in a folder of that name.
    (prefix / "cache").mkdir(parents=True)
    with fb.Loader(local="a_text_document", batch_size=16, window=32, framework="numpy") as loader:
        assert [row for batch in loader for row in window_rows(batch)] == expected
    with fb.MDSWriter(out=prefix / "set", columns={"n": "int"}) as writer:
        writer.write({"n": 1})
    (prefix / "set" / "index.json").rename(prefix / "index.json")
    (prefix / "set" / "shard.00000.mds").rename(prefix / "shard.00000.mds")
    with fb.Loader(remote=prefix, batch_size=1, framework="numpy") as loader:
        assert [batch["n"].tolist() for batch in loader] == [[1]]


def test_files_are_read_without_a_copy(corpus, cache):
    read(f"{corpus}/a_text_document", window=32)
    read(f"{corpus}/a_text_document", document_rows, fields=IDS)
    kept = [name for _, _, names in os.walk(cache) for name in names]
    assert kept == ["index.json"] * 2


@pytest.mark.parametrize("is_cached", [False, True])
def test_a_large_file_is_cut_into_shards(tmp_path, is_cached):
    # 64 MiB hold 335 documents.
    lengths = np.full(340, 100_000)
    ids = np.arange(lengths.sum(), dtype=np.uint16)
    (tmp_path / "large.idx").write_bytes(megatron_files.idx(lengths, "uint16"))
    ids.tofile(tmp_path / "large.bin")
    options, remote = {"local": tmp_path / "local"} if is_cached else {}, f"{tmp_path}/large.bin"
    fields = {"ids": fb.Tokens("tokens", 100_000, dtype="uint16")}
    with fb.Loader(remote=remote, batch_size=100, fields=fields, framework="numpy", **options) as loader:
        assert np.array_equal(np.concatenate([batch["ids"] for batch in loader]).ravel(), ids)
    if options:
        assert sorted(path.name for path in (tmp_path / "local").glob("*documents*")) == [
            f"large.bin.documents.{number:05}" for number in range(2)
        ]
        options["local"] = tmp_path / "windows"
    window, stride = 100_001, 100_000
    with fb.Loader(
        remote=remote, batch_size=1, window=fb.TokenWindow(window, stride=stride), framework="numpy", **options
    ) as loader:
        found = [batch["tokens"][0] for batch in loader]
    assert len(found) == 339
    for number, row in enumerate(found):
        assert np.array_equal(row, ids[number * stride :][:window])
    if options:
        assert len(list((tmp_path / "windows").glob("*w100001s100000*"))) == 2


def test_documents_of_several_sequences_and_without_tokens_are_samples(tmp_path):
    sequences = megatron_files.random_documents(3, 12, shortest=0)
    bounds = [0, 2, 2, 3, 7, 12, 12]
    megatron_files.write(tmp_path / "multi", sequences, bounds=bounds, modes=bytes(12))
    fields = {"ids": fb.Tokens("tokens", 512, pad=0, dtype="int32"), "length": fb.Length("tokens")}
    expected = [tuple(ids.tolist()) for ids in megatron_files.documents(tmp_path / "multi")]
    assert [len(row) for row in expected][1::4] == [0, 0]
    assert read(f"{tmp_path}/multi", document_rows, fields=fields) == expected


def test_documents_are_truncated_and_padded(corpus):
    expected = megatron_files.documents(corpus / NAMES[0])
    fields = {"ids": fb.Tokens("tokens", 40, pad=-1, truncate=True), "length": fb.Length("tokens")}
    with fb.Loader(remote=f"{corpus}/{NAMES[0]}", batch_size=160, fields=fields, framework="numpy") as loader:
        (batch,) = loader
    assert batch["length"].tolist() == [len(ids) for ids in expected]
    for row, ids in zip(batch["ids"], expected, strict=True):
        assert row.tolist() == [*ids[:40].tolist(), *[-1] * (40 - len(ids))]


def test_a_blend_has_the_weights_of_its_streams(corpus):
    streams = [
        fb.Stream(remote=f"{corpus}/a_text_document", proportion=0.7),
        fb.Stream(remote=f"{corpus}/b_text_document", proportion=0.3, window=fb.TokenWindow(16, stride=16)),
    ]
    of_b = {tuple(ids.tolist()) for ids in megatron_files.windows(corpus / NAMES[1], 16, 16)}
    with fb.Loader(streams=streams, window=16, order=fb.Order(epoch_size=1000), batch_size=100, framework="numpy") as loader:
        rows = [row for batch in loader for row in window_rows(batch)]
    assert sum(row in of_b for row in rows) == 300


def test_files_that_were_written_again_are_read_again(tmp_path):
    for seed in range(2):
        megatron_files.write(tmp_path / "one", megatron_files.random_documents(seed, 20 + seed))
        expected = [tuple(ids.tolist()) for ids in megatron_files.documents(tmp_path / "one")]
        assert read(f"{tmp_path}/one", document_rows, fields=IDS) == expected


class TestErrors:
    def test_windows_are_for_tokens(self, corpus, tmp_path):
        with fb.MDSWriter(out=tmp_path / "mds", columns={"n": "int"}) as writer:
            writer.write({"n": 1})
        with pytest.raises(fb.ConfigError, match="window is an option for files of token ids"):
            read(tmp_path / "mds", window=8)
        streams = [fb.Stream(local=tmp_path / "mds", window=8), fb.Stream(remote=f"{corpus}/a_text_document", window=8)]
        with pytest.raises(fb.ConfigError, match="this stream has none"):
            fb.Loader(streams=streams, batch_size=1)

    def test_a_window_longer_than_the_files_leaves_no_sample(self, tmp_path):
        megatron_files.write(tmp_path / "one", [[1, 2, 3]])
        with pytest.raises(fb.ConfigError, match="no samples"):
            read(f"{tmp_path}/one", window=4)

    def test_an_absent_idx_is_named(self, tmp_path):
        (tmp_path / "one.bin").write_bytes(b"1234")
        with pytest.raises(fb.NotFoundError, match=r"\.idx file of the same name.*one\.idx"):
            read(f"{tmp_path}/one.bin")

    @pytest.mark.parametrize("options", [{}, {"window": 4}])
    def test_a_short_bin_is_an_error(self, tmp_path, options):
        megatron_files.write(tmp_path / "one", megatron_files.random_documents(1, 20))
        os.truncate(tmp_path / "one.bin", os.path.getsize(tmp_path / "one.bin") - 1)
        with pytest.raises(fb.FormatError, match=r"one\.bin.*|the \.bin file ends before"):
            read(f"{tmp_path}/one.bin", **options)

    def test_a_file_that_changes_size_is_an_error(self, tmp_path):
        megatron_files.write(tmp_path / "one", megatron_files.random_documents(1, 20))
        with fb.Loader(remote=f"{tmp_path}/one.bin", batch_size=4, window=4, framework="numpy") as loader:
            os.truncate(tmp_path / "one.bin", 10)
            with pytest.raises(fb.Error, match="one.bin"):
                list(loader)

    @pytest.mark.parametrize(
        ("at", "content"),
        [
            (0, b"XXIDIDX"),
            (9, struct.pack("<Q", 2)),
            (17, b"\x07"),
            (17, b"\xff"),
            (18, struct.pack("<Q", 1 << 62)),
            (18, struct.pack("<Q", 3)),
            (26, struct.pack("<Q", (1 << 64) - 1)),
            (34, struct.pack("<i", -1)),
            (34, struct.pack("<i", 1 << 30)),
            (34 + 4 * 20, struct.pack("<q", 2)),
            (34 + 4 * 20 + 8 * 19, struct.pack("<q", -2)),
            (34 + 12 * 20 + 8 * 20, struct.pack("<q", 1 << 60)),
        ],
    )
    def test_a_hostile_idx_is_named(self, tmp_path, at, content):
        megatron_files.write(tmp_path / "one", megatron_files.random_documents(1, 20))
        with open(tmp_path / "one.idx", "r+b") as file:
            file.seek(at)
            file.write(content)
        with pytest.raises((fb.FormatError, fb.UnsupportedError), match=r"one\.idx"):
            read(f"{tmp_path}/one.bin", document_rows, fields=IDS)


class TestMegatron:
    """Against Megatron's own code, where `megatron-core` is installed."""

    @pytest.fixture
    def core(self):
        pytest.importorskip("megatron.core", reason="megatron-core is not installed")
        from megatron.core.datasets import indexed_dataset

        return indexed_dataset

    @pytest.fixture
    def prefix(self, core, tmp_path):
        import torch

        builder = core.IndexedDatasetBuilder(f"{tmp_path}/own_text_document.bin", dtype=np.uint16)
        for ids in megatron_files.random_documents(5, 200):
            builder.add_document(torch.from_numpy(ids.astype(np.int64)), [len(ids)])
        builder.finalize(f"{tmp_path}/own_text_document.idx")
        return f"{tmp_path}/own_text_document"

    def test_documents_are_as_in_megatron(self, core, prefix):
        theirs = core.IndexedDataset(prefix)
        assert read(prefix, document_rows, fields=IDS) == [tuple(theirs[i].tolist()) for i in range(len(theirs))]

    def test_megatron_reads_the_files_of_these_tests(self, core, corpus):
        theirs = core.IndexedDataset(str(corpus / NAMES[0]))
        ours = megatron_files.documents(corpus / NAMES[0])
        assert [theirs[i].tolist() for i in range(len(theirs))] == [ids.tolist() for ids in ours]

    @pytest.mark.parametrize("length", [16, 50, 333])
    def test_windows_are_the_samples_of_an_unshuffled_gpt_dataset(self, core, prefix, length, monkeypatch):
        from megatron.core.datasets import gpt_dataset
        from megatron.core.datasets.utils import Split

        class Tokenizer:
            vocab_size, eod, pad, unique_identifiers = 60_000, 0, 0, {}

        class Unshuffled(np.random.RandomState):
            def shuffle(self, x):
                pass

        monkeypatch.setattr(np.random, "RandomState", Unshuffled)
        config = gpt_dataset.GPTDatasetConfig(
            random_seed=1,
            sequence_length=length,
            blend=([prefix], None),
            split="1",
            tokenizer=Tokenizer(),
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            create_attention_mask=False,
        )
        low = core.IndexedDataset(prefix)
        theirs = gpt_dataset.GPTDataset(low, prefix, np.arange(len(low), dtype=np.int32), None, Split.train, config)
        samples = [tuple(theirs._query_document_sample_shuffle_indices(i)[0].tolist()) for i in range(len(theirs))]
        assert read(prefix, window=fb.TokenWindow(length + 1, stride=length)) == samples
        first = theirs[0]
        assert first["tokens"].tolist() == list(samples[0][:-1]) and first["labels"].tolist() == list(samples[0][1:])
