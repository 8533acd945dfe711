//! Rows that are copied from the slots that their samples were read to.

use super::rig::*;
use crate::fake::{self, BYTES, Rig};
use crate::{NOTHING_LEFT, tell_of_pictures};
use forebay_loader::delivery::{Delivery, OutputLayout, PartialBatch, TensorMemory};
use forebay_loader::memory::{ReadPool, ReadPoolConfig};
use forebay_loader::{LoaderConfig, Next};
use std::sync::Arc;

/// Long enough to be copied so; `b` is not.
const LONG: Columns<'_> =
    &[("a", "ndarray:uint8:300,230"), ("b", "ndarray:uint16:50,41"), ("c", "ndarray:int32:17001"), ("n", "int")];

fn long() -> tempfile::TempDir {
    let folder = folder();
    write(&folder.path().join("data"), LONG, SAMPLES, 1 << 20);
    folder
}

fn without_cufile(config: LoaderConfig) -> LoaderConfig {
    LoaderConfig { gpu_direct_storage: false, ..config }
}

fn plain_rig() -> Rig {
    let rig = Rig::with_libraries(1, &fake::libraries(), "", 0);
    rig.moving().waits_move(true);
    rig
}

#[test]
fn rows_from_disk_are_the_host_s_to_the_bit_beside_rows_from_memory() {
    for all in [true, false] {
        let rig = plain_rig();
        let data = long();
        let config = without_cufile(config(&data));
        let (host, device) = (on_host(&config), on_device(&config, &rig));
        host.start_epoch().expect("an epoch");
        let expected: Vec<_> = std::iter::from_fn(|| next(&host)).collect();
        forget(&data, |number| all || number.is_multiple_of(2));
        device.start_epoch().expect("an epoch");
        for expected in expected {
            let batch = next(&device).expect("as many batches");
            assert!(host_bytes(&expected) == device_bytes(&rig, &batch));
        }
        if was_forgotten(&device) {
            let copied = counter(&device, "rows_copied_early");
            assert!(copied > 0 && copied.is_multiple_of(2) && copied <= 2 * SAMPLES, "{copied}");
            assert!(all || copied < 2 * SAMPLES, "half of the shards are in memory");
        }
        drop((host, device));
        assert_eq!(rig.end(), NOTHING_LEFT);
    }
}

#[test]
fn rows_that_cufile_refuses_are_copied_so() {
    for nth in [2, EVERY] {
        let (rig, cufile) = rig();
        let data = long();
        let config = config(&data);
        let (host, device) = (on_host(&config), on_device(&config, &rig));
        host.start_epoch().expect("an epoch");
        let expected: Vec<_> = std::iter::from_fn(|| next(&host)).collect();
        forget(&data, |_| true);
        cufile.fail("cuFileHandleRegister", nth, IO_NOT_SUPPORTED);
        device.start_epoch().expect("an epoch");
        for expected in expected {
            let batch = next(&device).expect("as many batches");
            assert!(host_bytes(&expected) == device_bytes(&rig, &batch));
        }
        let [read, refused, _] = counters(&device);
        assert_eq!((read > 0, refused > 0), (nth != EVERY, true));
        if nth == EVERY && was_forgotten(&device) {
            assert!(counter(&device, "rows_copied_early") > 0);
        }
        end(rig, &cufile, device);
    }
}

