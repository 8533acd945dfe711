//! Small samples at memory speed: the engine beside one read for each sample, and beside memory itself.
//!
//! The shards are in the page cache, and every way brings the same samples in the same order into rows of batches: the
//! engine through `Loader::next`, *pread* with one call for each sample, *memcpy* from memory that holds all shards. The last
//! two know the order beforehand; each of their threads fills every n-th batch, always in the same place, which is what a
//! program could reach that does nothing else. One group has the tokens as they are stored, the other as int64.

use crate::machine::own_cpu_seconds;
use crate::report::{Better, Column, Report, Row};
use crate::synth::{DataSet, Kind, read_through};
use clap::Args;
use forebay_loader::batch::{Batch, Output};
use forebay_loader::config::{LoaderConfig, StreamConfig};
use forebay_loader::decode::{DType, numeric};
use forebay_loader::format::{INDEX_BASENAME, Index};
use forebay_loader::io::{ShardFile, open, read_exact_at};
use forebay_loader::loader::{Loader, Next};
use forebay_loader::order::{DataSetShape, EpochPlan, OrderConfig, Rank, World};
use forebay_loader::{Error, ErrorKind, Result};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What to bring, and how.
#[derive(Debug, Args)]
pub(crate) struct TokensArgs {
    /// Tokens made by `forebay-bench synth --kind tokens`, with the form mds; they must fit into memory twice
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Threads of every way [default: all CPUs of this process]
    #[arg(long, value_name = "N")]
    threads: Option<u32>,
    /// Samples per batch
    #[arg(long, default_value_t = 64)]
    batch: u32,
    /// Rounds, each of them an epoch by every way; the best one counts
    #[arg(long, default_value_t = 5)]
    rounds: u32,
}

/// What an epoch took.
#[derive(Clone, Copy)]
struct Took {
    seconds: f64,
    cpu_seconds: f64,
}

/// Runs every way, with tokens as they are stored and widened.
pub(crate) fn run(args: &TokensArgs) -> Result<Report> {
    let data = DataSet::open(&args.data)?;
    if data.kind != Kind::Tokens {
        return Err(Error::config("the data set does not hold tokens; make one with synth --kind tokens"));
    }
    let folder = data.form("mds");
    read_through(&folder)?;
    let shards = Shards::open(&folder, data.length * 2, args.batch as usize)?;
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
        let config = json!({
            "streams": [StreamConfig { local: Some(folder.clone()), ..StreamConfig::default() }],
            "fields": [["x", {"kind": "tokens", "column": "tokens", "length": data.length, "dtype": dtype.to_string()}]],
            "batch_size": args.batch, "shuffle": true, "threads": threads,
        });
        let loader = Loader::new(LoaderConfig::from_json(&config.to_string())?)?;
        let mut sum = Sum::default();
        drain(&loader, |batch| sum.add_batch(batch, dtype))?;
        for (name, source) in [("pread", Source::Files), ("memcpy", Source::Memory)] {
            if shards.sum(source, dtype)? != sum {
                return Err(Error::internal("two ways bring different samples").with("way", name));
            }
        }
        let mut best: BTreeMap<&str, Took> = BTreeMap::new();
        for _ in 0..args.rounds.max(1) {
            let mut keep = |name, took: Took| {
                let best = best.entry(name).or_insert(took);
                if took.seconds < best.seconds {
                    *best = took;
                }
            };
            keep("forebay", timed(|| drain(&loader, |_| Ok(())))?);
            keep("pread", timed(|| shards.bring(Source::Files, dtype, threads as usize))?);
            keep("limit: memcpy", timed(|| shards.bring(Source::Memory, dtype, threads as usize))?);
        }
        let samples = shards.order.len() as f64;
        for (name, took) in best {
            let values = BTreeMap::from([
                ("samples_per_s", samples / took.seconds),
                ("samples_per_cpu_s", samples / took.cpu_seconds),
                ("stored_gb_per_s", samples * shards.stored_bytes as f64 / took.seconds / 1e9),
                ("cpus", took.cpu_seconds / took.seconds),
            ]);
            let values = values.into_iter().filter(|(_, v)| v.is_finite()).collect();
            report.rows.push(Row { group: dtype.to_string(), name: name.to_owned(), values, ..Row::default() });
        }
    }
    Ok(report)
}

fn timed(body: impl FnOnce() -> Result<()>) -> Result<Took> {
    let (cpu, start) = (own_cpu_seconds(), Instant::now());
    body()?;
    Ok(Took { seconds: start.elapsed().as_secs_f64(), cpu_seconds: own_cpu_seconds() - cpu })
}

/// Takes the batches of one epoch.
fn drain(loader: &Loader, mut each: impl FnMut(&Batch) -> Result<()>) -> Result<()> {
    loader.start_epoch()?;
    while let Next::Batch(batch) = loader.next()? {
        each(&batch)?;
    }
    Ok(())
}

