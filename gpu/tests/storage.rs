//! Rows that cuFile reads right to the device, through the whole loader, over stand-ins for driver and library: a read spoils
//! its place at once and aborts when a stream has work for it.

mod fake;

use fake::{BYTES, Rig};
use forebay_gpu::Libraries;
use forebay_loader::batch::{Batch, Output, Tensor};
use forebay_loader::config::StreamConfig;
use forebay_loader::decode::geometry::{Region, Size};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder, Subsampling, encode};
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::format::writer::{LocalDir, Options, Writer};
use forebay_loader::format::{Encoding, Layout};
use forebay_loader::target::BatchTarget;
use forebay_loader::{ErrorKind, Loader, LoaderConfig, Next};
use std::ffi::{CString, c_char, c_int};
use std::path::Path;
use tempfile::TempDir;

const NOTHING_LEFT: [i32; 4] = [1, 0, 0, 0];
/// Of which the last batch of 16 has 9.
const SAMPLES: u64 = 73;
const IO_NOT_SUPPORTED: c_int = 5008;
const EIO: c_int = 5;
const EVERY: c_int = -1;

/// The stand-in for cuFile.
struct CuFile(libloading::Library);

impl CuFile {
    fn new() -> Self {
        // SAFETY: no initialisers.
        let cufile = Self(unsafe { libloading::Library::new(fake::cufile()) }.expect("loads"));
        cufile.fail("", 0, 0);
        cufile.set("mode", 1);
        cufile.set("halves", 0);
        cufile.call("reads");
        cufile
    }

    fn fail(&self, function: &str, nth: c_int, code: c_int) {
        type Fail = unsafe extern "C" fn(*const c_char, c_int, c_int);
        // SAFETY: the type is the one of the stand-in's source.
        let fail = unsafe { self.0.get::<Fail>("fake_cufile_fail") }.expect("there");
        let function = CString::new(function).expect("a name");
        // SAFETY: the name is copied.
        unsafe { fail(function.as_ptr(), nth, code) }
    }

    fn set(&self, what: &str, to: c_int) {
        let name = format!("fake_cufile_{what}");
        // SAFETY: the stand-in's functions of this kind take one number.
        let function = unsafe { self.0.get::<unsafe extern "C" fn(c_int) -> c_int>(name.as_str()) }.expect("there");
        // SAFETY: as above; the answer of one without is not looked at.
        unsafe { function(to) };
    }

    fn await_reads(&self, count: c_int) -> bool {
        // SAFETY: the type is the one of the stand-in's source.
        let wait = unsafe { self.0.get::<unsafe extern "C" fn(c_int) -> c_int>("fake_cufile_await_reads") };
        // SAFETY: as above.
        unsafe { wait.expect("there")(count) == 1 }
    }

    fn call(&self, what: &str) -> c_int {
        let name = format!("fake_cufile_{what}");
        // SAFETY: the stand-in's functions of this kind take nothing.
        let function = unsafe { self.0.get::<unsafe extern "C" fn() -> c_int>(name.as_str()) }.expect("there");
        // SAFETY: as above.
        unsafe { function() }
    }
}

fn rig() -> (Rig, CuFile) {
    let libraries = Libraries { cufile: Some(fake::cufile().into()), ..fake::libraries() };
    let rig = Rig::with_libraries(1, &libraries, "", 0);
    rig.moving().waits_move(true);
    (rig, CuFile::new())
}

/// Ends it; nothing may be left.
fn end(rig: Rig, cufile: &CuFile, loader: Loader) {
    drop(loader);
    assert_eq!(rig.end(), NOTHING_LEFT);
    assert_eq!(cufile.call("live"), 0, "files are still registered");
}

/// On a disk: there O_DIRECT is to be had.
fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// Names and encodings, sorted by name.
type Columns<'a> = &'a [(&'a str, &'a str)];

const ARRAYS: Columns<'static> = &[
    ("a", "ndarray:uint8:70,60"),
    ("b", "ndarray:uint16:50,41"),
    ("c", "ndarray:int32:1031"),
    ("d", "ndarray:float32:3,7,50"),
    ("n", "int"),
    ("small", "ndarray:float32:4"),
];

