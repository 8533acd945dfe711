"""Token ids of text: they are equal to the ids of Hugging Face's `tokenizers`, for each kind of model, and of tiktoken."""

import base64
import csv
import gzip
import io
import json
import pathlib
import pickle
import random
import tarfile

import numpy as np
import pytest

import forebay as fb
from forebay.__main__ import main

tokenizers = pytest.importorskip("tokenizers")

from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

TEXTS = [
    "The quick brown fox jumps over the lazy dog, isn't it? 12345 <|end|> x",
    "Zażółć gęślą jaźń; ÀÉÎõü e\u0301 ﬁ Ⅷ ½",
    "Съешь же ещё этих мягких французских булок, да выпей чаю",
    "いろはにほへと ちりぬるを 漢字仮名交じり文",
    "敏捷的棕色狐狸跳过了懒狗。一二三",
    "هذا نص عربي مع تشكيل: مُحَمَّد",
    "यह हिन्दी में एक वाक्य है",
    "இது ஒரு தமிழ் வாக்கியம்",
    "한국어 문장입니다. 빠른 갈색 여우",
    "ประโยคภาษาไทย שפה עברית Ελληνικά γράμματα",
    "👩‍👩‍👧‍👦 🇩🇪 e\u200db\u00a0c\u3000d\ufeff",
    "def f(x):\n\treturn {'a': [x  , 1e-5]}\r\n\n   # end   ",
    "",
    " ",
    "\x00\x01\x7f",
]


def byte_level(pattern=None):
    tokenizer = tokenizers.Tokenizer(models.BPE())
    if pattern is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        split = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


LLAMA_3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def llama_3():
    return byte_level(LLAMA_3)


def qwen_2():
    return byte_level(LLAMA_3.replace("{1,3}", ""))


def o200k():
    ends = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    words = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
    small = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    rest = r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    return byte_level(f"{words}*{small}+{ends}|{words}+{small}*{ends}|{rest}")


def byte_fallback():
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    specials = ["<unk>", "<s>", "<|end|>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=480, special_tokens=specials, limit_alphabet=60, max_token_length=8, show_progress=False)
    tokenizer.train_from_iterator([text.replace(" ", " ▁") for text in TEXTS[:5]], trainer)
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = document["added_tokens"][:3]
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(document))
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A $B", [("<s>", 1)])
    return tokenizer


def unigram():
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=["<unk>", "<|end|>"], unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def word_piece():
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[UNK]", "[CLS]", "[SEP]", "<|end|>"]
    tokenizer.train_from_iterator(TEXTS, trainers.WordPieceTrainer(vocab_size=400, special_tokens=specials, show_progress=False))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tokenizer


def word_level():
    tokenizer = tokenizers.Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(TEXTS, trainers.WordLevelTrainer(special_tokens=["[UNK]", "<|end|>"], show_progress=False))
    return tokenizer


def other_pattern():
    return byte_level(r"\p{Lu}?\p{Ll}+|\p{N}+|[[:punct:]]+|\h+|(?<=a)\s|.")


def normal_form(name):
    def model():
        tokenizer = byte_level()
        tokenizer.normalizer = getattr(normalizers, name)()
        return tokenizer

    return model


def accents():
    tokenizer = word_level()
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=True)])
    return tokenizer


def scripts():
    tokenizer = unigram()
    tokenizer.normalizer = normalizers.Nmt()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.UnicodeScripts(), pre_tokenizers.WhitespaceSplit()])
    return tokenizer


def stripped_special():
    tokenizer = byte_level()
    tokenizer.add_special_tokens([tokenizers.AddedToken("<|end|>", lstrip=True, rstrip=True)])
    tokenizer.add_tokens([tokenizers.AddedToken("Fox", single_word=True)])
    return tokenizer


MODELS = [
    byte_level,
    llama_3,
    qwen_2,
    o200k,
    other_pattern,
    normal_form("NFC"),
    normal_form("NFD"),
    normal_form("NFKC"),
    normal_form("NFKD"),
    byte_fallback,
    unigram,
    word_piece,
    word_level,
    accents,
    scripts,
    stripped_special,
]


