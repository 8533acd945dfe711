//! The delivery on a fake driver with streams that advance as late as is legal.

mod fake;

use fake::{BYTES, Rig};
use forebay_gpu::{CudaDelivery, Libraries, open_delivery};
use forebay_loader::ErrorKind;
use forebay_loader::delivery::Device;
use std::path::Path;

/// Result of [`Rig::end`] when everything was released: the context (1 for yes), then counts of ranges, blocks and
/// events.
const NO_LEAKS: [i32; 4] = [1, 0, 0, 0];

#[test]
fn a_slot_returns_to_its_pool_only_after_its_copy() {
    let rig = Rig::new();
    let first = rig.deliver(1).expect("delivered");
    assert_eq!(first.device(), Device::Cuda(0));
    assert!(first.host().is_none());
    // The release thread holds the slot and waits for the copy.
    assert_eq!(rig.call("fake_cuda_await_waiter"), 1);
    assert_eq!(rig.pool.free_bytes(), 0);
    // A consumer that does not wait for the copy reads the former contents.
    assert_eq!(rig.read(&*first), (0xEE, 0xEE));
    rig.call("fake_cuda_run");
    let second = rig.deliver(2).expect("delivered");
    assert_eq!(rig.read(&*first), (1, 1));
    rig.call("fake_cuda_run");
    // The released slot is overwritten, and the batch is unchanged.
    rig.pool.take(BYTES).expect("a slot").bytes_mut().expect("all of it").fill(9);
    assert_eq!((rig.read(&*first), rig.read(&*second)), ((1, 1), (2, 2)));
    drop((first, second));
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn a_consumer_s_ordered_read_comes_after_the_copy() {
    let rig = Rig::new();
    let batch = rig.deliver(7).expect("delivered");
    batch.order_before(Some(1)).expect("ordered");
    assert_eq!(rig.read(&*batch), (7, 7));
    drop(batch);
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn device_memory_is_reused_only_after_its_reader() {
    let rig = Rig::new();
    let first = rig.deliver(1).expect("delivered");
    rig.call("fake_cuda_run");
    first.order_before(None).expect("ordered");
    let address = first.address();
    // The reader's stream still has the wait in its queue, and then the event recorded by the drop.
    drop(first);
    let second = rig.deliver(2).expect("delivered");
    assert_eq!(second.address(), address);
    // The copies could advance, but the reader has not been reached.
    rig.run_copies();
    // SAFETY: the fake's device memory is host memory that lives as long as the batch, and no stream is advancing.
    assert_eq!(unsafe { second.address().read() }, 1);
    rig.call("fake_cuda_run");
    assert_eq!(rig.read(&*second), (2, 2));
    assert_eq!(rig.call("fake_cuda_allocated"), 1);
    drop(second);
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn memory_read_on_the_per_thread_stream_is_released_after_a_wait_for_the_device() {
    let rig = Rig::new();
    let first = rig.deliver(1).expect("delivered");
    // On the thread that drops the batch this number is a different stream.
    first.order_before(Some(2)).expect("ordered");
    drop(first);
    rig.call("fake_cuda_run");
    let second = rig.deliver(2).expect("delivered");
    second.order_before(None).expect("ordered");
    assert_eq!(rig.read(&*second), (2, 2));
    drop(second);
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn a_stream_number_that_dlpack_does_not_allow_is_an_error() {
    let rig = Rig::new();
    let batch = rig.deliver(1).expect("delivered");
    assert_eq!(batch.order_before(Some(0)).expect_err("an error").kind(), ErrorKind::Config);
    assert_eq!(batch.order_before(Some(-2)).expect_err("an error").kind(), ErrorKind::Config);
    batch.order_before(Some(-1)).expect("the consumer's business");
    drop(batch);
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn the_pool_is_registered_while_it_lives() {
    let rig = Rig::new();
    assert_eq!(rig.call("fake_cuda_registered"), 1);
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn a_pool_that_cannot_be_pinned_works_through_the_driver_s_memory() {
    let rig = Rig::with_fault("cuMemHostRegister_v2", 2);
    assert_eq!(rig.call("fake_cuda_registered"), 0);
    let batch = rig.deliver(5).expect("delivered");
    batch.order_before(None).expect("ordered");
    assert_eq!(rig.read(&*batch), (5, 5));
    drop(batch);
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn no_call_ends_another_thread_s_capture_of_a_graph() {
    let rig = Rig::new();
    let before = rig.call("fake_cuda_strict_calls");
    for seed in 0..3 {
        let batch = rig.deliver(seed).expect("delivered");
        batch.order_before(None).expect("ordered");
        drop(batch);
        rig.call("fake_cuda_run");
    }
    let (leaks, [strict, mode]) = rig.end_and(|call| ["fake_cuda_strict_calls", "fake_cuda_capture_mode"].map(call));
    assert_eq!(leaks, NO_LEAKS);
    assert_eq!(strict, before, "calls that are not allowed while a graph is captured");
    assert_eq!(mode, 0, "the mode of this thread has changed");
}

#[test]
fn a_batch_does_not_become_part_of_a_graph_that_its_consumer_captures() {
    let rig = Rig::new();
    let strict_calls = rig.call("fake_cuda_strict_calls");
    let batch = rig.deliver(3).expect("delivered");
    batch.order_before(None).expect("ordered");
    let address = batch.address();
    rig.call("fake_cuda_run");
    rig.call("fake_cuda_capture");
    let error = batch.order_before(None).expect_err("a graph is captured there");
    assert!(error.kind() == ErrorKind::Config && error.to_string().contains("graph"), "{error}");
    // In Python, the deleter may run at any time.
    drop(batch);
    // Slots are released meanwhile.
    let other = rig.deliver(5).expect("delivered");
    rig.call("fake_cuda_run");
    drop(rig.pool.take(BYTES).expect("a slot"));
    assert_ne!(other.address(), address);
    assert_eq!(rig.call("fake_cuda_strict_calls"), strict_calls, "the capture was ended");
    rig.call("fake_cuda_end_capture");
    other.order_before(Some(-1)).expect("no ordering");
    drop(other);
    // The memory is released after the end of the capture; until then a second batch may get new memory.
    let is_released = (0..1000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        let next = rig.deliver(4).expect("delivered");
        next.order_before(None).expect("ordered");
        assert_eq!(rig.read(&*next), (4, 4));
        rig.call("fake_cuda_run");
        next.address() == address
    });
    assert!(is_released, "the memory is lost");
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn memory_is_not_lost_while_a_graph_is_captured() {
    let rig = Rig::new();
    rig.fail("cuCtxSynchronize", 900);
    let batch = rig.deliver(1).expect("delivered");
    // On each thread this is a different stream, so no event can mark the end of its reads, and the release waits for
    // the whole device.
    batch.order_before(Some(2)).expect("ordered");
    drop(batch);
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn an_error_of_the_driver_is_the_batch_s_error() {
    let rig = Rig::new();
    for (function, code, kind) in [
        ("cuMemAlloc_v2", 2, ErrorKind::Full),
        ("cuEventCreate", 700, ErrorKind::Io),
        ("cuStreamWaitEvent", 700, ErrorKind::Io),
    ] {
        if function == "cuStreamWaitEvent" {
            // Memory with a reader, for which the copy stream must wait.
            let read = rig.deliver(1).expect("delivered");
            read.order_before(None).expect("ordered");
            drop(read);
            rig.call("fake_cuda_run");
        }
        rig.fail(function, code);
        let error = rig.deliver(1).expect_err("an error");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("device 0"), "{error}");
    }
    // Nothing was started, so slot and device memory are available.
    drop(rig.deliver(3).expect("delivered"));
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn a_copy_without_an_event_is_waited_for_with_its_stream() {
    let rig = Rig::new();
    rig.wait_mode().advance(true);
    let before = rig.call("fake_cuda_strict_calls");
    rig.fail("cuEventRecord", 700);
    assert_eq!(rig.deliver(1).expect_err("an error").kind(), ErrorKind::Io);
    // The slot is released, and only after nothing reads it any more.
    let slot = rig.pool.take(BYTES).expect("a slot");
    assert_eq!(rig.call("fake_cuda_queued"), 0);
    assert_eq!(rig.call("fake_cuda_strict_calls"), before, "a capture would have ended");
    drop(slot);
    assert_eq!(rig.end(), NO_LEAKS);
}

/// Libraries with this driver.
fn driver(library: &Path) -> Libraries {
    Libraries { driver: Some(library.into()), ..Libraries::default() }
}

#[test]
fn errors_name_a_missing_driver_or_device() {
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
fn a_library_that_is_not_the_process_s_driver_is_an_error() {
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
    assert!(error.to_string().contains("a different CUDA driver library already"), "{error}");
    assert_eq!(rig.end(), NO_LEAKS);
}