fn jpeg(number: u64) -> (Vec<u8>, Vec<u8>, Size) {
    let size = Size { w: 40 + number as u32 % 7, h: 30 };
    let pixels: Vec<u8> = (0..size.w * size.h * 3).map(|i| (i / 97 * 3 + number as u32) as u8).collect();
    let file = encode(&pixels, size, 85, Subsampling::S420, false).expect("a picture");
    let mut decoded = Pixels::new();
    Decoder::new().decode(&file, Region { x: 0, y: 0, w: size.w, h: size.h }, &mut decoded).expect("decodes");
    (file, decoded.rgb().to_vec(), size)
}

/// Writes samples of `columns`: `int` has the sample's number, `jpeg` a picture, `str` some text, arrays anything.
fn write(folder: &Path, columns: Columns<'_>, samples: u64, shard_bytes: u64) {
    let encodings: Vec<Encoding> = columns.iter().map(|(_, e)| Encoding::parse(e).expect("an encoding")).collect();
    let named = columns.iter().zip(&encodings).map(|((name, _), encoding)| ((*name).to_owned(), encoding.clone()));
    let layout = Layout::mds(named).expect("a layout");
    let options = Options { size_limit: Some(shard_bytes), ..Options::default() };
    let sink = LocalDir::create(folder, false).expect("a folder");
    let mut writer = Writer::new(layout, Box::new(sink), options).expect("a writer");
    for number in 0..samples {
        let (mut head, mut body) = (Vec::new(), Vec::new());
        for (column, ((_, name), encoding)) in columns.iter().zip(&encodings).enumerate() {
            let bytes = match (*name, encoding.fixed_size()) {
                ("int", _) => number.to_le_bytes().to_vec(),
                ("jpeg", _) => jpeg(number).0,
                (_, None) => vec![b'x'; number as usize % 50],
                (_, Some(size)) => {
                    (0..u64::from(size)).map(|i| (i * 7 + number * 31 + i / 253 + column as u64 * 91) as u8).collect()
                }
            };
            if encoding.fixed_size().is_none() {
                head.extend((bytes.len() as u32).to_le_bytes());
            }
            body.extend(bytes);
        }
        writer.write_encoded(&[head, body].concat()).expect("written");
    }
    writer.finish().expect("a data set");
}

fn arrays() -> TempDir {
    let folder = folder();
    write(&folder.path().join("data"), ARRAYS, SAMPLES, 100 << 10);
    folder
}

fn config(folder: &TempDir) -> LoaderConfig {
    let stream = StreamConfig { local: Some(folder.path().join("data")), ..StreamConfig::default() };
    LoaderConfig {
        streams: vec![stream],
        batch_size: 16,
        shuffle: true,
        mark_repeats: true,
        threads: Some(2),
        memory: Some(64 << 20),
        gpu_direct_storage: true,
        ..LoaderConfig::default()
    }
}

fn on_host(config: &LoaderConfig) -> Loader {
    Loader::new(LoaderConfig { gpu_direct_storage: false, device_decode: false, ..config.clone() }).expect("a loader")
}

fn on_device(config: &LoaderConfig, rig: &Rig) -> Loader {
    Loader::with_target(config.clone(), rig.target.clone()).expect("a loader")
}

fn next(loader: &Loader) -> Option<Batch> {
    match loader.next().expect("a batch") {
        Next::Batch(batch) => Some(batch),
        _ => None,
    }
}

/// The bytes of each tensor of a batch, by name.
fn bytes(batch: &Batch, read: impl Fn(&Tensor) -> Vec<u8>) -> Vec<(String, Vec<u8>)> {
    let tensor = |(name, output): &(std::sync::Arc<str>, Output)| match output {
        Output::Tensor(tensor) => Some((name.to_string(), read(tensor))),
        _ => None,
    };
    batch.outputs.iter().filter_map(tensor).collect()
}

fn host_bytes(batch: &Batch) -> Vec<(String, Vec<u8>)> {
    bytes(batch, |tensor| tensor.host().expect("host memory").to_vec())
}

