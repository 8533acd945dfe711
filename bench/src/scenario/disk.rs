//! Random reads of sample-sized pieces: the engine's readers, plain `pread`, and the limit of the disk.
//!
//! Two groups. *Page cache*: the files are read once before, and the limit is a copy. *Disk*: the
//! files are evicted from the page cache before each program; the limit is several threads with large O_DIRECT
//! reads, each thread its own part of the files.

use super::reads::{Load, Rate, make_cold, plain_pread, through_reader};
use crate::report::{Better, Column, Report, Row, Skipped};
use crate::synth::files_below;
use clap::Args;
use forebay_loader::io::{Engine, IoConfig, ShardFile, open};
use forebay_loader::{Error, Result};
use rustix::fs::{Mode, OFlags};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Bytes per read of the disk's limit: large enough that the number of requests does not matter.
const LIMIT_READ_BYTES: usize = 4 << 20;
/// Threads of the disk's limit; 8 reads of 4 MiB in flight fill every disk's queue.
const LIMIT_THREADS: usize = 8;
/// Alignment of addresses and offsets that satisfies O_DIRECT everywhere.
const ALIGN: usize = 4096;

/// Arguments of `disk`.
#[derive(Debug, Args)]
pub(crate) struct DiskArgs {
    /// Folder of files to read from: a data set, or shards; for the disk best larger than memory
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Reads per program
    #[arg(long, default_value_t = 20_000)]
    reads: u64,
    /// Bytes per read; the default is a photograph of ImageNet
    #[arg(long, default_value_t = 110 << 10)]
    read_bytes: usize,
    /// Reads in flight
    #[arg(long, default_value_t = forebay_loader::io::DEPTH_DEFAULT)]
    depth: usize,
    /// Seed of the positions
    #[arg(long, default_value_t = 7)]
    seed: u64,
}

