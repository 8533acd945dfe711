#![no_main]
//! See `tests/suite/jpeg/target.rs`.

#[path = "../../suite/jpeg/target.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _is_picture = target::agree(bytes);
});
