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
