//! Rows that are copied from the read slots of their samples.

use super::rig::*;
use crate::fake::{self, BYTES, Rig};
use crate::{NO_LEAKS, add_pictures};
use forebay_loader::config::EngineConfig;
use forebay_loader::delivery::{Delivery, OutputLayout, PartialBatch, TensorMemory};
use forebay_loader::memory::{Piece, ReadLease, ReadPool, ReadPoolConfig};
use forebay_loader::{LoaderConfig, Next};
use std::sync::Arc;

/// Columns `a` and `c` are long enough for a direct copy; `b` is not.
const LONG: Columns<'_> =
    &[("a", "ndarray:uint8:300,230"), ("b", "ndarray:uint16:50,41"), ("c", "ndarray:int32:17001"), ("n", "int")];

fn long() -> tempfile::TempDir {
    let folder = folder();
    write(&folder.path().join("data"), LONG, SAMPLES, 1 << 20);
    folder
}

fn without_cufile(mut config: LoaderConfig) -> LoaderConfig {
    config.engine.gpu_direct_storage = false;
    config
}

fn plain_rig() -> Rig {
    let rig = Rig::with_libraries(1, &fake::libraries(), "", 0);
    rig.wait_mode().advance(true);
    rig
}

#[test]
fn rows_from_disk_and_from_memory_are_bit_identical_to_the_host_s() {
    for all in [true, false] {
        let rig = plain_rig();
        let data = long();
        let config = without_cufile(config(&data));
        let (host, device) = (on_host(&config), on_device(&config, &rig));
        host.start_epoch().expect("an epoch");
        let expected: Vec<_> = std::iter::from_fn(|| next(&host)).collect();
        evict(&data, |number| all || number.is_multiple_of(2));
        device.start_epoch().expect("an epoch");
        for expected in expected {
            let batch = next(&device).expect("as many batches");
            assert!(host_bytes(&expected) == device_bytes(&rig, &batch));
        }
        if was_evicted(&device) {
            let copied = counter(&device, "rows_copied_early");
            assert!(copied > 0 && copied.is_multiple_of(2) && copied <= 2 * SAMPLES, "{copied}");
            assert!(all || copied < 2 * SAMPLES, "half of the shards are in memory");
        }
        drop((host, device));
        assert_eq!(rig.end(), NO_LEAKS);
    }
}

#[test]
fn rows_that_cufile_rejects_are_copied() {
    for nth in [2, EVERY] {
        let (rig, cufile) = rig();
        let data = long();
        let config = config(&data);
        let (host, device) = (on_host(&config), on_device(&config, &rig));
        host.start_epoch().expect("an epoch");
        let expected: Vec<_> = std::iter::from_fn(|| next(&host)).collect();
        evict(&data, |_| true);
        cufile.fail("cuFileHandleRegister", nth, IO_NOT_SUPPORTED);
        device.start_epoch().expect("an epoch");
        for expected in expected {
            let batch = next(&device).expect("as many batches");
            assert!(host_bytes(&expected) == device_bytes(&rig, &batch));
        }
        let [read, rejected, _] = counters(&device);
        assert_eq!((read > 0, rejected > 0), (nth != EVERY, true));
        if nth == EVERY && was_evicted(&device) {
            assert!(counter(&device, "rows_copied_early") > 0);
        }
        end(rig, &cufile, device);
    }
}

