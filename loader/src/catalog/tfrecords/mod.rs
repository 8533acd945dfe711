//! TensorFlow's record files as the shards of a stream: `survey` has the survey of one, `indexed` the records by the
//! indexes next to the files.

mod indexed;
mod survey;

use super::found_files::FoundFile;
use super::opening::{Files, OpenFiles, Opening};
use super::pass::FRONT_BYTES;
use super::stream::IndexedStream;
use super::whole_files;
use crate::error::Result;
use crate::format::tfrecord::compression_of;
use crate::io::read_up_to_at;
use crate::sources::tfrecords::raw_name;
use std::path::Path;
use survey::RecordSurvey;

/// Opener of TensorFlow's record files.
pub(super) struct Opener;

impl OpenFiles for Opener {
    fn open(&self, at: &Opening<'_>, files: Files) -> Result<IndexedStream> {
        let names = files.into_names()?;
        let cache = at.list_cache(&names.listed().join("\n"));
        let (files, folder) = (at.find(Files::Named(names))?, at.folder());
        let are_plain = files.iter().all(|file| raw_name(&file.name) == file.name)
            && !is_first_compressed(folder.as_deref(), &files);
        let survey = RecordSurvey { are_plain, is_in_place: are_plain && folder.is_some() };
        whole_files::open(at, survey, files, cache, are_plain)
    }
}

/// Returns true if the first of the files on this machine is compressed, whatever its name: the rest are then, too.
fn is_first_compressed(folder: Option<&Path>, files: &[FoundFile]) -> bool {
    let (Some(folder), Some(file)) = (folder, files.first()) else { return false };
    let mut front = [0; FRONT_BYTES];
    // A file that cannot be read is an error when it is counted.
    let path = folder.join(&file.name);
    let opened = std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file);
    let read =
        opened.and_then(|_| std::fs::File::open(&path).ok()).and_then(|file| read_up_to_at(file, &mut front, 0).ok());
    read.is_some_and(|bytes| compression_of(&front[..bytes]).is_some())
}
