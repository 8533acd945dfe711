//! `make install`: files, symbols, pkg-config.

use crate::rig::{Rig, command, ffi, has, succeeded, sum_of_all_tokens};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installation under a temporary folder, made of files that the tests build.
struct Installation {
    folder: tempfile::TempDir,
}

impl Installation {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut install = Command::new(ffi().join("install.sh"));
        install.env("PROFILE", "dev").env("PREFIX", "/opt/forebay").env("DESTDIR", folder.path());
        succeeded(&mut install);
        Self { folder }
    }

    fn prefix(&self) -> PathBuf {
        self.folder.path().join("opt/forebay")
    }

    fn library(&self) -> PathBuf {
        self.prefix().join("lib/libforebay.so")
    }
}

/// Names of our functions in `text` that `end` follows.
fn functions(text: &str, end: char) -> BTreeSet<String> {
    let words = text.split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let named = words.filter_map(|word| word.strip_suffix(end));
    named.filter(|name| name.starts_with("forebay_")).map(str::to_owned).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = read(&ffi().join("include/forebay.h"));
    let code: Vec<&str> = header.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    functions(&code.join("\n"), '(')
}

#[test]
fn the_version_script_has_exactly_the_functions_of_the_header() {
    assert_eq!(functions(&read(&ffi().join("symbols.map")), ';'), declared());
}

#[test]
fn an_installed_library_exports_only_our_functions_with_versions_and_works_through_pkg_config() {
    let installed = Installation::new();
    let exported = succeeded(Command::new("nm").args(["-D", "--defined-only"]).arg(installed.library()));
    let exported: BTreeSet<&str> = exported.lines().filter_map(|line| line.rsplit(' ').next()).collect();
    let mut expected: BTreeSet<String> = declared().into_iter().map(|name| format!("{name}@@FOREBAY_1.0")).collect();
    expected.insert("FOREBAY_1.0".to_owned());
    assert_eq!(exported, expected.iter().map(String::as_str).collect());

    let dynamic = succeeded(Command::new("readelf").arg("-d").arg(installed.library()));
    assert!(dynamic.contains("Library soname: [libforebay.so.1]"), "{dynamic}");
    let flags = dynamic.lines().find(|line| line.contains("(FLAGS_1)")).unwrap_or_default();
    assert!(flags.contains("NODELETE"), "{dynamic}");
    let links = [("libforebay.so", "libforebay.so.1"), ("libforebay.so.1", "libforebay.so.1.0")];
    for (link, target) in links {
        let link = std::fs::read_link(installed.prefix().join("lib").join(link)).expect("a link");
        assert_eq!(link, Path::new(target));
    }

    if !has("pkg-config") {
        return;
    }
    let mut flags = Command::new("pkg-config");
    flags.args(["--cflags", "--libs", "forebay"]).env("PKG_CONFIG_SYSROOT_DIR", installed.folder.path());
    flags.env("PKG_CONFIG_LIBDIR", installed.prefix().join("lib/pkgconfig"));
    let flags = succeeded(&mut flags);
    let rig = Rig::new();
    for (source, compiler) in [("tests/interface.c", "cc"), ("tests/wrapper.cpp", "c++")] {
        let mut compile = Command::new(compiler);
        compile.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(rig.path("program")).arg(ffi().join(source));
        succeeded(compile.args(flags.split_whitespace()));
        // A program needs the version of every function that it calls.
        let needed = succeeded(Command::new("readelf").arg("-V").arg(rig.path("program")));
        assert!(needed.contains("FOREBAY_1.0"), "{needed}");
        let mut program = command(rig.path("program"));
        program.env("LD_LIBRARY_PATH", installed.prefix().join("lib"));
        assert_eq!(succeeded(program.arg(rig.config()).arg(rig.path("out"))), sum_of_all_tokens());
    }
}
