//! Small samples at memory speed: the engine compared with one read per sample, and with copies in memory.
//!
//! The shards are in the page cache, and every program writes the same samples in the same order into rows of batches:
//! the engine through `Loader::next`, by reads and with `mmap`, *pread* with one call per sample, *memcpy* from memory
//! that contains all shards. For the last two the order is computed beforehand, and each thread fills every n-th batch
//! in the same buffer: the limit of a program that does nothing else. One group has the tokens as stored, the second
//! as int64. The engine also reads the same tokens from Megatron's files, as windows and as documents; its order of
//! them is different, because its shards have different limits.

use super::megatron;
use super::pipeline::config;
use super::samples::{SamplePosition, SampleTable};
use crate::machine::own_cpu_seconds;
use crate::report::{Better, Column, Report, Row};
use crate::synth::{DataSet, SampleKind, read_through};
use clap::Args;
use forebay_loader::batch::{Batch, Output};
use forebay_loader::config::{StreamConfig, TokenWindow};
use forebay_loader::decode::{DType, numeric};
use forebay_loader::loader::{Loader, Next};
use forebay_loader::{Error, ErrorKind, Result};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Arguments of `tokens`.
#[derive(Debug, Args)]
pub(crate) struct TokensArgs {
    /// Tokens made by `forebay-bench synth --kind tokens`, with the form mds; they must fit into memory twice
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Threads of every program [default: all CPUs of this process]
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Samples per batch
    #[arg(long, default_value_t = 64)]
    batch: u32,
    /// Rounds, each of them one epoch per program; the best one counts
    #[arg(long, default_value_t = 5)]
    rounds: u32,
}

/// Minimum length of an epoch. A shorter one measures its start and end rather than samples.
const SHORT_SECONDS: f64 = 0.02;

/// Cost of an epoch.
#[derive(Clone, Copy)]
pub(super) struct Took {
    pub(super) seconds: f64,
    cpu_seconds: f64,
}

/// Measures every program, with tokens as stored and widened.
pub(crate) fn run(args: &TokensArgs) -> Result<Report> {
    let data = DataSet::open(&args.data)?;
    if data.kind != SampleKind::Tokens {
        return Err(Error::config("the data set does not hold tokens; make one with synth --kind tokens"));
    }
    let folder = data.form("mds");
    read_through(&folder)?;
    let bin = megatron::write(&folder, &data.form("megatron"), data.length)?;
    read_through(&data.form("megatron"))?;
    let beside = Direct::open(&folder, data.length * 2, args.batch as usize)?;
    let columns = vec![
        Column::new("samples_per_s", "samples/s", 0, Better::Higher).plotted(),
        Column::new("samples_per_cpu_s", "per CPU s", 0, Better::Higher).plotted(),
        Column::new("stored_gb_per_s", "stored GB/s", 2, Better::Higher),
        Column::new("cpus", "CPUs busy", 2, Better::Neither),
    ];
    let threads = args.threads.unwrap_or_else(|| crate::machine::cpus_allowed().len() as u32).max(1);
    let title =
        format!("{} samples of {} uint16 in batches of {}, {threads} threads", data.samples, data.length, args.batch);
    let mut report = Report::new("tokens", title, columns);
    report.baseline = Some("pread".to_owned());
    for dtype in [DType::UInt16, DType::Int64] {
        let fields =
            json!([["x", {"kind": "tokens", "column": "tokens", "length": data.length, "dtype": dtype.to_string()}]]);
        let open = |stream, mmap| {
            let mut config = config(stream, &fields, args.batch, threads)?;
            config.engine.mmap = mmap;
            Loader::new(config)
        };
        let loaders = Loaders::open(&folder, &bin, data.length as u32, open)?;
        loaders.compare(&beside, dtype)?;
        let mut best: BTreeMap<&str, Took> = BTreeMap::new();
        for _ in 0..args.rounds.max(1) {
            let mut keep = |name, took: Took| {
                let best = best.entry(name).or_insert(took);
                if took.seconds < best.seconds {
                    *best = took;
                }
            };
            keep("forebay", timed(|| drain(&loaders.files, |_| Ok(())))?);
            keep("forebay, Megatron windows", timed(|| drain(&loaders.windows, |_| Ok(())))?);
            keep("forebay, Megatron documents", timed(|| drain(&loaders.documents, |_| Ok(())))?);
            keep("forebay, mmap", timed(|| drain(&loaders.mapped, |_| Ok(())))?);
            keep("pread", timed(|| beside.bring(Source::Files, dtype, threads as usize))?);
            keep("limit: memcpy", timed(|| beside.bring(Source::Memory, dtype, threads as usize))?);
        }
        if best.values().any(|took| took.seconds < SHORT_SECONDS) {
            let note =
                "{}: an epoch is over before the loader's threads have settled; make more samples with synth --samples";
            report.notes.push(note.replace("{}", &dtype.to_string()));
        }
        let samples = beside.samples.order.len() as f64;
        for (name, took) in best {
            let values = BTreeMap::from([
                ("samples_per_s", samples / took.seconds),
                ("samples_per_cpu_s", samples / took.cpu_seconds),
                ("stored_gb_per_s", samples * beside.stored_bytes as f64 / took.seconds / 1e9),
                ("cpus", took.cpu_seconds / took.seconds),
            ]);
            let values = values.into_iter().filter(|(_, v)| v.is_finite()).collect();
            report.rows.push(Row { group: dtype.to_string(), name: name.to_owned(), values, ..Row::default() });
        }
    }
    Ok(report)
}

