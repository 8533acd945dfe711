//! Numbers of samples of tars, from the files that some programs leave next to them. They save a pass over the data.
//!
//! | file | program | scope |
//! | --- | --- | --- |
//! | `shardindex.json`, `index.json` | wids | a set, with sizes |
//! | `.nv-meta/.info.json`, `.nv-meta/.info.yaml` | Megatron Energon | a set |
//! | `sizes.json` | OpenCLIP | a folder |
//! | `_info.json`, `info.json` | timm | a set |
//! | `NAME.idx` | DALI | a tar |
//! | `NAME.tar.idx` | Megatron Energon | a tar |
//! | `NAME_stats.json` | img2dataset | a tar |
//!
//! Requests are few: all of [`set_files`] first, which are a handful. For tars that are then unknown, [`tar_files`] of
//! one of them show which program was used; only the files of that [`TarFormat`] are requested for the rest.
//!
//! A number is a statement of a program about a file that may have been replaced since. So the offsets of a few
//! samples are compared with the tar, where a file has them, and the reader of the tar compares the number with the
//! samples that it finds.
//!
//! ```
//! use forebay_loader::sources::tars::counts::{set_files, tar_files};
//!
//! let names = ["0.tar".to_owned(), "1.tar".to_owned()];
//! let sizes = set_files(&names).into_iter().find(|found| found.file == "sizes.json").expect("of OpenCLIP");
//! let known = sizes.read(br#"{"0.tar": 9789}"#, "s3://bucket/train", &names)?;
//! assert_eq!(known[0].expect("in the file").samples, 9789);
//! assert_eq!(known[1], None);
//!
//! let probe = &tar_files(&names[1])[0];
//! assert_eq!(probe.file, "1.idx");
//! assert_eq!(probe.read(b"v1.2 1\njpg 512 100 0.jpg\n")?.samples, 1);
//! # Ok::<(), forebay_loader::Error>(())
//! ```

mod dali;
mod energon;
mod img2dataset;
mod known;
mod matching;
mod open_clip;
mod timm;
mod wids;

use crate::error::{Context, Result};
use crate::sources::{location, pipes};
use known::KnownTar;
pub use known::{Known, TarFacts};

/// Most folders besides the root in which files for whole sets are looked for.
const FOLDERS_MAX: usize = 3;

/// Most bytes of a file that is worth reading. DALI's has a line per sample.
pub const FILE_BYTES_MAX: u64 = 256 << 20;

/// Format of a file about many tars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetFormat {
    /// The shard index of wids.
    Wids,
    /// The info of Megatron Energon.
    Energon,
    /// The same in its older form.
    EnergonYaml,
    /// The sizes of OpenCLIP.
    OpenClip,
    /// The info of timm.
    Timm,
}

/// Format of a file about one tar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TarFormat {
    /// The index of DALI.
    Dali,
    /// The offsets of Megatron Energon.
    Energon,
    /// The statistics of img2dataset.
    Img2dataset,
}

/// File that may exist and be about many tars.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetFile {
    /// Path below the root of the tars.
    pub file: String,
    /// Format that its name declares.
    pub format: SetFormat,
}

/// File that may exist and be about one tar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TarFile {
    /// Path below the root of the tars.
    pub file: String,
    /// Format that its name declares.
    pub format: TarFormat,
}

/// Names of files about many tars, with the most facts first.
const SET_FILES: [(&str, SetFormat); 7] = [
    ("shardindex.json", SetFormat::Wids),
    ("index.json", SetFormat::Wids),
    (".nv-meta/.info.json", SetFormat::Energon),
    (".nv-meta/.info.yaml", SetFormat::EnergonYaml),
    ("sizes.json", SetFormat::OpenClip),
    ("_info.json", SetFormat::Timm),
    ("info.json", SetFormat::Timm),
];

/// Returns the files about many of the tars `names` that may exist: in their root, then in their first
/// three folders.
pub fn set_files(names: &[String]) -> Vec<SetFile> {
    let mut folders = vec![""];
    for name in names {
        let folder = &name[..name.rfind('/').map_or(0, |at| at + 1)];
        if folders.len() <= FOLDERS_MAX && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    let in_folder = |folder: &&str| {
        let folder = (*folder).to_owned();
        SET_FILES.map(|(file, format)| SetFile { file: format!("{folder}{file}"), format })
    };
    folders.iter().flat_map(in_folder).collect()
}

/// Returns the files about the tar `name` that may exist.
pub fn tar_files(name: &str) -> Vec<TarFile> {
    TarFormat::ALL.iter().filter_map(|format| format.file_of(name)).collect()
}

impl TarFormat {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Dali, Self::Energon, Self::Img2dataset];

    /// Returns the file of this format for the tar `name`; `None` if its program makes none for such a name.
    pub fn file_of(self, name: &str) -> Option<TarFile> {
        let file_at = name.rfind('/').map_or(0, |at| at + 1);
        let (folder, file) = name.split_at(file_at);
        let stem = file.strip_suffix(".tar").filter(|stem| !stem.is_empty());
        let file = match self {
            // Up to the first dot, but for one at the start.
            Self::Dali => {
                let dot = file.char_indices().skip(1).find(|(_, c)| *c == '.').map_or(file.len(), |(at, _)| at);
                format!("{}.idx", &file[..dot])
            }
            Self::Energon => format!("{}.tar.idx", stem?),
            Self::Img2dataset => format!("{}_stats.json", stem?),
        };
        Some(TarFile { file: format!("{folder}{file}"), format: self })
    }
}

