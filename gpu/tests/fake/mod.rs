#![allow(dead_code, reason = "each suite uses a part")]
//! A CUDA driver in host memory whose streams move as late as is legal, nvJPEG and cuFile on it, and a target and a pool.

use forebay_gpu::{CudaDelivery, Libraries};
use forebay_loader::delivery::{Delivery, TensorMemory};
use forebay_loader::memory::{BatchPool, BatchPoolConfig};
use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) const BYTES: usize = 1 << 20;

/// Set for children of a test, which has compiled all stand-ins.
const COMPILED: &str = "FOREBAY_TEST_STAND_INS_COMPILED";

/// A process has one driver, so tests that share one take turns.
static TURN: Mutex<()> = Mutex::new(());

/// The fake, compiled. Its soname is the first that cudarc looks for, so it goes before a driver that this machine has.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let (driver, kernel) = (source("tests/fake_cuda.c"), source("src/kernel/crop_resize.cu"));
        let flags = ["-Wl,-soname,libcuda.so", "-ffp-contract=off"].map(OsStr::new);
        let sources = [driver.as_os_str(), OsStr::new("-x"), OsStr::new("c++"), kernel.as_os_str()];
        compiled("libcuda.so", &[&flags[..], &sources[..]].concat())
    })
}

/// nvJPEG over that driver, compiled. It takes the driver that is loaded.
pub(crate) fn nvjpeg() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let own = source("tests/fake_nvjpeg.c");
        compiled("libnvjpeg.so.12", &[own.as_os_str(), library().as_os_str()])
    })
}

/// cuFile to that driver's memory, compiled.
pub(crate) fn cufile() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let own = source("tests/fake_cufile.c");
        compiled("libcufile.so.0", &[own.as_os_str(), library().as_os_str()])
    })
}

/// A test of this program that runs in a process of its own.
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
    // Other test processes may be loading the old one.
    std::fs::rename(own, &library).expect("renamed");
    library
}

fn fail(fake: &libloading::Library, function: &str, nth: c_int, code: c_int) {
    type Fail = unsafe extern "C" fn(*const c_char, c_int, c_int);
    // SAFETY: the type is the one of the fake's source.
    let fail = unsafe { fake.get::<Fail>("fake_cuda_fail") }.expect("there");
    let function = CString::new(function).expect("a name");
    // SAFETY: the fake copies the name.
    unsafe { fail(function.as_ptr(), nth, code) }
}

/// Both stand-ins.
pub(crate) fn libraries() -> Libraries {
    Libraries { driver: Some(library().into()), nvjpeg: Some(nvjpeg().into()), ..Libraries::default() }
}

/// The switch for whether a host that waits moves the device.
pub(crate) struct Moving(libloading::Library);

impl Moving {
    /// Runs `body` while a wait moves the device just as far as it waits for, and nothing else moves it.
    pub(crate) fn little<T>(&self, body: impl FnOnce() -> T) -> T {
        type Set = unsafe extern "C" fn(c_int) -> c_int;
        // SAFETY: the type is the one of the fake's source.
        let set = unsafe { self.0.get::<Set>("fake_cuda_waits_move_little") }.expect("there");
        // SAFETY: as above.
        let before = unsafe { set(2) };
        let answer = body();
        // SAFETY: as above.
        unsafe { set(before) };
        answer
    }

    /// From now on it does, or does not; what it did before.
    pub(crate) fn waits_move(&self, on: bool) -> bool {
        type Set = unsafe extern "C" fn(c_int) -> c_int;
        // SAFETY: the type is the one of the fake's source.
        let set = unsafe { self.0.get::<Set>("fake_cuda_waits_move") }.expect("there");
        // SAFETY: as above.
        unsafe { set(c_int::from(on)) != 0 }
    }
}

