//! The examples: each language trains the same model and must find its weights.

use crate::rig::{Rig, SAMPLES, Sanitizer, command, ffi, has, libraries, succeeded};
use std::path::PathBuf;
use std::process::Command;

/// The line that every example prints: ten epochs of 20 batches, resumed in the middle of one.
const TRAINED: &str = "200 batches, w = 1.000 -2.000 3.000 0.500, b = 0.250\n";

/// Runs LuaJIT's file `argv[1]` as the program `luajit` does.
const LUAJIT: &str = "import sys, lupa.luajit21 as luajit; lua = luajit.LuaRuntime()
lua.globals().arg = lua.table_from(sys.argv[2:])
lua.execute(open(sys.argv[1]).read())";

/// Folder with the packages of further languages.
fn languages() -> PathBuf {
    succeeded(&mut Command::new(ffi().join("languages.sh"))).trim_end().into()
}

/// Runs an example with an interpreter, which gets the library and a folder.
fn interpret(interpreter: &mut Command, example: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    interpreter.arg(ffi().join("examples").join(example)).arg(libraries().join("libforebay.so"));
    assert_eq!(succeeded(interpreter.arg(folder.path().join("data"))), TRAINED);
}

#[test]
fn the_training_loops_in_c_and_cpp_find_the_weights() {
    for source in ["examples/linear.c", "examples/linear.cpp"] {
        let rig = Rig::new();
        let program = rig.compile(source, Sanitizer::None);
        assert_eq!(succeeded(command(program).arg(rig.path("out"))), TRAINED);
    }
}

#[test]
fn the_training_loop_with_ctypes_finds_the_weights() {
    interpret(&mut command(languages().join("python/bin/python")), "linear.py");
}

#[test]
fn the_training_loop_in_luajit_finds_the_weights() {
    interpret(command(languages().join("python/bin/python")).args(["-c", LUAJIT]), "linear.lua");
}

#[test]
fn the_training_loop_in_node_finds_the_weights() {
    if !has("node") {
        return;
    }
    let modules = languages().join("node_modules");
    if !modules.join("koffi").exists() {
        println!("skipped: npm cannot install koffi");
        return;
    }
    interpret(command("node").env("NODE_PATH", modules), "linear.cjs");
}

#[test]
fn the_example_of_one_epoch_counts_the_rows() {
    let rig = Rig::new();
    let program = rig.compile("examples/tokens.c", Sanitizer::None);
    assert_eq!(succeeded(command(program).arg(rig.config())), format!("{SAMPLES} rows\n"));
}
