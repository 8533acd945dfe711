//! Damaged files. Good ones (recorded data sets, and seeds in `data/format/seeds`) are cut, flipped, spliced and
//! extended by a generator with a fixed seed, and every target gets each of them. Findings of the fuzzers under
//! `tests/fuzz` are added to the seeds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use forebay_loader::format::{Compression, Index};

use super::{golden, targets};

/// Damaged inputs per good one; `FOREBAY_HOSTILE_ROUNDS` overrides it. All targets together take a second.
const ROUNDS: u64 = 400;

/// Numbers that are often wrong for lengths and offsets.
const EDGES: [u32; 10] = [0, 1, 3, 4, 0x7f, 0x80, 0xffff, 0x7fff_ffff, 0xffff_fffe, 0xffff_ffff];

/// Random generator of the xorshift family: small, and the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n.max(1)
    }
}

fn damage(good: &[u8], others: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len());
        match dice.below(8) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
            2 if !bytes.is_empty() => bytes[at] = dice.below(256) as u8,
            // Words at the front, where tables and headers are.
            3 | 4 if bytes.len() >= 4 => {
                let at = if dice.below(2) == 0 { dice.below(16) * 4 } else { at }.min(bytes.len() - 4);
                bytes[at..at + 4].copy_from_slice(&EDGES[dice.below(EDGES.len())].to_le_bytes());
            }
            5 => {
                let end = (at + dice.below(64)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            6 => drop(bytes.drain(at..(at + dice.below(16)).min(bytes.len()))),
            _ => {
                let other = &others[dice.below(others.len())];
                let from = dice.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    bytes
}

fn run(name: &str, target: fn(&[u8]), mut good: Vec<Vec<u8>>) {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/format/seeds").join(name);
    let mut files: Vec<_> = std::fs::read_dir(&seeds)
        .unwrap_or_else(|e| panic!("{}: {e}", seeds.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    good.extend(files.iter().map(|file| std::fs::read(file).unwrap()));
    let rounds = std::env::var("FOREBAY_HOSTILE_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for i in 0..good.len() {
        for round in 0..rounds {
            let input = if round == 0 { good[i].clone() } else { damage(&good[i], &good, &mut dice) };
            let result = catch_unwind(AssertUnwindSafe(|| target(&input)));
            if result.is_err() {
                panic!("{name}: input {i}, round {round}: {}", input.escape_ascii());
            }
        }
    }
}

/// Returns the recorded sets of one format: index, and the raw files of the shard with the most samples.
fn recorded(name: &str) -> Vec<(Index, Vec<Vec<u8>>)> {
    let mut folders: Vec<_> = std::fs::read_dir(golden::folder()).unwrap().map(|e| e.unwrap().path()).collect();
    folders.sort();
    let mut sets = Vec::new();
    for folder in folders {
        let data = folder.join("data");
        let Ok(text) = std::fs::read(data.join("index.json")) else { continue };
        let index = Index::parse(&text, "index.json").unwrap();
        let wanted = index.shards.first().is_some_and(|s| s.layout.format.name() == name && s.compression.is_none());
        if wanted {
            let shard = index.shards.iter().max_by_key(|shard| shard.samples).unwrap();
            let files = shard.files().map(|file| std::fs::read(data.join(&*file.raw.basename)).unwrap()).collect();
            sets.push((index, files));
        }
    }
    assert!(!sets.is_empty(), "no recorded {name}");
    sets
}

/// Joins a `.meta` file and its data file to one input.
fn joined(files: &[Vec<u8>]) -> Vec<u8> {
    let len = u16::try_from(files[0].len()).unwrap();
    [&len.to_le_bytes()[..], &files[0], &files[1]].concat()
}

#[test]
fn damaged_indexes_are_errors() {
    let texts = ["mds", "json", "csv", "xsv"].iter().flat_map(|name| recorded(name));
    run("index", targets::index, texts.map(|(index, _)| index.to_json().into_bytes()).collect());
}

#[test]
fn damaged_mds_shards_are_errors() {
    run("mds", targets::mds, recorded("mds").into_iter().map(|(_, mut files)| files.remove(0)).collect());
}

#[test]
fn damaged_jsonl_shards_are_errors() {
    run("jsonl", targets::jsonl, recorded("json").iter().map(|(_, files)| joined(files)).collect());
}

#[test]
fn damaged_xsv_shards_are_errors() {
    run("xsv", targets::xsv, recorded("xsv").iter().map(|(_, files)| joined(files)).collect());
}

#[test]
fn damaged_indexes_of_token_files_are_errors() {
    run("tokens", targets::tokens, Vec::new());
}

/// Returns the files of `data/parquet` with an extension.
fn tables(extension: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/parquet");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|found| found == extension));
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn damaged_parquet_files_are_errors() {
    run("parquet", targets::parquet, tables("parquet"));
}

#[test]
fn damaged_arrow_files_are_errors() {
    run("arrow", targets::arrow, tables("arrow"));
}

#[test]
fn damaged_chunks_of_litdata_are_errors() {
    run("litdata", targets::litdata, Vec::new());
}

#[test]
fn damaged_compressed_files_are_errors() {
    run("compression", targets::compression, Vec::new());
}

/// Tar files of many tools.
fn tars() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/tars");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "gz"));
    files.sort();
    let gzip = Compression::parse("gz").unwrap();
    files.iter().map(|file| gzip.decompress_all(&std::fs::read(file).unwrap(), 1 << 24).unwrap()).collect()
}

#[test]
fn damaged_tars_are_errors() {
    run("tar", targets::tar, tars());
}

/// Files of a folder of `data` with names that begin with `start`.
fn records(folder: &str, start: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start)));
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[test]
fn damaged_records_of_tensorflow_are_errors() {
    run("tfrecord", targets::tfrecord, records("tfrecord", "set."));
}

#[test]
fn damaged_array_records_are_errors() {
    let gzip = Compression::parse("gz").unwrap();
    let unpacked = records("array_record", "set.").into_iter().map(|file| gzip.decompress_all(&file, 1 << 24).unwrap());
    run("array_record", targets::array_record, unpacked.collect());
}

#[test]
fn damaged_files_with_numbers_of_samples_are_errors() {
    run("counts", targets::counts, Vec::new());
}

#[test]
fn damaged_lists_of_tars_are_errors() {
    run("list", targets::list, Vec::new());
}

#[test]
fn damaged_arrays_and_documents_are_errors() {
    run("values", targets::values, Vec::new());
}

#[test]
fn damaged_archives_of_arrays_are_errors() {
    run("npz", targets::npz, Vec::new());
}
