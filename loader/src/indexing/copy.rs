//! Copy of a data set, with row indexes in its shards.

use super::JpegRows;
use crate::decode::jpeg;
use crate::decode::vectors::check_environment;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::writer::{
    LocalDir, Sink, ValueIndex, encode_sample, split_by_sizes, store_file, trailer_of, trailer_that_fits,
};
use crate::format::{FilePair, Index, Scratch, Shard, Trailer, Value, hash, offset_table};
use crate::io::read_regular;
use crate::sync::Mutex;
use std::fs;
use std::path::{Path, PathBuf};

/// Copies an MDS data set from one folder to a second one: the same samples in the same shards, hence in the same order
/// in a loader, with a row index for every JPEG that can have one. Compression and hashes are the source's.
///
/// Shards are copied one by one, by any number of threads; each holds its shard in memory. The index is
/// written last, so that an aborted copy does not look like a data set.
#[derive(Debug)]
pub struct IndexedCopy {
    from: PathBuf,
    sink: LocalDir,
    index: Index,
    transcode: bool,
    copied: Mutex<Vec<Option<Shard>>>,
}

/// Report on one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiedShard {
    /// Values of its `jpeg` columns.
    pub jpegs: u64,
    /// Values with a row index.
    pub indexed: u64,
    /// Values that were progressive and are now baseline.
    pub transcoded: u64,
    /// Bytes of the samples, unpacked.
    pub sample_bytes: u64,
    /// Bytes of the index after them.
    pub index_bytes: u64,
}

impl IndexedCopy {
    /// Starts a copy from the folder `from` to the folder `to`, which is new or empty. With `transcode`, progressive
    /// JPEGs are rewritten as baseline, without loss, so that they can have an index, too.
    ///
    /// # Errors
    ///
    /// Errors in the source's index; `Unsupported` for shards that are not MDS; `Config` for a data set without JPEG
    /// columns, a folder that is not empty or an environment variable with unknown vector instructions; failures of the
    /// file system.
    pub fn begin(from: &Path, to: &Path, transcode: bool) -> Result<Self> {
        check_environment()?;
        let index = Index::of_folder(from, read_regular)?;
        if let Some(shard) = index.shards.iter().find(|shard| !shard.layout.format.has_trailer()) {
            let message = "only MDS shards have room for an index after their samples";
            return Err(Error::new(ErrorKind::Unsupported, message).with("file", &shard.raw_data.basename));
        }
        let mut columns = index.shards.iter().flat_map(|shard| &shard.layout.columns);
        if !columns.any(|column| JpegRows.covers(&column.encoding)) {
            let message =
                format!("no column of {} has the encoding \"jpeg\": there is nothing to index", from.display());
            return Err(Error::config(message));
        }
        let copied = Mutex::new(vec![None; index.shards.len()]);
        Ok(Self { from: from.to_owned(), sink: LocalDir::create(to, false)?, index, transcode, copied })
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.index.shards.len()
    }

    /// Copies shard `number`.
    ///
    /// # Errors
    ///
    /// `NotFound` for a missing file or shard; `Checksum` or `Format` for a shard that differs from the index; failures
    /// of the file system.
    pub fn shard(&self, number: usize) -> Result<CopiedShard> {
        let shard =
            self.index.shards.get(number).ok_or_else(|| {
                Error::new(ErrorKind::NotFound, "the data set has fewer shards").with("shard", number)
            })?;
        self.copy(shard).context("shard", || &shard.raw_data.basename).map(|(shard, report)| {
            self.copied.lock()[number] = Some(shard);
            report
        })
    }

    /// Writes the index after all shards have been copied.
    ///
    /// # Errors
    ///
    /// `Config` if a shard has not been copied; failures of the file system.
    pub fn finish(&self) -> Result<Index> {
        let shards: Option<Vec<Shard>> = self.copied.lock().iter().cloned().collect();
        let shards = shards.ok_or_else(|| Error::config("not all shards were copied: there is no index yet"))?;
        let index = Index { shards };
        self.sink.finish(index.to_json().as_bytes())?;
        Ok(index)
    }

