//! ArrayRecord files: groups of their chunks are the shards of a stream.
//!
//! ```text
//!   footers of the files --offsets of the chunks-> RecordIndex, kept as the stream's index --> shards
//!   some chunks, spread over all files --> the features of their records
//! ```

use super::again::again;
use super::file_ends::{End, FileEnds};
use super::found_files::{self, FoundFile};
use super::kept_index::{KeptFile, SurveyFiles, Surveyed, parse, to_bytes};
use super::opening::{Files, OpenFiles, Opening};
use super::parallel::in_threads;
use super::requests::{FileRange, fetch_ranges};
use super::stream::IndexedStream;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::array_record::{BLOCK_BYTES, ChunkContent, ChunkRange, chunk_ranges, each_content, footer_start};
use crate::format::recipe::RecordChunks;
use crate::format::tfrecord::{FeatureCounts, layout_of};
use crate::format::{Digests, FileInfo, HashAlgo, Index, Layout, Shard};
use crate::store::{FetchRequest, Remote};
use crate::sync::Arc;
use serde::{Deserialize, Serialize};

/// Bytes of the records of a shard: as usual for MDS. A chunk is never divided.
const SHARD_BYTES: u64 = 64 << 20;

/// Most bytes of the records of a shard: its offsets have 32 bits. The rest is for the frames of records.
const SHARD_BYTES_MAX: u64 = u32::MAX as u64;

/// Ends of ArrayRecord files.
const ENDS: FileEnds = FileEnds {
    bytes: 4 * BLOCK_BYTES,
    file_bytes_min: BLOCK_BYTES,
    too_short: "the file is too short for an ArrayRecord file: it is cut off, or a different kind of file",
};

/// Most bytes of a footer with its last block: some 50 million chunks.
const FOOTER_BYTES_MAX: u64 = 1 << 30;

/// Number of chunks with records that show the features, and most bytes of them, if they are more than one.
const CHUNKS_SEEN: usize = 64;
const CHUNK_BYTES_SEEN: u64 = 16 << 20;

/// Shards that are in memory at once while all records are read.
const GROUPS_AT_ONCE: usize = 4;

/// Opener of ArrayRecord files.
pub(super) struct Opener;

impl OpenFiles for Opener {
    fn open(&self, at: &Opening<'_>, files: Files) -> Result<IndexedStream> {
        let (files, reads_all) = (at.find(files)?, at.stream.ignore_counts);
        let mut variant = found_files::described(&files);
        if reads_all {
            variant.push_str("\nignore_counts");
        }
        at.install(at.variant_cache(&variant), &ArrayRecords { files, reads_all })
    }
}

/// ArrayRecord files of a folder.
struct ArrayRecords {
    files: Vec<FoundFile>,
    /// All records show the features, instead of some.
    reads_all: bool,
}

/// Document of the files.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordIndex {
    /// Columns of the records, in the order of their layout, with their encodings.
    columns: Vec<(String, String)>,
    optional: Vec<String>,
    /// The columns are known from some records.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_sampled: bool,
    files: Vec<RecordFile>,
}

/// File with its shards.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordFile {
    name: String,
    bytes: u64,
    shards: Vec<Group>,
}

/// Neighbouring chunks that are a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    start: u64,
    end: u64,
    records: u64,
    record_bytes: u64,
}

impl SurveyFiles for ArrayRecords {
    fn made_as(&self) -> String {
        let options = if self.reads_all { ", ignore_counts" } else { "" };
        format!("array_record{options}")
    }

    fn files(&self) -> &[FoundFile] {
        &self.files
    }

