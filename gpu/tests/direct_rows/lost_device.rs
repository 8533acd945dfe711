//! Device that is lost at any call of its driver. With any work in flight, the epoch ends with an error, the next one
//! does not start, and no thread is blocked. Memory on the device is never freed then, so each case runs in a separate
//! process.

use super::*;
use forebay_loader::ErrorKind;

/// Call at which the device of a child is lost.
const LOST_AT: &str = "FOREBAY_TEST_LOST_AT";
/// Time limit of a child in seconds.
const CHILD_S: u64 = 60;
/// `CUDA_ERROR_ILLEGAL_ADDRESS`, after which no call of the driver succeeds.
const LOST: c_int = 700;

#[test]
fn a_device_lost_at_any_call_ends_the_epoch_and_blocks_no_thread() {
    for direct in [true, false] {
        let mut at = 1;
        while child(at, direct) {
            at += 1 + at / 8;
        }
        eprintln!("calls of the driver: {at}");
        assert!(at > 1000, "the driver is called more often");
    }
}

/// Runs a child and returns true if its device was lost.
fn child(at: i32, direct: bool) -> bool {
    let child =
        fake::child("lost_device::loses_its_device").env(LOST_AT, format!("{at} {direct}")).output().expect("a child");
    let output = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "lost at call {at}, cuFile {direct}: {}\n{output}", child.status);
    assert_ne!(output.contains("ended: lost"), output.contains("ended: sound"), "{output}");
    output.contains("ended: lost")
}

#[test]
#[ignore = "a child of a test"]
fn loses_its_device() {
    let Ok(case) = std::env::var(LOST_AT) else { return };
    let (at, direct) = case.split_once(' ').expect("two words");
    std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_secs(CHILD_S));
        eprintln!("a thread is blocked");
        std::process::abort();
    });
    let (rig, _cufile) = rig();
    // SAFETY: no initialisers.
    let nvjpeg = unsafe { libloading::Library::new(fake::nvjpeg()) }.expect("loads");
    add_pictures(&nvjpeg);
    let data = folder();
    write(&data.path().join("data"), &[("image", "jpeg"), ("latent", "ndarray:float32:17001")], SAMPLES, 1 << 20);
    evict(&data, |number| number.is_multiple_of(2));
    let ops = serde_json::json!([{"op": "random_resized_crop", "size": [24, 24]}]);
    let fields = serde_json::json!([
        ["x", {"kind": "image", "column": "image", "ops": ops}], ["latent", {"kind": "array", "column": "latent"}]]);
    let fields = Some(serde_json::from_value(fields).expect("fields"));
    let direct = direct.parse().expect("a bool");
    let engine = EngineConfig {
        device_decode: true,
        gpu_direct_storage: direct,
        memory: Some(8 << 20),
        ..EngineConfig::default()
    };
    let config = LoaderConfig { fields, engine, ..config(&data) };
    let host = on_host(&config);
    rig.fail_nth("*", -at.parse::<c_int>().expect("a number"), LOST);
    match Loader::with_delivery(config, rig.delivery.clone()) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
        Ok(device) => {
            for _ in 0..2 {
                if let Err(error) = epoch(&rig, &host, &device) {
                    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                }
            }
            if is_lost(&rig) {
                let error = device.start_epoch().expect_err("an epoch");
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(error.to_string().contains("the device is lost to the process"), "{error}");
            }
            device.close().expect("closed");
        }
    }
    println!("ended: {}", if is_lost(&rig) { "lost" } else { "sound" });
}

fn is_lost(rig: &Rig) -> bool {
    rig.call("fake_cuda_is_lost") == 1
}

/// Runs an epoch and compares its batches, until an error, with the host's.
fn epoch(rig: &Rig, host: &Loader, device: &Loader) -> forebay_loader::Result<()> {
    device.start_epoch()?;
    host.start_epoch().expect("an epoch");
    loop {
        let batch = match device.next()? {
            Next::Batch(batch) => batch,
            Next::Pending => continue,
            Next::End => break,
        };
        let expected = next(host).expect("as many batches");
        let got = bytes(&batch, |tensor| match tensor.memory().order_before(None) {
            Ok(()) => rig.read_at(tensor.address(), tensor.bytes()),
            Err(_) => Vec::new(),
        });
        for ((name, expected), (_, got)) in host_bytes(&expected).iter().zip(&got).filter(|(_, got)| !got.1.is_empty())
        {
            // Grey levels may differ by one.
            let worst = expected.iter().zip(got).map(|(a, b)| a.abs_diff(*b)).max();
            assert!(worst <= Some(u8::from(name == "x")), "{name} differs by {worst:?}");
        }
    }
    assert!(next(host).is_none(), "the epoch is short");
    Ok(())
}