/// Loaders of the same tokens, in files of different kinds or read in different ways.
struct Loaders {
    files: Loader,
    mapped: Loader,
    /// Samples of a Megatron file that have the common length.
    windows: Loader,
    /// Samples of a Megatron file as they were written.
    documents: Loader,
}

impl Loaders {
    fn open(
        folder: &Path,
        bin: &Path,
        length: u32,
        open: impl Fn(StreamConfig, bool) -> Result<Loader>,
    ) -> Result<Self> {
        let stream = StreamConfig { local: Some(folder.to_owned()), ..StreamConfig::default() };
        let of_megatron = |tokens: Option<u32>| {
            let window = tokens.map(TokenWindow::from);
            let stream = StreamConfig { remote: Some(bin.display().to_string()), window, ..StreamConfig::default() };
            open(stream, false)
        };
        Ok(Self {
            files: open(stream.clone(), false)?,
            mapped: open(stream, true)?,
            windows: of_megatron(Some(length))?,
            documents: of_megatron(None)?,
        })
    }

    /// Checks that all bring the samples that `direct` reads, in order where they have one.
    fn compare(&self, direct: &Direct, dtype: DType) -> Result<()> {
        let different = |way| Err(Error::internal("two ways bring different samples").with("way", way));
        let sum_of = |loader| -> Result<Sum> {
            let mut sum = Sum::default();
            drain(loader, |batch| sum.add_batch(batch, dtype))?;
            Ok(sum)
        };
        let sum = sum_of(&self.files)?;
        // Files are mapped during the first epoch, so the second one reads from mappings.
        if sum_of(&self.mapped)? != sum || sum_of(&self.mapped)? != sum_of(&self.files)? {
            return different("mmap");
        }
        for (name, loader) in [("windows", &self.windows), ("documents", &self.documents)] {
            let found = sum_of(loader)?;
            if (found.rows, found.unordered) != (sum.rows, sum.unordered) {
                return different(name);
            }
        }
        for (name, source) in [("pread", Source::Files), ("memcpy", Source::Memory)] {
            if direct.sum(source, dtype)? != sum {
                return different(name);
            }
        }
        Ok(())
    }
}

