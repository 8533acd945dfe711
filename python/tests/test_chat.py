"""Token ids and labels of conversations: the texts and masks equal the output of `transformers`, and packs have the labels."""

import dataclasses
import io
import json
import pathlib
import tarfile

import pytest

import forebay as fb
import forebay.index
from forebay.errors import ConfigError, DecodeError

tokenizers = pytest.importorskip("tokenizers")

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests" / "data" / "chats"

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHATS = [
    [{"role": "user", "content": f"Hi {number}"}, {"role": "assistant", "content": f"Hello é {number}"}, {"role": "user", "content": "👍"}]
    + [{"role": "assistant", "content": "Bye" * number}]
    for number in range(8)
]


def tokenizer():
    """A byte-level vocabulary without merges, and special tokens: its ids are the bytes of a text."""
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made = tokenizers.Tokenizer(tokenizers.models.BPE({char: number for number, char in enumerate(sorted(alphabet))}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<|im_start|>", "<|im_end|>", "<s>", "</s>"])
    return made


TOKENIZER = tokenizer()
IDS = TOKENIZER.to_str()


def write(folder, rows):
    folder.mkdir(exist_ok=True)
    (folder / "part.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "*.jsonl")


def batch(remote, fields, size=None, **options):
    made = fb.Loader(remote=remote, batch_size=size or 1, fields=fields, framework="numpy", shuffle=False, **options)
    return list(made)


def trained(row, labels):
    """The text of a row, and the parts of it that are trained."""
    parts, current = [], []
    for id, label in zip(row.tolist(), labels.tolist()):
        assert label in (id, -100)
        if label == -100:
            parts.append(current)
            current = []
        else:
            current.append(id)
    decode = lambda ids: TOKENIZER.decode(ids, skip_special_tokens=False)
    return decode(row.tolist()), [decode(part) for part in [*parts, current] if part]


def texts_of(remote, chat, rows=1):
    batches = batch(remote, {"input_ids": chat}, rows)
    return [trained(row, labels) for one in batches for row, labels in zip(one["input_ids"], one["labels"])]


@pytest.mark.parametrize("form", ["jsonl", "mds", "parquet", "share_gpt"])
def test_messages_of_each_source_have_ids_and_labels(tmp_path, form):
    column = "conversations" if form == "share_gpt" else "messages"
    if form == "mds":
        with fb.MDSWriter(out=str(tmp_path / "mds"), columns={"messages": "json"}) as writer:
            for chat in CHATS:
                writer.write({"messages": chat})
        remote = str(tmp_path / "mds")
    elif form == "parquet":
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        (tmp_path / "parquet").mkdir()
        parquet.write_table(pa.table({"messages": CHATS}), tmp_path / "parquet" / "a.parquet")
        remote = str(tmp_path / "parquet" / "*.parquet")
    elif form == "share_gpt":
        names = {"user": "human", "assistant": "gpt"}
        chats = [[{"from": names[message["role"]], "value": message["content"]} for message in chat] for chat in CHATS]
        remote = write(tmp_path / "jsonl", [{"conversations": chat} for chat in chats])
    else:
        remote = write(tmp_path / "jsonl", [{"messages": chat} for chat in CHATS])
    found = texts_of(remote, fb.Chat(column, IDS, CHATML, pad=0))
    for chat, (text, parts) in zip(CHATS, found):
        assert text == "".join(f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in chat)
        assert parts == [f"{message['content']}<|im_end|>\n" for message in chat if message["role"] == "assistant"]
    assert len(found) == len(CHATS)
    last = texts_of(remote, fb.Chat(column, IDS, CHATML, pad=0, train_on="last"))
    assert [parts for _, parts in last] == [[f"{chat[-1]['content']}<|im_end|>\n"] for chat in CHATS]


def test_rows_of_a_batch_are_padded_with_labels_that_do_not_count(tmp_path):
    remote = write(tmp_path / "a", [{"messages": chat} for chat in CHATS])
    fields = {"ids": fb.Chat("messages", IDS, CHATML, pad=7, pad_to_multiple=16), "mask": fb.AttentionMask("ids")}
    (one,) = batch(remote, fields, 8)
    assert one["ids"].shape == one["labels"].shape == one["mask"].shape and one["ids"].shape[1] % 16 == 0
    assert (one["ids"][~one["mask"]] == 7).all() and (one["labels"][~one["mask"]] == -100).all()
    fixed = fb.Chat("messages", IDS, CHATML, pad=7, length=60, truncate=True, dtype="int32")
    (cut,) = batch(remote, {"ids": fixed}, 8)
    assert cut["ids"].shape == cut["labels"].shape == (8, 60) and cut["labels"].dtype == "int32"
    assert (cut["ids"] == one["ids"][:, :60]).all() and (cut["labels"] == one["labels"][:, :60]).all()


def test_messages_with_their_own_flag_are_trained(tmp_path):
    chat = [{"role": "user", "content": "a", "train": True}, {"role": "assistant", "content": "b", "weight": 0}, {"role": "user", "content": "c"}]
    remote = write(tmp_path / "a", [{"messages": [*chat, {"role": "assistant", "content": "d"}]}])
    ((_, parts),) = texts_of(remote, fb.Chat("messages", IDS, CHATML, pad=0, train_on="flag"))
    assert parts == ["<|im_start|>user\na<|im_end|>\n", "d<|im_end|>\n"]


def test_published_templates_have_the_texts_and_masks_of_transformers(tmp_path):
    cases = json.loads((DATA / "conversations.json").read_text())
    lines = [json.loads(line) for line in (DATA / "golden.jsonl").read_text().splitlines()]
    for name in sorted({line["template"] for line in lines}):
        template, checked = (DATA / "templates" / name).read_text(), 0
        has_blocks = "generation %}" in template.replace("add_generation_prompt", "")
        for line in lines:
            parts = line.get("blocks" if has_blocks else "turns")
            if line["template"] != name or not parts or checked == 4:
                continue
            case, checked = cases[line["conversation"]], checked + 1
            remote = write(tmp_path / f"{name}-{line['conversation']}", [{"chat": case["messages"], "schemas": case["tools"] or []}])
            if not case["tools"]:
                case = case | {"tools": None}
            variables = {"bos_token": "<s>", "eos_token": "</s>", **case["variables"]}
            tools = "schemas" if case["tools"] else None
            chat = fb.Chat("chat", IDS, template, tools=tools, variables=variables, date="2026-11-29", pad=0)
            (one,) = batch(remote, {"ids": chat})
            # Special tokens are one id, which is trained if one of its bytes is.
            encoding = TOKENIZER.encode(line["text"], add_special_tokens=False)
            assert one["ids"][0].tolist() == encoding.ids, (name, line["conversation"])
            text = line["text"]
            spans = [[len(text.encode()[:at].decode()) for at in part] for part in parts]
            mask = [any(end > first and start < last for first, last in spans) for start, end in encoding.offsets]
            assert (one["labels"][0] != -100).tolist() == mask, (name, line["conversation"])


def test_the_template_and_special_tokens_next_to_the_tokenizer_are_used(tmp_path):
    remote = write(tmp_path / "a", [{"messages": CHATS[0]}])
    model = tmp_path / "model"
    model.mkdir()
    (model / "tokenizer.json").write_text(IDS)
    field = lambda: fb.Chat("messages", model / "tokenizer.json", pad=0)
    with pytest.raises(ConfigError, match="chat_template.jinja"):
        batch(remote, {"ids": field()})
    config = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": "{{ bos_token }}" + CHATML}
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    assert texts_of(remote, field())[0][0].startswith("<s><|im_start|>user")
    config["chat_template"] = [{"name": "default", "template": "d" + CHATML}, {"name": "tool_use", "template": CHATML}]
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    assert texts_of(remote, field())[0][0].startswith("d<|im_start|>")
    (model / "chat_template.jinja").write_text("{{ eos_token }}" + CHATML)
    assert texts_of(remote, field())[0][0].startswith("</s><|im_start|>")


def test_a_completion_is_trained_and_its_prompt_is_not(tmp_path):
    rows = [{"prompt": chat[:-1], "completion": chat[-1:]} for chat in CHATS]
    remote = write(tmp_path / "a", rows)
    chat = fb.Chat("completion", IDS, CHATML, prompt="prompt", pad=0)
    for number, (text, parts) in enumerate(texts_of(remote, chat)):
        assert parts == ["Bye" * number + "<|im_end|>\n"] and text.endswith("<|im_start|>assistant\n" + parts[0])
    parts = {name: fb.Chat("completion", IDS, CHATML, prompt="prompt", part=name, pad=0) for name in ("prompt", "completion")}
    (one, *_) = batch(remote, {"all": chat, **parts})
    assert [*one["prompt"][0], *one["completion"][0]] == one["all"][0].tolist()
    texts = write(tmp_path / "b", [{"prompt": "The sky is", "completion": " blue."}])
    chat = fb.Chat("completion", IDS, prompt="prompt", variables={"eos_token": "</s>"}, pad=0)
    assert texts_of(texts, chat) == [("The sky is blue.</s>", [" blue.</s>"])]


def test_a_completion_that_is_a_list_in_json_is_text(tmp_path):
    answers = ["[1, 2]", "[]", '[{"a": 1}]', '["x"]', "{}"]
    remote = write(tmp_path / "a", [{"prompt": "[3]", "completion": answer, "other": "none"} for answer in answers])
    chat = fb.Chat("completion", IDS, prompt="prompt", variables={"eos_token": "</s>"}, pad=0)
    assert texts_of(remote, chat) == [(f"[3]{answer}</s>", [f"{answer}</s>"]) for answer in answers]
    pair = fb.Chat("completion", IDS, prompt="prompt", against="other", part="pair", pad=0)
    assert all(len(one["input_ids"]) == 2 for one in batch(remote, {"input_ids": pair}))


def test_preference_pairs_have_the_ids_that_a_collator_joins(tmp_path):
    rows = [{"chosen": [*CHATS[3][:3], {"role": "assistant", "content": "Yes"}], "rejected": [*CHATS[3][:3], {"role": "assistant", "content": "No"}]}]
    remote = write(tmp_path / "a", rows)
    fields = {
        "prompt_ids": fb.Chat("chosen", IDS, CHATML, against="rejected", part="prompt", pad=0),
        "chosen_ids": fb.Chat("chosen", IDS, CHATML, against="rejected", part="completion", pad=0),
        "rejected_ids": fb.Chat("rejected", IDS, CHATML, against="chosen", part="completion", pad=0),
    }
    (one,) = batch(remote, fields)
    texts = {name: TOKENIZER.decode(ids[0].tolist(), skip_special_tokens=False) for name, ids in one.items()}
    assert texts["prompt_ids"].endswith("👍<|im_end|>\n<|im_start|>assistant\n")
    assert (texts["chosen_ids"], texts["rejected_ids"]) == ("Yes<|im_end|>\n", "No<|im_end|>\n")


@pytest.mark.parametrize("form", ["padding_free", "segments", "indexed_mask", "sequence_id", "thd", "document_ids"])
def test_packs_have_the_labels_of_their_conversations(tmp_path, form):
    remote = write(tmp_path / "a", [{"messages": chat} for chat in CHATS])
    alone = batch(remote, {"ids": fb.Chat("messages", IDS, CHATML, pad=0)})
    alone = {tuple(one["ids"][0].tolist()): one["labels"][0].tolist() for one in alone}
    window = fb.Pack(256, form=form)
    packs = batch(remote, {"input_ids": fb.Chat("messages", IDS, CHATML)}, 1, window=window, drop_last=False)
    ids, labels = [], []
    for pack in packs:
        ids += pack["input_ids"].reshape(-1).tolist()
        labels += pack["labels"].reshape(-1).tolist()
        if form == "thd":
            assert ((pack["labels"] != -100) == (pack["loss_mask"] == 1)).all()
    if form in ("thd", "document_ids"):
        labels = [-100, *labels[:-1]]
    found = 0
    for start in range(len(ids)):
        for known, expected in alone.items():
            if tuple(ids[start : start + len(known)]) == known:
                # The first token of a conversation is never trained, so it has -100 in any form.
                assert labels[start : start + len(known)] == expected
                found += 1
    assert found == len(CHATS)


WITH_TOOLS = "{% if tools %}{{ tools | tojson }}{% endif %}" + CHATML

SEVERAL_COLUMNS = {
    "tools": ([{"messages": chat, "tools": [{"name": "x" * number}]} for number, chat in enumerate(CHATS)], ("messages", WITH_TOOLS), {"tools": "tools"}),
    "some tools": (
        [{"messages": chat, "tools": [{"name": "a"}] if number % 2 else None} for number, chat in enumerate(CHATS)],
        ("messages", WITH_TOOLS),
        {"tools": "tools"},
    ),
    "messages": ([{"prompt": chat[:-1], "completion": chat[-1:]} for chat in CHATS], ("completion", CHATML), {"prompt": "prompt"}),
    "texts": (
        [{"prompt": f"{number}é is", "completion": " odd" * (number + 1)} for number in range(8)],
        ("completion", None),
        {"prompt": "prompt", "variables": {"eos_token": "</s>"}},
    ),
    "both": (
        [{"prompt": chat[:-1], "completion": chat[-1:], "tools": [{"name": "x" * number}]} for number, chat in enumerate(CHATS)],
        ("completion", WITH_TOOLS),
        {"prompt": "prompt", "tools": "tools"},
    ),
}
"""Rows, column and template, and options of a Chat with tokens of several columns."""


def written(folder, source, rows):
    """The same rows as a data set of this source."""
    if source == "jsonl":
        return write(folder / source, rows)
    if source == "tar":
        folder.mkdir(exist_ok=True)
        with tarfile.open(folder / "part.tar", "w") as tar:
            for number, row in enumerate(rows):
                for name, value in row.items():
                    data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
                    member = tarfile.TarInfo(f"{number}.{name}.{'txt' if isinstance(value, str) else 'json'}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
        return str(folder / "part.tar")
    if source == "mds":
        kinds = {name: "str" if isinstance(value, str) else "json" for name, value in rows[0].items()}
        with fb.MDSWriter(out=str(folder / "mds"), columns=kinds) as writer:
            for row in rows:
                writer.write(row)
        return str(folder / "mds")
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (folder / "parquet").mkdir()
    # A column that is null is one of texts: JSON, as most data sets have their tools.
    columns = {name: [row[name] if name != "tools" else row[name] and json.dumps(row[name]) for row in rows] for name in rows[0]}
    parquet.write_table(pa.table(columns), folder / "parquet" / "a.parquet")
    return str(folder / "parquet" / "*.parquet")


@pytest.mark.parametrize("source", ["jsonl", "mds", "parquet", "tar"])
@pytest.mark.parametrize("case", SEVERAL_COLUMNS)
def test_packs_have_the_tokens_of_several_columns(tmp_path, case, source):
    rows, (column, template), options = SEVERAL_COLUMNS[case]
    remote = written(tmp_path, source, rows)
    if source == "tar":
        ending = "txt" if case == "texts" else "json"
        column, options = f"{column}.{ending}", {name: f"{value}.{ending}" if name in ("prompt", "tools") else value for name, value in options.items()}
    chat = fb.Chat(column, IDS, template, **options)
    alone = batch(remote, {"ids": dataclasses.replace(chat, pad=0)})
    alone = [(one["ids"][0].tolist(), one["labels"][0].tolist()) for one in alone]
    lengths = fb.index.index_lengths(remote, chat)
    assert list(lengths.lengths) == [len(ids) for ids, _ in alone]
    (pack,) = batch(remote, {"input_ids": chat}, window=fb.Pack(4096, form="segments"))
    found = []
    for number in range(1, len(rows) + 1):
        places = pack["segment_ids"][0] == number
        found.append((pack["input_ids"][0][places].tolist(), pack["labels"][0][places].tolist()))
    assert sorted(found) == sorted(alone) and len(alone) == len(rows)


def test_packs_leave_out_conversations_that_lack_a_column_if_skip_allows_them(tmp_path):
    rows = [{"prompt": chat[:-1], "completion": chat[-1:]} for chat in CHATS]
    rows[3]["prompt"] = None
    remote = write(tmp_path / "a", rows)
    chat = fb.Chat("completion", IDS, CHATML, prompt="prompt")
    with pytest.raises(DecodeError, match="prompt"):
        batch(remote, {"ids": chat}, window=fb.Pack(4096))
    (pack,) = batch(remote, {"ids": chat}, window=fb.Pack(4096, form="segments"), skip=fb.Skip(errors=1))
    assert pack["segment_ids"].max() == len(CHATS) - 1


def test_packs_of_pairs_and_of_parts_of_conversations_are_refused(tmp_path):
    remote = write(tmp_path / "a", [{"prompt": chat[:-1], "messages": chat, "chosen": chat, "rejected": chat[::-1]} for chat in CHATS])
    for chat, message in [
        (fb.Chat("chosen", IDS, CHATML, against="rejected"), "leave `against` out of Chat"),
        (fb.Chat("messages", IDS, CHATML, prompt="prompt", part="completion"), "leave `part` out of Chat"),
    ]:
        with pytest.raises(ConfigError, match=message):
            batch(remote, {"ids": chat}, window=fb.Pack(64))
        with pytest.raises(ConfigError, match=message):
            fb.index.index_lengths(remote, chat)


def test_wrong_arguments_and_conversations_are_named(tmp_path):
    remote = write(tmp_path / "a", [{"messages": chat, "text": "a"} for chat in CHATS[:1]])
    chat = lambda *args, **options: fb.Chat(*args, **{"pad": 0, **options})
    for field, error, message in [
        (chat("messages", IDS, "{% if %}"), ConfigError, "line 1"),
        (chat("messages", IDS, CHATML + "{{ strftime_now('%Y') }}"), DecodeError, "date"),
        (chat("messages", IDS, CHATML, date="today"), ConfigError, "2026-11-29"),
        (chat("messages", IDS, "{{ messages[0].content }}"), DecodeError, "template of Chat"),
        (chat("messages", IDS, CHATML + "{{ raise_exception('no ' ~ bos_token) }}", variables={"bos_token": "<s>"}), DecodeError, "no <s>"),
        (chat("messages", IDS, CHATML.replace("m.content }}", "m.content }}{% if loop.last %}!{% endif %}")), DecodeError, "turn 1"),
        (chat("text", IDS, CHATML), DecodeError, "no conversation"),
        (chat("messages", IDS, CHATML, part="prompt"), ConfigError, "prompt"),
        (chat("messages", IDS, CHATML, train_on="all"), ConfigError, "train_on of Chat"),
        (chat("messages", IDS, CHATML, dtype="uint8"), ConfigError, "dtype"),
    ]:
        with pytest.raises(error, match=message):
            batch(remote, {"ids": field})


def test_a_chat_is_pickled_without_the_contents_of_its_files(tmp_path):
    import pickle

    (tmp_path / "tokenizer.json").write_text(IDS)
    chat = fb.Chat("messages", tmp_path / "tokenizer.json", CHATML, pad=0)
    chat._spec()
    assert len(pickle.dumps(chat)) < 2000 and pickle.loads(pickle.dumps(chat)) == chat
