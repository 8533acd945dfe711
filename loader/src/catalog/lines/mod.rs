//! Texts with a record in each line: ranges of each are the shards of a stream.
//!
//! ```text
//!   text --one pass--> LineFile: ranges of records, columns
//!                      all files: LineIndex, kept as the stream's index --> shards
//! ```
//!
//! Texts on this machine are read where they are. Of the texts of a store each shard's range is fetched; a compressed
//! text is one shard, which is unpacked into the cache.

use super::again::again;
use super::cache_folder::unfinished;
use super::found_files::{FoundFile, names_of};
use super::kept_index::{KeptFile, SurveyFiles, Surveyed, parse, to_bytes};
use super::opening::{Files, OpenFiles, Opening};
use super::parallel::in_parallel;
use super::pass_journal::{Journaled, PassJournal};
use super::remote_file::RemoteFile;
use super::requests::peek;
use super::stream::IndexedStream;
use super::unpacked_file::{UnpackLimits, Unpacking};
use crate::error::{Context, Error, Result};
use crate::format::index::{Slice, SlicePart};
use crate::format::lines::{LineCounts, LineForm, LineRange, TextSurvey, survey};
use crate::format::recipe::LinesOfText;
use crate::format::{Digests, FileInfo, Index, Layout, ReadAt, Shard};
use crate::sources::lines::{compression_of, form_of};
use crate::store::Remote;
use crate::sync::{Arc, AtomicUsize, Ordering};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::PathBuf;

/// Bytes of a shard: as usual for MDS. A record is never divided.
const SHARD_BYTES: u64 = 64 << 20;

/// Most bytes of a compressed text, packed and unpacked: it is one shard, with offsets of 32 bits.
const TEXT_BYTES_MAX: u64 = u32::MAX as u64;

/// Opener of texts.
pub(super) struct Opener;

impl OpenFiles for Opener {
    fn open(&self, at: &Opening<'_>, files: Files) -> Result<IndexedStream> {
        let files = at.find(files)?;
        let are_plain = files.iter().all(|file| matches!(compression_of(&file.name), Ok(None)));
        let is_in_place = are_plain && at.local().is_none() && at.folder().is_some();
        let cache = at.list_cache(&names_of(&files).join("\n"));
        let unpacking = Unpacking::new(at.session.config.engine.memory);
        at.install(cache, &TextFiles { root: at.root, files, is_in_place, unfinished: unfinished(), unpacking })
    }
}

/// Texts of a folder.
struct TextFiles<'a> {
    /// Address of the folder.
    root: &'a str,
    files: Vec<FoundFile>,
    /// Shards are ranges of the files themselves.
    is_in_place: bool,
    /// Folder of the entries of a pass that was stopped.
    unfinished: Option<PathBuf>,
    unpacking: Unpacking,
}

/// Index as it is kept.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineIndex {
    files: Vec<LineFile>,
}

/// Text with its shards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineFile {
    name: String,
    /// Bytes of the stored file.
    bytes: u64,
    /// Bytes of the text, if the file is compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text_bytes: Option<u64>,
    /// Names of the columns in the order of their cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    header: Vec<String>,
    counts: LineCounts,
    ranges: Vec<LineRange>,
}

impl Journaled for LineFile {
    fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|e| Error::internal("an entry cannot be written").caused_by(e))
    }

    fn of_text(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn stored_bytes(&self) -> u64 {
        self.bytes
    }
}