impl SetFile {
    /// Returns the facts in `bytes` about each of the tars `names`, which are paths below `root`; `None` for tars that
    /// the file does not have. A file of a different program with the same name has none of them.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a damaged file, and [`crate::ErrorKind::Unsupported`] for an unknown version,
    /// with `file`.
    pub fn read(&self, bytes: &[u8], root: &str, names: &[String]) -> Result<Vec<Option<Known>>> {
        let entries = match self.format {
            SetFormat::Wids => wids::parse(bytes),
            SetFormat::Energon => energon::parse_json(bytes),
            SetFormat::EnergonYaml => energon::parse_yaml(bytes),
            SetFormat::OpenClip => open_clip::parse(bytes),
            SetFormat::Timm => timm::parse(bytes),
        };
        let entries = entries.context("file", || &self.file)?;
        let entries: Vec<_> = entries.into_iter().map(|entry| self.below_root(entry)).collect();
        Ok(matching::find(&entries, root, names))
    }

    /// Makes a path in this file one below the root. Whole addresses stay.
    fn below_root(&self, entry: KnownTar) -> KnownTar {
        let address = entry.path.strip_prefix("pipe:").and_then(|command| pipes::address(command).ok());
        let address = address.unwrap_or(entry.path);
        let path = location::without_query(&address).0;
        let path = path.strip_prefix("./").unwrap_or(path);
        let inside = if self.format == SetFormat::Energon || self.format == SetFormat::EnergonYaml { 2 } else { 1 };
        let folder = self.file.rsplitn(inside + 1, '/').nth(inside);
        let path = match folder {
            Some(folder) if !path.starts_with('/') && !path.contains("://") => format!("{folder}/{path}"),
            _ => path.to_owned(),
        };
        KnownTar { path, ..entry }
    }
}

impl TarFile {
    /// Returns the facts in `bytes` about the tar.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a damaged file, and [`crate::ErrorKind::Unsupported`] for an unknown version,
    /// with `file`.
    pub fn read(&self, bytes: &[u8]) -> Result<TarFacts> {
        let facts = match self.format {
            TarFormat::Dali => dali::parse(bytes),
            TarFormat::Energon => energon::parse_offsets(bytes),
            TarFormat::Img2dataset => {
                img2dataset::parse(bytes).map(|samples| TarFacts { samples, ..TarFacts::default() })
            }
        };
        facts.context("file", || &self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn few_files_are_worth_a_request() {
        let names: Vec<_> = (0..10_000).map(|n| format!("{}/{n}.tar", n % 100)).collect();
        let files = set_files(&names);
        assert_eq!(files.len(), 4 * 7);
        assert_eq!(files[0], SetFile { file: "shardindex.json".to_owned(), format: SetFormat::Wids });
        assert_eq!(files[9], SetFile { file: "0/.nv-meta/.info.json".to_owned(), format: SetFormat::Energon });
        assert_eq!(set_files(&texts(&["a.tar", "b.tar"])).len(), 7);
        for (tar, files) in [
            ("t/00000.tar", &["t/00000.idx", "t/00000.tar.idx", "t/00000_stats.json"] as &[&str]),
            ("a.b.tar", &["a.idx", "a.b.tar.idx", "a.b_stats.json"]),
            (".a.tar", &[".a.idx", ".a.tar.idx", ".a_stats.json"]),
            ("x.d/a.tar.gz", &["x.d/a.idx"]),
        ] {
            let found: Vec<_> = tar_files(tar).into_iter().map(|found| found.file).collect();
            assert_eq!(found, texts(files), "{tar}");
        }
    }

    #[test]
    fn paths_in_a_file_are_below_its_folder() {
        let names = texts(&["train/0.tar", "val/0.tar", "val/1.tar"]);
        let read = |file: &str, text: &str| {
            let files = set_files(&names);
            let file = files.iter().find(|found| found.file == file).expect("a candidate");
            let known = file.read(text.as_bytes(), "s3://b", &names).expect(text);
            known.into_iter().map(|known| known.map(|known| known.samples)).collect::<Vec<_>>()
        };
        assert_eq!(read("val/sizes.json", r#"{"0.tar": 1, "1.tar": 2}"#), [None, Some(1), Some(2)]);
        assert_eq!(read("sizes.json", r#"{"0.tar": 1, "1.tar": 2}"#), [None, None, Some(2)], "two tars are 0.tar");
        let counts = r#"{"shard_counts": {"0.tar": 1, "./1.tar": 2}}"#;
        assert_eq!(read("val/.nv-meta/.info.json", counts), [None, Some(1), Some(2)]);
        let counts = r#"{"shard_counts": {"train/0.tar": 1, "val/0.tar": 2}}"#;
        assert_eq!(read(".nv-meta/.info.json", counts), [Some(1), Some(2), None]);
        let wids = r#"{"wids_version": 1, "shardlist": [
            {"url": "pipe:aws s3 cp s3://b/train/0.tar -", "nsamples": 1},
            {"url": "https://h/val/0.tar?sig=x", "nsamples": 2}, {"url": "/tmp/val/1.tar", "nsamples": 3}]}"#;
        assert_eq!(read("shardindex.json", wids), [Some(1), Some(2), Some(3)]);
        assert_eq!(read("index.json", r#"{"version": 2, "shards": []}"#), [None, None, None]);
    }

    #[test]
    fn an_error_names_the_file() {
        let names = texts(&["0.tar"]);
        for file in set_files(&names) {
            let e = file.read(b"<html>", "s3://b", &names).expect_err(&file.file);
            assert!(
                e.kind() == crate::ErrorKind::Format && e.to_string().contains(&format!("file {}", file.file)),
                "{e}"
            );
        }
        for file in tar_files("t/0.tar") {
            let e = file.read(b"<html>").expect_err(&file.file);
            assert!(
                e.kind() == crate::ErrorKind::Format && e.to_string().contains(&format!("file {}", file.file)),
                "{e}"
            );
        }
    }
}