/// Measures every program, hot and cold.
pub(crate) fn run(args: &DiskArgs) -> Result<Report> {
    let mut files = Vec::new();
    for path in files_below(&args.data)? {
        let file = Arc::new(open(path)?);
        // One read and the alignment around it must fit; small files are not representative of shards.
        if file.len() > (args.read_bytes + ALIGN) as u64 {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(Error::config("no file here is longer than one read").with("data", args.data.display()));
    }
    let bytes: u64 = files.iter().map(|f| f.len()).sum();
    let title = format!(
        "random reads of {:.0} KiB from {} files of {:.1} GB",
        args.read_bytes as f64 / 1024.0,
        files.len(),
        bytes as f64 / 1e9
    );
    let columns = vec![
        Column::new("gib_per_s", "GiB/s", 2, Better::Higher).plotted(),
        Column::new("reads_per_s", "reads/s", 0, Better::Higher),
        Column::new("cpus", "CPUs busy", 2, Better::Lower).plotted(),
        Column::new("cpu_us_per_read", "CPU us per read", 1, Better::Lower),
        Column::new("cached_percent", "cached %", 0, Better::Neither),
    ];
    let mut report = Report::new("disk", title, columns);
    report.baseline = Some("plain pread".to_owned());
    for (group, cold) in [("page cache", false), ("disk", true)] {
        // Plain pread fills the page cache, so cold reads are few enough that they seldom hit pages of earlier ones.
        let reads = if cold { args.reads.min(bytes / args.read_bytes as u64 / 4).max(1) } else { args.reads };
        let load = Load { reads, read_bytes: args.read_bytes, seed: args.seed };
        let before = || if cold { make_cold(&files) } else { warm(&files) };
        before()?;
        let plain = plain_pread(&files, &load)?;
        report.rows.push(row(group, "plain pread", &plain));
        let mut ways = vec![Engine::Auto, Engine::Pread];
        if let Err(reason) = forebay_loader::io::probe() {
            ways.remove(0);
            report.skipped.push(Skipped { name: format!("io_uring ({group})"), reason });
        }
        for engine in ways {
            let config = IoConfig { engine, depth: args.depth, ..IoConfig::default() };
            // Every read in flight has a slot with slack at both ends, and as many slots are being passed on.
            let pool_bytes = (2 * args.depth * (args.read_bytes + 2 * ALIGN)).next_multiple_of(1 << 20);
            before()?;
            let rate = through_reader(&files, &load, &config, pool_bytes)?;
            if rate.check != plain.check {
                return Err(Error::internal("two ways read different bytes").with("way", rate.way));
            }
            report.rows.push(row(group, &format!("forebay {}", rate.way), &rate));
        }
    }
    make_cold(&files)?;
    let limit = device_limit(&files, args)?;
    report.rows.push(row("disk", "limit: 4 MiB O_DIRECT, 8 threads", &limit));
    report.notes.push("the limit's reads/s are its bytes in reads of the same size".to_owned());
    report.notes.push("cold reads cover a quarter of the files at most".to_owned());
    Ok(report)
}

fn row(group: &str, name: &str, rate: &Rate) -> Row {
    let reads = rate.reads as f64;
    let values = BTreeMap::from([
        ("gib_per_s", rate.gib_per_s()),
        ("reads_per_s", rate.reads_per_s()),
        ("cpus", rate.cpus()),
        ("cpu_us_per_read", rate.cpu.as_secs_f64() * 1e6 / reads),
        ("cached_percent", 100.0 * rate.cached as f64 / reads),
    ]);
    let mut values: BTreeMap<_, _> = values.into_iter().filter(|(_, v)| v.is_finite()).collect();
    if rate.way == "plain pread" || rate.way == "limit" {
        // These programs do not query the page cache.
        values.remove("cached_percent");
    }
    Row { group: group.to_owned(), name: name.to_owned(), values, ..Row::default() }
}

fn warm(files: &[Arc<ShardFile>]) -> Result<()> {
    files.iter().try_for_each(|f| crate::synth::read_through(f.path()))
}

/// Reads large pieces past the page cache, as many bytes as the compared programs read or as the files have.
fn device_limit(files: &[Arc<ShardFile>], args: &DiskArgs) -> Result<Rate> {
    let wanted = args.reads * args.read_bytes as u64;
    let pieces = files.iter().flat_map(|f| {
        let whole = f.len() / LIMIT_READ_BYTES as u64;
        (0..whole).map(move |i| (f, i * LIMIT_READ_BYTES as u64))
    });
    let pieces: Vec<_> = pieces.take((wanted / LIMIT_READ_BYTES as u64).max(1) as usize).collect();
    let cpu = crate::machine::own_cpu_seconds();
    let start = Instant::now();
    let read: Vec<Result<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..LIMIT_THREADS)
            .map(|t| {
                let mine: Vec<_> = pieces.iter().skip(t).step_by(LIMIT_THREADS).collect();
                scope.spawn(move || mine.into_iter().map(|(file, offset)| read_direct(file, *offset)).sum())
            })
            .collect();
        threads.into_iter().map(|t| t.join().expect("no panic in a reading thread")).collect()
    });
    let elapsed = start.elapsed();
    let cpu = std::time::Duration::from_secs_f64(crate::machine::own_cpu_seconds() - cpu);
    let bytes = read.into_iter().sum::<Result<u64>>()?;
    if bytes == 0 {
        return Err(Error::config("the files are too small for the limit: 4 MiB each at least"));
    }
    Ok(Rate { way: "limit", reads: bytes / args.read_bytes as u64, bytes, elapsed, cpu, cached: 0, check: 0 })
}

fn read_direct(file: &ShardFile, offset: u64) -> Result<u64> {
    let failed = |e: rustix::io::Errno| Error::from_io(e.into(), "O_DIRECT").with("file", file.path().display());
    let direct = rustix::fs::open(file.path(), OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty());
    let direct = direct.map_err(failed)?;
    thread_local!(static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; LIMIT_READ_BYTES + ALIGN]));
    BUFFER.with_borrow_mut(|buffer| {
        let start = buffer.as_ptr().align_offset(ALIGN);
        let n = rustix::io::pread(&direct, &mut buffer[start..start + LIMIT_READ_BYTES], offset).map_err(failed)?;
        Ok(n as u64)
    })
}
