//! Fakes, data sets and comparisons for the tests of this folder.

use crate::fake::{self, Rig};
use forebay_gpu::Libraries;
use forebay_loader::batch::{Batch, Output, Tensor};
use forebay_loader::config::{EngineConfig, ExtraOutput, StreamConfig};
use forebay_loader::decode::geometry::{Region, Size};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder, Subsampling, encode};
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::format::writer::{LocalDir, Options, Writer};
use forebay_loader::format::{Encoding, Layout, Value};
use forebay_loader::{Loader, LoaderConfig, Next};
use std::ffi::{CString, c_char, c_int};
use std::path::Path;
use tempfile::TempDir;

pub(crate) const NO_LEAKS: [i32; 4] = [1, 0, 0, 0];
/// Samples of a data set. The last batch of 16 has 9.
pub(crate) const SAMPLES: u64 = 73;
pub(crate) const IO_NOT_SUPPORTED: c_int = 5008;
pub(crate) const EIO: c_int = 5;
pub(crate) const EVERY: c_int = -1;

/// Fake cuFile.
pub(crate) struct CuFile(libloading::Library);

impl CuFile {
    pub(crate) fn new() -> Self {
        // SAFETY: no initialisers.
        let cufile = Self(unsafe { libloading::Library::new(fake::cufile()) }.expect("loads"));
        cufile.fail("", 0, 0);
        cufile.set("mode", 1);
        cufile.set("halves", 0);
        cufile.call("reads");
        cufile
    }

    pub(crate) fn fail(&self, function: &str, nth: c_int, code: c_int) {
        type Fail = unsafe extern "C" fn(*const c_char, c_int, c_int);
        // SAFETY: the type matches the fake's source.
        let fail = unsafe { self.0.get::<Fail>("fake_cufile_fail") }.expect("a function of the fake");
        let function = CString::new(function).expect("a name");
        // SAFETY: the name is copied.
        unsafe { fail(function.as_ptr(), nth, code) }
    }

    pub(crate) fn set(&self, what: &str, to: c_int) {
        let name = format!("fake_cufile_{what}");
        // SAFETY: functions of this kind have one number as argument.
        let function = unsafe { self.0.get::<unsafe extern "C" fn(c_int) -> c_int>(name.as_str()) }
            .expect("a function of the fake");
        // SAFETY: as above; the answer of one without is not looked at.
        unsafe { function(to) };
    }

    pub(crate) fn await_reads(&self, count: c_int) -> bool {
        // SAFETY: the type matches the fake's source.
        let wait = unsafe { self.0.get::<unsafe extern "C" fn(c_int) -> c_int>("fake_cufile_await_reads") };
        // SAFETY: as above.
        unsafe { wait.expect("a function of the fake")(count) == 1 }
    }

    pub(crate) fn call(&self, what: &str) -> c_int {
        let name = format!("fake_cufile_{what}");
        // SAFETY: functions of this kind have no arguments.
        let function =
            unsafe { self.0.get::<unsafe extern "C" fn() -> c_int>(name.as_str()) }.expect("a function of the fake");
        // SAFETY: as above.
        unsafe { function() }
    }
}

pub(crate) fn rig() -> (Rig, CuFile) {
    let libraries = Libraries { cufile: Some(fake::cufile().into()), ..fake::libraries() };
    let rig = Rig::with_libraries(1, &libraries, "", 0);
    rig.wait_mode().advance(true);
    (rig, CuFile::new())
}

/// Drops everything and checks that nothing has leaked.
pub(crate) fn end(rig: Rig, cufile: &CuFile, loader: Loader) {
    drop(loader);
    assert_eq!(rig.end(), NO_LEAKS);
    assert_eq!(cufile.call("live"), 0, "files are still registered");
}

/// Creates a folder on a disk, where O_DIRECT works.
pub(crate) fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// Names and encodings, sorted by name.
pub(crate) type Columns<'a> = &'a [(&'a str, &'a str)];

pub(crate) const ARRAYS: Columns<'static> = &[
    ("a", "ndarray:uint8:70,60"),
    ("b", "ndarray:uint16:50,41"),
    ("c", "ndarray:int32:1031"),
    ("d", "ndarray:float32:3,7,50"),
    ("n", "int"),
    ("small", "ndarray:float32:4"),
];

pub(crate) fn jpeg(number: u64) -> (Vec<u8>, Vec<u8>, Size) {
    let size = Size { w: 70 + number as u32 % 7, h: 66 };
    let pixels: Vec<u8> = (0..size.w * size.h * 3).map(|i| (i / 97 * 3 + number as u32) as u8).collect();
    let file = encode(&pixels, size, 85, Subsampling::S420, false).expect("a picture");
    let mut decoded = Pixels::default();
    Decoder::default().decode(&file, Region { x: 0, y: 0, w: size.w, h: size.h }, &mut decoded).expect("decodes");
    (file, decoded.rgb().to_vec(), size)
}

/// Writes samples of `columns`: `int` has the sample's number, `jpeg` a picture, `str` some text, arrays any values.
pub(crate) fn write(folder: &Path, columns: Columns<'_>, samples: u64, shard_bytes: u64) {
    let encodings: Vec<Encoding> = columns.iter().map(|(_, e)| Encoding::parse(e).expect("an encoding")).collect();
    let named = columns.iter().zip(&encodings).map(|((name, _), encoding)| ((*name).to_owned(), encoding.clone()));
    let layout = Layout::mds(named).expect("a layout");
    let options = Options { size_limit: Some(shard_bytes), ..Options::default() };
    let sink = LocalDir::create(folder, false).expect("a folder");
    let mut writer = Writer::new(layout, Box::new(sink), options).expect("a writer");
    for number in 0..samples {
        let value = |(column, ((_, name), encoding)): (usize, (&(&str, &str), &Encoding))| {
            let bytes: Vec<u8> = match (*name, encoding.fixed_size()) {
                ("int", _) => number.to_le_bytes().to_vec(),
                ("jpeg", _) => jpeg(number).0,
                (_, None) => vec![b'x'; number as usize % 50],
                (_, Some(size)) => {
                    (0..u64::from(size)).map(|i| (i * 7 + number * 31 + i / 253 + column as u64 * 91) as u8).collect()
                }
            };
            Value::Bytes(bytes.into())
        };
        let values: Vec<Value<'_>> = columns.iter().zip(&encodings).enumerate().map(value).collect();
        writer.write(&values).expect("written");
    }
    writer.finish().expect("a data set");
}

