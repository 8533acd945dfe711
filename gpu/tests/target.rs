//! The target against a driver in host memory whose streams move as late as is legal.

mod fake;

use fake::{BYTES, Rig};
use forebay_gpu::{CudaDelivery, Libraries, open_delivery};
use forebay_loader::ErrorKind;
use forebay_loader::delivery::Device;
use std::path::Path;

/// What [`Rig::end`] counts when everything has been given back: the device, then ranges, blocks and events.
const NOTHING_LEFT: [i32; 4] = [1, 0, 0, 0];

#[test]
fn a_slot_returns_to_its_pool_only_after_its_copy() {
    let rig = Rig::new();
    let first = rig.place(1).expect("placed");
    assert_eq!(first.device(), Device::Cuda(0));
    assert!(first.host().is_none());
    // The slot's keeper has it and waits for the copy.
    assert_eq!(rig.call("fake_cuda_await_waiter"), 1);
    assert_eq!(rig.pool.state().free_bytes, 0);
    // A consumer that does not wait for the copy sees what was there before.
    assert_eq!(rig.read(&*first), (0xEE, 0xEE));
    rig.call("fake_cuda_run");
    let second = rig.place(2).expect("placed");
    assert_eq!(rig.read(&*first), (1, 1));
    rig.call("fake_cuda_run");
    // The slot that comes back is written over; the device keeps what it was given.
    rig.pool.take(BYTES).expect("a slot").bytes_mut().expect("all of it").fill(9);
    assert_eq!((rig.read(&*first), rig.read(&*second)), ((1, 1), (2, 2)));
    drop((first, second));
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn a_consumer_that_asked_for_order_reads_after_the_copy() {
    let rig = Rig::new();
    let batch = rig.place(7).expect("placed");
    batch.order_before(Some(1)).expect("ordered");
    assert_eq!(rig.read(&*batch), (7, 7));
    drop(batch);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn device_memory_is_used_again_only_after_its_reader() {
    let rig = Rig::new();
    let first = rig.place(1).expect("placed");
    rig.call("fake_cuda_run");
    first.order_before(None).expect("ordered");
    let address = first.address();
    // The reader's stream has the wait still queued, and then the event of the deletion.
    drop(first);
    let second = rig.place(2).expect("placed");
    assert_eq!(second.address(), address);
    // The copies could go on, the reader has not been there yet.
    rig.run_copies();
    // SAFETY: the fake's device memory is host memory that lives while the batch does, and nothing runs.
    assert_eq!(unsafe { second.address().read() }, 1);
    rig.call("fake_cuda_run");
    assert_eq!(rig.read(&*second), (2, 2));
    assert_eq!(rig.call("fake_cuda_allocated"), 1);
    drop(second);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn a_reader_on_the_per_thread_stream_is_waited_for_by_the_whole_device() {
    let rig = Rig::new();
    let first = rig.place(1).expect("placed");
    // Its number means another stream on the thread that drops the batch.
    first.order_before(Some(2)).expect("ordered");
    drop(first);
    rig.call("fake_cuda_run");
    let second = rig.place(2).expect("placed");
    second.order_before(None).expect("ordered");
    assert_eq!(rig.read(&*second), (2, 2));
    drop(second);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn a_stream_that_dlpack_does_not_allow_is_refused() {
    let rig = Rig::new();
    let batch = rig.place(1).expect("placed");
    assert_eq!(batch.order_before(Some(0)).expect_err("refused").kind(), ErrorKind::Config);
    assert_eq!(batch.order_before(Some(-2)).expect_err("refused").kind(), ErrorKind::Config);
    batch.order_before(Some(-1)).expect("the consumer's business");
    drop(batch);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn the_pool_is_registered_while_it_lives() {
    let rig = Rig::new();
    assert_eq!(rig.call("fake_cuda_registered"), 1);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn a_pool_that_cannot_be_pinned_is_copied_by_way_of_the_driver_s_memory() {
    let rig = Rig::with_fault("cuMemHostRegister_v2", 2);
    assert_eq!(rig.call("fake_cuda_registered"), 0);
    let batch = rig.place(5).expect("placed");
    batch.order_before(None).expect("ordered");
    assert_eq!(rig.read(&*batch), (5, 5));
    drop(batch);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn nothing_ends_another_thread_s_capture_of_a_graph() {
    let rig = Rig::new();
    let before = rig.call("fake_cuda_strict_calls");
    for seed in 0..3 {
        let batch = rig.place(seed).expect("placed");
        batch.order_before(None).expect("ordered");
        drop(batch);
        rig.call("fake_cuda_run");
    }
    let (left, [strict, mode]) = rig.end_and(|call| ["fake_cuda_strict_calls", "fake_cuda_capture_mode"].map(call));
    assert_eq!(left, NOTHING_LEFT);
    assert_eq!(strict, before, "calls that the driver refuses while a graph is captured");
    assert_eq!(mode, 0, "this thread stays as it was");
}

#[test]
fn a_batch_is_not_a_part_of_a_graph_that_its_consumer_captures() {
    let rig = Rig::new();
    let strict_calls = rig.call("fake_cuda_strict_calls");
    let batch = rig.place(3).expect("placed");
    batch.order_before(None).expect("ordered");
    let address = batch.address();
    rig.call("fake_cuda_run");
    rig.call("fake_cuda_capture");
    let error = batch.order_before(None).expect_err("a graph is captured there");
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("graph"), "{error}");
    // Its deleter runs whenever Python likes.
    drop(batch);
    // Slots go back meanwhile.
    let other = rig.place(5).expect("placed");
    rig.call("fake_cuda_run");
    drop(rig.pool.take(BYTES).expect("a slot"));
    assert_ne!(other.address(), address);
    assert_eq!(rig.call("fake_cuda_strict_calls"), strict_calls, "the capture was ended");
    rig.call("fake_cuda_end_capture");
    other.order_before(Some(-1)).expect("nothing to do");
    drop(other);
    // The memory comes back when the capture has ended; another batch may get other memory until then.
    let is_back = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let next = rig.place(4).expect("placed");
        next.order_before(None).expect("ordered");
        assert_eq!(rig.read(&*next), (4, 4));
        rig.call("fake_cuda_run");
        next.address() == address
    });
    assert!(is_back, "the memory is lost");
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn while_somebody_captures_a_graph_memory_waits_rather_than_being_lost() {
    let rig = Rig::new();
    rig.fail("cuCtxSynchronize", 900);
    let batch = rig.place(1).expect("placed");
    // A stream that is another one on each thread: no event tells when it has read, so the whole device is waited for.
    batch.order_before(Some(2)).expect("ordered");
    drop(batch);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn a_refusal_of_the_driver_is_the_batch_s_error() {
    let rig = Rig::new();
    for (function, code, kind) in [
        ("cuMemAlloc_v2", 2, ErrorKind::Full),
        ("cuEventCreate", 700, ErrorKind::Io),
        ("cuStreamWaitEvent", 700, ErrorKind::Io),
    ] {
        if function == "cuStreamWaitEvent" {
            // Memory with a reader, for which the copy stream has to wait.
            let read = rig.place(1).expect("placed");
            read.order_before(None).expect("ordered");
            drop(read);
            rig.call("fake_cuda_run");
        }
        rig.fail(function, code);
        let error = rig.place(1).expect_err("refused");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("device 0"), "{error}");
    }
    // Nothing was begun, so slot and device memory are all there.
    drop(rig.place(3).expect("placed"));
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn a_copy_that_no_event_follows_is_waited_for_with_its_stream() {
    let rig = Rig::new();
    rig.moving().waits_move(true);
    let before = rig.call("fake_cuda_strict_calls");
    rig.fail("cuEventRecord", 700);
    assert_eq!(rig.place(1).expect_err("refused").kind(), ErrorKind::Io);
    // The slot comes back, and only when nothing reads it any more.
    let slot = rig.pool.take(BYTES).expect("a slot");
    assert_eq!(rig.call("fake_cuda_queued"), 0);
    assert_eq!(rig.call("fake_cuda_strict_calls"), before, "a capture would have ended");
    drop(slot);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

/// This driver, and whatever else the machine has.
fn driver(library: &Path) -> Libraries {
    Libraries { driver: Some(library.into()), ..Libraries::default() }
}

#[test]
fn a_missing_driver_or_device_is_said() {
    let error = CudaDelivery::with_libraries(0, &driver(Path::new("/nowhere/libcuda.so.1"))).expect_err("no driver");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("/nowhere/libcuda.so.1"), "{error}");
    let error = CudaDelivery::with_libraries(3, &fake::libraries()).expect_err("no such device");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("no CUDA device 3, this process sees 2"), "{error}");
    assert_eq!(open_delivery("tpu", 0, &Libraries::default()).expect_err("no device").kind(), ErrorKind::Config);
    assert_eq!(open_delivery("cuda:", 0, &Libraries::default()).expect_err("no number").kind(), ErrorKind::Config);
    assert_eq!(open_delivery("cpu", 0, &Libraries::default()).expect("the host").device(), Device::Cpu);
}

#[test]
fn a_library_that_is_no_driver_or_not_the_process_s_is_said() {
    let rig = Rig::new();
    // libc has none of the driver's functions.
    let error = CudaDelivery::with_libraries(0, &driver(Path::new("libc.so.6"))).expect_err("no driver");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("libc.so.6"), "{error}");
    assert!(error.to_string().contains("cuInit"), "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    let second = folder.path().join("libcuda.so.1");
    std::fs::copy(fake::library(), &second).expect("copied");
    let error = CudaDelivery::with_libraries(0, &driver(&second)).expect_err("a second driver");
    assert!(error.to_string().contains("another CUDA driver library already"), "{error}");
    assert_eq!(rig.end(), NOTHING_LEFT);
}
