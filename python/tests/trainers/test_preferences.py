"""Preference pairs from raw text: the batches of TRL's own preparation and collator, and its DPOTrainer on a loader."""

import hashlib
import json
import random

import pytest

torch = pytest.importorskip("torch")
trl = pytest.importorskip("trl", reason="the trainers are not installed: python/scripts/frameworks.sh")

from datasets import Dataset  # noqa: E402
from texts import END, write_texts  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast  # noqa: E402
from trl.trainer.dpo_trainer import DataCollatorForPreference  # noqa: E402

import forebay as fb  # noqa: E402
from forebay.integrations.transformers import LoaderTrainer  # noqa: E402

TEMPLATE = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

MERGING = "{% for m in messages %}{{ m.content }}{% endfor %}"
"""A template with tokens that have characters of the prompt and of the answer."""


def words(draws):
    return "".join(draws.choice(["12 ", "3", "é", "\n", " 4", "55", "中文"]) for _ in range(draws.randrange(1, 12)))


def rows_of(form, count=24):
    draws = random.Random(7)
    rows = []
    for number in range(count):
        question, answers = f"{number}: {words(draws)}", [f"{name}{words(draws)}" for name in ("1", "2")]
        if form in ("texts", "one text"):
            prompt, sides = question, answers
            whole = [question + " " + answer for answer in answers]
        else:
            prompt = [{"role": "user", "content": question}]
            sides = [[{"role": "assistant", "content": answer}] for answer in answers]
            whole = [prompt + side for side in sides]
        row = {"chosen": sides[0], "rejected": sides[1], "prompt": prompt}
        if form in ("one text", "messages"):
            row = {"chosen": whole[0], "rejected": whole[1]}
        if form == "tools":
            row["tools"] = json.dumps([{"type": "function", "function": {"name": f"f{number}"}}])
        rows.append(row)
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    write_texts(folder)
    return folder


def tokenizer_of(folder, template=TEMPLATE):
    return PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), eos_token=END, pad_token=END, chat_template=template
    )


def model_of(folder):
    """A small model, which a trainer can also load as its reference."""
    torch.manual_seed(3)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=300, max_position_embeddings=512, **sizes)).save_pretrained(folder / "model")
    return LlamaForCausalLM.from_pretrained(folder / "model")


def trls_trainer(folder, rows, template=TEMPLATE, **options):
    settings = trl.DPOConfig(str(folder / "trl"), report_to=[], use_cpu=True, bf16=False, per_device_train_batch_size=4, **options)
    return trl.DPOTrainer(model_of(folder), args=settings, train_dataset=Dataset.from_list(rows), processing_class=tokenizer_of(folder, template))


def loader_of(folder, rows, template=TEMPLATE, name="input_ids", **options):
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    # A loader keeps its file open, so each content has a file.
    path = folder / f"rows-{hashlib.sha256(lines.encode()).hexdigest()[:8]}.jsonl"
    if not path.exists():
        path.write_text(lines)
    further = {name: name for name in ("prompt", "tools") if name in rows[0]}
    options = {"pad": 0, **options}
    loads = {name: options.pop(name) for name in ("shuffle", "batch_size", "framework", "skip") if name in options}
    chat = fb.Chat(
        "chosen",
        str(folder / "tokenizer.json"),
        template,
        against="rejected",
        part="pair",
        variables={"eos_token": END},
        **further,
        **options,
    )
    return fb.Loader(remote=str(path), fields={name: chat}, **{"batch_size": 4, "shuffle": False, "drop_last": False, **loads})


@pytest.mark.parametrize("form", ["texts", "one text", "messages", "prompts", "tools"])
@pytest.mark.parametrize("options", [{}, {"max_length": 16}, {"max_length": 24, "pad_to_multiple": 8}], ids=["all", "cut", "multiple"])
def test_batches_are_these_of_trls_preparation_and_collator(folder, form, options):
    rows = rows_of(form)
    if "max_length" in options and "text" not in form:
        # Of the template.
        options = options | {"max_length": options["max_length"] + (80 if form == "tools" else 30)}
    theirs = trls_trainer(folder, rows, max_length=options.get("max_length"))
    examples = [theirs.train_dataset[number] for number in range(len(theirs.train_dataset))]
    collator = DataCollatorForPreference(0, max_length=options.get("max_length"), pad_to_multiple_of=options.get("pad_to_multiple"))
    lacks = len(rows) - len(examples)
    assert len(examples) > 4
    skip = {"skip": fb.Skip(errors=lacks)} if lacks else {}
    with loader_of(folder, rows, batch_size=1, **skip, **options) as loader:
        batches = list(loader)
    assert len(batches) == len(examples)
    for batch, example in zip(batches, examples, strict=True):
        expected = collator([example])
        assert list(batch) == list(expected)
        for name, values in expected.items():
            assert batch[name].dtype == values.dtype and torch.equal(batch[name], values), name
    if not lacks:
        with loader_of(folder, rows, **options) as loader:
            (batch, *_) = loader
        expected = collator(examples[:4])
        assert all(torch.equal(batch[name], values) for name, values in expected.items())


