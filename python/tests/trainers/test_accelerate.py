"""Accelerate with a loader, in one process."""

import pytest
from jobs import SAMPLES, STEPS

pytest.importorskip("accelerate", reason="the trainers are not installed: python/scripts/frameworks.sh")

import torch  # noqa: E402
from accelerate import Accelerator, skip_first_batches  # noqa: E402
from accelerate.data_loader import prepare_data_loader  # noqa: E402
from accelerate.state import GradientState, PartialState  # noqa: E402

import forebay as fb  # noqa: E402
import forebay.integrations.torch  # noqa: E402
from forebay.integrations.accelerate import DataLoader  # noqa: E402


HOLDS_LEFT_LOOPS = not hasattr(GradientState, "dataloader_references")
"""True for versions such as 1.3, in which the loader of a loop that was left stays the active one of the process."""


def end_left_loops():
    state = GradientState()
    while state.active_dataloader is not None:
        state._remove_dataloader(state.active_dataloader)


@pytest.fixture(autouse=True)
def left_loops():
    """Ends loops that a test left, which the next one would find."""
    yield
    end_left_loops()


def taken(batches):
    return [batch["x"].tolist() for batch in batches]


@pytest.fixture
def prepared(make):
    """Function that makes an accelerator and a prepared loader."""

    def prepare(**arguments):
        accelerator = Accelerator(cpu=True, **arguments)
        return accelerator, accelerator.prepare(DataLoader(make()))

    return prepare


def test_epochs_have_the_loader_s_batches(prepared, order):
    _, loader = prepared()
    assert len(loader) == STEPS and loader.batch_size == 12
    assert taken(loader) + taken(loader) == order[: 2 * STEPS]
    loader.set_epoch(1)
    assert taken(loader) == order[STEPS : 2 * STEPS]


def test_a_break_ends_an_epoch(prepared, order):
    _, loader = prepared()
    for batch in loader:
        assert batch["x"].tolist() == order[0]
        break
    assert taken(loader) == order[STEPS : 2 * STEPS]


def test_accumulated_gradients_are_applied_with_the_last_batch(prepared):
    accelerator, loader = prepared(gradient_accumulation_steps=3)
    model = accelerator.prepare(torch.nn.Linear(1, 1))
    synced = []
    for _ in loader:
        with accelerator.accumulate(model):
            synced.append(accelerator.sync_gradients)
    assert synced == [False, False, True, False, False, True, True]
    assert accelerator.gradient_state.active_dataloader is None


@pytest.mark.parametrize("batches", [1, 3, 4, 5, STEPS])
def test_a_state_within_an_accumulation_is_refused_on_more_processes(prepared, order, tmp_path, monkeypatch, batches):
    """The processes would wait for one of them: a new one counts its batches from 0."""
    accelerator, loader = prepared(gradient_accumulation_steps=3)
    model = accelerator.prepare(torch.nn.Linear(1, 1))
    for number, _ in enumerate(loader, 1):
        with accelerator.accumulate(model):
            pass
        if number == batches:
            accelerator.save_state(tmp_path)
            break
    _, loader = prepared(gradient_accumulation_steps=3)
    for processes in (1, 2):
        monkeypatch.setitem(PartialState._shared_state, "num_processes", processes)
        accelerator = Accelerator(cpu=True) if processes == 1 else accelerator
        state = torch.load(tmp_path / "dl_state_dict.bin")
        if processes == 2 and batches not in (3, STEPS):
            before = batches // 3 * 3
            with pytest.raises(fb.ConfigError, match=f"after {batches} batches .* save after {before} or {before + 3} batches"):
                loader.load_state_dict(state)
        else:
            loader.load_state_dict(state)
            assert taken(loader) == order[batches:STEPS]


def test_the_numbers_of_a_data_set_count_samples(make):
    for arguments, samples in (
        ({}, SAMPLES),
        ({"order": fb.Order(epoch_size=53)}, 53),
        ({"drop_last": True, "batch_size": 10}, SAMPLES),
    ):
        loader = Accelerator(cpu=True).prepare(DataLoader(make(**arguments)))
        size = arguments.get("batch_size", 12)
        assert (len(loader.dataset), loader.total_dataset_length, loader.total_batch_size) == (samples, samples, size)
        assert len(loader) == (samples // size if "drop_last" in arguments else -(-samples // size))
    ranks = fb.World(rank=1, world_size=5, local_rank=1, local_world_size=5)
    loader = forebay.integrations.torch.DataLoader(make(world=ranks))
    assert (len(loader.dataset), len(loader)) == (SAMPLES, 2)


def synced_steps(accelerator, batches):
    """Ids of each batch, and whether accumulated gradients are applied after it."""
    model, steps = accelerator.prepare(torch.nn.Linear(1, 1)), []
    for batch in batches:
        with accelerator.accumulate(model):
            steps.append((batch["x"].tolist(), accelerator.sync_gradients))
    assert accelerator.gradient_state.active_dataloader is None
    return [ids for ids, _ in steps], [is_synced for _, is_synced in steps]


@pytest.mark.parametrize("sample", [12, 36, 81, SAMPLES])
def test_gradients_are_applied_at_the_end_after_a_resume_with_a_different_batch_size(make, sample):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=100)
    loader = accelerator.prepare(DataLoader(make(batch_size=10)))
    loader.load_state_dict(loader.state_dict() | {"sample_in_epoch": sample})
    for samples in (SAMPLES - sample, SAMPLES):
        batches, synced = synced_steps(accelerator, loader)
        assert len(sum(batches, [])) == samples
        assert synced == [False] * (len(batches) - 1) + [True] * bool(batches)