/// Depends on the samples and on their order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sum {
    rows: u64,
    sum: u64,
}

impl Sum {
    fn add(&mut self, row: &[u8], dtype: DType) {
        self.rows += 1;
        let tokens = row.chunks_exact(dtype.size()).map(|token| u64::from(u16::from_le_bytes([token[0], token[1]])));
        let of_row = tokens.fold(0_u64, |sum, token| sum.wrapping_mul(31).wrapping_add(token));
        self.sum = self.sum.wrapping_add(self.rows.wrapping_mul(of_row));
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

/// Where the two ways beside the engine have samples from.
#[derive(Clone, Copy)]
enum Source {
    Files,
    Memory,
}

/// The shards as the two ways beside the engine see them.
struct Shards {
    files: Vec<ShardFile>,
    /// The same bytes.
    memory: Vec<Vec<u8>>,
    /// Of the loader's first epoch: shard, and offset in it.
    order: Vec<(usize, u64)>,
    /// Bytes of every sample.
    stored_bytes: usize,
    batch: usize,
}

impl Shards {
    fn open(folder: &Path, stored_bytes: usize, batch: usize) -> Result<Self> {
        let failed = |e| Error::from_io(e, "the data set's form mds; make it with synth --forms");
        let index = std::fs::read(folder.join(INDEX_BASENAME)).map_err(failed)?;
        let index = Index::parse(&index, INDEX_BASENAME)?;
        let (mut files, mut memory, mut tables) = (Vec::new(), Vec::new(), Vec::new());
        for shard in &index.shards {
            let path = folder.join(&*shard.raw_data.basename);
            let bytes = std::fs::read(&path).map_err(failed)?;
            tables.push(shard.offsets(&bytes)?);
            memory.push(bytes);
            files.push(open(path)?);
        }
        let shape = DataSetShape::new(&[index.shards.iter().map(|shard| shard.samples).collect::<Vec<_>>()])?;
        let config = OrderConfig { shuffle: true, batch_size: batch as u64, ..OrderConfig::default() };
        let plan = EpochPlan::new(&shape, &config, World::single(), 0, None)?;
        let place = |sample| {
            let (shard, index) =
                shape.locate(sample).ok_or_else(|| Error::internal("the plan names a sample that is not there"))?;
            let (offset, bytes) = tables[shard.index()].range(index as usize)?;
            match bytes as usize == stored_bytes {
                true => Ok((shard.index(), offset)),
                false => Err(Error::new(ErrorKind::Format, "a sample has more or fewer bytes than its tokens")),
            }
        };
        let order = plan.rank(Rank(0)).map(|planned| place(planned.sample)).collect::<Result<_>>()?;
        Ok(Self { files, memory, order, stored_bytes, batch })
    }

    /// Brings one sample into `row`.
    fn sample(
        &self,
        (shard, offset): (usize, u64),
        from: Source,
        dtype: DType,
        scratch: &mut [u8],
        row: &mut [u8],
    ) -> Result<()> {
        let stored = match from {
            Source::Files if dtype == DType::UInt16 => return read_exact_at(&self.files[shard], row, offset),
            Source::Files => {
                read_exact_at(&self.files[shard], scratch, offset)?;
                scratch
            }
            Source::Memory => &self.memory[shard][offset as usize..][..self.stored_bytes],
        };
        numeric::convert(stored, DType::UInt16, row, dtype)
    }

    fn row_bytes(&self, dtype: DType) -> usize {
        self.stored_bytes / DType::UInt16.size() * dtype.size()
    }

    /// Every sample, on this thread.
    fn sum(&self, from: Source, dtype: DType) -> Result<Sum> {
        let mut sum = Sum::default();
        let (mut scratch, mut row) = (vec![0; self.stored_bytes], vec![0; self.row_bytes(dtype)]);
        for place in &self.order {
            self.sample(*place, from, dtype, &mut scratch, &mut row)?;
            sum.add(&row, dtype);
        }
        Ok(sum)
    }

    /// Every sample into its row of a batch, on `threads` threads.
    fn bring(&self, from: Source, dtype: DType, threads: usize) -> Result<()> {
        let body = |thread: usize| {
            let (mut scratch, mut batch) = (vec![0; self.stored_bytes], vec![0; self.row_bytes(dtype) * self.batch]);
            for places in self.order.chunks(self.batch).skip(thread).step_by(threads) {
                for (place, row) in places.iter().zip(batch.chunks_exact_mut(self.row_bytes(dtype))) {
                    self.sample(*place, from, dtype, &mut scratch, row)?;
                }
                std::hint::black_box(&mut batch);
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || body(thread))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic in a thread that copies"))
        })
    }
}
