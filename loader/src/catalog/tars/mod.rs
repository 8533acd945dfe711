//! Tars of a list as the shards of a stream: `survey` has the survey of one, `known` the samples that files of foreign
//! programs count, and `set` is for programs that make the index.

mod known;
mod set;
mod survey;

use super::opening::{Files, OpenFiles, Opening};
use super::stream::IndexedStream;
use super::whole_files;
use crate::error::Result;
use crate::sources::folder_names::{check_split_names, check_splits, is_hidden};
use crate::sources::names_of_kind;
use crate::sources::tars::{Packing, TAR};
pub use set::TarSet;
use survey::TarSurvey;

/// Text for the list of all tars of a folder.
const TARS_BELOW: &str = "**/*.tar";

/// Opener of tars.
pub(super) struct Opener;

impl OpenFiles for Opener {
    fn open(&self, at: &Opening<'_>, files: Files) -> Result<IndexedStream> {
        let (described, files) = match files {
            Files::OfKind => {
                let entries = at.all()?;
                let shown = entries.iter().filter(|entry| !is_hidden(&entry.key));
                let names = names_of_kind(&TAR, &shown.map(|entry| entry.key.clone()).collect::<Vec<_>>())?;
                check_splits(names.iter().map(String::as_str))?;
                check_split_names(names.iter().map(String::as_str))?;
                // The folder of all lists of this folder: shards that it has stay when more are added.
                (TARS_BELOW.to_owned(), Files::Listed { names, entries })
            }
            files => {
                let names = files.into_names()?;
                (names.listed().join("\n"), Files::Named(names))
            }
        };
        let files = at.find(files)?;
        let are_plain = files.iter().all(|file| Packing::is_plain(&file.name));
        whole_files::open(at, TarSurvey, files, at.list_cache(&described), are_plain)
    }
}
