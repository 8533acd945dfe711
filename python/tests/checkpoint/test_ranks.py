"""Checkpoints of several ranks."""

import textwrap

import pytest
import rank_processes

pytest.importorskip("torch")

COMMON = """
import json, os
import forebay as fb
from forebay import checkpoint
from forebay.checkpoint import parts


def outcome(action):
    try:
        return action()
    except fb.Error as error:
        return f"{type(error).__name__}: {error}"


def failing_write(self, data):
    raise fb.FullError("no room here")

"""


def run(body, tmp_path, url, ranks):
    """Runs `body` on each rank, and returns the findings of each."""
    return rank_processes.run(COMMON + textwrap.dedent(body), tmp_path / f"results-{ranks}", ranks, url=str(url))


def test_the_object_of_rank_0_is_saved_once_and_loads_on_any_number_of_ranks(run_url, tmp_path):
    saved = """
        done = checkpoint.save({"rank": rank} if rank == 0 else None, f"{url}/step-1", step=1, data={"epoch": rank})
        found["parts"], found["data"] = sorted(done.parts), done.data
    """
    assert run(saved, tmp_path, run_url, 2) == [{"parts": ["rank-00000.pt"], "data": {"epoch": 0}}] * 2
    loaded = """
        last = checkpoint.latest(url)
        found["rank"], found["step"] = last.load()["rank"], last.step
    """
    assert run(loaded, tmp_path, run_url, 3) == [{"rank": 0, "step": 1}] * 3


def test_each_rank_saves_and_loads_its_own_object(tmp_path):
    saved = """
        saving = checkpoint.save({"rank": rank}, f"{url}/step-1", per_rank=True, wait=False)
        found["parts"] = sorted(saving.wait().parts)
        found["rank"] = checkpoint.load(f"{url}/step-1")["rank"]
    """
    parts = ["rank-00000.pt", "rank-00001.pt", "rank-00002.pt"]
    assert run(saved, tmp_path, tmp_path / "run", 3) == [{"parts": parts, "rank": rank} for rank in range(3)]
    fewer = """
        last = checkpoint.latest(url)
        found["error"] = outcome(last.load)
        found["rank"] = last.load(part=2)["rank"]
    """
    for found in run(fewer, tmp_path, tmp_path / "run", 2):
        assert "has the parts of 3 ranks, and there are 2 now" in found["error"] and found["rank"] == 2


@pytest.mark.parametrize("wait", [True, False])
def test_a_failure_of_one_rank_fails_all_and_leaves_no_checkpoint(tmp_path, wait):
    body = f"""
        write = parts.PartWriter._append
        if rank == 1:
            parts.PartWriter._append = failing_write
        save = lambda step: checkpoint.save({{"rank": rank}}, f"{{url}}/{{step}}", per_rank=True, wait={wait})
        found["first"] = outcome(lambda: save(1) if {wait} else save(1).wait())
        found["latest"] = str(checkpoint.latest(url))
        parts.PartWriter._append = write
        found["again"] = str(save(1) if {wait} else save(1).wait())
    """
    first, second = run(body, tmp_path, tmp_path / "run", 2)
    assert first["first"].startswith("FullError: rank 1 has failed: FullError: no room here")
    assert second["first"] == "FullError: no room here"
    assert first["latest"] == second["latest"] == "None"
    assert first["again"] == second["again"] and "2 parts" in first["again"]


def test_an_error_that_one_rank_has_seen_does_not_keep_the_remaining_ranks_waiting(tmp_path):
    body = """
        checkpoint.save({}, f"{url}/1")
        failing = checkpoint.save({}, f"{url}/1", wait=False)
        if rank == 0:
            found["wait"] = outcome(failing.wait)
        found["next"] = outcome(lambda: str(checkpoint.save({}, f"{url}/2")))
        found["last"] = str(checkpoint.save({}, f"{url}/3"))
    """
    first, second = run(body, tmp_path, tmp_path / "run", 2)
    assert "is a checkpoint already" in first["wait"] and "rank 1 has failed" in first["next"]
    assert "is a checkpoint already" in second["next"] and first["last"] == second["last"]


def test_a_wrong_argument_on_one_rank_fails_all(tmp_path):
    body = """found["error"] = outcome(lambda: checkpoint.save({}, f"{url}/1", keep=rank))"""
    first, second = run(body, tmp_path, tmp_path / "run", 2)
    assert "keep" in first["error"] and "rank 0 has failed" in second["error"]


def test_ranks_that_save_to_different_folders_fail(tmp_path):
    body = """found["error"] = outcome(lambda: checkpoint.save({}, f"{url}/{rank}", per_rank=True))"""
    for found in run(body, tmp_path, tmp_path / "run", 2):
        assert "the ranks save to different folders" in found["error"] and f"{tmp_path}/run/1" in found["error"]


def test_a_rank_that_ends_fails_the_remaining_ranks(tmp_path):
    body = """
        if rank == 1:
            parts.PartWriter._append = lambda self, block: os._exit(0)
        try:
            checkpoint.save({}, f"{url}/1", per_rank=True)
        except fb.NetworkError as error:
            found["error"] = str(error)
        assert checkpoint.latest(url) is None
        with open(f"{results}/{rank}.json", "w") as file:
            json.dump(found, file)
        os._exit(0)
    """
    (tmp_path / "results-2").mkdir()
    (tmp_path / "results-2" / "1.json").write_text("{}")
    first, _ = run(body, tmp_path, tmp_path / "run", 2)
    assert "a rank does not respond, it may have ended" in first["error"]