pub(super) fn timed(body: impl FnOnce() -> Result<()>) -> Result<Took> {
    let (cpu, start) = (own_cpu_seconds(), Instant::now());
    body()?;
    Ok(Took { seconds: start.elapsed().as_secs_f64(), cpu_seconds: own_cpu_seconds() - cpu })
}

/// Drains one epoch.
fn drain(loader: &Loader, mut each: impl FnMut(&Batch) -> Result<()>) -> Result<()> {
    loader.start_epoch()?;
    while let Next::Batch(batch) = loader.next()? {
        each(&batch)?;
    }
    Ok(())
}

/// Checksum that depends on the samples and on their order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    rows: u64,
    sum: u64,
    /// Depends only on the samples.
    unordered: u64,
}

impl Sum {
    fn add(&mut self, row: &[u8], dtype: DType) {
        self.rows += 1;
        let tokens = row.chunks_exact(dtype.size()).map(|token| u64::from(u16::from_le_bytes([token[0], token[1]])));
        let of_row = tokens.fold(0_u64, |sum, token| sum.wrapping_mul(31).wrapping_add(token));
        self.sum = self.sum.wrapping_add(self.rows.wrapping_mul(of_row));
        self.unordered = self.unordered.wrapping_add(of_row);
    }

    fn add_batch(&mut self, batch: &Batch, dtype: DType) -> Result<()> {
        let Some(Output::Tensor(tokens)) = batch.get("x") else {
            return Err(Error::internal("a batch without tokens"));
        };
        let bytes = tokens.host().ok_or_else(|| Error::internal("a batch that is not in memory"))?;
        bytes.chunks_exact(bytes.len() / batch.rows.max(1)).for_each(|row| self.add(row, dtype));
        Ok(())
    }
}

/// Source of samples of the two programs without the engine.
#[derive(Clone, Copy)]
enum Source {
    Files,
    Memory,
}

/// Programs without the engine.
struct Direct {
    samples: SampleTable,
    /// Bytes per sample.
    stored_bytes: usize,
}

impl Direct {
    fn open(folder: &Path, stored_bytes: usize, batch: usize) -> Result<Self> {
        let samples = SampleTable::open(folder, batch)?;
        if samples.order.iter().any(|place| place.bytes != stored_bytes) {
            return Err(Error::new(ErrorKind::Format, "a sample has more or fewer bytes than its tokens"));
        }
        Ok(Self { samples, stored_bytes })
    }

    /// Writes one sample into `row`.
    fn sample(
        &self,
        place: SamplePosition,
        from: Source,
        dtype: DType,
        row: &mut [u8],
        scratch: &mut [u8],
    ) -> Result<()> {
        let stored = match from {
            Source::Files if dtype == DType::UInt16 => return self.samples.read(place, row),
            Source::Files => {
                self.samples.read(place, scratch)?;
                scratch
            }
            Source::Memory => self.samples.in_memory(place),
        };
        numeric::convert(stored, DType::UInt16, row, dtype)
    }

    fn row_bytes(&self, dtype: DType) -> usize {
        self.stored_bytes / DType::UInt16.size() * dtype.size()
    }

    /// Reads every sample on this thread.
    fn sum(&self, from: Source, dtype: DType) -> Result<Sum> {
        let mut sum = Sum::default();
        let (mut scratch, mut row) = (vec![0; self.stored_bytes], vec![0; self.row_bytes(dtype)]);
        for place in &self.samples.order {
            self.sample(*place, from, dtype, &mut row, &mut scratch)?;
            sum.add(&row, dtype);
        }
        Ok(sum)
    }

    /// Writes every sample into its row of a batch, on `threads` threads.
    fn bring(&self, from: Source, dtype: DType, threads: usize) -> Result<()> {
        let each = |place, row: &mut [u8], scratch: &mut [u8]| self.sample(place, from, dtype, row, scratch);
        self.samples.bring(threads, self.row_bytes(dtype), each)
    }
}