#[test]
fn decoding_on_the_device_waits_for_copied_rows() {
    let columns: Columns<'_> = &[("image", "jpeg"), ("latent", "ndarray:float32:17001")];
    let rig = plain_rig();
    // SAFETY: no initialisers.
    let nvjpeg = unsafe { libloading::Library::new(fake::nvjpeg()) }.expect("loads");
    add_pictures(&nvjpeg);
    let data = folder();
    write(&data.path().join("data"), columns, SAMPLES, 1 << 20);
    let ops = serde_json::json!([{"op": "random_resized_crop", "size": [24, 24]}]);
    let fields = serde_json::json!([
        ["x", {"kind": "image", "column": "image", "ops": ops}], ["latent", {"kind": "array", "column": "latent"}]]);
    let fields = Some(serde_json::from_value(fields).expect("fields"));
    let engine = EngineConfig { device_decode: true, ..engine() };
    let config = without_cufile(LoaderConfig { fields, engine, ..config(&data) });
    let (host, device) = (on_host(&config), on_device(&config, &rig));
    host.start_epoch().expect("an epoch");
    let expected: Vec<_> = std::iter::from_fn(|| next(&host)).collect();
    device.start_epoch().expect("an epoch");
    // The decoder is open by then.
    let first = next(&device).expect("a batch");
    drop(first);
    drop(device);
    let device = on_device(&config, &rig);
    evict(&data, |_| true);
    device.start_epoch().expect("an epoch");
    rig.wait_mode().minimal(|| {
        for expected in expected {
            let batch = next(&device).expect("as many batches");
            for (expected, got) in host_bytes(&expected).iter().zip(device_bytes(&rig, &batch)) {
                // Grey levels may differ by one.
                let worst = expected.1.iter().zip(&got.1).map(|(a, b)| a.abs_diff(*b)).max();
                assert!(worst <= Some(u8::from(got.0 == "x")), "{} differs by {worst:?}", got.0);
            }
        }
    });
    if was_evicted(&device) {
        assert!(counter(&device, "rows_copied_early") > 0);
    }
    drop(device);
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn without_device_memory_for_direct_rows_batches_are_copied_whole() {
    let rig = plain_rig();
    let data = long();
    // With more threads, a second one may start the next batch before it is known that there is no memory.
    let config = LoaderConfig { threads: Some(1), ..without_cufile(config(&data)) };
    let (host, device) = (on_host(&config), on_device(&config, &rig));
    evict(&data, |_| true);
    host.start_epoch().expect("an epoch");
    let expected: Vec<_> = std::iter::from_fn(|| next(&host)).collect();
    evict(&data, |_| true);
    // Without reads from disk, the first allocation is for a whole batch.
    if was_evicted(&host) {
        rig.fail("cuMemAlloc_v2", 2);
    }
    device.start_epoch().expect("an epoch");
    for expected in expected {
        let batch = next(&device).expect("as many batches");
        assert!(host_bytes(&expected) == device_bytes(&rig, &batch));
    }
    if was_evicted(&device) {
        assert_eq!(counter(&device, "rows_copied_early"), 0);
        let notes = device.stats().expect("figures").notes;
        assert!(notes.iter().any(|note| note.starts_with("rows are copied by the host")), "{notes:?}");
    }
    drop((host, device));
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn closing_a_loader_releases_rows_in_flight() {
    let rig = plain_rig();
    let data = long();
    let device = on_device(&without_cufile(config(&data)), &rig);
    evict(&data, |_| true);
    device.start_epoch().expect("an epoch");
    assert!(matches!(device.next().expect("a batch"), Next::Batch(_)));
    device.close().expect("closed");
    drop(device);
    assert_eq!(rig.end(), NO_LEAKS);
}

/// Pool with slots for two samples of a batch's length.
fn reads(rig: &Rig) -> ReadPool {
    let config = ReadPoolConfig { bytes: 2 * (BYTES + 8192), populate: false, ..ReadPoolConfig::default() };
    ReadPool::new(&config, rig.delivery.registrar()).expect("a pool")
}

/// Waits for a slot, which the release thread may still have.
fn lease(reads: &ReadPool, bytes: usize) -> ReadLease {
    loop {
        match reads.try_lease(bytes).expect("memory") {
            Some(lease) => return lease,
            None => std::thread::yield_now(),
        }
    }
}

/// Delivers a batch of two rows, the first with `value` from a read slot, the second with `value + 1` from the batch
/// slot.
fn deliver_half(rig: &Rig, reads: &ReadPool, value: u8) -> Arc<dyn TensorMemory> {
    let direct_rows = rig.delivery.direct_rows().expect("a device");
    let rows = direct_rows.allocate(BYTES, false).expect("memory").expect("unused");
    let mut sample = lease(reads, BYTES / 2 + 16);
    sample.bytes_mut().fill(value);
    rows.copy(sample, &[(16..BYTES / 2 + 16, 0)]).expect("started");
    let mut slot = rig.pool.take(BYTES).expect("a slot");
    slot.bytes_mut().expect("all of it").fill(value + 1);
    let outputs = [OutputLayout { offset: 0, row_bytes: BYTES / 2, form: None }];
    let decoded = rows.finish(2, &[(0, 0)]).expect("filled");
    decoded.deliver(PartialBatch { slot, outputs: &outputs, rows: &[0, 1] }).expect("delivered")
}

#[test]
fn a_read_slot_returns_to_its_pool_only_after_its_copy() {
    let rig = Rig::new();
    let reads = reads(&rig);
    let batch = deliver_half(&rig, &reads, 1);
    assert_eq!(rig.call("fake_cuda_await_waiter"), 1);
    let free = |reads: &ReadPool| reads.free_bytes() == reads.pieces().iter().map(Piece::len).sum::<usize>();
    assert!(!free(&reads), "the slot was released before it was read");
    rig.call("fake_cuda_run");
    // The slot is released and overwritten.
    lease(&reads, BYTES / 2).bytes_mut().fill(9);
    batch.order_before(None).expect("ordered");
    assert_eq!(rig.read(&*batch), (1, 2));
    drop((batch, reads));
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn a_read_slot_does_not_wait_for_a_consumer() {
    let rig = Rig::new();
    let reads = reads(&rig);
    let first = rig.deliver(1).expect("delivered");
    rig.call("fake_cuda_run");
    first.order_before(None).expect("ordered");
    drop(first);
    // Its memory has a reader that does not advance. This copy and its release thread wait for it.
    let second = rig.deliver(2).expect("delivered");
    let direct_rows = rig.delivery.direct_rows().expect("a device");
    let rows = direct_rows.allocate(BYTES, false).expect("an answer").expect("its own memory");
    rows.copy(lease(&reads, BYTES), &[(0..BYTES, 0)]).expect("started");
    rig.run_copies();
    let is_back = || reads.free_bytes() == reads.pieces().iter().map(Piece::len).sum::<usize>();
    let last = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !is_back() && std::time::Instant::now() < last {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(is_back(), "the slot waits for a reader of different memory");
    rig.call("fake_cuda_run");
    drop((second, rows, reads));
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn memory_released_during_an_allocation_is_not_used_as_idle() {
    let rig = Rig::with_slots(2, "", 0);
    let direct_rows = rig.delivery.direct_rows().expect("a device");
    for _ in 0..300 {
        let batch = rig.deliver(1).expect("delivered");
        rig.call("fake_cuda_run");
        batch.order_before(None).expect("ordered");
        let address = batch.address() as usize;
        // The reader is queued while a second thread takes memory.
        let rows = std::thread::scope(|scope| {
            scope.spawn(move || drop(batch));
            direct_rows.allocate(BYTES, false).expect("an answer")
        });
        if let Some(rows) = rows {
            let decoded = rows.finish(0, &[]).expect("filled");
            let mut slot = rig.pool.take(BYTES).expect("a slot");
            slot.bytes_mut().expect("all of it");
            let delivered = decoded.deliver(PartialBatch { slot, outputs: &[], rows: &[] }).expect("delivered");
            assert_ne!(delivered.address() as usize, address, "its reader has not been reached");
        }
        rig.call("fake_cuda_run");
    }
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn memory_that_may_still_be_read_is_not_used_for_direct_rows() {
    let rig = Rig::new();
    let reads = reads(&rig);
    let batch = rig.deliver(1).expect("delivered");
    rig.call("fake_cuda_run");
    batch.order_before(None).expect("ordered");
    // Its reader is queued.
    drop(batch);
    let direct_rows = rig.delivery.direct_rows().expect("a device");
    assert!(direct_rows.allocate(BYTES, false).expect("an answer").is_none());
    rig.call("fake_cuda_run");
    let batch = deliver_half(&rig, &reads, 5);
    assert_eq!(rig.call("fake_cuda_allocated"), 1, "the same memory");
    batch.order_before(None).expect("ordered");
    assert_eq!(rig.read(&*batch), (5, 6));
    rig.call("fake_cuda_run");
    drop((batch, reads));
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn memory_of_an_abandoned_batch_is_reused_after_its_copies() {
    let rig = Rig::new();
    let reads = reads(&rig);
    let direct_rows = rig.delivery.direct_rows().expect("a device");
    for is_filled in [false, true] {
        let rows = direct_rows.allocate(BYTES, true).expect("memory").expect("waited for");
        let mut sample = lease(&reads, BYTES);
        sample.bytes_mut().fill(1);
        rows.copy(sample, &[(0..BYTES, 0)]).expect("started");
        let decoded = is_filled.then(|| rows.finish(1, &[(0, 0)]).expect("filled"));
        drop((rows, decoded));
        assert!(
            direct_rows.allocate(BYTES, false).expect("an answer").is_none(),
            "the block is idle although its copy is queued"
        );
        rig.call("fake_cuda_run");
    }
    drop(reads);
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn a_failed_copy_is_the_batch_s_error_and_keeps_its_slot() {
    let rig = plain_rig();
    let reads = reads(&rig);
    let direct_rows = rig.delivery.direct_rows().expect("a device");
    // In this order, since the wait after a failed copy also records events.
    for function in ["cuEventRecord", "cuMemcpyHtoDAsync_v2"] {
        let rows = direct_rows.allocate(BYTES, true).expect("memory").expect("waited for");
        rig.fail(function, 719);
        rows.copy(lease(&reads, BYTES), &[(0..BYTES, 0)]).expect_err("an error");
        rows.finish(1, &[]).expect_err("a batch with unknown rows");
    }
    // The slot is released after a wait for the device.
    drop(lease(&reads, BYTES));
    drop(reads);
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn a_row_beyond_its_sample_or_its_batch_is_an_error() {
    let rig = plain_rig();
    let reads = reads(&rig);
    let direct_rows = rig.delivery.direct_rows().expect("a device");
    for (from, at) in [(1..BYTES + 1, 0), (0..BYTES, 1 << 40), (0..BYTES, usize::MAX)] {
        let rows = direct_rows.allocate(BYTES, true).expect("memory").expect("waited for");
        rows.copy(lease(&reads, BYTES), &[(from, at)]).expect_err("no such memory");
    }
    drop(reads);
    assert_eq!(rig.end(), NO_LEAKS);
}
