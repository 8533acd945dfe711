"""Fill-in-the-middle: documents keep their tokens, and packs have room for the tokens that are added."""

import numpy as np
import pytest
from test_packs import DOCUMENTS, of_ids, run, sequences

import forebay as fb
from forebay.errors import ConfigError, StateError

PREFIX, MIDDLE, SUFFIX, EOD = 60_001, 60_002, 60_003, 60_000
FIM = fb.FillInMiddle(rate=0.5, prefix=PREFIX, middle=MIDDLE, suffix=SUFFIX, eod=EOD)

# The last token of most documents is the end of a document.
CODE = [np.append(document[:12], EOD).astype(np.uint16) if len(document) > 3 else document for document in DOCUMENTS]


def field(fim=FIM, **options):
    return fb.Tokens("ids", stored="uint16", fim=fim, **options)


def restored(ids):
    """The document before its rearrangement."""
    ids = list(ids)
    if MIDDLE not in ids:
        return ids
    end = [EOD] if ids[-1] == EOD else []
    body = ids[: len(ids) - len(end)]
    assert body[0] == PREFIX
    suffix, middle = body.index(SUFFIX), body.index(MIDDLE)
    if suffix == 1:
        # PSM with an empty prefix, or SPM: the prefix and the middle are one text in both.
        return body[middle + 1 :] + body[2:middle] + end
    return body[1:suffix] + body[middle + 1 :] + body[suffix + 1 : middle] + end


def of_epochs(data, count, **options):
    options = {"batch_size": 16, "shuffle": True, "framework": "numpy", "threads": 1, **options}
    with fb.Loader(**data, **options) as loader:
        return [(list(loader), [loader.samples_of(step, epoch=epoch) for step in range(len(loader))]) for epoch in range(count)]


def test_a_rearranged_document_has_the_tokens_of_the_document_in_psm_or_spm(tmp_path):
    data = {"remote": of_ids(tmp_path, CODE)}
    seen = []
    for batches, named in of_epochs(data, 2, fields={"ids": field(length=64, pad=EOD + 9)}, drop_last=False):
        found = {}
        for batch, samples in zip(batches, named, strict=True):
            for ids, sample in zip(batch["ids"], samples, strict=True):
                found[sample.number] = ids[ids != EOD + 9].tolist()
        for number, ids in found.items():
            assert restored(ids) == CODE[number].tolist()
            assert len(ids) - len(CODE[number]) == (3 if MIDDLE in ids else 0)
        seen.append(found)
    changed = [ids for ids in seen[0].values() if MIDDLE in ids]
    assert 0.4 < len(changed) / len([document for document in CODE if len(document) > 2]) < 0.6
    assert 0.3 < sum(ids[1] == SUFFIX for ids in changed) / len(changed) < 0.75
    assert seen[0] != seen[1]


def test_packs_have_room_for_the_tokens_that_are_added(tmp_path):
    data = {"remote": of_ids(tmp_path, CODE)}
    totals = []
    for batches, named in of_epochs(data, 2, fields={"ids": field()}, window=fb.Pack(16, form="segments")):
        found = [ids for batch in batches for ids in sequences({"input_ids": batch["ids"], **batch})]
        samples = [sample for step in named for sample in step]
        assert len(found) == len(samples)
        for ids, sample in zip(found, samples, strict=True):
            assert len(ids) == sample.tokens
            document = CODE[sample.number].tolist()
            if sample.first_token == 0 and len(document) <= 13:
                assert restored(ids) == document
        totals.append(sum(sample.tokens for sample in samples if not sample.repeat))
    plain = sum(map(len, CODE))
    assert plain < min(totals) and totals[0] != totals[1]


def test_rearranged_packs_are_the_same_on_any_number_of_ranks_and_after_a_resume(tmp_path):
    data = {"remote": of_ids(tmp_path, CODE)}
    whole, _ = run(data, field(), 1, drop_last=True)
    assert run(data, field(), 4, drop_last=True)[0] == whole
    before, state = run(data, field(), 2, steps=3)
    assert before == whole[:3]
    assert run(data, field(), 3, state, drop_last=True)[0] == whole[3:]
    assert whole != run(data, field(None), 1, drop_last=True)[0]
    with pytest.raises(StateError, match="fim rate"):
        run(data, field(None), 1, state)


def test_a_text_is_rearranged_whole_before_its_row_is_cut(tmp_path):
    tokenizer = pytest.importorskip("tokenizers")
    words = {str(number): number for number in range(40)} | {"<s>": 90, "</s>": 91, "<p>": 92, "<m>": 93, "<x>": 94}
    model = tokenizer.Tokenizer(tokenizer.models.WordLevel(words, unk_token="0"))
    model.pre_tokenizer = tokenizer.pre_tokenizers.Whitespace()
    with fb.MDSWriter(out=str(tmp_path / "texts"), columns={"text": "str"}) as writer:
        for _ in range(32):
            writer.write({"text": " ".join(str(number) for number in range(1, 40))})
    fim = fb.FillInMiddle(rate=1, spm_rate=0, prefix=92, middle=93, suffix=94, bos=90, eod=91)
    ends = {"add_bos": "<s>", "add_eos": "</s>"}
    rows = {}
    for length, truncate in ((44, False), (20, True)):
        text = fb.Tokenize("text", model.to_str(), length=length, truncate=truncate, fim=fim, **ends)
        with fb.Loader(remote=str(tmp_path / "texts"), batch_size=32, fields={"ids": text}, framework="numpy") as loader:
            rows[length] = next(iter(loader))["ids"]
    assert (rows[44][:, 0] == 90).all() and (rows[44][:, 1] == 92).all() and (rows[44][:, -1] == 91).all()
    assert (np.sort(rows[44], axis=1) == [*range(1, 40), 90, 91, 92, 93, 94]).all()
    assert (rows[20] == rows[44][:, :20]).all()


@pytest.mark.parametrize(
    ("fim", "message"),
    [
        (fb.FillInMiddle(rate=1.5, prefix=1, middle=2, suffix=3), "rate of FillInMiddle is a probability"),
        (fb.FillInMiddle(rate=1, prefix=-1, middle=2, suffix=3), "prefix of FillInMiddle is a whole number"),
        (fb.FillInMiddle(rate=1, prefix=70_000, middle=2, suffix=3), "prefix of fim does not fit the dtype"),
        (fb.FillInMiddle(rate=1, prefix=1, middle=2, suffix=1), "three different ids"),
        (0.5, "fim of Tokens is a FillInMiddle"),
    ],
)
def test_arguments_out_of_range_are_refused(fim, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        fb.Loader(remote=of_ids(tmp_path), batch_size=2, fields={"ids": field(fim, pad=0, dtype="uint16")})