    fn copy(&self, shard: &Shard) -> Result<(Shard, CopiedShard)> {
        let raw = self.read(shard)?;
        let table = shard.offsets(&*raw)?;
        let mut samples = ShardSamples { shard, report: CopiedShard::default(), bytes: Vec::new(), sizes: Vec::new() };
        for i in 0..table.len() {
            let (start, bytes) = table.range(i)?;
            samples.add(&raw[start as usize..][..bytes as usize], self.transcode)?;
        }
        let ShardSamples { mut report, bytes, sizes, .. } = samples;
        let trailer = trailer_of(&JpegRows, &shard.layout, split_by_sizes(&bytes, &sizes))?;
        let first = if table.is_empty() { table.end() } else { table.range(0)?.0 };
        let trailer = trailer_that_fits(trailer, first + bytes.len() as u64);
        report.sample_bytes = bytes.len() as u64;
        report.index_bytes = trailer.len() as u64;
        report.indexed = count_entries(shard, &trailer)?;
        // The settings between offsets and samples are unchanged.
        let settings = &raw[shard.table_bytes() as usize..first as usize];
        let head = offset_table(&sizes, first, settings)?;
        let (raw_data, zip_data) = store_file(
            &self.sink,
            shard.compression,
            &shard.hashes,
            &shard.raw_data.basename,
            &[head, bytes, trailer].map(bytes::Bytes::from),
        )?;
        Ok((Shard { raw_data, zip_data, ..shard.clone() }, report))
    }

    /// Reads the shard's raw file, and compares it with the index.
    fn read(&self, shard: &Shard) -> Result<Vec<u8>> {
        let pair = FilePair { raw: &shard.raw_data, zip: shard.zip_data.as_ref() };
        // Either may exist: a cache holds unpacked files only.
        let is_packed = pair.zip.is_some_and(|zip| self.from.join(&*zip.basename).exists());
        let stored = if is_packed { pair.stored() } else { pair.raw };
        let path = self.from.join(&*stored.basename);
        let fail = |e| Error::from_io(e, "a shard's file cannot be read").with("file", path.display());
        let has_size = |bytes: u64| {
            if bytes == stored.bytes {
                return Ok(());
            }
            let message = "a shard's file does not have the size in the index";
            Err(Error::format(message).with("bytes", bytes).with("expected", stored.bytes))
        };
        // Checked before reading, so that a wrong file cannot fill the memory.
        has_size(fs::metadata(&path).map_err(fail)?.len())?;
        let bytes = read_regular(&path, stored.bytes).map_err(fail)?;
        has_size(bytes.len() as u64)?;
        if let Some(algo) = hash::cheapest(stored.hashes.algos())
            && stored.hashes.get(algo) != Some(algo.hex(&bytes))
        {
            let error = Error::new(ErrorKind::Checksum, "a shard's file is damaged: its hash differs from the index");
            return Err(error.with("hash", algo.name()));
        }
        match shard.compression.filter(|_| is_packed) {
            Some(compression) => {
                let mut raw = Vec::new();
                compression.decompress(&bytes, shard.raw_data.bytes, &mut raw)?;
                Ok(raw)
            }
            None => Ok(bytes),
        }
    }
}

/// Samples of the copied shard.
struct ShardSamples<'a> {
    shard: &'a Shard,
    report: CopiedShard,
    bytes: Vec<u8>,
    sizes: Vec<u32>,
}

impl ShardSamples<'_> {
    fn add(&mut self, sample: &[u8], transcode: bool) -> Result<()> {
        let start = self.bytes.len();
        let layout = &self.shard.layout;
        let mut scratch = Scratch::default();
        let columns = layout.split(sample, &mut scratch)?;
        let mut values: Vec<Value<'_>> = columns.iter().map(|bytes| Value::Bytes(bytes.into())).collect();
        let mut is_changed = false;
        for (column, value) in layout.columns.iter().zip(&mut values) {
            let Value::Bytes(bytes) = &*value else { continue };
            if !JpegRows.covers(&column.encoding) {
                continue;
            }
            self.report.jpegs += 1;
            if transcode && let Some(baseline) = jpeg::to_baseline(bytes)? {
                *value = Value::Bytes(baseline.into());
                self.report.transcoded += 1;
                is_changed = true;
            }
        }
        if is_changed {
            encode_sample(layout, &values, &mut Scratch::default(), &mut self.bytes)?;
        } else {
            self.bytes.extend_from_slice(sample);
        }
        let size = u32::try_from(self.bytes.len() - start);
        self.sizes.push(size.map_err(|_| Error::config("a sample of 4 GiB cannot be stored"))?);
        Ok(())
    }
}

/// Counts the values with an entry in a new trailer.
fn count_entries(shard: &Shard, trailer: &[u8]) -> Result<u64> {
    if trailer.is_empty() {
        return Ok(0);
    }
    let samples = shard.samples as usize;
    let trailer = Trailer::parse(trailer.into(), samples)?;
    let places = (0..shard.layout.columns.len()).flat_map(|column| (0..samples).map(move |sample| (column, sample)));
    Ok(places.filter(|(column, sample)| !trailer.entry(*column, *sample).is_empty()).count() as u64)
}