def test_gradients_are_applied_at_the_end_of_the_loader_of_skip_first_batches(prepared, order):
    accelerator, loader = prepared(gradient_accumulation_steps=100)
    rest = skip_first_batches(loader, 4)
    assert synced_steps(accelerator, rest) == (order[4:STEPS], [False, False, True])
    for _ in skip_first_batches(loader, 2):
        break
    assert HOLDS_LEFT_LOOPS or accelerator.gradient_state.active_dataloader is None
    end_left_loops()
    # Without the DataLoader that it was made of.
    loader = skip_first_batches(loader, 6)
    assert synced_steps(accelerator, loader)[1] == [True]


@pytest.mark.filterwarnings("error:an epoch has no batch")
@pytest.mark.parametrize("spoilt", [(), (0,), (2,), (4,), (3, 4), (0, 1, 2, 3)])
def test_gradients_are_applied_at_the_end_of_an_epoch_that_lacks_batches(make_spoilt, spoilt):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=100)
    loader = make_spoilt(spoilt)
    prepared = accelerator.prepare(DataLoader(loader))
    batches, synced = synced_steps(accelerator, prepared)
    assert batches == [[*range(3 * batch, 3 * batch + 3)] for batch in range(5) if batch not in spoilt]
    assert synced == [False] * (len(batches) - 1) + [True]
    # The state after each batch continues with the next one, also in a loop that names the epoch again.
    for step in range(len(batches)):
        prepared.set_epoch(0)
        for number, _ in enumerate(prepared):
            if number == step:
                state = prepared.state_dict()
                break
        assert state["epoch"] == 0
        prepared.load_state_dict(state)
        prepared.set_epoch(0)
        assert taken(prepared) == batches[step + 1 :]


def test_an_error_after_a_batch_does_not_take_that_batch_back(make_spoilt):
    prepared = Accelerator(cpu=True).prepare(DataLoader(make_spoilt((2,), skip=fb.Skip(errors=1))))
    batches = iter(prepared)
    assert [next(batches)["x"].tolist() for _ in range(2)] == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(fb.UnsupportedError, match="more bad samples than skip.errors"):
        next(batches)


def test_first_batches_are_skipped_without_reading_them(prepared, order, make):
    _, loader = prepared()
    skipped = skip_first_batches(loader, 4)
    assert len(skipped) == STEPS - 4
    assert taken(skipped) == order[4:STEPS]
    assert loader.dataset.loader.stats()["stages"]["next"]["items"] == STEPS - 4
    assert taken(loader) == order[STEPS : 2 * STEPS]


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("step", [4, STEPS, STEPS + 2])
def test_a_saved_state_resumes_with_or_without_skipping(prepared, order, tmp_path, step, skips):
    accelerator, loader = prepared()
    done = 0
    while done < step:
        for _ in loader:
            done += 1
            if done == step:
                accelerator.save_state(tmp_path)
                break
    accelerator, loader = prepared()
    accelerator.load_state(tmp_path)
    epoch, first = divmod(step, STEPS)
    loader.set_epoch(epoch)
    batches = skip_first_batches(loader, first) if skips else loader
    assert taken(batches) == order[step : (epoch + 1) * STEPS]
    assert taken(loader) == order[(epoch + 1) * STEPS : (epoch + 2) * STEPS]


def test_a_loop_from_the_loader_s_epoch_resumes_in_that_epoch(prepared, order, tmp_path):
    accelerator, loader = prepared()
    loader.set_epoch(1)
    for batch in loader:
        if batch["x"].tolist() == order[STEPS + 2]:
            accelerator.save_state(tmp_path)
            break
    accelerator, loader = prepared()
    accelerator.load_state(tmp_path)
    assert (loader.epoch, loader.first_batch) == (1, 3)
    steps = []
    for epoch in range(loader.epoch, 3):
        loader.set_epoch(epoch)
        steps += taken(loader)
    assert steps == order[STEPS + 3 : 3 * STEPS]