def test_an_answer_begins_where_its_tokens_differ_from_the_prompt_s(folder):
    rows = rows_of("prompts", 60)
    theirs = trls_trainer(folder, rows, MERGING, max_length=None).train_dataset
    with loader_of(folder, rows, MERGING, name="prompt_ids", pad=None, batch_size=1) as loader:
        found = [{name: ids[0].tolist() for name, ids in batch.items()} for batch in loader]
    names = ("prompt_ids", "chosen_ids", "rejected_ids")
    assert [tuple(batch) for batch in found] == [names] * len(rows)
    assert found == [{name: theirs[number][name] for name in names} for number in range(len(rows))]
    alone = tokenizer_of(folder, MERGING)
    assert any(len(alone.apply_chat_template(row["prompt"])["input_ids"]) > len(one["prompt_ids"]) for row, one in zip(rows, found))


def test_dpo_trainer_trains_from_raw_pairs(folder, tmp_path):
    class DPOTrainer(LoaderTrainer, trl.DPOTrainer):
        pass

    rows = rows_of("messages")
    losses = {}
    for kind in ("theirs", "ours"):
        settings = trl.DPOConfig(
            str(tmp_path / kind), report_to=[], use_cpu=True, bf16=False, max_steps=2, logging_steps=1, per_device_train_batch_size=4, max_length=None,
            train_sampling_strategy="sequential", learning_rate=0.01,
        )  # fmt: skip
        if kind == "ours":
            data, evaluated = loader_of(folder, rows, pad=0), loader_of(folder, rows, pad=0)
            trainer = DPOTrainer(model_of(folder), args=settings, train_dataset=data, eval_dataset=evaluated, processing_class=tokenizer_of(folder))
        else:
            data = Dataset.from_list(rows)
            trainer = trl.DPOTrainer(model_of(folder), args=settings, train_dataset=data, eval_dataset=data, processing_class=tokenizer_of(folder))
        trainer.train()
        assert trainer.state.global_step == 2
        figures = trainer.evaluate()
        samples = figures["eval_samples_per_second"] * figures["eval_runtime"]
        assert samples == pytest.approx(len(rows), rel=0.1)
        losses[kind] = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry] + [figures["eval_loss"]]
        other = trainer.evaluate(loader_of(folder, rows[:8]) if kind == "ours" else Dataset.from_list(rows[:8]))
        losses[kind].append(other["eval_loss"])
    assert losses["ours"] == pytest.approx(losses["theirs"], rel=1e-5)


def test_arguments_of_pairs_that_do_not_fit_are_named(folder, tmp_path):
    rows = rows_of("messages", 4)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    chat = lambda **options: fb.Chat("chosen", str(folder / "tokenizer.json"), TEMPLATE, **{"pad": 0, "part": "pair", "against": "rejected", **options})
    load = lambda fields, **options: fb.Loader(remote=str(folder / "rows.jsonl"), batch_size=2, fields=fields, **options)
    for fields, options, message in [
        ({"input_ids": chat(against=None)}, {}, "`against`"),
        ({"input_ids": chat(length=8)}, {}, "max_length and pad_to_multiple"),
        ({"input_ids": chat(), "attention_mask": fb.AttentionMask("input_ids")}, {}, "attention_mask"),
        ({"input_ids": chat()}, {"map": lambda row: row}, "map needs a row for each sample"),
        ({"input_ids": chat(pad=None)}, {"window": fb.Pack(64)}, "`against`"),
    ]:
        with pytest.raises(fb.ConfigError, match=message):
            load(fields, **options)
    with pytest.raises(fb.DecodeError, match="raise max_length"):
        list(load({"input_ids": chat(max_length=2)}))

    class DPOTrainer(LoaderTrainer, trl.DPOTrainer):
        pass

    settings = trl.DPOConfig(str(tmp_path), report_to=[], use_cpu=True, bf16=False, precompute_ref_log_probs=True)
    with pytest.raises(fb.ConfigError, match="precompute_ref_log_probs"):
        DPOTrainer(model_of(folder), args=settings, train_dataset=loader_of(folder, rows), processing_class=tokenizer_of(folder))
