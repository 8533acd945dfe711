//! Random sample-sized reads with plain `pread` and with the engine's readers.

use crate::machine::own_cpu_seconds;
use forebay_loader::io::{IoConfig, ReadRequest, ShardFile, read_exact_at, reader};
use forebay_loader::memory::{Piece, ReadPool, ReadPoolConfig};
use forebay_loader::stats::Stats;
use forebay_loader::{Error, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Hot samples submitted before their completions are taken. The slots of a few stay in the CPU's cache, slots of a
/// whole queue do not.
const READY_MAX: usize = 4;

/// Reads of one measurement.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Number of reads.
    pub(crate) reads: u64,
    /// Bytes per read.
    pub(crate) read_bytes: usize,
    /// Seed of files and positions.
    pub(crate) seed: u64,
}

/// Result of one measurement.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    /// Reader: "io_uring", "pread", "plain pread".
    pub(crate) way: &'static str,
    /// Completed reads.
    pub(crate) reads: u64,
    /// Bytes read.
    pub(crate) bytes: u64,
    /// Wall time.
    pub(crate) elapsed: Duration,
    /// CPU time of the process, all threads.
    pub(crate) cpu: Duration,
    /// Reads served from the page cache.
    pub(crate) cached: u64,
    /// Sum of one byte of each read. Equal for all readers.
    pub(crate) check: u64,
}

impl Rate {
    /// Reads per second.
    pub(crate) fn reads_per_s(&self) -> f64 {
        self.reads as f64 / self.elapsed.as_secs_f64()
    }

    /// GiB per second.
    pub(crate) fn gib_per_s(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64() / (1_u64 << 30) as f64
    }

    /// CPU time per wall time; 1 is one CPU.
    pub(crate) fn cpus(&self) -> f64 {
        self.cpu.as_secs_f64() / self.elapsed.as_secs_f64()
    }
}

/// Positions of a load: the same for every reader with the same seed.
struct Places<'a> {
    files: &'a [Arc<ShardFile>],
    load: &'a Load,
    state: u64,
}

impl<'a> Places<'a> {
    fn new(files: &'a [Arc<ShardFile>], load: &'a Load) -> Result<Self> {
        let is_short = |file: &Arc<ShardFile>| file.len() <= load.read_bytes as u64;
        if files.is_empty() || load.read_bytes == 0 || files.iter().any(is_short) {
            return Err(Error::config("reads need files that are longer than one read").with("bytes", load.read_bytes));
        }
        Ok(Self { files, load, state: load.seed })
    }

    fn next(&mut self) -> (&'a Arc<ShardFile>, u64) {
        let mut draw = || {
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.state >> 20
        };
        let file = &self.files[draw() as usize % self.files.len()];
        (file, draw() % (file.len() - self.load.read_bytes as u64))
    }
}

/// Reads at random with plain `pread` on the calling thread into one buffer, as a simple program does.
///
/// # Errors
///
/// When a file is shorter than a read, or a read fails.
pub(crate) fn plain_pread(files: &[Arc<ShardFile>], load: &Load) -> Result<Rate> {
    let mut places = Places::new(files, load)?;
    let mut buffer = vec![0; load.read_bytes];
    let clocks = Clocks::start();
    let mut check = 0;
    for _ in 0..load.reads {
        let (file, offset) = places.next();
        read_exact_at(file.buffered(), &mut buffer, offset)?;
        check += u64::from(buffer[load.read_bytes / 2]);
    }
    Ok(clocks.stop("plain pread", load, 0, check))
}

/// Reads at random with the reader that `config` selects, into a populated pool of `pool_bytes`.
///
/// # Errors
///
/// When a file is shorter than a read, the pool is too small for the reads in flight, or a read fails.
pub(crate) fn through_reader(
    files: &[Arc<ShardFile>],
    load: &Load,
    config: &IoConfig,
    pool_bytes: usize,
) -> Result<Rate> {
    let mut places = Places::new(files, load)?;
    let pool = ReadPool::new(&ReadPoolConfig { bytes: pool_bytes, ..Default::default() }, None)?;
    if load.read_bytes > pool.slot_bytes_max() {
        return Err(Error::config("the pool does not hold two reads").with("pool_bytes", pool_bytes));
    }
    // The first lease starts the population.
    drop(pool.try_lease(load.read_bytes)?);
    while !pool.pieces().iter().all(Piece::is_populated) {
        std::thread::yield_now();
    }
    let stats = Arc::new(Stats::default());
    let mut reader = reader(config, &pool, &stats)?;
    let clocks = Clocks::start();
    let (mut submitted, mut completed, mut check) = (0, 0, 0);
    let mut done = Vec::new();
    while completed < load.reads {
        while submitted < load.reads && reader.room() > 0 && reader.ready() < READY_MAX {
            let Some(into) = pool.try_lease(load.read_bytes)? else { break };
            let (file, offset) = places.next();
            reader.submit(ReadRequest { file: file.clone(), offset, into, token: submitted })?;
            submitted += 1;
        }
        reader.wait(&mut done, Duration::from_secs(1))?;
        for completion in done.drain(..) {
            check += u64::from(completion.result?[load.read_bytes / 2]);
            completed += 1;
        }
    }
    Ok(clocks.stop(reader.name(), load, stats.counter("reads_page_cache").get(), check))
}

/// Evicts the files from the page cache, as far as the system allows.
///
/// # Errors
///
/// When the system rejects the request.
pub(crate) fn make_cold(files: &[Arc<ShardFile>]) -> Result<()> {
    for file in files {
        rustix::fs::fsync(file.buffered())
            .and_then(|()| rustix::fs::fadvise(file.buffered(), 0, None, rustix::fs::Advice::DontNeed))
            .map_err(|errno| Error::from_io(errno.into(), "a file cannot be evicted from the page cache"))?;
    }
    Ok(())
}

struct Clocks {
    start: Instant,
    cpu_seconds: f64,
}

impl Clocks {
    fn start() -> Self {
        Self { cpu_seconds: own_cpu_seconds(), start: Instant::now() }
    }

    fn stop(&self, way: &'static str, load: &Load, cached: u64, check: u64) -> Rate {
        let elapsed = self.start.elapsed();
        let cpu = Duration::from_secs_f64((own_cpu_seconds() - self.cpu_seconds).max(0.0));
        Rate { way, reads: load.reads, bytes: load.reads * load.read_bytes as u64, elapsed, cpu, cached, check }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_loader::io::{Engine, open};

    #[test]
    fn all_readers_read_the_same_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), (0..1_000_000_u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect::<Vec<_>>())
            .unwrap();
        let files = [Arc::new(open(file.path()).unwrap())];
        let load = Load { reads: 300, read_bytes: 11_000, seed: 1 };
        let plain = plain_pread(&files, &load).unwrap();
        make_cold(&files).unwrap();
        for engine in [Engine::Auto, Engine::Pread] {
            let config = IoConfig { engine, ..Default::default() };
            let rate = through_reader(&files, &load, &config, 1 << 20).unwrap();
            assert_eq!((rate.check, rate.bytes), (plain.check, 3_300_000));
        }
        let long = Load { read_bytes: 1_000_000, ..load };
        assert!(plain_pread(&files, &long).is_err());
        assert!(through_reader(&files, &Load { read_bytes: 900_000, ..long }, &IoConfig::default(), 1 << 20).is_err());
    }
}
