//! Linker arguments of cargo's libforebay.so, which tests and bindings load. `install.sh` has the same ones.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // dlclose leaves the library in the process: its threads, the ends of threads that called it, the deleters of
    // tensors and the handler of forks run its code later.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
