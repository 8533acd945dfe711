//! The kinds of files that a list can name, and the kind of a name.

use super::array_records::ARRAY_RECORD;
use super::arrays::{NPY, NPZ};
use super::extension::has_extension;
use super::files::FILE;
use super::folder_names::is_hidden;
use super::kind::{FileContent, FileKind, InFolder};
use super::lines::{CELLS, JSON_LINES};
use super::tables::{ARROW, PARQUET};
use super::tars::TAR;
use super::tfrecords::TF_RECORD;
use super::tokens::TOKENS;
use crate::error::{Error, Result};
use crate::format::SampleFormat;
use crate::format::recipe::Texts;

/// All kinds. The first one that claims a name has it.
pub static KINDS: [&FileKind; 11] =
    [&TAR, &TOKENS, &PARQUET, &ARROW, &TF_RECORD, &ARRAY_RECORD, &JSON_LINES, &CELLS, &FILE, &NPY, &NPZ];

/// Returns the kind that a file's name declares; `None` for a name without a kind, which may be a folder's. Case has no
/// meaning.
///
/// # Errors
///
/// [`crate::ErrorKind::Unsupported`] for a known kind in a form that cannot be read.
pub fn kind_of(name: &str) -> Result<Option<&'static FileKind>> {
    claiming(name).map_or(Ok(None), |kind| Ok((kind.is_of)(name)?.then_some(kind)))
}

/// Returns the kind that a file's name declares, in a form that can be read or not.
pub(super) fn claiming(name: &str) -> Option<&'static FileKind> {
    KINDS.into_iter().find(|kind| !matches!((kind.is_of)(name), Ok(false)))
}

/// Returns the kind of a folder's files, with `names` among them, if all such files of a folder are a data set;
/// `None` if none of them has one.
///
/// # Errors
///
/// [`crate::ErrorKind::Config`] for files of two kinds: the user has to name one.
pub fn kind_of_folder(names: &[String]) -> Result<Option<&'static FileKind>> {
    only_kind(names, InFolder::All)?.map_or_else(|| only_kind(names, InFolder::Alone), |kind| Ok(Some(kind)))
}

/// Returns the only kind of `names` with this use in folders.
fn only_kind(names: &[String], in_folder: InFolder) -> Result<Option<&'static FileKind>> {
    let mut found: Option<(&FileKind, &String)> = None;
    for name in names {
        if is_hidden(name) {
            continue;
        }
        // Files in a form that cannot be read are not the folder's only hint, and many programs write `.bin`.
        let Some(kind) = kind_of(name).ok().flatten().filter(|kind| kind.in_folder == in_folder) else { continue };
        match found {
            Some((first, other)) if first != kind => {
                let message = "the folder has no index.json, and files of two kinds: name those to read, such as \
                               *.tar or **/*.jpg";
                return Err(Error::config(message).with("file", other).with("file", name));
            }
            _ => found = Some((kind, name)),
        }
    }
    Ok(found.map(|(kind, _)| kind))
}

/// Returns the content of files that are samples, if all have the same.
pub(super) fn content_of(paths: &Texts) -> Option<&'static FileContent> {
    contents().find(|content| paths.iter().all(|path| has_extension(path, content.extensions)))
}

/// Returns the format with this name of files with several columns.
pub(super) fn sample_format(name: &str) -> Option<&'static dyn SampleFormat> {
    contents().filter_map(|content| content.format).find(|format| format.name() == name)
}

fn contents() -> impl Iterator<Item = &'static FileContent> {
    KINDS.into_iter().filter_map(|kind| kind.samples.as_ref()).flat_map(|samples| samples.contents)
}

/// Returns true if `list` may be meant as a list of files, whatever its form.
pub(super) fn is_hinted(list: &str) -> bool {
    KINDS.into_iter().flat_map(|kind| kind.hints).any(|hint| list.contains(hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_name_has_one_kind() {
        for (name, kind) in [
            ("a/0.TAR", Some(&TAR)),
            ("0.tar.gz", Some(&TAR)),
            ("a.bin", Some(&TOKENS)),
            ("a.parq", Some(&PARQUET)),
            ("a.ARROW", Some(&ARROW)),
            ("a.feather", Some(&ARROW)),
            ("a.ipc", Some(&ARROW)),
            ("a.tfrecord.gz", Some(&TF_RECORD)),
            ("train-00000-of-01024", Some(&TF_RECORD)),
            ("a.array_record-00000-of-00002", Some(&ARRAY_RECORD)),
            ("a.jsonl.zst", Some(&JSON_LINES)),
            ("a.CSV", Some(&CELLS)),
            ("a.JPEG", Some(&FILE)),
            ("a.NPY", Some(&NPY)),
            ("a/0.npz", Some(&NPZ)),
            ("a.idx", None),
            ("a", None),
            ("", None),
        ] {
            assert_eq!(kind_of(name).unwrap(), kind, "{name}");
            let claims = KINDS.into_iter().filter(|kind| (kind.is_of)(name).unwrap());
            assert_eq!(claims.collect::<Vec<_>>(), kind.into_iter().collect::<Vec<_>>(), "{name}");
        }
        assert!(kind_of("0.tar.xz").is_err());
        assert_eq!(claiming("0.tar.xz"), Some(&TAR));
    }

    #[test]
    fn kinds_differ_in_names_and_nouns() {
        let texts = |text: fn(&FileKind) -> &str| KINDS.into_iter().map(text).collect::<HashSet<_>>().len();
        assert_eq!((texts(|kind| kind.name), texts(|kind| kind.noun)), (KINDS.len(), KINDS.len()));
    }

    #[test]
    fn the_kind_of_a_folder_is_the_kind_of_its_files() {
        let kind = |names: &[&str]| kind_of_folder(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert_eq!(kind(&["labels.csv", "a/0.JPEG", "a/1.png"]).unwrap(), Some(&FILE));
        assert_eq!(kind(&["0.tar", "1.tar.gz", "sizes.json"]).unwrap(), Some(&TAR));
        assert_eq!(kind(&["0.tar", ".thumbnails/0.png", "__MACOSX/._0.png"]).unwrap(), Some(&TAR));
        assert_eq!(kind(&["shard.00000.mds"]).unwrap(), None);
        assert_eq!(kind(&["a/0.npz", "b/1.npz", "labels.csv"]).unwrap(), Some(&NPZ));
        assert_eq!(kind(&["a/0.npy", "a/0.png", "a/1.png"]).unwrap(), Some(&FILE), "arrays may be next to pictures");
        assert_eq!(kind(&["0.tar", "mean.npy"]).unwrap(), Some(&TAR));
        assert!(kind(&["0.npy", "1.npz"]).unwrap_err().to_string().contains("two kinds"));
        for (name, other) in [("a.bin", "0.png"), ("a.parquet", "0.tar"), ("a.tfrecord", "0.tar.xz")] {
            assert_eq!(kind(&[name]).unwrap(), None, "{name} is not the only hint");
            assert!(kind(&[name, other]).is_ok(), "{name} with {other}");
        }
        let e = kind(&["0.tar", "preview.png"]).unwrap_err();
        assert!(e.to_string().contains("0.tar") && e.to_string().contains("preview.png"), "{e}");
    }
}
