//! The C interface from C, C++ and further languages.
//!
//! * `rig`: data, compiler, sanitizers;
//! * `programs`: the programs of `ffi/tests`, plain and under sanitizers and valgrind;
//! * `examples`: the programs of `ffi/examples`, in several languages;
//! * `install`: `make install`;
//! * `page`: the page of the documentation;
//! * `failures`: failures of stores and data;
//! * `header`: the documentation in `forebay.h`.

mod examples;
mod failures;
mod header;
mod install;
mod page;
mod programs;
mod rig;
