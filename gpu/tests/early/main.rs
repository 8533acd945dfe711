//! Rows that go to the device before their batch, through the whole loader, over stand-ins for driver and library. Most of them
//! are read by cuFile, where a read spoils its place at once and aborts when a stream has work for it; [`copied`] has those that
//! come from read slots.

#[path = "../fake/mod.rs"]
mod fake;

mod copied;
mod lost;
mod refused;
mod rig;

use fake::{BYTES, Rig};
use forebay_loader::batch::{Batch, Output};
use forebay_loader::config::StreamConfig;
use forebay_loader::decode::geometry::Region;
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder};
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::delivery::Delivery;
use forebay_loader::{Loader, LoaderConfig, Next};
use rig::*;
use std::ffi::{c_char, c_int};

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
    let proof = |entry: std::io::Result<std::fs::DirEntry>| {
        let file = std::fs::read(entry.expect("an entry").path()).expect("a file");
        let (mut decoder, mut pixels) = (Decoder::new(), Pixels::new());
        let size = decoder.size(&file).expect("a size");
        decoder.decode(&file, Region::all(size), &mut pixels).expect("decoded");
        (file, pixels.rgb().to_vec(), size)
    };
    let proofs = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/decode/selftest")).expect("a folder");
    let pictures = (0..SAMPLES).map(jpeg).chain(proofs.map(proof));
    for (file, rgb, size) in pictures {
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
        let (host, device) = (on_host(&config), on_device(&config, &rig));
        if gives_up {
            type Fail = unsafe extern "C" fn(*const c_char, c_int, c_int);
            // SAFETY: the type is the one of the stand-in's source.
            let fail = unsafe { nvjpeg.get::<Fail>("fake_nvjpeg_fail") }.expect("there");
            // The opening has asked eight times, and the first batch asks once. The answer is that there is no memory.
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
        let (decoded, given_up) = (counter(&device, "pictures_on_device"), counter(&device, "device_decode_fallbacks"));
        assert!(decoded > 0, "nothing was decoded before the device gave up");
        assert_eq!((decoded == SAMPLES, given_up > 0), (!gives_up, gives_up), "{decoded} pictures");
        end(rig, &cufile, device);
    }
}

#[test]
fn a_device_that_does_not_answer_keeps_no_loader_from_closing() {
    let rig = Rig::with_libraries(1, &fake::libraries(), "", 0);
    rig.moving().waits_move(true);
    // SAFETY: no initialisers.
    let nvjpeg = unsafe { libloading::Library::new(fake::nvjpeg()) }.expect("loads");
    tell_of_pictures(&nvjpeg);
    let data = folder();
    write(&data.path().join("data"), &[("image", "jpeg")], SAMPLES, 100 << 10);
    let ops = serde_json::json!([{"op": "random_resized_crop", "size": [24, 24]}]);
    let fields = serde_json::json!([["x", {"kind": "image", "column": "image", "ops": ops}]]);
    let fields = Some(serde_json::from_value(fields).expect("fields"));
    let config = LoaderConfig { fields, device_decode: true, gpu_direct_storage: false, ..config(&data) };
    let device = on_device(&config, &rig);
    device.start_epoch().expect("an epoch");
    drop(next(&device).expect("a batch"));
    rig.moving().waits_move(false);
    device.start_epoch().expect("the next epoch");
    assert!(rig.await_waiters(1), "nobody waits for the device");
    device.close().expect("closed");
    drop(device);
    rig.moving().waits_move(true);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn batches_that_wait_for_memory_keep_no_loader_from_closing() {
    let (rig, _cufile) = rig();
    let data = arrays();
    let device = on_device(&LoaderConfig { prefetch: Some(1), memory: Some(8 << 20), ..config(&data) }, &rig);
    // Nothing moves, so no memory of the host comes back.
    rig.moving().waits_move(false);
    device.start_epoch().expect("an epoch");
    let mut batches = Vec::new();
    while let Next::Batch(batch) = device.next_within(std::time::Duration::from_secs(2)).expect("a batch") {
        batches.push(batch);
    }
    assert!(batches.len() < SAMPLES.div_ceil(16) as usize, "there is memory for all batches");
    device.close().expect("closed");
    drop((batches, device));
    rig.moving().waits_move(true);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn rows_that_wait_for_memory_of_the_device_keep_no_loader_from_closing() {
    let (rig, _cufile) = rig();
    let data = arrays();
    let device = on_device(&LoaderConfig { gpu_direct_storage: false, ..config(&data) }, &rig);
    rig.call("fake_cuda_hold_memory");
    device.start_epoch().expect("an epoch");
    assert!(rig.await_waiters(1), "nobody asks for memory");
    device.close().expect("closed");
    drop(device);
    rig.call("fake_cuda_let_memory_go");
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn reads_that_wait_for_a_consumer_keep_no_loader_from_closing() {
    let (rig, cufile) = rig();
    let data = folder();
    write(&data.path().join("data"), ARRAYS, 40 * 16, 100 << 10);
    forget(&data, |_| true);
    let device = on_device(&config(&data), &rig);
    // The consumer's stream does not move.
    rig.moving().waits_move(false);
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
        // The thread that gives slots back, and one that is to read where the consumer reads.
        let waited = rig.await_waiters(2);
        device.close().expect("closed");
        waited
    });
    assert!(waited, "nobody waits for the consumer");
    drop(device);
    rig.moving().waits_move(true);
    assert_eq!(rig.end(), NOTHING_LEFT);
    assert_eq!(cufile.call("live"), 0);
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
    forget(&data, |_| true);
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
    was_forgotten(&device);
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
    assert!(read > 0, "{refused} were refused");
    end(rig, &cufile, device);
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
    // No other wait moves the consumer.
    rig.moving().little(|| {
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
    });
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
    drop(rig.place(1).expect("placed"));
    let waits = std::thread::scope(|scope| {
        let begun = scope.spawn(|| rig.target.direct_rows().expect("a device").allocate(BYTES, true));
        // One waiter is the thread that gives slots back.
        let waits = rig.await_waiters(2);
        rig.moving().waits_move(true);
        drop(begun.join().expect("ended").expect("memory").expect("waited for"));
        waits
    });
    assert!(waits, "nobody waits for the copy");
    assert_eq!(rig.end(), NOTHING_LEFT);
    assert_eq!(cufile.call("live"), 0);
}
