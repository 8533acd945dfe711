//! A CUDA driver in host memory whose streams move as late as is legal, and a target and a pool on it.

use forebay_gpu::CudaTarget;
use forebay_loader::memory::{BatchPool, BatchPoolConfig};
use forebay_loader::target::{BatchTarget, TensorMemory};
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) const BYTES: usize = 1 << 20;

/// A process has one driver, so tests that share one take turns.
static TURN: Mutex<()> = Mutex::new(());

/// The fake, compiled. Its soname is the first that cudarc looks for, so it goes before a driver that this machine has.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (library, own) = (folder.join("libcuda.so"), folder.join(format!("libcuda.{}", std::process::id())));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_cuda.c");
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-pthread", "-Wl,-soname,libcuda.so", "-o"])
            .arg(&own)
            .arg(source)
            .output()
            .expect("a C compiler");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        // Other test processes may be loading the old one.
        std::fs::rename(own, &library).expect("renamed");
        library
    })
}

fn fail(fake: &libloading::Library, function: &str, code: c_int) {
    type Fail = unsafe extern "C" fn(*const c_char, c_int, c_int);
    // SAFETY: the type is the one of the fake's source.
    let fail = unsafe { fake.get::<Fail>("fake_cuda_fail") }.expect("there");
    let function = CString::new(function).expect("a name");
    // SAFETY: the fake copies the name.
    unsafe { fail(function.as_ptr(), 1, code) }
}

pub(crate) struct Rig {
    pub(crate) target: Arc<CudaTarget>,
    pub(crate) pool: BatchPool,
    fake: libloading::Library,
    // Last: the next test begins when all of this has gone.
    _turn: MutexGuard<'static, ()>,
}

impl Rig {
    /// Room for one batch: its memory can only be had again when it has come back.
    pub(crate) fn new() -> Self {
        Self::with_fault("", 0)
    }

    /// The same, where the first call of `function` answers `code`.
    pub(crate) fn with_fault(function: &str, code: c_int) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the fake has no initialisers.
        let fake = unsafe { libloading::Library::new(library()) }.expect("loads");
        fail(&fake, function, code);
        let target = CudaTarget::with_library(0, library()).expect("a target");
        let config = BatchPoolConfig { bytes: BYTES, ..BatchPoolConfig::default() };
        let pool = BatchPool::with_registrar(&config, target.registrar()).expect("a pool");
        Self { target, pool, fake, _turn: turn }
    }

    /// Calls a function of the fake that takes nothing; the answer of one without is not to be looked at.
    pub(crate) fn call(&self, name: &str) -> i32 {
        // SAFETY: the fake's functions of this kind take nothing.
        let function = unsafe { self.fake.get::<unsafe extern "C" fn() -> c_int>(name) }.expect("there");
        // SAFETY: as above.
        unsafe { function() }
    }

    /// Runs everything but the default streams.
    pub(crate) fn run_copies(&self) {
        // SAFETY: the type is the one of the fake's source.
        let run = unsafe { self.fake.get::<unsafe extern "C" fn(*mut c_void)>("fake_cuda_run_copies") }.expect("there");
        // SAFETY: the argument is only compared.
        unsafe { run(std::ptr::null_mut()) }
    }

    /// Makes the next call of `function` answer `code`.
    pub(crate) fn fail(&self, function: &str, code: c_int) {
        fail(&self.fake, function, code);
    }

    /// What a consumer on the default stream sees of a batch: its first and its last byte.
    pub(crate) fn read(&self, batch: &dyn TensorMemory) -> (u8, u8) {
        type Read = unsafe extern "C" fn(c_int, *mut c_void, *const c_void, *mut c_void, usize);
        // SAFETY: the type is the one of the fake's source.
        let read = unsafe { self.fake.get::<Read>("fake_cuda_read") }.expect("there");
        let mut bytes = vec![0u8; BYTES];
        // SAFETY: the batch lives and has BYTES bytes, as the vector has; the fake is done with both when it answers.
        unsafe { read(0, std::ptr::null_mut(), batch.address().cast(), bytes.as_mut_ptr().cast(), BYTES) }
        (bytes[0], bytes[BYTES - 1])
    }

    /// A batch full of `value`.
    pub(crate) fn place(&self, value: u8) -> forebay_loader::Result<Arc<dyn TensorMemory>> {
        let mut slot = self.pool.take(BYTES).expect("a slot");
        slot.bytes_mut().expect("all of it").fill(value);
        self.target.place(slot.freeze().expect("filled"), BYTES)
    }

    /// Ends it, and comes back when the last handle has been given back.
    pub(crate) fn end(self) -> [i32; 4] {
        let Self { target, pool, fake, _turn: turn } = self;
        drop((target, pool));
        let count = |name: &str| {
            // SAFETY: the fake's functions of this kind take nothing.
            let function = unsafe { fake.get::<unsafe extern "C" fn() -> c_int>(name) }.expect("there");
            // SAFETY: as above.
            unsafe { function() }
        };
        let names = ["fake_cuda_await_release", "fake_cuda_registered", "fake_cuda_allocated", "fake_cuda_events"];
        let counts = names.map(count);
        drop(turn);
        counts
    }
}
