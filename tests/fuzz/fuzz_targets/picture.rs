#![no_main]
//! See `tests/suite/decode/target.rs`.

#[path = "../../suite/decode/target.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _is_picture = target::check(bytes);
});
