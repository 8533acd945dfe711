#![no_main]
//! See `tests/suite/format/targets.rs`.

#[allow(dead_code, reason = "each fuzzer calls one of the targets")]
#[path = "../../suite/format/targets.rs"]
mod targets;

// Panics of the library that decodes are caught in the engine.
libfuzzer_sys::fuzz_target!(
    init: drop(std::panic::take_hook()),
    |bytes: &[u8]| targets::parquet(bytes)
);