fn device_bytes(rig: &Rig, batch: &Batch) -> Vec<(String, Vec<u8>)> {
    bytes(batch, |tensor| {
        assert!(tensor.host().is_none());
        tensor.memory().order_before(None).expect("ordered");
        rig.read_at(tensor.address(), tensor.bytes())
    })
}

/// Compares what is left of both loaders' epochs; the number of batches.
fn compare_rest(rig: &Rig, host: &Loader, device: &Loader) -> usize {
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

/// Two epochs on the host and on the device: the same.
fn compare(rig: &Rig, config: &LoaderConfig) -> Loader {
    let (host, device) = (on_host(config), on_device(config, rig));
    for _ in 0..2 {
        host.start_epoch().expect("an epoch");
        device.start_epoch().expect("an epoch");
        assert!(compare_rest(rig, &host, &device) > 1);
    }
    device
}

fn counter(loader: &Loader, name: &str) -> u64 {
    let counters = loader.stats().expect("figures").counters;
    counters.iter().find(|(n, _)| *n == name).map_or(0, |(_, value)| *value)
}

/// Rows by cuFile, rows that were refused, and what was given up.
fn counters(loader: &Loader) -> [u64; 3] {
    ["rows_gpu_direct", "rows_gpu_direct_refused", "gpu_direct_storage_fallbacks"].map(|name| counter(loader, name))
}

#[test]
fn rows_of_every_type_are_the_host_s_to_the_bit() {
    let (rig, cufile) = rig();
    let data = arrays();
    assert!(data.path().join("data/shard.00005.mds").exists(), "a batch has rows of several shards");
    let loader = compare(&rig, &config(&data));
    assert_eq!(counters(&loader), [2 * 4 * SAMPLES, 0, 0]);
    let notes = loader.stats().expect("figures").notes;
    assert!(notes.iter().any(|n| n == "rows of fixed size are read by cuFile 1.14 over nvidia-fs 2.25"), "{notes:?}");
    assert_eq!(cufile.call("reads"), 2 * 4 * SAMPLES as c_int);
    end(rig, &cufile, loader);
}

#[test]
fn a_sample_that_is_nothing_but_one_row_is_not_read_by_the_host() {
    let (rig, cufile) = rig();
    let data = folder();
    write(&data.path().join("data"), &[("x", "ndarray:float32:1200")], SAMPLES, 60 << 10);
    cufile.set("mode", 2);
    cufile.set("halves", 1);
    let loader = compare(&rig, &config(&data));
    assert_eq!(counters(&loader), [2 * SAMPLES, 0, 0]);
    let notes = loader.stats().expect("figures").notes;
    assert!(notes.iter().any(|n| n.ends_with("cuFile 1.14 over PCI peer-to-peer DMA")), "{notes:?}");
    let read = |stage: &&forebay_loader::stats::StageSnapshot| stage.name == "read";
    let stages = loader.stats().expect("figures").stages;
    assert_eq!(stages.iter().find(read).expect("a stage").bytes, 2 * SAMPLES * 4800, "every byte once");
    assert!(cufile.call("reads") >= 4 * SAMPLES as c_int, "each row took two reads and more");
    end(rig, &cufile, loader);
}

#[test]
fn rows_stand_before_and_behind_pictures_and_text_of_the_same_samples() {
    let columns: Columns<'_> =
        &[("depth", "ndarray:uint16:64,40"), ("image", "jpeg"), ("latent", "ndarray:float32:1100"), ("n", "int")];
    let (rig, cufile) = rig();
    let data = folder();
    write(&data.path().join("data"), columns, SAMPLES, 100 << 10);
    let ops = serde_json::json!([{"op": "random_resized_crop", "size": [24, 24]}]);
    let fields = serde_json::json!([
        ["depth", {"kind": "array", "column": "depth"}], ["x", {"kind": "image", "column": "image", "ops": ops}],
        ["latent", {"kind": "array", "column": "latent"}], ["n", {"kind": "scalar", "column": "n"}],
        ["file", {"kind": "bytes", "column": "image"}]]);
    let fields = Some(serde_json::from_value(fields).expect("fields"));
    let loader = compare(&rig, &LoaderConfig { fields, ..config(&data) });
    assert_eq!(counters(&loader), [2 * 2 * SAMPLES, 0, 0]);
    end(rig, &cufile, loader);
}

/// Tells the stand-in for nvJPEG of all pictures.
fn tell_of_pictures(nvjpeg: &libloading::Library) {
    type Add = unsafe extern "C" fn(*const u8, usize, c_int, c_int, *const u8);
    // SAFETY: the type is the one of the stand-in's source.
    let add = unsafe { nvjpeg.get::<Add>("fake_nvjpeg_add") }.expect("there");
    for number in 0..SAMPLES {
        let (file, rgb, size) = jpeg(number);
        // SAFETY: files and pixels are copied.
        unsafe { add(file.as_ptr(), file.len(), size.w as c_int, size.h as c_int, rgb.as_ptr()) };
    }
}

#[test]
fn rows_stand_beside_pictures_that_the_device_decodes_and_stay_when_it_gives_up() {
    for gives_up in [false, true] {
        let (rig, cufile) = rig();
        // SAFETY: no initialisers.
        let nvjpeg = unsafe { libloading::Library::new(fake::nvjpeg()) }.expect("loads");
        tell_of_pictures(&nvjpeg);
        let data = folder();
        write(&data.path().join("data"), &[("image", "jpeg"), ("latent", "ndarray:float32:1100")], SAMPLES, 100 << 10);
        let ops = serde_json::json!([{"op": "random_resized_crop", "size": [24, 24]}]);
        let fields = serde_json::json!([
            ["x", {"kind": "image", "column": "image", "ops": ops}], ["latent", {"kind": "array", "column": "latent"}]]);
        let fields = Some(serde_json::from_value(fields).expect("fields"));
        let config = LoaderConfig { fields, device_decode: true, ..config(&data) };
        if gives_up {
            type Fail = unsafe extern "C" fn(*const c_char, c_int, c_int);
            // SAFETY: the type is the one of the stand-in's source.
            let fail = unsafe { nvjpeg.get::<Fail>("fake_nvjpeg_fail") }.expect("there");
            // SAFETY: the name is copied. 5: no memory.
            unsafe { fail(c"nvjpegDecodeBatchedEx".as_ptr(), 3, 5) };
        }
        let (host, device) = (on_host(&config), on_device(&config, &rig));
        host.start_epoch().expect("an epoch");
        device.start_epoch().expect("an epoch");
        while let Some(expected) = next(&host) {
            let batch = next(&device).expect("as many batches");
            for (expected, got) in host_bytes(&expected).iter().zip(device_bytes(&rig, &batch)) {
                // Grey levels may differ by one.
                let worst = expected.1.iter().zip(&got.1).map(|(a, b)| a.abs_diff(*b)).max();
                assert!(worst <= Some(u8::from(got.0 == "x")), "{} differs by {worst:?}", got.0);
            }
        }
        assert_eq!(counters(&device), [SAMPLES, 0, 0]);
        let (decoded, given_up) = (counter(&device, "pictures_on_device"), counter(&device, "device_decode_fallbacks"));
        assert_eq!((decoded == SAMPLES, given_up > 0), (!gives_up, gives_up), "{decoded} pictures");
        end(rig, &cufile, device);
    }
}

#[test]
fn what_else_a_sample_has_is_read_from_disk_where_the_page_cache_has_it_not() {
    let columns: Columns<'_> =
        &[("depth", "ndarray:uint16:64,40"), ("image", "jpeg"), ("latent", "ndarray:float32:1100"), ("n", "int")];
    let (rig, cufile) = rig();
    let data = folder();
    write(&data.path().join("data"), columns, SAMPLES, 100 << 10);
    let fields = serde_json::json!([["depth", {"kind": "array", "column": "depth"}],
        ["latent", {"kind": "array", "column": "latent"}], ["n", {"kind": "scalar", "column": "n"}],
        ["file", {"kind": "bytes", "column": "image"}]]);
    let fields = Some(serde_json::from_value(fields).expect("fields"));
    let config = LoaderConfig { fields, ..config(&data) };
    let (host, device) = (on_host(&config), on_device(&config, &rig));
    host.start_epoch().expect("an epoch");
    let expected: Vec<_> = std::iter::from_fn(|| next(&host)).collect();
    for shard in std::fs::read_dir(data.path().join("data")).expect("a folder") {
        let shard = std::fs::File::open(shard.expect("a file").path()).expect("opened");
        shard.sync_all().expect("on the disk");
        rustix::fs::fadvise(&shard, 0, None, rustix::fs::Advice::DontNeed).expect("forgotten");
    }
    device.start_epoch().expect("an epoch");
    let lists = |batch: &Batch| match batch.get("file") {
        Some(Output::Bytes(rows)) => rows.iter().map(|row| row.own().expect("ours").to_vec()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    for expected in expected {
        let batch = next(&device).expect("as many batches");
        assert!(host_bytes(&expected) == device_bytes(&rig, &batch));
        assert!(lists(&expected) == lists(&batch));
    }
    assert_eq!(counters(&device), [2 * SAMPLES, 0, 0]);
    let notes = device.stats().expect("figures").notes;
    if !notes.iter().any(|note| note.contains("samples that are not in the page cache are read with")) {
        eprintln!("skipped: the page cache keeps what it is told to forget here");
    }
    end(rig, &cufile, device);
}

#[test]
fn an_epoch_goes_on_where_its_state_was_taken() {
    let (rig, cufile) = rig();
    let data = arrays();
    let config = config(&data);
    let (host, first) = (on_host(&config), on_device(&config, &rig));
    for loader in [&host, &first] {
        loader.start_epoch().expect("an epoch");
        for _ in 0..2 {
            drop(next(loader).expect("a batch"));
        }
    }
    let state = first.state().expect("a state");
    drop(first);
    let device = on_device(&config, &rig);
    device.load_state(&state, true).expect("loaded");
    device.start_epoch().expect("an epoch");
    assert_eq!(compare_rest(&rig, &host, &device), 3);
    assert_eq!(counters(&device), [4 * (SAMPLES - 32), 0, 0]);
    end(rig, &cufile, device);
}

#[test]
fn under_a_cache_limit_the_epoch_is_whole_and_the_limit_holds() {
    let (rig, cufile) = rig();
    let data = arrays();
    let cache = data.path().join("cache");
    let remote = Some(data.path().join("data").to_string_lossy().into_owned());
    let stream = StreamConfig { remote, local: Some(cache.clone()), ..StreamConfig::default() };
    // Two shards and the index, for batches of more.
    let limit = 215 << 10;
    let host = on_host(&config(&data));
    let config = LoaderConfig { streams: vec![stream], cache_limit: Some(limit), stall_timeout: 60.0, ..config(&data) };
    let device = on_device(&config, &rig);
    host.start_epoch().expect("an epoch");
    device.start_epoch().expect("an epoch");
    while let Some(expected) = next(&host) {
        let batch = next(&device).expect("as many batches");
        assert!(host_bytes(&expected) == device_bytes(&rig, &batch));
        let files = std::fs::read_dir(&cache).expect("a folder");
        let used: u64 = files.map(|file| file.expect("a file").metadata().map_or(0, |file| file.len())).sum();
        assert!(used <= limit, "{used} bytes on disk");
    }
    let [read, refused, _] = counters(&device);
    // The name of a shard may go between its opening and the opening for cuFile: that is the host's then.
    assert_eq!(read + refused, 4 * SAMPLES);
    assert!(read > SAMPLES, "{read}");
    end(rig, &cufile, device);
}

#[test]
fn a_shard_that_is_unlinked_while_it_is_read_stays_readable() {
    let (rig, cufile) = rig();
    let data = folder();
    write(&data.path().join("data"), ARRAYS, SAMPLES, 1 << 30);
    let config = config(&data);
    let (host, device) = (on_host(&config), on_device(&config, &rig));
    host.start_epoch().expect("an epoch");
    let expected: Vec<_> = std::iter::from_fn(|| next(&host)).collect();
    cufile.set("hold", 1);
    device.start_epoch().expect("an epoch");
    assert!(cufile.await_reads(8), "reads do not overlap");
    std::fs::remove_file(data.path().join("data/shard.00000.mds")).expect("unlinked");
    cufile.set("hold", 0);
    for expected in expected {
        let batch = next(&device).expect("as many batches");
        assert!(host_bytes(&expected) == device_bytes(&rig, &batch));
    }
    assert_eq!(counters(&device), [4 * SAMPLES, 0, 0]);
    end(rig, &cufile, device);
}

#[test]
fn what_is_refused_is_read_by_the_host_into_the_same_batch() {
    for (function, nth, code) in [
        ("cuFileRead", 1, IO_NOT_SUPPORTED),
        ("cuFileRead", 40, EIO),
        ("cuFileHandleRegister", 1, IO_NOT_SUPPORTED),
        ("cuFileHandleRegister", 3, IO_NOT_SUPPORTED),
    ] {
        let (rig, cufile) = rig();
        let data = arrays();
        cufile.fail(function, nth, code);
        let loader = compare(&rig, &config(&data));
        let [read, refused, fallbacks] = counters(&loader);
        assert!(read > SAMPLES, "{function}: {read} of other files");
        assert!(refused >= 4, "{function}: {refused}");
        assert_eq!(fallbacks, 1, "{function} is said once, of one file");
        end(rig, &cufile, loader);
    }
}

#[test]
fn a_library_that_refuses_everything_is_not_asked_for_ever() {
    for function in ["cuFileRead", "cuFileHandleRegister"] {
        let (rig, cufile) = rig();
        let data = arrays();
        cufile.fail(function, EVERY, IO_NOT_SUPPORTED);
        let loader = compare(&rig, &config(&data));
        let [read, refused, fallbacks] = counters(&loader);
        let shards = std::fs::read_dir(data.path().join("data")).expect("a folder").count() as u64 - 1;
        assert_eq!(read, 0);
        assert!((4..=2 * 4 * SAMPLES).contains(&refused), "{refused}");
        assert!((1..=shards + 1).contains(&fallbacks), "{fallbacks}");
        end(rig, &cufile, loader);
    }
}

#[test]
fn without_memory_on_the_device_for_a_batch_its_rows_go_the_usual_way() {
    let (rig, cufile) = rig();
    let data = arrays();
    rig.fail("cuMemAlloc_v2", 2);
    let loader = compare(&rig, &config(&data));
    let [read, refused, fallbacks] = counters(&loader);
    assert_eq!((read + refused, refused, fallbacks), (2 * 4 * SAMPLES, 4, 1));
    end(rig, &cufile, loader);
}

#[test]
fn where_cufile_cannot_be_used_it_is_said_once_and_everything_goes_the_usual_way() {
    for (what, sentence) in [
        ("open", "DRIVER_NOT_INITIALIZED"),
        ("compatible", "compatibility mode"),
        ("library", "FOREBAY_CUFILE_LIBRARY"),
        ("columns", "no output goes by GPUDirect Storage"),
    ] {
        let (mut rig, cufile) = rig();
        let data = arrays();
        let mut config = config(&data);
        match what {
            "open" => cufile.fail("cuFileDriverOpen", EVERY, 5001),
            "compatible" => cufile.set("mode", 0),
            "columns" => {
                let fields = serde_json::json!([["s", {"kind": "array", "column": "small"}],
                    ["a", {"kind": "array", "column": "a", "dtype": "float32"}]]);
                config.fields = Some(serde_json::from_value(fields).expect("fields"));
            }
            _ => {
                let cufile = Some("/nowhere/libcufile.so.0".into());
                let libraries = Libraries { cufile, ..fake::libraries() };
                drop(rig);
                rig = Rig::with_libraries(1, &libraries, "", 0);
                rig.moving().waits_move(true);
            }
        }
        let loader = compare(&rig, &config);
        assert_eq!(counters(&loader), [0, 0, u64::from(what != "columns")], "{what}");
        let notes = loader.stats().expect("figures").notes;
        assert_eq!(notes.iter().filter(|note| note.contains(sentence)).count(), 1, "{notes:?}");
        end(rig, &cufile, loader);
    }
}

#[test]
fn nothing_is_loaded_where_nobody_asks_for_it() {
    let (rig, cufile) = rig();
    let data = arrays();
    let before = cufile.call("opened");
    let loader = compare(&rig, &LoaderConfig { gpu_direct_storage: false, ..config(&data) });
    assert_eq!((cufile.call("opened"), counters(&loader)), (before, [0, 0, 0]));
    let host = Loader::new(config(&data)).expect("a loader");
    host.start_epoch().expect("an epoch");
    assert_eq!((cufile.call("opened"), counters(&host)), (before, [0, 0, 1]), "there is no device");
    end(rig, &cufile, loader);
}

#[test]
fn a_batch_waits_for_reads_that_take_long() {
    let (rig, cufile) = rig();
    let data = arrays();
    let config = config(&data);
    let (host, device) = (on_host(&config), on_device(&config, &rig));
    cufile.set("hold", 1);
    host.start_epoch().expect("an epoch");
    device.start_epoch().expect("an epoch");
    assert!(cufile.await_reads(8), "reads do not overlap");
    assert!(matches!(device.next_within(std::time::Duration::ZERO), Ok(Next::Pending)), "a batch came before its rows");
    cufile.set("hold", 0);
    assert_eq!(compare_rest(&rig, &host, &device), 5);
    end(rig, &cufile, device);
}

#[test]
fn a_loader_that_is_closed_lets_go_of_files_and_memory() {
    let (rig, cufile) = rig();
    let data = arrays();
    let device = on_device(&config(&data), &rig);
    device.start_epoch().expect("an epoch");
    drop(next(&device).expect("a batch"));
    device.close().expect("closed");
    end(rig, &cufile, device);
}

#[test]
fn rows_are_read_only_where_a_consumer_has_read() {
    let (rig, cufile) = rig();
    let data = arrays();
    let config = LoaderConfig { prefetch: Some(1), ..config(&data) };
    let (host, device) = (on_host(&config), on_device(&config, &rig));
    host.start_epoch().expect("an epoch");
    device.start_epoch().expect("an epoch");
    let mut later = Vec::new();
    while let Some(expected) = next(&host) {
        let batch = next(&device).expect("as many batches");
        let queued = bytes(&batch, |tensor| {
            tensor.memory().order_before(None).expect("ordered");
            rig.read_later_at(tensor.address(), tensor.bytes())
        });
        later.push((host_bytes(&expected), queued));
        // Its reads are still queued, and its memory is the next batch's.
        drop(batch);
    }
    rig.call("fake_cuda_run");
    for (expected, got) in later {
        assert!(expected == got, "a consumer saw another batch");
    }
    end(rig, &cufile, device);
}

#[test]
fn memory_of_a_batch_that_nobody_has_looked_at_is_read_to_after_its_copy() {
    let (rig, cufile) = rig();
    rig.moving().waits_move(false);
    let storage = rig.target.storage().expect("cuFile");
    drop(rig.place(1).expect("placed"));
    let waits = std::thread::scope(|scope| {
        let begun = scope.spawn(|| storage.begin(BYTES));
        // One waiter is the thread that gives slots back.
        let waits = rig.await_waiters(2);
        rig.moving().waits_move(true);
        drop(begun.join().expect("ended").expect("memory"));
        waits
    });
    assert!(waits, "nobody waits for the copy");
    drop(storage);
    assert_eq!(rig.end(), NOTHING_LEFT);
    assert_eq!(cufile.call("live"), 0);
}

#[test]
fn a_shard_that_is_cut_off_is_its_sample_s_error() {
    let (rig, cufile) = rig();
    let data = folder();
    write(&data.path().join("data"), &[("x", "ndarray:float32:1200")], 64, 1 << 30);
    let config = LoaderConfig { batch_size: 4, prefetch: Some(1), shuffle: false, ..config(&data) };
    let device = on_device(&config, &rig);
    device.start_epoch().expect("an epoch");
    drop(next(&device).expect("a batch"));
    let shard = data.path().join("data/shard.00000.mds");
    let file = std::fs::OpenOptions::new().write(true).open(&shard).expect("a shard");
    file.set_len(40 * 4800).expect("cut off");
    let error = loop {
        match device.next() {
            Ok(Next::Batch(_)) => {}
            Ok(_) => panic!("the epoch ended as if nothing were missing"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Format, "{error}");
    for word in ["shard.00000.mds", "sample in shard", "cut short"] {
        assert!(error.to_string().contains(word), "{word} is missing: {error}");
    }
    end(rig, &cufile, device);
}
