#![allow(dead_code, reason = "each suite uses a part")]
//! Fake CUDA driver in host memory with streams that advance as late as is legal, fake nvJPEG and cuFile on it, and a
//! rig with a delivery and a pool.

use forebay_gpu::{CudaDelivery, Libraries};
use forebay_loader::delivery::{Delivery, TensorMemory};
use forebay_loader::memory::{BatchPool, BatchPoolConfig};
use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) const BYTES: usize = 1 << 20;

/// Set for child processes of a test, which has compiled all fakes.
const COMPILED: &str = "FOREBAY_TEST_FAKES_COMPILED";

/// A process has one driver, so its tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// Compiles the fake driver. cudarc looks for its soname first, so it takes precedence over a driver of the machine.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let (driver, kernel) = (source("tests/fake_cuda.c"), source("src/kernel/crop_resize.cu"));
        let flags = ["-Wl,-soname,libcuda.so", "-ffp-contract=off"].map(OsStr::new);
        let sources = [driver.as_os_str(), OsStr::new("-x"), OsStr::new("c++"), kernel.as_os_str()];
        compiled("libcuda.so", &[&flags[..], &sources[..]].concat())
    })
}

/// Compiles the fake nvJPEG, which uses the driver that is loaded.
pub(crate) fn nvjpeg() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let own = source("tests/fake_nvjpeg.c");
        compiled("libnvjpeg.so.12", &[own.as_os_str(), library().as_os_str()])
    })
}

/// Compiles the fake cuFile, which reads to that driver's memory.
pub(crate) fn cufile() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let own = source("tests/fake_cufile.c");
        compiled("libcufile.so.0", &[own.as_os_str(), library().as_os_str()])
    })
}

