//! Direct rows, with the whole loader over a fake driver and fake libraries. Most of them are read by cuFile: in the
//! fake, a read overwrites its target at once, and aborts if a stream has work for the target. The rows in [`copies`]
//! come from read slots.

#[path = "../fake/mod.rs"]
mod fake;

mod copies;
mod lost_device;
mod rejected;
mod rig;

use fake::{BYTES, Rig};
use forebay_loader::batch::{Batch, Output};
use forebay_loader::config::{EngineConfig, StreamConfig};
use forebay_loader::decode::geometry::Region;
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder};
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::delivery::Delivery;
use forebay_loader::{Loader, LoaderConfig, Next};
use rig::*;
use std::ffi::{c_char, c_int};

#[test]
fn rows_of_each_type_are_bit_identical_to_the_host_s() {
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
fn a_sample_with_a_single_direct_row_is_not_read_by_the_host() {
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
fn direct_rows_may_come_before_and_after_pictures_and_text_of_a_sample() {
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

/// Adds all pictures to the fake nvJPEG.
fn add_pictures(nvjpeg: &libloading::Library) {
    type Add = unsafe extern "C" fn(*const u8, usize, c_int, c_int, *const u8);
    // SAFETY: the type matches the fake's source.
    let add = unsafe { nvjpeg.get::<Add>("fake_nvjpeg_add") }.expect("a function of the fake");
    let reference = |entry: std::io::Result<std::fs::DirEntry>| {
        let file = std::fs::read(entry.expect("an entry").path()).expect("a file");
        let (mut decoder, mut pixels) = (Decoder::default(), Pixels::default());
        let size = decoder.size(&file).expect("a size");
        decoder.decode(&file, Region::all(size), &mut pixels).expect("decoded");
        (file, pixels.rgb().to_vec(), size)
    };
    let references = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/decode/selftest")).expect("a folder");
    let pictures = (0..SAMPLES).map(jpeg).chain(references.map(reference));
    for (file, rgb, size) in pictures {
        // SAFETY: files and pixels are copied.
        unsafe { add(file.as_ptr(), file.len(), size.w as c_int, size.h as c_int, rgb.as_ptr()) };
    }
}

#[test]
fn direct_rows_remain_when_the_device_abandons_decoding_their_pictures() {
    for abandons in [false, true] {
        let (rig, cufile) = rig();
        // SAFETY: no initialisers.
        let nvjpeg = unsafe { libloading::Library::new(fake::nvjpeg()) }.expect("loads");
        add_pictures(&nvjpeg);
        let data = folder();
        write(&data.path().join("data"), &[("image", "jpeg"), ("latent", "ndarray:float32:1100")], SAMPLES, 100 << 10);
        let ops = serde_json::json!([{"op": "random_resized_crop", "size": [24, 24]}]);
        let fields = serde_json::json!([
            ["x", {"kind": "image", "column": "image", "ops": ops}],
            ["latent", {"kind": "array", "column": "latent"}]]);
        let fields = Some(serde_json::from_value(fields).expect("fields"));
        let engine = EngineConfig { device_decode: true, ..engine() };
        let config = LoaderConfig { fields, engine, ..config(&data) };
        let (host, device) = (on_host(&config), on_device(&config, &rig));
        if abandons {
            type Fail = unsafe extern "C" fn(*const c_char, c_int, c_int);
            // SAFETY: the type matches the fake's source.
            let fail = unsafe { nvjpeg.get::<Fail>("fake_nvjpeg_fail") }.expect("a function of the fake");
            // The self-test calls the function eight times, and the first batch once. Code 5 means that there is no
            // memory.
            //
            // SAFETY: the name is copied.
            unsafe { fail(c"nvjpegDecodeBatchedEx".as_ptr(), 10, 5) };
        }
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
        let (decoded, fallbacks) =
            (counter(&device, "pictures_on_device"), counter(&device, "device_decode_fallbacks"));
        assert!(decoded > 0, "the device decoded nothing before its failure");
        assert_eq!((decoded == SAMPLES, fallbacks > 0), (!abandons, abandons), "{decoded} pictures");
        end(rig, &cufile, device);
    }
}

#[test]
fn a_loader_closes_on_a_device_that_does_not_respond() {
    let rig = Rig::with_libraries(1, &fake::libraries(), "", 0);
    rig.wait_mode().advance(true);
    // SAFETY: no initialisers.
    let nvjpeg = unsafe { libloading::Library::new(fake::nvjpeg()) }.expect("loads");
    add_pictures(&nvjpeg);
    let data = folder();
    write(&data.path().join("data"), &[("image", "jpeg")], SAMPLES, 100 << 10);
    let ops = serde_json::json!([{"op": "random_resized_crop", "size": [24, 24]}]);
    let fields = serde_json::json!([["x", {"kind": "image", "column": "image", "ops": ops}]]);
    let fields = Some(serde_json::from_value(fields).expect("fields"));
    let engine = EngineConfig { device_decode: true, gpu_direct_storage: false, ..engine() };
    let config = LoaderConfig { fields, engine, ..config(&data) };
    let device = on_device(&config, &rig);
    device.start_epoch().expect("an epoch");
    drop(next(&device).expect("a batch"));
    rig.wait_mode().advance(false);
    device.start_epoch().expect("the next epoch");
    assert!(rig.await_waiters(1), "no thread waits for the device");
    device.close().expect("closed");
    drop(device);
    rig.wait_mode().advance(true);
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn a_loader_closes_while_batches_wait_for_memory() {
    let (rig, _cufile) = rig();
    let data = arrays();
    let engine = EngineConfig { prefetch: Some(1), memory: Some(8 << 20), ..engine() };
    let device = on_device(&LoaderConfig { engine, ..config(&data) }, &rig);
    // No stream advances, so no host memory is released.
    rig.wait_mode().advance(false);
    device.start_epoch().expect("an epoch");
    let mut batches = Vec::new();
    while let Next::Batch(batch) = device.next_within(std::time::Duration::from_secs(2)).expect("a batch") {
        batches.push(batch);
    }
    assert!(batches.len() < SAMPLES.div_ceil(16) as usize, "there is memory for all batches");
    device.close().expect("closed");
    drop((batches, device));
    rig.wait_mode().advance(true);
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn a_loader_closes_while_rows_wait_for_device_memory() {
    let (rig, _cufile) = rig();
    let data = arrays();
    let engine = EngineConfig { gpu_direct_storage: false, ..engine() };
    let device = on_device(&LoaderConfig { engine, ..config(&data) }, &rig);
    rig.call("fake_cuda_hold_memory");
    device.start_epoch().expect("an epoch");
    assert!(rig.await_waiters(1), "no thread takes memory");
    device.close().expect("closed");
    drop(device);
    rig.call("fake_cuda_release_memory");
    assert_eq!(rig.end(), NO_LEAKS);
}

#[test]
fn a_loader_closes_while_reads_wait_for_a_consumer() {
    let (rig, cufile) = rig();
    let data = folder();
    write(&data.path().join("data"), ARRAYS, 40 * 16, 100 << 10);
    evict(&data, |_| true);
    let device = on_device(&config(&data), &rig);
    // The consumer's stream does not advance.
    rig.wait_mode().advance(false);
    device.start_epoch().expect("an epoch");
    let waited = std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                match device.next() {
                    Ok(Next::Batch(batch)) => drop(bytes(&batch, |tensor| {
                        tensor.memory().order_before(None).expect("ordered");
                        Vec::new()
                    })),
                    Ok(Next::Pending) => {}
                    Ok(Next::End) | Err(_) => break,
                }
            }
        });
        // The waiters are the release thread, and a thread that reads to memory that the consumer still reads.
        let waited = rig.await_waiters(2);
        device.close().expect("closed");
        waited
    });
    assert!(waited, "no thread waits for the consumer");
    drop(device);
    rig.wait_mode().advance(true);
    assert_eq!(rig.end(), NO_LEAKS);
    assert_eq!(cufile.call("live"), 0);
}

