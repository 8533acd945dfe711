//! Files and machines that cuFile does not support: the host reads the rows.

use super::rig::*;
use crate::fake::{self, Rig};
use forebay_gpu::Libraries;
use forebay_loader::config::EngineConfig;
use forebay_loader::{ErrorKind, Loader, LoaderConfig, Next};

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
fn the_host_reads_rejected_rows_into_the_same_batch() {
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
        let [read, rejected, fallbacks] = counters(&loader);
        assert!(read > SAMPLES, "{function}: {read} of further files");
        assert!(rejected >= 4, "{function}: {rejected}");
        assert_eq!(fallbacks, 1, "{function} is reported once, for one file");
        end(rig, &cufile, loader);
    }
}

#[test]
fn a_library_that_rejects_everything_is_abandoned() {
    for function in ["cuFileRead", "cuFileHandleRegister"] {
        let (rig, cufile) = rig();
        let data = arrays();
        cufile.fail(function, EVERY, IO_NOT_SUPPORTED);
        let loader = compare(&rig, &config(&data));
        let [read, rejected, fallbacks] = counters(&loader);
        let shards = std::fs::read_dir(data.path().join("data")).expect("a folder").count() as u64 - 1;
        assert_eq!(read, 0);
        assert!((4..=2 * 4 * SAMPLES).contains(&rejected), "{rejected}");
        assert!((1..=shards + 1).contains(&fallbacks), "{fallbacks}");
        end(rig, &cufile, loader);
    }
}

#[test]
fn without_device_memory_for_a_batch_the_host_reads_rows_for_the_rest_of_the_epoch() {
    let (rig, cufile) = rig();
    let data = arrays();
    let (host, device) = (on_host(&config(&data)), on_device(&config(&data), &rig));
    let epoch = || {
        host.start_epoch().expect("an epoch");
        device.start_epoch().expect("an epoch");
        compare_rest(&rig, &host, &device);
        counters(&device)
    };
    rig.fail("cuMemAlloc_v2", 2);
    let [read, rejected, fallbacks] = epoch();
    assert!((4..4 * SAMPLES).contains(&rejected), "{rejected}");
    assert!(read + rejected <= 4 * SAMPLES, "{read}");
    assert_eq!(fallbacks, 1);
    // The memory suffices again.
    assert_eq!(epoch(), [read + 4 * SAMPLES, rejected, 1]);
    let notes = device.stats().expect("figures").notes;
    assert!(notes.iter().any(|note| note.starts_with("rows are read by the host up to the end")), "{notes:?}");
    end(rig, &cufile, device);
}

#[test]
fn a_machine_without_cufile_is_reported_once_and_the_host_reads() {
    for (what, sentence) in [
        ("open", "DRIVER_NOT_INITIALIZED"),
        ("compatible", "compatibility mode"),
        ("library", "FOREBAY_CUFILE_LIBRARY"),
        ("columns", "gpu_direct_storage has no effect"),
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
                rig.wait_mode().advance(true);
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
fn libraries_are_not_loaded_unless_they_are_used() {
    let (rig, cufile) = rig();
    let data = arrays();
    let before = cufile.call("opened");
    let engine = EngineConfig { gpu_direct_storage: false, ..engine() };
    let loader = compare(&rig, &LoaderConfig { engine, ..config(&data) });
    assert_eq!((cufile.call("opened"), counters(&loader)), (before, [0, 0, 0]));
    let host = Loader::new(config(&data)).expect("a loader");
    host.start_epoch().expect("an epoch");
    assert_eq!((cufile.call("opened"), counters(&host)), (before, [0, 0, 1]), "there is no device");
    end(rig, &cufile, loader);
}

#[test]
fn a_truncated_shard_is_its_sample_s_error() {
    let (rig, cufile) = rig();
    let data = folder();
    write(&data.path().join("data"), &[("x", "ndarray:float32:1200")], 64, 1 << 30);
    let engine = EngineConfig { prefetch: Some(1), ..engine() };
    let config = LoaderConfig { batch_size: 4, shuffle: false, engine, ..config(&data) };
    let device = on_device(&config, &rig);
    device.start_epoch().expect("an epoch");
    drop(next(&device).expect("a batch"));
    let shard = data.path().join("data/shard.00000.mds");
    let file = std::fs::OpenOptions::new().write(true).open(&shard).expect("a shard");
    file.set_len(40 * 4800).expect("cut off");
    let error = loop {
        match device.next() {
            Ok(Next::Batch(_)) => {}
            Ok(_) => panic!("the epoch ended without an error"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Format, "{error}");
    for word in ["shard.00000.mds", "sample in shard", "cut short"] {
        assert!(error.to_string().contains(word), "{word} is missing: {error}");
    }
    end(rig, &cufile, device);
}