def fuzzed(count, seed=5):
    """Texts of pieces of all scripts, and of any characters."""
    draws = random.Random(seed)
    pool = "".join(TEXTS) + "<|end|>'SsLl\t\n\r  "
    for _ in range(count):
        length = draws.randrange(40)
        if draws.random() < 0.3:
            points = (draws.choice([draws.randrange(0x80), draws.randrange(0xD800), draws.randrange(0xE000, 0x110000)]) for _ in range(length))
            yield "".join(map(chr, points))
        else:
            starts = (draws.randrange(len(pool)) for _ in range(length // 4))
            yield "".join(pool[start : start + draws.randrange(6)] for start in starts)


def written(folder, texts, encoding="str"):
    with fb.MDSWriter(out=str(folder), columns={"text": encoding}) as writer:
        for text in texts:
            writer.write({"text": text})
    return str(folder)


def rows(remote, field, batch_size=64, **options):
    """The ids of each sample, without padding."""
    fields = {"ids": field, "mask": fb.AttentionMask("ids")}
    with fb.Loader(remote=remote, fields=fields, batch_size=batch_size, framework="numpy", **options) as loader:
        return [row[mask].tolist() for batch in loader for row, mask in zip(batch["ids"], batch["mask"], strict=True)]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    values = [*TEXTS, *fuzzed(3000)]
    return written(tmp_path_factory.mktemp("texts") / "set", values), values


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("special", [(), "all"])
def test_ids_are_those_of_tokenizers(texts, model, special):
    remote, values = texts
    tokenizer = model()
    tokenizer.encode_special_tokens = special == ()
    expected = [encoding.ids for encoding in tokenizer.encode_batch(values)]
    found = rows(remote, fb.Tokenize("text", tokenizer.to_str(), allowed_special=special, pad=0))
    wrong = [(text, one, other) for text, one, other in zip(values, found, expected, strict=True) if one != other]
    assert not wrong, (len(wrong), wrong[:3])


@pytest.mark.parametrize("model", [byte_level, llama_3, normal_form("NFC"), word_piece])
def test_a_long_text_has_the_ids_of_the_whole(tmp_path, model):
    pieces = [text for text in fuzzed(500, 9) if "\0" not in text]
    draws = random.Random(3)
    text = " ".join(draws.choice(pieces) for _ in range(40_000))
    assert len(text.encode()) > 1 << 20
    tokenizer = model()
    remote = written(tmp_path / "set", [text])
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    field = fb.Tokenize("text", tokenizer.to_str(), add_bos=False, add_eos=False, allowed_special="all", pad=0)
    assert rows(remote, field, 1) == [ids]
    head = fb.Tokenize("text", tokenizer.to_str(), add_bos=False, allowed_special="all", length=100, truncate=True)
    with fb.Loader(remote=remote, fields={"ids": head}, batch_size=1, framework="numpy") as loader:
        assert next(iter(loader))["ids"].tolist() == [ids[:100]]


CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
SPECIAL = {"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|endofprompt|>": 100276}


@pytest.fixture(scope="module")
def ranks():
    """The tokens of a file of ranks by their bytes, and the file."""
    vocabulary = llama_3().get_vocab()
    # Bytes of the letters that byte-level tokenizers write them as.
    printed = {letter: ord(letter) for letter in pre_tokenizers.ByteLevel.alphabet() if ord(letter) < 256}
    rest = sorted(set(range(256)) - set(printed.values()))
    byte_of = printed | {chr(256 + number): byte for number, byte in enumerate(rest)}
    tokens = {bytes(byte_of[letter] for letter in token): id for token, id in vocabulary.items() if token != "<|end|>"}
    lines = [f"{base64.b64encode(token).decode()} {id}" for token, id in sorted(tokens.items(), key=lambda pair: pair[1])]
    return tokens, "\n".join(lines) + "\n"


def merged(word, ranks):
    """The ids of a word, by the definition: the first pair of the least rank is joined, until no pair has one."""
    parts = [word[at : at + 1] for at in range(len(word))]
    while True:
        pairs = [(ranks[a + b], at) for at, (a, b) in enumerate(zip(parts, parts[1:], strict=False)) if a + b in ranks]
        if not pairs:
            return [ranks[part] for part in parts]
        at = min(pairs)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def of_tiktoken(text, ranks, special=()):
    regex = pytest.importorskip("regex")
    parts = regex.split("(" + "|".join(map(regex.escape, special)) + ")", text) if special else [text]
    ids = []
    for part in parts:
        words = [] if part in special else regex.findall(CL100K, part)
        ids += [SPECIAL[part]] if part in special else [id for word in words for id in merged(word.encode(), ranks)]
    return ids


def test_ids_of_a_file_of_ranks_are_those_of_tiktoken(tmp_path, ranks):
    tokens, file = ranks
    values = [*TEXTS, "<|endoftext|> fox<|fim_prefix|>", *(text for text in fuzzed(2000, 4) if text.isprintable())]
    remote = written(tmp_path / "set", values)
    (tmp_path / "own.tiktoken").write_text(file)
    for special in ([], ["<|endoftext|>", "<|fim_prefix|>"]):
        expected = [of_tiktoken(text, tokens, special) for text in values]
        for tokenizer in (tmp_path / "own.tiktoken", file, file.encode()):
            field = fb.Tokenize("text", tokenizer, encoding="cl100k_base", allowed_special=special, pad=0)
            assert rows(remote, field) == expected
        own = {"pattern": CL100K, "special_tokens": SPECIAL}
        field = fb.Tokenize("text", file, encoding=own, allowed_special=special, add_eos="<|endofprompt|>", pad=0)
        assert rows(remote, field) == [[*ids, 100276] for ids in expected]


@pytest.mark.parametrize("name", ["r50k_base", "cl100k_base", "o200k_base"])
def test_ids_of_encodings_are_those_of_tiktoken(texts, name):
    tiktoken = pytest.importorskip("tiktoken")
    try:
        encoding = tiktoken.get_encoding(name)
    except Exception as error:
        pytest.skip(f"tiktoken has no vocabulary here: {error}")
    remote, values = texts
    file = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in encoding._mergeable_ranks.items())
    found = rows(remote, fb.Tokenize("text", file, encoding=name, pad=0))
    assert found == [encoding.encode_ordinary(text) for text in values]


def test_a_tokenizer_is_read_once(tmp_path):
    remote = written(tmp_path / "set", ["fox"])
    path = tmp_path / "tokenizer.json"
    byte_level().save(str(path))
    field = fb.Tokenize("text", path, pad=0)
    expected = rows(remote, field, 1)
    other = pickle.loads(pickle.dumps(field))
    path.unlink()
    assert rows(remote, field, 1) == expected
    assert other == field
    with pytest.raises(fb.NotFoundError):
        rows(remote, other, 1)


def test_a_tokenizer_is_a_path_or_its_contents(tmp_path):
    remote = written(tmp_path / "set", TEXTS)
    tokenizer = byte_level()
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    expected = [encoding.ids for encoding in tokenizer.encode_batch(TEXTS[:3])]
    for given in (path, str(path), path.read_bytes(), path.read_text()):
        assert rows(remote, fb.Tokenize("text", given, pad=0, allowed_special="all"), 3)[:3] == expected
    mistakes = {
        tmp_path / "none.json": (fb.NotFoundError, "tokenizer of Tokenize is .*none.json, and there is no such file: pass"),
        tmp_path: (fb.NotFoundError, "which is a folder: pass the path of a file in it, such as tokenizer.json"),
        tokenizer: (fb.ConfigError, "such as tokenizer.to_str()"),
        b"<!DOCTYPE html>": (fb.ConfigError, "start <!DOCTYPE html>"),
        '{"tokenizer_class": "LlamaTokenizer"}': (fb.ConfigError, "which is next to its vocab.json and tokenizer_config.json"),
    }
    for given, (error, message) in mistakes.items():
        with pytest.raises(error, match=message):
            rows(remote, fb.Tokenize("text", given, pad=0))
    for window in (8, fb.TokenWindow(8)):
        with pytest.raises(fb.ConfigError, match=r"Tokenize makes tokens of texts: pass window=Pack"):
            rows(remote, fb.Tokenize("text", path, length=8, pad=0, truncate=True), window=window)
    for option in ("form", "method", "overflow", "proportion_unit"):
        window = fb.Pack(8, **{option: "flat"})
        with pytest.raises(fb.ConfigError, match=f"window: {option} is .*, but it is 'flat'"):
            fb.Loader(remote=remote, fields={"ids": fb.Tokenize("text", path)}, batch_size=1, window=window, framework="numpy")


def test_ends_and_lengths_are_as_asked(tmp_path):
    remote = written(tmp_path / "set", ["fox dog", "fox"])
    tokenizer = word_piece()
    body = [tokenizer.encode(text, add_special_tokens=False).ids for text in ("fox dog", "fox")]
    file = tokenizer.to_str()
    assert rows(remote, fb.Tokenize("text", file, pad=0), 2) == [[1, *ids, 2] for ids in body]
    assert rows(remote, fb.Tokenize("text", file, add_bos=False, add_eos="<|end|>", pad=0), 2) == [[*ids, 3] for ids in body]
    with fb.Loader(
        remote=remote, fields={"ids": fb.Tokenize("text", file, length=2, truncate=True, dtype="uint16")}, batch_size=2, framework="numpy"
    ) as loader:
        batch = next(iter(loader))["ids"]
    assert batch.dtype == np.uint16
    assert batch.tolist() == [[1, body[0][0]], [1, body[1][0]]]


def test_bytes_that_are_not_utf8_are_an_error_or_are_replaced(tmp_path):
    values = [b"fox \xff\xc3 dog", b"fox"]
    remote = written(tmp_path / "set", values, "bytes")
    tokenizer = byte_level()
    expected = [tokenizer.encode(value.decode(errors="replace")).ids for value in values]
    assert rows(remote, fb.Tokenize("text", tokenizer.to_str(), errors="replace", pad=0), 2) == expected
    with pytest.raises(fb.DecodeError, match="the text is not UTF-8"):
        rows(remote, fb.Tokenize("text", tokenizer.to_str(), pad=0), 2)


def test_a_text_is_found_by_its_path_in_lines_of_json(tmp_path):
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"doc": {"body": text}}) + "\n" for text in TEXTS))
    tokenizer = unigram()
    expected = [encoding.ids for encoding in tokenizer.encode_batch(TEXTS)]
    found = rows(str(tmp_path / "*.jsonl"), fb.Tokenize("doc", tokenizer.to_str(), path="body", allowed_special="all", pad=0), 15)
    assert found == expected


