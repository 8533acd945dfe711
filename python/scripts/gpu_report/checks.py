"""Checks that batches on a device equal the host's.

Each check raises AssertionError with its findings, and returns facts for the report.
"""

import gc

from . import compare, decoding, rows, sharing
from .setting import crops, each


def copies_are_exact(setting):
    """Host-decoded pictures arrive without changes."""
    comparison, _ = compare.against_host(setting, setting.needs("few"))
    return comparison.hold()


def kept_batches_stay_as_they_are(setting):
    """Kept batches are not overwritten by later ones."""
    framework, side = setting.framework, setting.scale.side
    with setting.on_device(setting.needs("few").folder, fields=crops(side), engine={"device_decode": True}) as batches:
        kept = [(batch, hash(framework.array(batch["x"]).tobytes())) for batch in each(batches)]
        changed = [number for number, (batch, digest) in enumerate(kept) if hash(framework.array(batch["x"]).tobytes()) != digest]
        assert not changed, f"batches changed after delivery: {changed}"
        count = len(kept)
        del kept
    gc.collect()
    return {"batches": count}


def a_state_resumes(setting):
    """A loader resumes the state of a different loader."""
    framework, folder = setting.framework, setting.needs("few").folder
    kwargs = {"fields": crops(setting.scale.side), "engine": {"device_decode": True}}
    with setting.on_device(folder, **kwargs) as batches:
        labels, state = [], None
        for batch in each(batches):
            labels.append(framework.array(batch["y"]).tolist())
            state = state or batches.state_dict()
            del batch
    with setting.on_device(folder, **kwargs) as batches:
        batches.load_state_dict(state)
        rest = [framework.array(batch["y"]).tolist() for batch in each(batches)]
    assert rest and rest == labels[1:], f"different samples after resuming: {rest[:1]} instead of {labels[1:2]}"
    return {"batches": len(rest)}


CHECKS = (
    copies_are_exact,
    decoding.device_decode_agrees,
    decoding.device_decode_agrees_in_large_batches,
    decoding.odd_files_are_as_on_the_host,
    decoding.damaged_files_leave_the_rest_as_they_are,
    decoding.crops_agree_in_every_type_and_layout,
    decoding.whole_pictures_agree_in_every_type_and_layout,
    decoding.shared_decoding_agrees,
    decoding.device_decode_repeats_itself,
    rows.rows_from_disk_are_exact,
    kept_batches_stay_as_they_are,
    a_state_resumes,
    sharing.capsules_old_and_new_are_taken,
    sharing.a_stream_of_the_consumer_s_own_reads_its_batches,
    sharing.batches_are_dropped_while_a_graph_is_captured,
    sharing.cupy_sees_the_same_memory,
    sharing.jax_sees_the_same_memory,
)