pub(crate) fn arrays() -> TempDir {
    let folder = folder();
    write(&folder.path().join("data"), ARRAYS, SAMPLES, 100 << 10);
    folder
}

/// Evicts the shards with these numbers from the page cache.
pub(crate) fn evict(folder: &TempDir, which: impl Fn(usize) -> bool) {
    let files = std::fs::read_dir(folder.path().join("data")).expect("a folder");
    let mut shards: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    shards.sort();
    for (_, shard) in shards.iter().enumerate().filter(|(number, _)| which(*number)) {
        let shard = std::fs::File::open(shard).expect("opened");
        shard.sync_all().expect("on the disk");
        rustix::fs::fadvise(&shard, 0, None, rustix::fs::Advice::DontNeed).expect("forgotten");
    }
}

/// Returns true if shards have been read from disk after their eviction. Some page caches ignore it.
pub(crate) fn was_evicted(loader: &Loader) -> bool {
    let notes = loader.stats().expect("figures").notes;
    let was = notes.iter().any(|note| note.contains("samples that are not in the page cache are read with"));
    if !was {
        eprintln!("skipped: this page cache ignores evictions");
    }
    was
}

pub(crate) fn config(folder: &TempDir) -> LoaderConfig {
    let stream = StreamConfig { local: Some(folder.path().join("data")), ..StreamConfig::default() };
    LoaderConfig {
        streams: vec![stream],
        batch_size: 16,
        shuffle: true,
        extra: vec![ExtraOutput::Repeat],
        threads: Some(2),
        engine: engine(),
        ..LoaderConfig::default()
    }
}

/// Options `engine` of [`config`].
pub(crate) fn engine() -> EngineConfig {
    EngineConfig { memory: Some(64 << 20), gpu_direct_storage: true, ..EngineConfig::default() }
}

pub(crate) fn on_host(config: &LoaderConfig) -> Loader {
    let engine = EngineConfig { gpu_direct_storage: false, device_decode: false, ..config.engine.clone() };
    Loader::new(LoaderConfig { engine, ..config.clone() }).expect("a loader")
}

pub(crate) fn on_device(config: &LoaderConfig, rig: &Rig) -> Loader {
    Loader::with_delivery(config.clone(), rig.delivery.clone()).expect("a loader")
}

pub(crate) fn next(loader: &Loader) -> Option<Batch> {
    match loader.next().expect("a batch") {
        Next::Batch(batch) => Some(batch),
        _ => None,
    }
}

/// Returns the bytes of each tensor of a batch, by name.
pub(crate) fn bytes(batch: &Batch, read: impl Fn(&Tensor) -> Vec<u8>) -> Vec<(String, Vec<u8>)> {
    let tensor = |(name, output): &(std::sync::Arc<str>, Output)| match output {
        Output::Tensor(tensor) => Some((name.to_string(), read(tensor))),
        _ => None,
    };
    batch.outputs.iter().filter_map(tensor).collect()
}

pub(crate) fn host_bytes(batch: &Batch) -> Vec<(String, Vec<u8>)> {
    bytes(batch, |tensor| tensor.host().expect("host memory").to_vec())
}

pub(crate) fn device_bytes(rig: &Rig, batch: &Batch) -> Vec<(String, Vec<u8>)> {
    bytes(batch, |tensor| {
        assert!(tensor.host().is_none());
        tensor.memory().order_before(None).expect("ordered");
        rig.read_at(tensor.address(), tensor.bytes())
    })
}

/// Compares the rest of both loaders' epochs and returns the number of batches.
pub(crate) fn compare_rest(rig: &Rig, host: &Loader, device: &Loader) -> usize {
    let mut batches = 0;
    while let Some(expected) = next(host) {
        let batch = next(device).expect("as many batches");
        for (expected, got) in host_bytes(&expected).iter().zip(device_bytes(rig, &batch)) {
            assert_eq!(expected.0, got.0);
            assert!(expected.1 == got.1, "{} of batch {batches} differs", got.0);
        }
        batches += 1;
    }
    assert!(next(device).is_none());
    batches
}

/// Compares two epochs on the device with the host's.
pub(crate) fn compare(rig: &Rig, config: &LoaderConfig) -> Loader {
    let (host, device) = (on_host(config), on_device(config, rig));
    for _ in 0..2 {
        host.start_epoch().expect("an epoch");
        device.start_epoch().expect("an epoch");
        assert!(compare_rest(rig, &host, &device) > 1);
    }
    device
}

pub(crate) fn counter(loader: &Loader, name: &str) -> u64 {
    let counters = loader.stats().expect("figures").counters;
    counters.iter().find(|(n, _)| *n == name).map_or(0, |(_, value)| *value)
}

/// Returns the rows read by cuFile, the rejected rows, and the number of fallbacks.
pub(crate) fn counters(loader: &Loader) -> [u64; 3] {
    ["rows_gpu_direct", "rows_gpu_direct_refused", "gpu_direct_storage_fallbacks"].map(|name| counter(loader, name))
}