def test_the_file_of_a_run_has_the_packed_tokenizer(tmp_path, capfd):
    remote = written(tmp_path / "set", TEXTS)
    path = tmp_path / "tokenizer.json"
    byte_level().save(str(path))
    fields = {"ids": fb.Tokenize("text", path, length=4, pad=0, truncate=True)}
    with fb.Loader(remote=remote, fields=fields, batch_size=3, shuffle=True) as loader:
        loader.save_run(tmp_path / "run.json")
        expected = [loader.samples_of(step) for step in range(5)]
    size = path.stat().st_size
    path.unlink()
    assert (tmp_path / "run.json").stat().st_size < size / 2
    for step in range(5):
        assert main(["which", "--json", str(tmp_path / "run.json"), "--step", str(step)]) == 0
        named = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
        assert named == [sample._asdict() for sample in expected[step]]
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text.replace("zlib,base64:eN", "zlib,base64:zz"))
    assert main(["which", str(tmp_path / "run.json"), "--step", "0"]) == 2
    assert "the tokenizer in the file of the run is damaged" in capfd.readouterr().err


def of_mds(folder, texts):
    return written(folder / "mds", texts), "text"


def of_compressed_bytes(folder, texts):
    with fb.MDSWriter(out=str(folder / "mds"), columns={"text": "bytes"}, compression="zstd", size_limit=2000) as writer:
        for text in texts:
            writer.write({"text": text.encode()})
    return str(folder / "mds"), "text"


