//! Contract of all readers, in one test body.

use super::sim::{Script, SimReader};
use crate::ErrorKind;
use crate::io::pread::PreadReader;
use crate::io::uring::UringReader;
use crate::io::{Completion, DirFeatures, IoConfig, ReadRequest, Reader, ShardFile, probe};
use crate::memory::{ReadPool, ReadPoolConfig};
use crate::stats::Stats;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

/// Time limit that only a hang reaches.
const LONG: Duration = Duration::from_secs(60);

const FILE_BYTES: usize = 3_000_001;

type Make = fn(&IoConfig, &ReadPool, &Arc<Stats>) -> Box<dyn Reader>;

/// Returns the readers under test; io_uring only where this machine supports it.
fn makers() -> Vec<(&'static str, Make)> {
    let mut makers: Vec<(&'static str, Make)> = vec![
        ("pread", |config, _, stats| Box::new(PreadReader::new(config, stats))),
        ("pread without threads", |config, _, stats| {
            Box::new(PreadReader::new(&IoConfig { pread_threads: 0, ..config.clone() }, stats))
        }),
        ("sim", |config, _, stats| {
            Box::new(SimReader::new(config.depth, Script { seed: 4, faults: BTreeMap::new() }, stats))
        }),
    ];
    match probe() {
        Ok(()) => {
            makers.push(("io_uring", |config, pool, stats| Box::new(UringReader::new(config, pool, stats).unwrap())));
        }
        Err(reason) => eprintln!("skipped: io_uring: {reason}"),
    }
    makers
}

struct Bench {
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
    pool: ReadPool,
    stats: Arc<Stats>,
}

impl Bench {
    fn new(pool_bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut state = 1_u32;
        let bytes: Vec<u8> = (0..FILE_BYTES)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        std::fs::write(folder.path().join("shard"), &bytes).unwrap();
        let config = ReadPoolConfig { bytes: pool_bytes, piece_bytes_max: 1 << 20, ..Default::default() };
        Self { folder, bytes, pool: ReadPool::new(&config, None).unwrap(), stats: Arc::default() }
    }

    fn file(&self, directory: &Arc<DirFeatures>) -> Arc<ShardFile> {
        Arc::new(ShardFile::open(self.folder.path().join("shard"), directory).unwrap())
    }

    /// Runs `body` for every reader, with and without the page cache and O_DIRECT.
    fn for_all(&self, body: impl Fn(&str, &mut dyn Reader, Arc<ShardFile>)) {
        for (name, make) in makers() {
            for (how, page_cache, directory) in [
                ("cached", true, DirFeatures::new()),
                ("direct", false, DirFeatures::new()),
                ("buffered", false, DirFeatures::buffered_only()),
            ] {
                let config = IoConfig { depth: 8, page_cache, ..Default::default() };
                let mut reader = make(&config, &self.pool, &self.stats);
                body(&format!("{name}, {how}"), &mut *reader, self.file(&directory));
                drop(reader);
                assert!(self.pool.is_whole(), "{name}, {how}: every slot has returned");
            }
        }
    }
}

/// Waits for everything in flight.
fn drain(reader: &mut dyn Reader) -> Vec<Completion> {
    let mut done = Vec::new();
    while reader.in_flight() > 0 {
        assert!(reader.wait(&mut done, LONG).unwrap() > 0, "a read hangs");
    }
    done
}

#[test]
fn every_range_of_a_file_is_read_correctly() {
    let bench = Bench::new(4 << 20);
    let end = FILE_BYTES as u64;
    let mut ranges = vec![(0, 1), (0, 4096), (1, 4096), (4095, 2), (4096, 8192), (end - 1, 1), (end, 0), (0, 0)];
    ranges.extend([(end - 5000, 5000), (end - 4097, 4097), (12_288, 100_000), (777_777, 300_000)]);
    ranges.extend((0..200_u64).map(|i| ((i * 1_000_003) % (end - 110_000), 1 + (i as usize * 7919) % 110_000)));
    bench.for_all(|name, reader, file| {
        let mut done = Vec::new();
        for (token, (offset, len)) in ranges.iter().enumerate() {
            while reader.room() == 0 {
                assert!(reader.wait(&mut done, LONG).unwrap() > 0, "{name}: a read hangs");
            }
            let into = bench.pool.lease(*len).unwrap();
            reader.submit(ReadRequest { file: file.clone(), offset: *offset, into, token: token as u64 }).unwrap();
            // Slots return as results are checked, so that the pool is never the bound here.
            check(name, &bench, &ranges, done.drain(..));
        }
        check(name, &bench, &ranges, drain(reader).into_iter());
    });
}

fn check(name: &str, bench: &Bench, ranges: &[(u64, usize)], done: impl Iterator<Item = Completion>) {
    for completion in done {
        let (offset, len) = ranges[completion.token as usize];
        let lease = completion.result.unwrap();
        let at = offset as usize;
        assert!(*lease == bench.bytes[at..at + len], "{name}: {len} bytes at {offset}");
    }
}

#[test]
fn a_sample_with_its_own_mapping_is_read_like_the_rest() {
    let bench = Bench::new(1 << 20);
    bench.for_all(|name, reader, file| {
        let into = bench.pool.lease(2_500_000).unwrap();
        assert_eq!(into.piece(), None);
        reader.submit(ReadRequest { file, offset: 1, into, token: 0 }).unwrap();
        let lease = drain(reader).pop().unwrap().result.unwrap();
        assert!(*lease == bench.bytes[1..2_500_001], "{name}");
    });
}