/// Returns the command that runs a test of this program in a separate process.
pub(crate) fn child(test: &str) -> Command {
    let _compiled = (library(), nvjpeg(), cufile());
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", test, "--ignored", "--nocapture"]).env(COMPILED, "1");
    child
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compiles a shared library called `name`.
fn compiled(name: &str, arguments: &[&OsStr]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    if std::env::var_os(COMPILED).is_some() {
        return folder.join(name);
    }
    let (library, own) = (folder.join(name), folder.join(format!("{name}.{}", std::process::id())));
    let flags = ["-shared", "-fPIC", "-pthread", "-O1", "-Wall", "-Wextra", "-Werror", "-o"];
    let made = Command::new("cc").args(flags).arg(&own).args(arguments).output().expect("a C compiler");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // Further test processes may be loading the old file.
    std::fs::rename(own, &library).expect("renamed");
    library
}

fn fail(fake: &libloading::Library, function: &str, nth: c_int, code: c_int) {
    type Fail = unsafe extern "C" fn(*const c_char, c_int, c_int);
    // SAFETY: the type matches the fake's source.
    let fail = unsafe { fake.get::<Fail>("fake_cuda_fail") }.expect("a function of the fake");
    let function = CString::new(function).expect("a name");
    // SAFETY: the fake copies the name.
    unsafe { fail(function.as_ptr(), nth, code) }
}

/// Paths of the fake driver and the fake nvJPEG.
pub(crate) fn libraries() -> Libraries {
    Libraries { driver: Some(library().into()), nvjpeg: Some(nvjpeg().into()), ..Libraries::default() }
}

/// Switch for the mode of the host's waits.
pub(crate) struct WaitMode(libloading::Library);

impl WaitMode {
    /// Runs `body` while a wait advances the device only as far as it needs, and nothing else advances it.
    pub(crate) fn minimal<T>(&self, body: impl FnOnce() -> T) -> T {
        type Set = unsafe extern "C" fn(c_int) -> c_int;
        // SAFETY: the type matches the fake's source.
        let set = unsafe { self.0.get::<Set>("fake_cuda_set_wait_mode") }.expect("a function of the fake");
        // SAFETY: as above.
        let before = unsafe { set(2) };
        let result = body();
        // SAFETY: as above.
        unsafe { set(before) };
        result
    }

    /// Sets whether a wait on the host advances the device as far as possible. Returns the former setting.
    pub(crate) fn advance(&self, on: bool) -> bool {
        type Set = unsafe extern "C" fn(c_int) -> c_int;
        // SAFETY: the type matches the fake's source.
        let set = unsafe { self.0.get::<Set>("fake_cuda_waits_advance") }.expect("a function of the fake");
        // SAFETY: as above.
        unsafe { set(c_int::from(on)) != 0 }
    }
}

pub(crate) struct Rig {
    pub(crate) delivery: Arc<CudaDelivery>,
    pub(crate) pool: BatchPool,
    fake: libloading::Library,
    // Last: the next test begins when the rest is dropped.
    _turn: MutexGuard<'static, ()>,
}

impl Rig {
    /// Creates a rig with room for one batch, so a slot can be taken only after the last batch has released it.
    pub(crate) fn new() -> Self {
        Self::with_fault("", 0)
    }

    /// Creates a rig where the first call of `function` returns `code`.
    pub(crate) fn with_fault(function: &str, code: c_int) -> Self {
        Self::with_slots(1, function, code)
    }

    /// Creates such a rig with room for `slots` batches.
    pub(crate) fn with_slots(slots: usize, function: &str, code: c_int) -> Self {
        Self::with_libraries(slots, &libraries(), function, code)
    }

    /// Creates such a rig with the given libraries.
    pub(crate) fn with_libraries(slots: usize, libraries: &Libraries, function: &str, code: c_int) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the fake has no initialisers.
        let fake = unsafe { libloading::Library::new(library()) }.expect("loads");
        fail(&fake, function, 1, code);
        // SAFETY: the type matches the fake's source.
        let piece_max =
            unsafe { fake.get::<unsafe extern "C" fn(c_int)>("fake_cuda_piece_max") }.expect("a function of the fake");
        // SAFETY: as above.
        unsafe { piece_max(1 << 30) };
        let delivery = CudaDelivery::with_libraries(0, libraries).expect("a delivery");
        let config = BatchPoolConfig { bytes: slots * BYTES, ..BatchPoolConfig::default() };
        let pool = BatchPool::new(&config, delivery.registrar()).expect("a pool");
        Self { delivery, pool, fake, _turn: turn }
    }

    /// Returns the switch for the mode of the host's waits.
    pub(crate) fn wait_mode(&self) -> WaitMode {
        // SAFETY: the fake has no initialisers.
        WaitMode(unsafe { libloading::Library::new(library()) }.expect("loads"))
    }

    /// Waits until `count` threads wait for the device. Returns false after a timeout.
    pub(crate) fn await_waiters(&self, count: c_int) -> bool {
        // SAFETY: the type matches the fake's source.
        let wait = unsafe { self.fake.get::<unsafe extern "C" fn(c_int) -> c_int>("fake_cuda_await_waiters") };
        // SAFETY: as above.
        unsafe { wait.expect("a function of the fake")(count) == 1 }
    }

    /// Calls a function of the fake without arguments. The result is meaningless for a function without one.
    pub(crate) fn call(&self, name: &str) -> i32 {
        // SAFETY: functions of this kind have no arguments.
        let function =
            unsafe { self.fake.get::<unsafe extern "C" fn() -> c_int>(name) }.expect("a function of the fake");
        // SAFETY: as above.
        unsafe { function() }
    }

    /// Advances all streams except the default streams.
    pub(crate) fn run_copies(&self) {
        // SAFETY: the type matches the fake's source.
        let run = unsafe { self.fake.get::<unsafe extern "C" fn(*mut c_void)>("fake_cuda_run_copies") }
            .expect("a function of the fake");
        // SAFETY: the argument is only compared.
        unsafe { run(std::ptr::null_mut()) }
    }

    /// Limits the bytes of each piece of device memory.
    pub(crate) fn piece_max(&self, bytes: c_int) {
        // SAFETY: the type matches the fake's source.
        let set = unsafe { self.fake.get::<unsafe extern "C" fn(c_int)>("fake_cuda_piece_max") }
            .expect("a function of the fake");
        // SAFETY: as above.
        unsafe { set(bytes) };
    }

    /// Makes the next call of `function` return `code`.
    pub(crate) fn fail(&self, function: &str, code: c_int) {
        self.fail_nth(function, 1, code);
    }

    /// Makes the `nth` call of `function` return `code`.
    pub(crate) fn fail_nth(&self, function: &str, nth: c_int, code: c_int) {
        fail(&self.fake, function, nth, code);
    }

    /// Queues a read of a whole batch on the default stream. The bytes are there when the stream has reached it.
    pub(crate) fn read_later(&self, batch: &dyn TensorMemory) -> Vec<u8> {
        self.read_later_at(batch.address(), BYTES)
    }

    /// Queues a read of `len` bytes of device memory on the default stream.
    pub(crate) fn read_later_at(&self, address: *const u8, len: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; len];
        type Read = unsafe extern "C" fn(c_int, *mut c_void, *const c_void, *mut c_void, usize);
        // SAFETY: the type matches the fake's source.
        let read = unsafe { self.fake.get::<Read>("fake_cuda_read_later") }.expect("a function of the fake");
        // SAFETY: the batch's memory is kept for reuse, and the vector's does not move until the test has advanced the
        // stream.
        unsafe { read(0, std::ptr::null_mut(), address.cast(), bytes.as_mut_ptr().cast(), len) }
        bytes
    }

    /// Reads the first and the last byte of a batch on the default stream.
    pub(crate) fn read(&self, batch: &dyn TensorMemory) -> (u8, u8) {
        let bytes = self.read_all(batch);
        (bytes[0], bytes[BYTES - 1])
    }

    /// Reads a whole batch on the default stream.
    pub(crate) fn read_all(&self, batch: &dyn TensorMemory) -> Vec<u8> {
        self.read_at(batch.address(), BYTES)
    }

    /// Reads `len` bytes of device memory on the default stream.
    pub(crate) fn read_at(&self, address: *const u8, len: usize) -> Vec<u8> {
        type Read = unsafe extern "C" fn(c_int, *mut c_void, *const c_void, *mut c_void, usize);
        // SAFETY: the type matches the fake's source.
        let read = unsafe { self.fake.get::<Read>("fake_cuda_read") }.expect("a function of the fake");
        let mut bytes = vec![0u8; len];
        // SAFETY: the caller's batch lives and has `len` bytes, and so has the vector; the fake has finished with both
        // when it returns.
        unsafe { read(0, std::ptr::null_mut(), address.cast(), bytes.as_mut_ptr().cast(), len) }
        bytes
    }

    /// Delivers a batch full of `value`.
    pub(crate) fn deliver(&self, value: u8) -> forebay_loader::Result<Arc<dyn TensorMemory>> {
        let mut slot = self.pool.take(BYTES).expect("a slot");
        slot.bytes_mut().expect("all of it").fill(value);
        self.delivery.deliver(slot.freeze().expect("filled"), BYTES)
    }

    /// Drops the rig and waits until the last context is released. Returns the counts of leaked objects.
    pub(crate) fn end(self) -> [i32; 4] {
        self.end_and(|_| ()).0
    }

    /// Drops the rig, and calls `ask`, which may call functions of the fake, before the next test begins.
    pub(crate) fn end_and<T>(self, ask: impl FnOnce(&dyn Fn(&str) -> i32) -> T) -> ([i32; 4], T) {
        let wait_mode = self.wait_mode();
        wait_mode.advance(true);
        let Self { delivery, pool, fake, _turn: turn } = self;
        drop((delivery, pool));
        let count = |name: &str| {
            // SAFETY: functions of this kind have no arguments.
            let function =
                unsafe { fake.get::<unsafe extern "C" fn() -> c_int>(name) }.expect("a function of the fake");
            // SAFETY: as above.
            unsafe { function() }
        };
        let leaks = ["fake_cuda_await_release", "fake_cuda_registered", "fake_cuda_allocated", "fake_cuda_events"];
        let counts = (leaks.map(count), ask(&count));
        wait_mode.advance(false);
        drop(turn);
        counts
    }
}