def of_lines(folder, texts):
    (folder / "a.jsonl.gz").write_bytes(gzip.compress("".join(json.dumps({"text": text}) + "\n" for text in texts).encode()))
    return str(folder / "*.jsonl.gz"), "text"


def of_csv(folder, texts):
    with open(folder / "a.csv", "w", newline="") as file:
        csv.writer(file).writerows([["text", "number"], *([text, number] for number, text in enumerate(texts))])
    return str(folder / "a.csv"), "text"


def of_tars(folder, texts):
    with tarfile.open(folder / "a.tar", "w") as tar:
        for number, text in enumerate(texts):
            member = tarfile.TarInfo(f"{number:04}.txt")
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return str(folder / "a.tar"), "txt"


SOURCES = [of_mds, of_compressed_bytes, of_lines, of_csv, of_tars]


@pytest.mark.parametrize("source", SOURCES)
def test_texts_of_every_source_have_the_ids_of_tokenizers_on_any_number_of_ranks(tmp_path, source):
    values = [text for text in [*TEXTS, *fuzzed(200, 6)] if text and not {"\0", "\r"} & set(text)][:192]
    remote, column = source(tmp_path, values)
    tokenizer = llama_3()
    expected = [encoding.ids for encoding in tokenizer.encode_batch(values)]
    field = fb.Tokenize(column, tokenizer.to_str(), allowed_special="all", pad=0)
    assert rows(remote, field, 8) == expected
    whole = rows(remote, field, 8, shuffle=True)
    assert sorted(whole) == sorted(expected)
    parts = [
        rows(remote, field, 4, shuffle=True, world=fb.World(rank=rank, world_size=2, local_rank=rank, local_world_size=2))
        for rank in (0, 1)
    ]
    steps = [sorted(part[step : step + 4] for part in parts) for step in range(0, 96, 4)]
    assert [sorted(sum(step, [])) for step in steps] == [sorted(whole[step : step + 8]) for step in range(0, 192, 8)]