#[test]
fn other_columns_of_a_sample_are_read_from_disk() {
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
    evict(&data, |_| true);
    device.start_epoch().expect("an epoch");
    let lists = |batch: &Batch| match batch.get("file") {
        Some(Output::Bytes(rows)) => rows.iter().map(|row| row.host().expect("ours").to_vec()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    for expected in expected {
        let batch = next(&device).expect("as many batches");
        assert!(host_bytes(&expected) == device_bytes(&rig, &batch));
        assert!(lists(&expected) == lists(&batch));
    }
    assert_eq!(counters(&device), [2 * SAMPLES, 0, 0]);
    was_evicted(&device);
    end(rig, &cufile, device);
}

#[test]
fn an_epoch_resumes_from_its_state() {
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
fn an_epoch_under_a_cache_limit_is_complete_and_keeps_the_limit() {
    let (rig, cufile) = rig();
    let data = arrays();
    let cache = data.path().join("cache");
    let remote = Some(data.path().join("data").to_string_lossy().into_owned());
    let stream = StreamConfig { remote, local: Some(cache.clone()), ..StreamConfig::default() };
    // Room for two shards and the index, where a batch needs more shards.
    let limit = 225 << 10;
    let host = on_host(&config(&data));
    let engine = EngineConfig { stall_timeout: 60.0, ..engine() };
    let config = LoaderConfig { streams: vec![stream], cache_limit: Some(limit), engine, ..config(&data) };
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
    let [read, rejected, _] = counters(&device);
    // A shard may be evicted between its opening by the host and the one for cuFile; then the host reads it.
    assert_eq!(read + rejected, 4 * SAMPLES);
    assert!(read > 0, "{rejected} were rejected");
    end(rig, &cufile, device);
}

#[test]
fn a_batch_waits_for_slow_reads() {
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
fn closing_a_loader_releases_files_and_memory() {
    let (rig, cufile) = rig();
    let data = arrays();
    let device = on_device(&config(&data), &rig);
    device.start_epoch().expect("an epoch");
    drop(next(&device).expect("a batch"));
    device.close().expect("closed");
    end(rig, &cufile, device);
}

#[test]
fn rows_are_read_only_to_memory_that_consumers_have_read() {
    let (rig, cufile) = rig();
    let data = arrays();
    let engine = EngineConfig { prefetch: Some(1), ..engine() };
    let config = LoaderConfig { engine, ..config(&data) };
    let (host, device) = (on_host(&config), on_device(&config, &rig));
    host.start_epoch().expect("an epoch");
    device.start_epoch().expect("an epoch");
    let mut later = Vec::new();
    // Nothing else advances the consumer.
    rig.wait_mode().minimal(|| {
        while let Some(expected) = next(&host) {
            let batch = next(&device).expect("as many batches");
            let queued = bytes(&batch, |tensor| {
                tensor.memory().order_before(None).expect("ordered");
                rig.read_later_at(tensor.address(), tensor.bytes())
            });
            later.push((host_bytes(&expected), queued));
            // Its reads are still queued, and the next batch gets its memory.
            drop(batch);
        }
    });
    rig.call("fake_cuda_run");
    for (expected, got) in later {
        assert!(expected == got, "a consumer read a wrong batch");
    }
    end(rig, &cufile, device);
}

#[test]
fn memory_of_an_unread_batch_is_reused_only_after_its_copy() {
    let (rig, cufile) = rig();
    rig.wait_mode().advance(false);
    drop(rig.deliver(1).expect("delivered"));
    let waits = std::thread::scope(|scope| {
        let allocation = scope.spawn(|| rig.delivery.direct_rows().expect("a device").allocate(BYTES, true));
        // One waiter is the release thread.
        let waits = rig.await_waiters(2);
        rig.wait_mode().advance(true);
        drop(allocation.join().expect("ended").expect("memory").expect("waited for"));
        waits
    });
    assert!(waits, "no thread waits for the copy");
    assert_eq!(rig.end(), NO_LEAKS);
    assert_eq!(cufile.call("live"), 0);
}
