//! The target against a driver in host memory whose streams move only when the test says so.

use forebay_gpu::CudaTarget;
use forebay_loader::ErrorKind;
use forebay_loader::memory::{BatchPool, BatchPoolConfig};
use forebay_loader::target::{BatchTarget, Device, TensorMemory};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const BYTES: usize = 1 << 20;

struct Rig {
    target: Arc<CudaTarget>,
    pool: BatchPool,
    fake: libloading::Library,
    _folder: tempfile::TempDir,
}

/// The fake, compiled into a folder of its own: every test has its own driver.
fn fake(folder: &Path) -> PathBuf {
    let library = folder.join("libcuda.so.1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_cuda.c");
    let made = Command::new("cc").args(["-shared", "-fPIC", "-pthread", "-o"]).arg(&library).arg(source).output();
    let made = made.expect("a C compiler");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    library
}

impl Rig {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = fake(folder.path());
        // SAFETY: the fake has no initialisers.
        let library = unsafe { libloading::Library::new(&path) }.expect("loads");
        let target = CudaTarget::with_library(0, &path).expect("a target");
        // Room for one batch: its memory can only be had again when it has come back.
        let config = BatchPoolConfig { bytes: BYTES, ..BatchPoolConfig::default() };
        let pool = BatchPool::with_registrar(&config, target.registrar()).expect("a pool");
        Self { target, pool, fake: library, _folder: folder }
    }

    fn call(&self, name: &str) -> i32 {
        // SAFETY: the fake's functions of this kind take nothing; the answer of those without one is not looked at.
        let function = unsafe { self.fake.get::<unsafe extern "C" fn() -> i32>(name.as_bytes()) }.expect("there");
        // SAFETY: as above.
        unsafe { function() }
    }

    fn place(&self, value: u8) -> Arc<dyn TensorMemory> {
        let mut slot = self.pool.take(BYTES).expect("a slot");
        slot.bytes_mut().expect("all of it").fill(value);
        self.target.place(slot.freeze().expect("filled"), BYTES).expect("placed")
    }
}

/// What lies on the fake device, which is host memory.
fn on_device(batch: &dyn TensorMemory) -> (u8, u8) {
    let first = batch.address();
    // SAFETY: the fake's device memory is host memory of BYTES bytes that lives while the batch does.
    let last = unsafe { first.add(BYTES - 1) };
    // SAFETY: as above.
    let first = unsafe { first.read() };
    // SAFETY: as above.
    (first, unsafe { last.read() })
}

#[test]
fn a_slot_returns_to_its_pool_only_after_its_copy() {
    let rig = Rig::new();
    let first = rig.place(1);
    assert_eq!(first.device(), Device::Cuda(0));
    assert!(first.host().is_none());
    // The slot's keeper has it and waits for the copy.
    let waits = (0..100_000_000).any(|_| rig.call("fake_cuda_waiting") == 1);
    assert!(waits);
    assert!(rig.pool.try_take(BYTES).expect("open").is_none());
    assert_eq!(on_device(&*first), (0xEE, 0xEE));
    rig.call("fake_cuda_run");
    let second = rig.place(2);
    assert_eq!(on_device(&*first), (1, 1));
    rig.call("fake_cuda_run");
    // The slot that comes back is written over; the device keeps what it was given.
    rig.pool.take(BYTES).expect("a slot").bytes_mut().expect("all of it").fill(9);
    assert_eq!((on_device(&*first), on_device(&*second)), ((1, 1), (2, 2)));
}

#[test]
fn device_memory_is_used_again_only_after_its_reader() {
    let rig = Rig::new();
    let first = rig.place(1);
    rig.call("fake_cuda_run");
    first.order_before(None).expect("ordered");
    let address = first.address();
    // The reader's stream has the wait still queued, and then the event of the deletion.
    drop(first);
    let second = rig.place(2);
    assert_eq!(second.address(), address);
    // The copies could go on, the reader has not been there yet.
    rig.call("fake_cuda_run_copies");
    assert_eq!(on_device(&*second), (1, 1));
    rig.call("fake_cuda_run");
    assert_eq!(on_device(&*second), (2, 2));
    assert_eq!(rig.call("fake_cuda_allocated"), 1);
}

#[test]
fn a_stream_that_dlpack_does_not_allow_is_refused() {
    let rig = Rig::new();
    let batch = rig.place(1);
    assert_eq!(batch.order_before(Some(0)).expect_err("refused").kind(), ErrorKind::Config);
    batch.order_before(Some(-1)).expect("the consumer's business");
    rig.call("fake_cuda_run");
}

#[test]
fn the_pool_is_registered_while_it_lives() {
    let rig = Rig::new();
    assert_eq!(rig.call("fake_cuda_registered"), 1);
    let Rig { pool, fake, target: _target, _folder } = rig;
    drop(pool);
    // SAFETY: takes nothing.
    let count = unsafe { fake.get::<unsafe extern "C" fn() -> i32>(b"fake_cuda_registered") }.expect("there");
    // SAFETY: as above.
    assert_eq!(unsafe { count() }, 0);
}

#[test]
fn a_missing_driver_or_device_is_said() {
    let error = CudaTarget::with_library(0, Path::new("/nowhere/libcuda.so.1")).expect_err("no driver");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("/nowhere/libcuda.so.1"), "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    let error = CudaTarget::with_library(3, &fake(folder.path())).expect_err("no such device");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("device 3"), "{error}");
}
