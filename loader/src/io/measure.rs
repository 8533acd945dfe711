//! How fast this machine reads samples: the library side of `forebay-bench disk`.

use super::{IoConfig, ReadRequest, ShardFile, reader};
use crate::error::{Error, Result};
use crate::memory::{ReadPool, ReadPoolConfig};
use crate::stats::Stats;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Hot samples taken at a time: the slots of a few stay in the CPU's cache, those of a whole queue do not.
const READY_MAX: usize = 4;

/// What to read.
#[derive(Clone, Debug)]
pub struct Load {
    /// Number of reads.
    pub reads: u64,
    /// Bytes of each.
    pub read_bytes: usize,
    /// Draws the files and positions.
    pub seed: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Rate {
    /// The way that was taken: "io_uring", "pread", "plain pread".
    pub way: &'static str,
    /// Reads done.
    pub reads: u64,
    /// Bytes asked for and brought.
    pub bytes: u64,
    /// Wall time.
    pub elapsed: Duration,
    /// CPU time of the process, all threads.
    pub cpu: Duration,
    /// Reads that the page cache answered.
    pub cached: u64,
    /// Sum of one byte of each read: the same for every way.
    pub check: u64,
}

impl Rate {
    /// Reads per second.
    pub fn reads_per_s(&self) -> f64 {
        self.reads as f64 / self.elapsed.as_secs_f64()
    }

    /// GiB per second.
    pub fn gib_per_s(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64() / (1_u64 << 30) as f64
    }

    /// CPU time per wall time; 1 is one CPU.
    pub fn cpus(&self) -> f64 {
        self.cpu.as_secs_f64() / self.elapsed.as_secs_f64()
    }
}

/// The positions of a load: same seed, same positions, whatever the way.
struct Places<'a> {
    files: &'a [Arc<ShardFile>],
    load: &'a Load,
    state: u64,
}

impl<'a> Places<'a> {
    fn new(files: &'a [Arc<ShardFile>], load: &'a Load) -> Result<Self> {
        let short = |f: &&Arc<ShardFile>| f.len() <= load.read_bytes as u64;
        if files.is_empty() || load.read_bytes == 0 || files.iter().any(|f| short(&f)) {
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

/// Random reads by plain `pread` on the calling thread into one buffer: what a simple program does.
///
/// # Errors
///
/// When a file is shorter than a read, or a read fails.
pub fn plain_pread(files: &[Arc<ShardFile>], load: &Load) -> Result<Rate> {
    let mut places = Places::new(files, load)?;
    let mut buffer = vec![0; load.read_bytes];
    let clock = Clocks::start();
    let mut check = 0;
    for _ in 0..load.reads {
        let (file, offset) = places.next();
        super::read_exact_at(file.buffered(), &mut buffer, offset)?;
        check += u64::from(buffer[load.read_bytes / 2]);
    }
    Ok(clock.stop("plain pread", load, 0, check))
}

/// Random reads through the reader that `config` calls for, with `pool_bytes` of slots, all of them populated before.
///
/// # Errors
///
/// When a file is shorter than a read, the pool does not hold the reads in flight, or a read fails.
pub fn through_reader(files: &[Arc<ShardFile>], load: &Load, config: &IoConfig, pool_bytes: usize) -> Result<Rate> {
    let mut places = Places::new(files, load)?;
    let pool = ReadPool::new(&ReadPoolConfig { bytes: pool_bytes, ..Default::default() })?;
    if load.read_bytes > pool.slot_bytes_max() {
        return Err(Error::config("the pool does not hold two reads").with("pool_bytes", pool_bytes));
    }
    // The first lease starts the population.
    drop(pool.lease(load.read_bytes)?);
    while pool.state().populated_bytes < pool.state().total_bytes {
        std::thread::yield_now();
    }
    let stats = Arc::new(Stats::default());
    let mut reader = reader(config, &pool, &stats)?;
    let clock = Clocks::start();
    let (mut asked, mut brought, mut check) = (0, 0, 0);
    let mut done = Vec::new();
    while brought < load.reads {
        while asked < load.reads && reader.room() > 0 && reader.ready() < READY_MAX {
            let Some(into) = pool.try_lease(load.read_bytes)? else { break };
            let (file, offset) = places.next();
            reader.submit(ReadRequest { file: file.clone(), offset, into, token: asked })?;
            asked += 1;
        }
        reader.wait(&mut done, Duration::from_secs(1))?;
        for completion in done.drain(..) {
            check += u64::from(completion.result?[load.read_bytes / 2]);
            brought += 1;
        }
    }
    Ok(clock.stop(reader.name(), load, stats.counter("reads_page_cache").get(), check))
}

/// Takes the files out of the page cache, as far as the system will.
///
/// # Errors
///
/// When the system refuses.
pub fn make_cold(files: &[Arc<ShardFile>]) -> Result<()> {
    for file in files {
        rustix::fs::fsync(file.buffered())
            .and_then(|()| rustix::fs::fadvise(file.buffered(), 0, None, rustix::fs::Advice::DontNeed))
            .map_err(|errno| Error::from_io(errno.into(), "a file cannot be taken out of the page cache"))?;
    }
    Ok(())
}

struct Clocks {
    start: Instant,
    cpu: Duration,
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

impl Clocks {
    fn start() -> Self {
        Self { cpu: cpu_time(), start: Instant::now() }
    }

    fn stop(&self, way: &'static str, load: &Load, cached: u64, check: u64) -> Rate {
        Rate {
            way,
            reads: load.reads,
            bytes: load.reads * load.read_bytes as u64,
            elapsed: self.start.elapsed(),
            cpu: cpu_time().saturating_sub(self.cpu),
            cached,
            check,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Engine, open};

    #[test]
    fn every_way_reads_the_same_bytes() {
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