#[test]
fn what_the_device_decodes_waits_for_rows_that_were_copied_so() {
    let columns: Columns<'_> = &[("image", "jpeg"), ("latent", "ndarray:float32:17001")];
    let rig = plain_rig();
    // SAFETY: no initialisers.
    let nvjpeg = unsafe { libloading::Library::new(fake::nvjpeg()) }.expect("loads");
    tell_of_pictures(&nvjpeg);
    let data = folder();
    write(&data.path().join("data"), columns, SAMPLES, 1 << 20);
    let ops = serde_json::json!([{"op": "random_resized_crop", "size": [24, 24]}]);
    let fields = serde_json::json!([
        ["x", {"kind": "image", "column": "image", "ops": ops}], ["latent", {"kind": "array", "column": "latent"}]]);
    let fields = Some(serde_json::from_value(fields).expect("fields"));
    let config = without_cufile(LoaderConfig { fields, device_decode: true, ..config(&data) });
    let (host, device) = (on_host(&config), on_device(&config, &rig));
    host.start_epoch().expect("an epoch");
    let expected: Vec<_> = std::iter::from_fn(|| next(&host)).collect();
    device.start_epoch().expect("an epoch");
    // The opening of the decoder is over.
    let first = next(&device).expect("a batch");
    drop(first);
    drop(device);
    let device = on_device(&config, &rig);
    forget(&data, |_| true);
    device.start_epoch().expect("an epoch");
    rig.moving().little(|| {
        for expected in expected {
            let batch = next(&device).expect("as many batches");
            for (expected, got) in host_bytes(&expected).iter().zip(device_bytes(&rig, &batch)) {
                // Grey levels may differ by one.
                let worst = expected.1.iter().zip(&got.1).map(|(a, b)| a.abs_diff(*b)).max();
                assert!(worst <= Some(u8::from(got.0 == "x")), "{} differs by {worst:?}", got.0);
            }
        }
    });
    if was_forgotten(&device) {
        assert!(counter(&device, "rows_copied_early") > 0);
    }
    drop(device);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn a_device_without_memory_for_more_batches_gets_them_whole() {
    let rig = plain_rig();
    let data = long();
    // Another thread may begin the next batch before it is known that there is no memory.
    let config = LoaderConfig { threads: Some(1), ..without_cufile(config(&data)) };
    let (host, device) = (on_host(&config), on_device(&config, &rig));
    forget(&data, |_| true);
    host.start_epoch().expect("an epoch");
    let expected: Vec<_> = std::iter::from_fn(|| next(&host)).collect();
    forget(&data, |_| true);
    // Otherwise the first memory that is asked for is that of a whole batch.
    if was_forgotten(&host) {
        rig.fail("cuMemAlloc_v2", 2);
    }
    device.start_epoch().expect("an epoch");
    for expected in expected {
        let batch = next(&device).expect("as many batches");
        assert!(host_bytes(&expected) == device_bytes(&rig, &batch));
    }
    if was_forgotten(&device) {
        assert_eq!(counter(&device, "rows_copied_early"), 0);
        let notes = device.stats().expect("figures").notes;
        assert!(notes.iter().any(|note| note.starts_with("rows are copied by the host")), "{notes:?}");
    }
    drop((host, device));
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn a_loader_that_is_closed_lets_go_of_rows_under_way() {
    let rig = plain_rig();
    let data = long();
    let device = on_device(&without_cufile(config(&data)), &rig);
    forget(&data, |_| true);
    device.start_epoch().expect("an epoch");
    assert!(matches!(device.next().expect("a batch"), Next::Batch(_)));
    device.close().expect("closed");
    drop(device);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

/// Slots for two samples of a batch's length.
fn reads(rig: &Rig) -> ReadPool {
    let config = ReadPoolConfig { bytes: 2 * (BYTES + 8192), populate: false, ..ReadPoolConfig::default() };
    ReadPool::with_registrar(&config, rig.target.registrar()).expect("a pool")
}

/// A batch of two rows, the first of which is `value` from a read slot and the other `value + 1` from the batch slot.
fn place_half(rig: &Rig, reads: &ReadPool, value: u8) -> Arc<dyn TensorMemory> {
    let early = rig.target.direct_rows().expect("a device");
    let rows = early.allocate(BYTES, false).expect("memory").expect("unused");
    let mut sample = reads.lease(BYTES / 2 + 16).expect("a slot");
    sample.bytes_mut().fill(value);
    rows.copy(sample, &[(16..BYTES / 2 + 16, 0)]).expect("started");
    let mut slot = rig.pool.take(BYTES).expect("a slot");
    slot.bytes_mut().expect("all of it").fill(value + 1);
    let outputs = [OutputLayout { offset: 0, row_bytes: BYTES / 2, form: None }];
    let decoded = rows.finish(2, &[(0, 0)]).expect("filled");
    early.deliver(PartialBatch { slot, outputs: &outputs, rows: &[0, 1], on_device: decoded }).expect("placed")
}

#[test]
fn a_read_slot_returns_to_its_pool_only_after_its_copy() {
    let rig = Rig::new();
    let reads = reads(&rig);
    let batch = place_half(&rig, &reads, 1);
    assert_eq!(rig.call("fake_cuda_await_waiter"), 1);
    let free = |reads: &ReadPool| reads.state().free_bytes == reads.state().total_bytes;
    assert!(!free(&reads), "the slot came back before it was read");
    rig.call("fake_cuda_run");
    // It comes back, and is written over.
    reads.lease(BYTES / 2).expect("a slot").bytes_mut().fill(9);
    batch.order_before(None).expect("ordered");
    assert_eq!(rig.read(&*batch), (1, 2));
    drop((batch, reads));
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn a_read_slot_does_not_wait_for_a_consumer() {
    let rig = Rig::new();
    let reads = reads(&rig);
    let first = rig.place(1).expect("placed");
    rig.call("fake_cuda_run");
    first.order_before(None).expect("ordered");
    drop(first);
    // Its memory has a reader that does not move, for whom this copy and its keeper wait.
    let second = rig.place(2).expect("placed");
    let early = rig.target.direct_rows().expect("a device");
    let rows = early.allocate(BYTES, false).expect("asked").expect("memory of its own");
    rows.copy(reads.lease(BYTES).expect("a slot"), &[(0..BYTES, 0)]).expect("started");
    rig.run_copies();
    let is_back = || reads.state().free_bytes == reads.state().total_bytes;
    let last = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !is_back() && std::time::Instant::now() < last {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(is_back(), "the slot waits for a reader of other memory");
    rig.call("fake_cuda_run");
    drop((second, rows, reads));
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn memory_that_comes_back_meanwhile_is_not_taken_for_unused() {
    let rig = Rig::with_slots(2, "", 0);
    let early = rig.target.direct_rows().expect("a device");
    for _ in 0..300 {
        let batch = rig.place(1).expect("placed");
        rig.call("fake_cuda_run");
        batch.order_before(None).expect("ordered");
        let address = batch.address() as usize;
        // Its reader is queued while another thread asks for memory.
        let rows = std::thread::scope(|scope| {
            scope.spawn(move || drop(batch));
            early.allocate(BYTES, false).expect("asked")
        });
        if let Some(rows) = rows {
            let decoded = rows.finish(0, &[]).expect("filled");
            let mut slot = rig.pool.take(BYTES).expect("a slot");
            slot.bytes_mut().expect("all of it");
            let placed =
                early.deliver(PartialBatch { slot, outputs: &[], rows: &[], on_device: decoded }).expect("placed");
            assert_ne!(placed.address() as usize, address, "its reader has not been there yet");
        }
        rig.call("fake_cuda_run");
    }
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn memory_that_may_still_be_read_takes_no_rows() {
    let rig = Rig::new();
    let reads = reads(&rig);
    let batch = rig.place(1).expect("placed");
    rig.call("fake_cuda_run");
    batch.order_before(None).expect("ordered");
    // Its reader is queued.
    drop(batch);
    let early = rig.target.direct_rows().expect("a device");
    assert!(early.allocate(BYTES, false).expect("asked").is_none());
    rig.call("fake_cuda_run");
    let batch = place_half(&rig, &reads, 5);
    assert_eq!(rig.call("fake_cuda_allocated"), 1, "the same memory");
    batch.order_before(None).expect("ordered");
    assert_eq!(rig.read(&*batch), (5, 6));
    rig.call("fake_cuda_run");
    drop((batch, reads));
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn memory_of_a_batch_that_is_given_up_is_written_after_its_copies() {
    let rig = Rig::new();
    let reads = reads(&rig);
    let early = rig.target.direct_rows().expect("a device");
    for is_filled in [false, true] {
        let rows = early.allocate(BYTES, true).expect("memory").expect("waited for");
        let mut sample = reads.lease(BYTES).expect("a slot");
        sample.bytes_mut().fill(1);
        rows.copy(sample, &[(0..BYTES, 0)]).expect("started");
        let decoded = is_filled.then(|| rows.finish(1, &[(0, 0)]).expect("filled"));
        drop((rows, decoded));
        assert!(early.allocate(BYTES, false).expect("asked").is_none(), "the copy is under way");
        rig.call("fake_cuda_run");
    }
    drop(reads);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn a_copy_that_the_driver_refuses_is_the_batch_s_error_and_keeps_its_slot() {
    let rig = plain_rig();
    let reads = reads(&rig);
    let early = rig.target.direct_rows().expect("a device");
    // In this order: whoever waits for what the driver has refused first records events, too.
    for function in ["cuEventRecord", "cuMemcpyHtoDAsync_v2"] {
        let rows = early.allocate(BYTES, true).expect("memory").expect("waited for");
        rig.fail(function, 719);
        rows.copy(reads.lease(BYTES).expect("a slot"), &[(0..BYTES, 0)]).expect_err("refused");
        rows.finish(1, &[]).expect_err("a batch with rows that nobody knows of");
    }
    // It comes back when the device has been waited for.
    drop(reads.lease(BYTES).expect("a slot"));
    drop(reads);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn a_row_behind_its_sample_or_its_batch_is_an_error() {
    let rig = plain_rig();
    let reads = reads(&rig);
    let early = rig.target.direct_rows().expect("a device");
    for (from, at) in [(1..BYTES + 1, 0), (0..BYTES, 1 << 40), (0..BYTES, usize::MAX)] {
        let rows = early.allocate(BYTES, true).expect("memory").expect("waited for");
        rows.copy(reads.lease(BYTES).expect("a slot"), &[(from, at)]).expect_err("no such place");
    }
    drop(reads);
    assert_eq!(rig.end(), NOTHING_LEFT);
}
