//! Text files of the repository: those that git tracks, and new ones that it does not ignore.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of the repository.
#[derive(Clone, Debug)]
pub struct Source {
    /// From the repository's root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Returns the repository's root, two folders above this crate.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate is below the workspace").to_owned()
}

/// Reads every text file that is tracked, or new and not ignored. Skips files that are not UTF-8.
///
/// # Errors
///
/// When git cannot be run or a file cannot be read.
pub fn read(root: &Path) -> io::Result<Vec<Source>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()?;
    if !listed.status.success() {
        return Err(io::Error::other(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr))));
    }
    let mut sources = Vec::new();
    for path in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
        match std::fs::read(root.join(path)) {
            Ok(bytes) => {
                if let Ok(text) = String::from_utf8(bytes) {
                    sources.push(Source { path: path.to_owned(), text });
                }
            }
            // Deleted but still in the index, or a folder that is a separate repository.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => {}
            Err(e) => return Err(io::Error::new(e.kind(), format!("{path}: {e}"))),
        }
    }
    Ok(sources)
}