#[test]
fn a_range_beyond_the_end_fails_alone_and_names_the_file() {
    let bench = Bench::new(1 << 20);
    bench.for_all(|name, reader, file| {
        for (token, offset) in [(0, FILE_BYTES as u64 - 9), (1, u64::MAX), (2, 5)] {
            let into = bench.pool.lease(10).unwrap();
            reader.submit(ReadRequest { file: file.clone(), offset, into, token }).unwrap();
        }
        let mut done = drain(reader);
        done.sort_by_key(|c| c.token);
        let kinds: Vec<_> = done.iter().map(|c| c.result.as_ref().err().map(crate::Error::kind)).collect();
        assert_eq!(kinds, [Some(ErrorKind::Format), Some(ErrorKind::Format), None], "{name}");
        assert!(done[0].result.as_ref().unwrap_err().to_string().contains("shard"), "{name}");
    });
}

#[test]
fn a_file_cut_short_after_opening_is_an_error_and_not_a_short_sample() {
    let bench = Bench::new(1 << 20);
    bench.for_all(|name, reader, file| {
        let path = bench.folder.path().join("shard");
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(10_000).unwrap();
        for (token, offset) in [(0, 9_000), (1, 500_000)] {
            let into = bench.pool.lease(5_000).unwrap();
            reader.submit(ReadRequest { file: file.clone(), offset, into, token }).unwrap();
        }
        for completion in drain(reader) {
            assert_eq!(completion.result.unwrap_err().kind(), ErrorKind::Format, "{name}");
        }
        std::fs::write(&path, &bench.bytes).unwrap();
    });
}

#[test]
fn an_evicted_file_stays_readable_while_it_is_open() {
    let bench = Bench::new(1 << 20);
    bench.for_all(|name, reader, file| {
        std::fs::remove_file(bench.folder.path().join("shard")).unwrap();
        let into = bench.pool.lease(50_000).unwrap();
        reader.submit(ReadRequest { file, offset: 70_001, into, token: 0 }).unwrap();
        let lease = drain(reader).pop().unwrap().result.unwrap();
        assert!(*lease == bench.bytes[70_001..120_001], "{name}");
        std::fs::write(bench.folder.path().join("shard"), &bench.bytes).unwrap();
    });
}

#[test]
fn a_reader_is_bounded_and_reports_its_room() {
    let bench = Bench::new(4 << 20);
    bench.for_all(|name, reader, file| {
        let request = |token| ReadRequest {
            file: file.clone(),
            offset: token * 1000,
            into: bench.pool.lease(1000).unwrap(),
            token,
        };
        assert_eq!(reader.wait(&mut Vec::new(), LONG).unwrap(), 0, "{name}: nothing to wait for");
        for token in 0..8 {
            assert_eq!(reader.room(), 8 - token as usize, "{name}");
            reader.submit(request(token)).unwrap();
        }
        assert_eq!(reader.submit(request(8)).unwrap_err().kind(), ErrorKind::Internal, "{name}");
        assert_eq!(drain(reader).len(), 8, "{name}");
        assert_eq!(reader.room(), 8, "{name}");
    });
}

#[test]
fn dropping_a_reader_returns_slots_in_flight() {
    let bench = Bench::new(4 << 20);
    // `for_all` checks the pool after it has dropped the reader.
    bench.for_all(|_, reader, file| {
        for token in 0..8 {
            let into = bench.pool.lease(100_000).unwrap();
            reader.submit(ReadRequest { file: file.clone(), offset: token * 100_000, into, token }).unwrap();
        }
        // Some are in the kernel by now, some are not.
        let _ = reader.wait(&mut Vec::new(), Duration::ZERO).unwrap();
        for token in 8..8 + reader.room() as u64 {
            let into = bench.pool.lease(100_000).unwrap();
            reader.submit(ReadRequest { file: file.clone(), offset: token * 100_000, into, token }).unwrap();
        }
    });
}

#[test]
fn a_reader_made_on_one_thread_works_on_a_second() {
    let bench = Bench::new(1 << 20);
    for (name, make) in makers() {
        let config = IoConfig { depth: 8, page_cache: false, ..Default::default() };
        let mut reader = make(&config, &bench.pool, &bench.stats);
        let (file, into) = (bench.file(&DirFeatures::new()), bench.pool.lease(1000).unwrap());
        let there = std::thread::spawn(move || {
            reader.submit(ReadRequest { file, offset: 5, into, token: 0 }).unwrap();
            drain(&mut *reader).pop().unwrap().result.unwrap()
        });
        assert!(*there.join().unwrap() == bench.bytes[5..1005], "{name}");
    }
}

#[test]
fn hot_data_costs_one_read_and_none_of_the_disk() {
    let bench = Bench::new(1 << 20);
    let file = bench.file(&DirFeatures::new());
    let mut warm = vec![0; FILE_BYTES];
    std::fs::File::open(file.path()).unwrap().read_exact_at(&mut warm, 0).unwrap();
    for (name, make) in makers().into_iter().filter(|(name, _)| *name != "sim") {
        let stats = Arc::new(Stats::default());
        let mut reader = make(&IoConfig::default(), &bench.pool, &stats);
        for token in 0..50 {
            let into = bench.pool.lease(10_000).unwrap();
            reader.submit(ReadRequest { file: file.clone(), offset: token * 10_000, into, token }).unwrap();
            assert_eq!(drain(&mut *reader).len(), 1);
        }
        assert_eq!(stats.counter("reads_page_cache").get(), 50, "{name}");
        assert_eq!(stats.counter("reads_direct").get() + stats.counter("reads_buffered").get(), 0, "{name}");
    }
}