    fn survey(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Surveyed> {
        let files = self.footers(remote, progress)?;
        // Sizes are checked before the first chunk is fetched.
        let shards = files.iter().zip(&self.files);
        let shards = shards.map(|((_, chunks), found)| groups(chunks).context("file", || &found.name));
        let shards = shards.collect::<Result<Vec<_>>>()?;
        let features = if self.reads_all {
            self.all_features(remote, &files, &shards, progress)?
        } else {
            self.features(remote, &files, progress)?
        };
        let layout = Layout::tfrecord(&features);
        let names = layout.columns.iter().map(|column| column.name.clone());
        let columns = names.zip(layout.record_encodings()).collect();
        let file =
            |((bytes, found), shards): ((u64, &FoundFile), _)| RecordFile { name: found.name.clone(), bytes, shards };
        let sized = files.iter().map(|(bytes, _)| *bytes).zip(&self.files);
        let kept = sized.clone().map(|(bytes, found)| KeptFile::of(found, bytes)).collect();
        let files = sized.zip(shards).map(file).collect();
        let (optional, is_sampled) = (layout.format.optional().to_vec(), layout.is_sampled());
        let document = to_bytes(&RecordIndex { columns, optional, is_sampled, files })?;
        Ok(Surveyed { document, files: kept, source: None })
    }

    fn index(&self, document: &[u8]) -> Result<Index> {
        let index: RecordIndex = parse(document, "ArrayRecord files")?;
        let (names, encodings): (Vec<&str>, Vec<&str>) =
            index.columns.iter().map(|(name, encoding)| (name.as_str(), encoding.as_str())).unzip();
        let layout = Arc::new(layout_of(&names, &encodings, index.optional.clone(), index.is_sampled)?);
        let mut shards = Vec::new();
        for file in &index.files {
            for group in &file.shards {
                shards.push(shard(file, group, &layout, shards.len()).context("file", || &file.name)?);
            }
        }
        Ok(Index { shards })
    }
}

impl ArrayRecords {
    /// Returns the bytes of each file and the offsets of its chunks.
    fn footers(&self, remote: &Remote, progress: &(dyn Fn() + Sync)) -> Result<Vec<(u64, Vec<ChunkRange>)>> {
        let files: Vec<&FoundFile> = self.files.iter().collect();
        ENDS.read(remote, &files, progress, |_, tail, file_bytes| {
            let (footer, last) = tail.split_at(tail.len() - BLOCK_BYTES as usize);
            let start = footer_start(last, file_bytes)?;
            let bytes = file_bytes - start;
            if bytes > FOOTER_BYTES_MAX {
                return Err(Error::format("the footer of the file is larger than 1 GiB"));
            }
            match (tail.len() as u64).checked_sub(bytes) {
                Some(before) => Ok(End::Read((file_bytes, chunk_ranges(&footer[before as usize..], start)?))),
                None => Ok(End::Longer(bytes)),
            }
        })
    }

    /// Returns the features of the records, by some of them.
    fn features(
        &self,
        remote: &Remote,
        files: &[(u64, Vec<ChunkRange>)],
        progress: &(dyn Fn() + Sync),
    ) -> Result<FeatureCounts> {
        let with_number =
            files.iter().enumerate().flat_map(|(number, (_, chunks))| chunks.iter().map(move |c| (number, c)));
        let chunks: Vec<_> = with_number.filter(|(_, chunk)| chunk.records > 0).collect();
        let (count, mut bytes) = (chunks.len().min(CHUNKS_SEEN), 0_u64);
        let spread = (0..count).map(|n| chunks[n * chunks.len() / count]);
        let seen: Vec<_> = spread
            .take_while(|(_, chunk)| {
                let is_first = bytes == 0;
                bytes = bytes.saturating_add(chunk.record_bytes.max(chunk.end - chunk.start));
                is_first || bytes <= CHUNK_BYTES_SEEN
            })
            .collect();
        let range = |(number, chunk): &(usize, &ChunkRange)| FileRange {
            name: &self.files[*number].name,
            start: chunk.start,
            bytes: chunk.end - chunk.start,
            file_bytes: files[*number].0,
        };
        let mut counts = FeatureCounts::default();
        let mut damage = None;
        fetch_ranges(remote, &seen.iter().map(range).collect::<Vec<_>>(), |at, content, is_last| {
            progress();
            let (number, chunk) = seen[at];
            let name = &self.files[number].name;
            // Apart, since a damaged chunk is fetched again.
            let of_chunk = features_of(content, chunk.start, is_last, &mut damage);
            of_chunk.and_then(|of_chunk| counts.merge(&of_chunk)).context("file", || name)
        })?;
        if counts.samples == 0
            && let Some(damage) = damage
        {
            return Err(damage);
        }
        let records = chunks.iter().map(|(_, chunk)| chunk.records).fold(0, u64::saturating_add);
        // The columns of all records are exact.
        Ok(if counts.samples == records { counts } else { counts.of_samples(records) })
    }