impl SurveyFiles for TextFiles<'_> {
    fn made_as(&self) -> String {
        "lines".to_owned()
    }

    fn needs_no_copy(&self) -> bool {
        self.is_in_place
    }

    fn files(&self) -> &[FoundFile] {
        &self.files
    }

    fn survey(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Surveyed> {
        let journal = PassJournal::open(self.unfinished.as_deref(), self.root, &names_of(&self.files));
        let all = self.files.iter().filter(|file| journal.get(&file.name).is_none()).count();
        if all > 0 {
            log::warn!("{all} files of text are read once to find their records");
        }
        let read = AtomicUsize::new(0);
        let files = in_parallel(&self.files, |FoundFile { name, .. }| {
            let found = self.kept_or_read(remote, name, &journal, progress).context("file", || name)?;
            log::info!("{} of {all} files of text are read", read.fetch_add(1, Ordering::Relaxed) + 1);
            Ok(found)
        })?;
        journal.end();
        let kept = self.files.iter().zip(&files).map(|(found, file)| KeptFile::of(found, file.bytes)).collect();
        Ok(Surveyed { document: to_bytes(&LineIndex { files })?, files: kept, source: None })
    }

    fn index(&self, document: &[u8]) -> Result<Index> {
        let index: LineIndex = parse(document, "files of text")?;
        let mut counts = LineCounts::default();
        for file in &index.files {
            counts.merge(&file.counts).context("file", || &file.name)?;
        }
        let mut layouts: HashMap<(LineForm, &[String]), Arc<Layout>> = HashMap::new();
        let mut shards = Vec::new();
        for file in &index.files {
            let form = form_of(&file.name);
            let layout = layouts.entry((form, &file.header)).or_insert_with(|| {
                Arc::new(match form {
                    LineForm::Json => Layout::json_lines(&counts),
                    LineForm::Csv | LineForm::Tsv => Layout::cells(form, &counts, &file.header),
                })
            });
            for (number, range) in file.ranges.iter().enumerate() {
                shards.push(self.shard(file, number, range, layout).context("file", || &file.name)?);
            }
        }
        Ok(Index { shards })
    }
}

