//! Run of this binary under callgrind, which counts the instructions of a function and writes a file for each call.

use forebay_loader::decode::vectors;
use forebay_loader::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Vector instructions of valgrind's processor.
pub(super) const VECTORS: &str = "avx2";

/// Options with patterns for the functions' names, mangled or not: instructions of the first are counted, and a
/// profile is written after the second.
const FUNCTIONS: [&str; 2] = ["--toggle-collect=*counted_by_callgrind*", "--dump-after=*profiled_by_callgrind*"];

/// Keeps libc's copies from `rep movsb`: callgrind counts an instruction for each of its bytes, so that copies would be
/// most of some paths.
const TUNABLES: &str = "glibc.cpu.hwcaps=-ERMS,-FSRM";

/// Returns the instructions of each path, by its name. Keeps the profiles in `folder`, if there is one.
///
/// # Errors
///
/// `NotFound` without valgrind; `Unsupported` if the child fails or its profiles are not as expected.
pub(super) fn count(folder: Option<&Path>) -> Result<BTreeMap<String, u64>> {
    let failed = |e| Error::from_io(e, "the folder of the profiles cannot be made");
    let temporary = tempfile::Builder::new().prefix("forebay-bench-").tempdir().map_err(failed)?;
    let folder = folder.unwrap_or(temporary.path());
    fs::create_dir_all(folder).map_err(failed)?;
    let base = folder.join("profile");
    let names = run_child(&base)?;
    let mut counts = BTreeMap::new();
    for (number, name) in (1..).zip(&names) {
        // callgrind numbers the files.
        let file = numbered(&base, number);
        let of_file = |message: &str| Error::new(ErrorKind::Unsupported, message).with("file", file.display());
        let profile = fs::read_to_string(&file).map_err(|e| of_file("a profile is missing").caused_by(e))?;
        let instructions =
            instructions(&profile).ok_or_else(|| of_file("a profile without a number of instructions"))?;
        counts.insert(name.clone(), instructions);
        fs::rename(&file, folder.join(name)).map_err(|e| Error::from_io(e, "a profile cannot be named"))?;
    }
    if names.is_empty() || numbered(&base, names.len() + 1).exists() {
        return Err(Error::new(ErrorKind::Unsupported, "callgrind wrote more or fewer profiles than there are paths"));
    }
    Ok(counts)
}

/// Runs the child and returns the names of the paths, in the order of their profiles.
fn run_child(base: &Path) -> Result<Vec<String>> {
    let own = std::env::current_exe().map_err(|e| Error::from_io(e, "this program cannot find itself"))?;
    let mut file = OsString::from("--callgrind-out-file=");
    file.push(base);
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind"]).arg(file);
    command.args(FUNCTIONS).arg(own).arg("counts-child");
    // Settings of libraries, and the length of the environment, which moves the stack, are the same in all runs.
    command.env_clear().env(vectors::VARIABLE, VECTORS).env("GLIBC_TUNABLES", TUNABLES);
    command.envs(["PATH", "TMPDIR"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    let output = command.stdin(Stdio::null()).output().map_err(|e| {
        Error::from_io(e, "valgrind cannot be started: install it, or use `make bench-check`, which does")
    })?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let message = format!("the paths under valgrind ended with {}: {errors}", output.status);
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

fn numbered(base: &Path, number: usize) -> PathBuf {
    base.with_extension(number.to_string())
}

/// Returns the instructions of all functions in a profile; `None` if it does not have them alone.
fn instructions(profile: &str) -> Option<u64> {
    let value = |key: &str| Some(profile.lines().find_map(|line| line.strip_prefix(key))?.trim());
    if value("events:")? != "Ir" {
        return None;
    }
    value("totals:")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_a_profile_is_its_total() {
        let profile = include_str!("callgrind/profile.out");
        assert_eq!(instructions(profile), Some(2_000_189));
        assert_eq!(instructions(&profile.replace("events: Ir", "events: Ir Dr")), None);
        assert_eq!(instructions(&profile.replace("totals:", "total:")), None);
        assert_eq!(instructions(""), None);
    }
}
