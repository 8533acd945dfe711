//! The C interface from C, C++ and other languages.
//!
//! * `rig`: data, compiler, sanitizers;
//! * `programs`: the programs of `ffi/tests`, plain and under sanitizers and valgrind;
//! * `header`: the documentation in `forebay.h`.

mod header;
mod programs;
mod rig;