pub(crate) struct Rig {
    pub(crate) target: Arc<CudaDelivery>,
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
        Self::with_slots(1, function, code)
    }

    /// The same with room for so many batches.
    pub(crate) fn with_slots(slots: usize, function: &str, code: c_int) -> Self {
        Self::with_libraries(slots, &libraries(), function, code)
    }

    /// The same with these libraries.
    pub(crate) fn with_libraries(slots: usize, libraries: &Libraries, function: &str, code: c_int) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the fake has no initialisers.
        let fake = unsafe { libloading::Library::new(library()) }.expect("loads");
        fail(&fake, function, 1, code);
        // SAFETY: the type is the one of the fake's source.
        let piece_max = unsafe { fake.get::<unsafe extern "C" fn(c_int)>("fake_cuda_piece_max") }.expect("there");
        // SAFETY: as above.
        unsafe { piece_max(1 << 30) };
        let target = CudaDelivery::with_libraries(0, libraries).expect("a target");
        let config = BatchPoolConfig { bytes: slots * BYTES, ..BatchPoolConfig::default() };
        let pool = BatchPool::with_registrar(&config, target.registrar()).expect("a pool");
        Self { target, pool, fake, _turn: turn }
    }

    /// Whether a host that waits moves the device.
    pub(crate) fn moving(&self) -> Moving {
        // SAFETY: the fake has no initialisers.
        Moving(unsafe { libloading::Library::new(library()) }.expect("loads"))
    }

    /// Comes back when so many threads wait for the device; false when they do not.
    pub(crate) fn await_waiters(&self, count: c_int) -> bool {
        // SAFETY: the type is the one of the fake's source.
        let wait = unsafe { self.fake.get::<unsafe extern "C" fn(c_int) -> c_int>("fake_cuda_await_waiters") };
        // SAFETY: as above.
        unsafe { wait.expect("there")(count) == 1 }
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

    /// Pieces of the device's memory have at most so many bytes from now on.
    pub(crate) fn piece_max(&self, bytes: c_int) {
        // SAFETY: the type is the one of the fake's source.
        let set = unsafe { self.fake.get::<unsafe extern "C" fn(c_int)>("fake_cuda_piece_max") }.expect("there");
        // SAFETY: as above.
        unsafe { set(bytes) };
    }

    /// Makes the next call of `function` answer `code`.
    pub(crate) fn fail(&self, function: &str, code: c_int) {
        self.fail_nth(function, 1, code);
    }

    /// The same with the `nth` call.
    pub(crate) fn fail_nth(&self, function: &str, nth: c_int, code: c_int) {
        fail(&self.fake, function, nth, code);
    }

    /// As [`read_all`](Self::read_all), but the read is only queued: the bytes are there when the stream has come to it.
    pub(crate) fn read_later(&self, batch: &dyn TensorMemory) -> Vec<u8> {
        self.read_later_at(batch.address(), BYTES)
    }

    /// The same for so many bytes of the device's memory.
    pub(crate) fn read_later_at(&self, address: *const u8, len: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; len];
        type Read = unsafe extern "C" fn(c_int, *mut c_void, *const c_void, *mut c_void, usize);
        // SAFETY: the type is the one of the fake's source.
        let read = unsafe { self.fake.get::<Read>("fake_cuda_read_later") }.expect("there");
        // SAFETY: the batch's memory is kept for reuse, and the vector's stays where it is until the test has moved the
        // stream.
        unsafe { read(0, std::ptr::null_mut(), address.cast(), bytes.as_mut_ptr().cast(), len) }
        bytes
    }

    /// What a consumer on the default stream sees of a batch: its first and its last byte.
    pub(crate) fn read(&self, batch: &dyn TensorMemory) -> (u8, u8) {
        let bytes = self.read_all(batch);
        (bytes[0], bytes[BYTES - 1])
    }

    /// The same, all of it.
    pub(crate) fn read_all(&self, batch: &dyn TensorMemory) -> Vec<u8> {
        self.read_at(batch.address(), BYTES)
    }

    /// What a consumer on the default stream sees of so many bytes of the device's memory.
    pub(crate) fn read_at(&self, address: *const u8, len: usize) -> Vec<u8> {
        type Read = unsafe extern "C" fn(c_int, *mut c_void, *const c_void, *mut c_void, usize);
        // SAFETY: the type is the one of the fake's source.
        let read = unsafe { self.fake.get::<Read>("fake_cuda_read") }.expect("there");
        let mut bytes = vec![0u8; len];
        // SAFETY: the caller's batch lives and has `len` bytes, as the vector has; the fake is done with both when it answers.
        unsafe { read(0, std::ptr::null_mut(), address.cast(), bytes.as_mut_ptr().cast(), len) }
        bytes
    }

    /// A batch full of `value`.
    pub(crate) fn place(&self, value: u8) -> forebay_loader::Result<Arc<dyn TensorMemory>> {
        let mut slot = self.pool.take(BYTES).expect("a slot");
        slot.bytes_mut().expect("all of it").fill(value);
        self.target.deliver(slot.freeze().expect("filled"), BYTES)
    }

    /// Ends it, and comes back when the last handle has been given back.
    pub(crate) fn end(self) -> [i32; 4] {
        self.end_and(|_| ()).0
    }

    /// The same, and what `ask`, which may call functions of the fake, answers then, before another test begins.
    pub(crate) fn end_and<T>(self, ask: impl FnOnce(&dyn Fn(&str) -> i32) -> T) -> ([i32; 4], T) {
        let moving = self.moving();
        moving.waits_move(true);
        let Self { target, pool, fake, _turn: turn } = self;
        drop((target, pool));
        let count = |name: &str| {
            // SAFETY: the fake's functions of this kind take nothing.
            let function = unsafe { fake.get::<unsafe extern "C" fn() -> c_int>(name) }.expect("there");
            // SAFETY: as above.
            unsafe { function() }
        };
        let left = ["fake_cuda_await_release", "fake_cuda_registered", "fake_cuda_allocated", "fake_cuda_events"];
        let counts = (left.map(count), ask(&count));
        moving.waits_move(false);
        drop(turn);
        counts
    }
}
