//! Texts of a run: files of JSON lines.

use forebay_loader::{Error, ErrorKind, Result};
use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

/// Folder with files of texts.
pub(super) struct Texts {
    folder: PathBuf,
    pub(super) documents: u64,
    /// Bytes of all texts as UTF-8.
    pub(super) bytes: u64,
}

/// A line.
#[derive(Deserialize)]
struct Document {
    text: String,
}

impl Texts {
    /// Reads all files once, which also brings them into the page cache.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let mut texts = Self { folder: folder.to_owned(), documents: 0, bytes: 0 };
        let lines = texts.jsonl();
        let failed = |path: &Path| {
            let path = path.display().to_string();
            move |e| Error::from_io(e, "the texts cannot be read").with("path", path)
        };
        let entries = std::fs::read_dir(&lines).map_err(failed(&lines))?;
        for entry in entries {
            let path = entry.map_err(failed(&lines))?.path();
            if path.extension().is_none_or(|extension| extension != "jsonl") {
                continue;
            }
            for line in BufReader::new(File::open(&path).map_err(failed(&path))?).lines() {
                let line = line.map_err(failed(&path))?;
                let Document { text } = serde_json::from_str(&line).map_err(|e| {
                    let message = format!("a line is no object with a `text`: {e}");
                    Error::new(ErrorKind::Format, message).with("file", path.display())
                })?;
                texts.documents += 1;
                texts.bytes += text.len() as u64;
            }
        }
        if texts.documents == 0 {
            return Err(Error::config(
                "--data has no texts: put files DIR/jsonl/*.jsonl there, with a `text` in each line",
            ));
        }
        Ok(texts)
    }

    pub(super) fn jsonl(&self) -> PathBuf {
        self.folder.join("jsonl")
    }

    pub(super) fn mds(&self) -> PathBuf {
        self.folder.join("mds")
    }
}
