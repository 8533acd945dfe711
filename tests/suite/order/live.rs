//! The comparison with an installed reference, over as many random cases as one wants:
//!
//! ```text
//! FOREBAY_ORACLE_PYTHON=.../bin/python FOREBAY_ORACLE_CASES=20000 \
//!     cargo test -p forebay-tests --test order -- --ignored live
//! ```

use std::path::Path;
use std::process::Command;

#[test]
#[ignore = "needs the reference: set FOREBAY_ORACLE_PYTHON"]
fn random_cases_return_the_installed_references_ids_or_its_error() {
    let python = std::env::var("FOREBAY_ORACLE_PYTHON")
        .expect("FOREBAY_ORACLE_PYTHON names a Python with mosaicml-streaming 0.13.0");
    let cases = std::env::var("FOREBAY_ORACLE_CASES").unwrap_or_else(|_| "20000".to_owned());
    let first = std::env::var("FOREBAY_ORACLE_SEED").unwrap_or_else(|_| "0".to_owned());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("oracle/order_live.py");
    let status = Command::new(python)
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_order_oracle"))
        .args(["--count", &cases, "--first", &first])
        .status()
        .unwrap();
    assert!(status.success(), "the orders differ, or the oracle failed: {status}");
}
