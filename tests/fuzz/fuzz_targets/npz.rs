#![no_main]
//! See `tests/suite/format/targets.rs`.

#[allow(dead_code, reason = "each fuzzer calls one of the targets")]
#[path = "../../suite/format/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::npz(bytes));