def test_a_loop_from_the_first_epoch_after_a_resume_warns(prepared, order):
    _, loader = prepared()
    loader.load_state_dict(loader.state_dict() | {"epoch": 1, "sample_in_epoch": 36})
    with pytest.warns(UserWarning, match="at batch 3 of epoch 1, but set_epoch.0. was called"):
        for epoch in range(2):
            loader.set_epoch(epoch)
            assert taken(loader) == order[epoch * STEPS : (epoch + 1) * STEPS]


@pytest.mark.parametrize("steps", [2, STEPS])
def test_an_evaluation_without_a_saved_position_starts_at_its_beginning(make, order, tmp_path, steps):
    def prepare():
        accelerator = Accelerator(cpu=True)
        return accelerator, *accelerator.prepare(DataLoader(make()), DataLoader(make(shuffle=False), saves_position=False))

    def evaluated(val, limit=None):
        found = []
        for batch in val:
            found += batch["x"].tolist()
            if len(found) == limit:
                break
        return found

    accelerator, train, val = prepare()
    for number, _ in enumerate(train, 1):
        assert evaluated(val, 24) == list(range(24))
        if number == steps:
            accelerator.save_state(tmp_path)
            break
    accelerator, train, val = prepare()
    accelerator.load_state(tmp_path)
    # The checkpoint may be one of a DataLoader with a saved position.
    for name in tmp_path.glob("dl_state_dict.bin"):
        name.rename(tmp_path / "dl_state_dict_1.bin")
    assert evaluated(val) == evaluated(val) == list(range(SAMPLES))
    assert taken(train) == order[steps:STEPS]
    accelerator, _, val = prepare()
    accelerator.load_state(tmp_path)
    assert (val.first_batch, evaluated(val)) == (0, list(range(SAMPLES)))


def test_a_bare_loader_can_be_registered_for_checkpoints(make, order, tmp_path):
    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(make())
    accelerator.register_for_checkpointing(loader)
    for _ in loader:
        break
    accelerator.save_state(tmp_path)
    loader.load_state_dict(make().state_dict())
    accelerator.load_state(tmp_path)
    assert taken(loader) == order[1:STEPS]


def test_accelerate_s_functions_name_the_adapter_for_a_bare_loader(make):
    for function in (skip_first_batches, prepare_data_loader):
        with pytest.raises(AttributeError, match=r"no attribute dataset; forebay.integrations .* accelerate.DataLoader"):
            function(make())


def test_metrics_are_gathered_from_every_sample(prepared):
    accelerator, loader = prepared()
    gathered = torch.cat([accelerator.gather_for_metrics(batch["x"]) for batch in loader])
    assert sorted(gathered.tolist()) == list(range(SAMPLES))


def test_a_foreign_sampler_is_an_error(prepared):
    _, loader = prepared()
    sharded = torch.utils.data.DataLoader(loader.dataset, batch_sampler=list(loader.batch_sampler)[::2], collate_fn=loader.collate_fn)
    with pytest.raises(fb.ConfigError, match="batch 2 is asked for after batch 0: a library has put a different sampler"):
        taken(sharded)
    with pytest.raises(fb.ConfigError, match="rows are delivered in batches"):
        loader.dataset[0]


def test_reading_the_sampler_takes_no_batch(prepared, order):
    _, loader = prepared()
    assert len(list(loader.sampler)) == SAMPLES
    assert taken(loader) == order[:STEPS]


@pytest.mark.parametrize("adapter", [DataLoader, forebay.integrations.torch.DataLoader])
def test_arguments_of_a_foreign_data_loader_are_refused(make, adapter):
    for name, own in {"batch_size": "batch_size", "num_workers": "threads", "shuffle": "shuffle", "pin_memory": "device", "worker_init_fn": "map"}.items():
        with pytest.raises(fb.ConfigError, match=f"DataLoader has no argument {name}, because the loader makes the batches: .*{own}"):
            adapter(make(), **{name: 1})
    with pytest.raises(fb.ConfigError, match="DataLoader has no argument sampler, .* did you mean shuffle and world"):
        adapter(make(), sampler=None)
    for other in (torch.utils.data.DataLoader([1]), "data/train", None):
        with pytest.raises(fb.ConfigError, match="DataLoader takes a forebay.Loader, such as .* but this is"):
            adapter(other)


@pytest.mark.parametrize("adapter", [DataLoader, forebay.integrations.torch.DataLoader])
def test_the_repr_has_the_loader(make, adapter):
    loader = make()
    assert repr(adapter(loader)) == f"DataLoader({loader!r})"


@pytest.mark.parametrize("adapter", [DataLoader, forebay.integrations.torch.DataLoader])
def test_an_iterator_is_ended_by_a_newer_one(make, adapter):
    loader = adapter(make())
    first, second = iter(loader), iter(loader)
    next(first)
    next(second)
    with pytest.raises(fb.ClosedError, match="make a Loader and a DataLoader for each loop, such as training and evaluation"):
        next(first)


def test_a_loader_with_several_devices_is_refused(make):
    with pytest.raises(fb.ConfigError, match="one batch per step"):
        DataLoader(make(device=["cpu"]))