DATA = pathlib.Path(__file__).parents[2] / "tests" / "data"


@pytest.mark.parametrize(
    "source",
    ["parquet/set-*.parquet", "parquet/pyarrow-stream.arrow", "array_record/samples.array_record-*"],
)
def test_texts_of_files_of_records_have_the_ids_of_tokenizers(tmp_path, source):
    for path in DATA.glob(source):
        data = path.read_bytes()
        (tmp_path / path.name.removesuffix(".gz")).write_bytes(gzip.decompress(data) if path.suffix == ".gz" else data)
    remote = f"{tmp_path}/{source.split('/')[1]}"
    with fb.Loader(remote=remote, fields={"text": fb.Text("text")}, batch_size=4, framework="numpy") as loader:
        values = [text for batch in loader for text in batch["text"]]
    tokenizer = byte_fallback()
    expected = [encoding.ids for encoding in tokenizer.encode_batch(values)]
    assert rows(remote, fb.Tokenize("text", tokenizer.to_str(), allowed_special="all", pad=0), 4) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenizer": "{}"}, "tokenizer"),
        ({"tokenizer": 3}, "tokenizer of Tokenize is a path"),
        ({"add_bos": 3}, "add_bos of Tokenize is True"),
        ({"add_bos": True}, "add_bos"),
        ({"add_eos": "<none>"}, "<none>"),
        ({"allowed_special": "<s>"}, "allowed_special of Tokenize"),
        ({"allowed_special": ["<none>"]}, "<none>"),
        ({"dtype": "uint8"}, "wider `dtype`"),
        ({"pad": None}, "Tokenize needs a length"),
        ({"tokenizer": "YQ== 0\n"}, "its `encoding`"),
        ({"tokenizer": "YQ== 0\n", "encoding": "cl100k_base"}, "no token of this byte"),
        ({"tokenizer": "YQ== 0\nYQ== 1\n", "encoding": "cl100k_base"}, "twice"),
        ({"tokenizer": "YQ==\n", "encoding": "cl100k_base"}, "nor a file of ranks"),
        ({"encoding": "cl100k_base"}, "nor a file of ranks"),
        ({"encoding": 3}, "encoding of Tokenize is a name"),
        ({"encoding": {"special_tokens": {}}}, "encoding of Tokenize is a name"),
        ({"encoding": {"pattern": "a", "special_tokens": {"a": -1}}}, "special_tokens of Tokenize"),
    ],
)
def test_wrong_arguments_are_errors_that_name_them(tmp_path, options, message):
    remote = written(tmp_path / "set", ["fox"])
    with pytest.raises(fb.ConfigError, match=message):
        rows(remote, fb.Tokenize("text", **({"tokenizer": byte_level().to_str(), "pad": 0} | options)), 1)