    /// Returns the features of the records, by all of them.
    fn all_features(
        &self,
        remote: &Remote,
        files: &[(u64, Vec<ChunkRange>)],
        shards: &[Vec<Group>],
        progress: &(dyn Fn() + Sync),
    ) -> Result<FeatureCounts> {
        log::warn!("{} ArrayRecord files are read once to find all features: ignore_counts", files.len());
        let groups =
            shards.iter().enumerate().flat_map(|(number, groups)| groups.iter().map(move |group| (number, group)));
        let groups: Vec<(usize, &Group)> = groups.collect();
        let of_groups = in_threads(GROUPS_AT_ONCE, &groups, |(number, group)| {
            let name = &self.files[*number].name;
            again(remote, name, |is_last| {
                let request = FetchRequest::try_new(name.clone(), group.end - group.start)?;
                let request = FetchRequest { start: group.start, object_len: Some(files[*number].0), ..request };
                let content = remote.fetch(request)?.wait()?;
                progress();
                features_of(&content, group.start, is_last, &mut None).context("file", || name)
            })
        })?;
        let mut all = FeatureCounts::default();
        for (counts, (number, _)) in of_groups.iter().zip(&groups) {
            all.merge(counts).context("file", || &self.files[*number].name)?;
        }
        Ok(all)
    }
}

/// Returns the features of the records of the chunks in `content`, which are at byte `start` of their file. If it
/// `accepts_damage`, the first chunk with damaged data is noted in `damage`, and its records are left out: reading
/// them is an error.
fn features_of(content: &[u8], start: u64, accepts_damage: bool, damage: &mut Option<Error>) -> Result<FeatureCounts> {
    let mut counts = FeatureCounts::default();
    each_content(content, start, |content| {
        match content {
            ChunkContent::Record(record) => counts.add(record)?,
            ChunkContent::Lost { records, error, .. } if accepts_damage => {
                log::warn!("{records} records are damaged, and reading them is an error: {error}");
                damage.get_or_insert(error);
            }
            ChunkContent::Lost { error, .. } => return Err(error),
        }
        Ok(true)
    })?;
    Ok(counts)
}

/// Divides the chunks of a file into shards.
fn groups(chunks: &[ChunkRange]) -> Result<Vec<Group>> {
    let mut groups: Vec<Group> = Vec::new();
    for chunk in chunks.iter().filter(|chunk| chunk.records > 0) {
        if chunk.record_bytes > SHARD_BYTES_MAX {
            let message = "a chunk has records of more than 4 GiB: write the file with a smaller group_size";
            return Err(Error::new(ErrorKind::Unsupported, message).with("byte", chunk.start));
        }
        if chunk.end - chunk.start > SHARD_BYTES_MAX {
            return Err(Error::format("a chunk of the file has more than 4 GiB").with("byte", chunk.start));
        }
        let total = |group: &Group| group.record_bytes.saturating_add(chunk.record_bytes);
        let is_small = |group: &&mut Group| total(group) <= SHARD_BYTES && chunk.end - group.start <= SHARD_BYTES;
        match groups.last_mut().filter(is_small) {
            Some(last) => {
                last.end = chunk.end;
                last.records = last.records.saturating_add(chunk.records);
                last.record_bytes = total(last);
            }
            None => groups.push(Group {
                start: chunk.start,
                end: chunk.end,
                records: chunk.records,
                record_bytes: chunk.record_bytes,
            }),
        }
    }
    Ok(groups)
}

fn shard(file: &RecordFile, group: &Group, layout: &Arc<Layout>, number: usize) -> Result<Shard> {
    if group.start >= group.end || group.end > file.bytes {
        return Err(Error::format("the index has chunks that are not in their file"));
    }
    let recipe = RecordChunks {
        key: file.name.as_str().into(),
        file_bytes: file.bytes,
        start: group.start,
        end: group.end,
        records: group.records,
        record_bytes: group.record_bytes,
    };
    let bytes = recipe.assembled_bytes();
    if bytes > SHARD_BYTES_MAX {
        let message = "a chunk has records of more than 4 GiB: write the file with a smaller group_size";
        return Err(Error::new(ErrorKind::Unsupported, message).with("byte", group.start));
    }
    // Names of different records differ: a shard of a file that was replaced is never taken for one of the new file.
    let described = format!("{} {} {group:?}", file.name, file.bytes);
    let basename = format!("records.{number:05}.{}.tfrecord", &HashAlgo::Xxh3_64.hex(described.as_bytes())[..8]);
    let raw_data = FileInfo { basename: basename.into(), bytes, hashes: Digests::default() };
    Ok(Shard { recipe: Some(Arc::new(recipe)), ..Shard::new(layout.clone(), group.records, raw_data) })
}
