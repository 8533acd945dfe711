//! Python children: embedded scripts in a temporary folder, run by an interpreter that the user selects.

use forebay_loader::{Error, ErrorKind, Result};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Folder of embedded scripts, removed on drop.
pub(crate) struct Scripts {
    folder: TempDir,
}

impl Scripts {
    /// Writes `(name, text)` pairs.
    pub(crate) fn unpack(files: &[(&str, &str)]) -> Result<Self> {
        let failed = |e| Error::from_io(e, "the embedded scripts cannot be unpacked");
        let folder = tempfile::Builder::new().prefix("forebay-bench-").tempdir().map_err(failed)?;
        for (name, text) in files {
            fs::write(folder.path().join(name), text).map_err(failed)?;
        }
        Ok(Self { folder })
    }

    /// Returns the path of the script `name`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a script to its end; its output goes to the terminal.
    ///
    /// # Errors
    ///
    /// If the interpreter cannot be started or the script fails.
    pub(crate) fn call(&self, python: &Path, name: &str, args: &[String]) -> Result<()> {
        let status = Command::new(python).arg(self.path(name)).args(args).stdin(Stdio::null()).status();
        let status = status.map_err(|e| cannot_start(e, python))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Unsupported, format!("the script ended with {status}")).with("script", name))
    }

    /// Creates a file in the folder for a child's standard error.
    pub(crate) fn log(&self, name: &str) -> Result<(PathBuf, File)> {
        let path = self.path(&format!("{name}.log"));
        let file = File::create(&path).map_err(|e| Error::from_io(e, "a child's log cannot be made"))?;
        Ok((path, file))
    }
}

/// Returns the error for an interpreter that does not start.
pub(crate) fn cannot_start(e: std::io::Error, python: &Path) -> Error {
    Error::from_io(e, "Python cannot be started; name an interpreter with --python").with("python", python.display())
}

/// Runs a child to its end and parses the JSON object on the last line of its output.
///
/// # Errors
///
/// If the child cannot be started, fails, or prints no such line.
pub(crate) fn answer(command: &mut Command) -> Result<Value> {
    let program = PathBuf::from(command.get_program());
    let output = command.stdin(Stdio::null()).output().map_err(|e| cannot_start(e, &program))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.trim().lines().last().unwrap_or("").to_owned();
    if !output.status.success() {
        return Err(Error::new(ErrorKind::Unsupported, format!("ended with {}: {last}", output.status)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let found = text.trim().lines().last().and_then(|line| serde_json::from_str(line).ok());
    found.ok_or_else(|| Error::new(ErrorKind::Unsupported, format!("printed no result: {last}")))
}
