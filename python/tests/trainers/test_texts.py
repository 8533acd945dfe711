"""Raw text in released trainers: a job on packs that is killed in mid-epoch resumes on a different number of processes, and
every step has the documents of a job without an interruption."""

import pytest

pytest.importorskip("lightning", reason="the trainers are not installed: python/scripts/frameworks.sh")

from jobs import EPOCHS, GLOBAL_BATCH, KILLED, SAVED, run_jobs  # noqa: E402
from texts import documents, loader_of, write_texts  # noqa: E402


@pytest.mark.parametrize("trainer", ["composer", "jax", "torchtitan", "transformers", "trl"])
def test_a_job_on_texts_that_was_killed_resumes_on_a_different_number_of_processes(trainer, tmp_path):
    write_texts(tmp_path)
    jobs = run_jobs(tmp_path, "texts_job.py", trainer)
    with loader_of(tmp_path, "sequence_id", batch_size=GLOBAL_BATCH) as loader:
        bare = [sorted(documents(batch)) for _ in range(EPOCHS) for batch in loader]
    assert len(bare) > EPOCHS * KILLED and max(map(len, bare)) > GLOBAL_BATCH
    assert jobs["whole"] == bare
    assert jobs["killed"][:SAVED] == bare[:SAVED]
    assert jobs["resumed"] == bare[SAVED:]


@pytest.mark.parametrize("trains", ["loader", "data set"])
def test_sft_trainer_evaluates_loaders_that_it_was_not_made_with(trains, tmp_path):
    trl = pytest.importorskip("trl")
    from datasets import Dataset
    from texts import END
    from texts_job import language_model
    from transformers import PreTrainedTokenizerFast

    from forebay.integrations.transformers import LoaderTrainer

    class Trainer(LoaderTrainer, trl.SFTTrainer):
        pass

    write_texts(tmp_path, 60)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"), eos_token=END, pad_token=END)
    make = lambda: loader_of(tmp_path, "padding_free", batch_size=2, shuffle=False)
    settings = trl.SFTConfig(str(tmp_path / "out"), report_to=[], use_cpu=True, bf16=False, max_steps=1)
    data = make() if trains == "loader" else Dataset.from_list([{"text": "1 2 3 4"}] * 8)
    trainer = Trainer(language_model(), args=settings, train_dataset=data, processing_class=tokenizer)
    trainer.train()
    with make() as one, make() as two:
        alone = trainer.evaluate(one)["eval_loss"]
        both = trainer.evaluate({"a": two, "b": Dataset.from_list([{"input_ids": [5, 6, 7], "labels": [5, 6, 7]}] * 4)})
    assert alone > 0 and both["eval_a_loss"] == pytest.approx(alone) and both["eval_b_loss"] > 0
