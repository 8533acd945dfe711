//! Comparison with an installed reference, over any number of random data sets:
//!
//! ```text
//! FOREBAY_ORACLE_PYTHON=.../bin/python FOREBAY_ORACLE_SETS=2000 \
//!     cargo test -p forebay-tests --test format -- --ignored live
//! ```

use std::path::Path;
use std::process::Command;

use super::copy;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
}

fn oracle(args: &[&str]) {
    let python = std::env::var("FOREBAY_ORACLE_PYTHON")
        .expect("FOREBAY_ORACLE_PYTHON names a Python with mosaicml-streaming 0.13.0");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("oracle/format_live.py");
    let status = Command::new(python).arg(script).args(args).status().unwrap();
    assert!(status.success(), "the oracle failed: {status}");
}

#[test]
#[ignore = "needs the reference: set FOREBAY_ORACLE_PYTHON"]
fn random_data_sets_of_the_reference_are_copied_byte_for_byte_and_it_reads_the_copies() {
    let (first, count) = (number("FOREBAY_ORACLE_SEED", 0), number("FOREBAY_ORACLE_SETS", 300));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    oracle(&["write", path, &first.to_string(), &count.to_string()]);
    let (mut samples, mut values) = (0, 0);
    for seed in first..first + count {
        let set = folder.path().join(seed.to_string());
        let seen = copy::check(&set, &set.join("ours"));
        samples += seen.samples;
        values += seen.values;
        if seen.samples == 0 {
            // A set without samples has only an index, and no columns to copy.
            std::fs::create_dir_all(set.join("ours")).unwrap();
            std::fs::copy(set.join("data/index.json"), set.join("ours/index.json")).unwrap();
        }
    }
    println!("{count} sets from seed {first}: {samples} samples, {values} values");
    oracle(&["read", path]);
}