impl TextFiles<'_> {
    fn kept_or_read(
        &self,
        remote: &Remote,
        name: &str,
        journal: &PassJournal<LineFile>,
        progress: &(dyn Fn() + Sync),
    ) -> Result<LineFile> {
        if let Some(kept) = journal.get(name)
            && kept.is_of(&peek(remote, name, 1)?)
        {
            return Ok(kept.value.clone());
        }
        let compression = compression_of(name)?;
        let (survey, bytes, text_bytes, version) = again(remote, name, |_| match compression {
            Some(compression) => {
                let of_text = |file: &dyn ReadAt| survey(file, form_of(name), u64::MAX);
                let limits = UnpackLimits { packed_bytes: TEXT_BYTES_MAX, raw_bytes: TEXT_BYTES_MAX };
                let read = self.unpacking.read((remote, name), compression, limits, progress, of_text)?;
                Ok((read.value, read.packed_bytes, Some(read.raw_bytes), read.version))
            }
            None => {
                let file = RemoteFile::open(remote, name, progress)?;
                let found = survey(&file, form_of(name), SHARD_BYTES)?;
                Ok((found, file.bytes(), None, file.version().cloned()))
            }
        })?;
        let TextSurvey { header, counts, ranges, damaged } = survey;
        if let (count, Some(first)) = damaged {
            log::warn!("{count} records of {name} cannot be read, the first because of this: {first}");
        }
        let file = LineFile { name: name.to_owned(), bytes, text_bytes, header, counts, ranges };
        journal.add(name, &file, version.as_ref());
        Ok(file)
    }

    fn shard(&self, file: &LineFile, number: usize, range: &LineRange, layout: &Arc<Layout>) -> Result<Shard> {
        let text_bytes = file.text_bytes.unwrap_or(file.bytes);
        if range.start.checked_add(range.bytes).is_none_or(|end| end > text_bytes) || range.bytes > TEXT_BYTES_MAX {
            return Err(Error::format("the index has records outside of the file"));
        }
        let info = |name: &str| FileInfo { basename: name.into(), bytes: range.bytes, hashes: Digests::default() };
        if self.is_in_place {
            let slice = Slice { part: SlicePart::Lines(range.clone()), data_bytes: file.bytes, meta_bytes: 0 };
            let shard = Shard::new(layout.clone(), range.samples, info(&file.name));
            return Ok(Shard { slice: Some(Box::new(slice)), ..shard });
        }
        let packed = compression_of(&file.name)?.zip(file.text_bytes);
        let (key, file_bytes) = (file.name.as_str().into(), file.bytes);
        let recipe = LinesOfText { key, file_bytes, range: range.clone(), packed };
        let name = format!("{}.lines.{number:05}", file.name);
        let shard = Shard::new(layout.clone(), range.samples, info(&name));
        Ok(Shard { recipe: Some(Arc::new(recipe)), ..shard })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::stats::Stats;
    use crate::store::{StoreConfig, Stores};
    use std::path::Path;

    fn files(folder: &Path, is_in_place: bool) -> (String, Vec<FoundFile>, bool) {
        let names = vec!["a.jsonl".to_owned(), "b.jsonl".to_owned()];
        (
            folder.display().to_string(),
            crate::catalog::found_files::listed(names, Some(folder), &[]).unwrap(),
            is_in_place,
        )
    }

    fn fetched((root, files, is_in_place): (String, Vec<FoundFile>, bool)) -> Result<Index> {
        let stores = Stores::new(StoreConfig::default(), &Arc::new(Stats::default()), Clock::system()).unwrap();
        let remote = stores.open(&root).unwrap();
        let unfinished = Some(Path::new(&root).join("unfinished"));
        let texts = TextFiles { root: &root, files, is_in_place, unfinished, unpacking: Unpacking::new(None) };
        texts.index(&texts.survey(&remote, &|| ())?.document)
    }

    #[test]
    fn shards_are_ranges_that_are_read_in_place_or_fetched() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.jsonl"), "{\"a\": 1}\n\n{\"a\": 2}\n").unwrap();
        std::fs::write(folder.path().join("b.jsonl"), "{\"a\": 3, \"b\": 4}").unwrap();
        let here = fetched(files(folder.path(), true)).unwrap();
        let there = fetched(files(folder.path(), false)).unwrap();
        assert_eq!((here.samples(), there.samples()), (3, 3));
        assert!(Arc::ptr_eq(&here.shards[0].layout, &here.shards[1].layout));
        assert_eq!(here.shards[0].layout, there.shards[1].layout);
        for shards in [&here.shards, &there.shards] {
            let lines = [(0, 0), (0, 1), (1, 0)].map(|(shard, sample)| shards[shard].line_of(sample).unwrap());
            assert_eq!(
                lines.map(|line| (line.file.to_string(), line.line)),
                [("a.jsonl".to_owned(), 1), ("a.jsonl".to_owned(), 3), ("b.jsonl".to_owned(), 1)]
            );
        }
        assert_eq!(&*here.shards[1].raw_data.basename, "b.jsonl");
        assert_eq!(&*there.shards[1].raw_data.basename, "b.jsonl.lines.00000");
    }

    #[test]
    fn a_pass_that_was_stopped_continues_with_texts_that_are_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
        std::fs::write(&a, "{\"a\": 1}\n").unwrap();
        std::fs::write(&b, "{\"a\": [\n").unwrap();
        let e = fetched(files(folder.path(), true)).unwrap_err();
        assert!(e.to_string().contains("b.jsonl") && e.to_string().contains("line 1"), "{e}");
        // A new content of the same size and time: it is not read again.
        let time = std::fs::metadata(&a).unwrap().modified().unwrap();
        std::fs::write(&a, "no JSON!\n").unwrap();
        std::fs::File::options().write(true).open(&a).unwrap().set_modified(time).unwrap();
        std::fs::write(&b, "{\"a\": 2}\n").unwrap();
        assert_eq!(fetched(files(folder.path(), true)).unwrap().samples(), 2);
        let e = fetched(files(folder.path(), true)).unwrap_err();
        assert!(e.to_string().contains("a.jsonl"), "the pass is complete: {e}");
    }
}
