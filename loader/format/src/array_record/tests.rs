//! Files that the package `array_record` wrote: `tests/data/array_record`.

use super::{BLOCK_BYTES, ChunkRange, chunk_ranges, each_record, footer_start, starts_file};
use crate::Compression;
use crate::recipe::{Recipe, RecordChunks};
use crate::tfrecord::{FeatureCounts, count_features, count_whole_records};
use crate::{Layout, ReadAt};
use bytes::Bytes;
use forebay_core::error::{ErrorKind, Result};
use std::sync::Arc;

fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/../../tests/data/array_record/{name}.gz", env!("CARGO_MANIFEST_DIR"));
    Compression::GZIP.decompress_all(&std::fs::read(path).unwrap(), 1 << 30).unwrap()
}

fn ranges(file: &[u8]) -> Result<Vec<ChunkRange>> {
    let end = file.len().saturating_sub(BLOCK_BYTES as usize);
    let start = footer_start(&file[end..], file.len() as u64)?;
    chunk_ranges(&file[start as usize..end], start)
}

fn records(file: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for chunk in ranges(file)? {
        let before = found.len();
        let mut bytes = 0;
        each_record(&file[chunk.start as usize..chunk.end as usize], chunk.start, |record| {
            bytes += record.len() as u64;
            found.push(record.to_vec());
            Ok(true)
        })?;
        assert_eq!(((found.len() - before) as u64, bytes), (chunk.records, chunk.record_bytes));
    }
    Ok(found)
}

/// Data of the records of one of TensorFlow's files.
fn of_tensorflow(name: &str) -> Vec<Vec<u8>> {
    let path = format!("{}/../../tests/data/tfrecord/{name}", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(path).unwrap();
    let (mut found, mut rest) = (Vec::new(), &file[..]);
    while let Some(length) = rest.first_chunk() {
        let length = u64::from_le_bytes(*length) as usize;
        found.push(rest[12..12 + length].to_vec());
        rest = &rest[length + 16..];
    }
    found
}

#[test]
fn records_of_every_compression_are_those_that_were_written() {
    let part = |part: usize| {
        let records = records(&file(&format!("set.array_record-0000{part}-of-00003"))).unwrap();
        assert_eq!(records, of_tensorflow(&format!("set.tfrecord-0000{part}-of-00003")));
        records
    };
    let first = part(0);
    assert_eq!((first.len(), part(1).len(), part(2).len()), (10, 7, 1));
    assert_eq!(records(&file("default.array_record")).unwrap(), first);
    assert_eq!(records(&file("snappy.array_record")).unwrap(), first);
    assert_eq!(records(&file("empty.array_record")).unwrap(), Vec::<Vec<u8>>::new());
}

#[test]
fn files_are_known_by_their_first_bytes() {
    for name in ["default.array_record", "snappy.array_record", "empty.array_record", "set.array_record-00000-of-00003"]
    {
        assert!(starts_file(&file(name)[..64]), "{name}");
    }
    assert!(!starts_file(&[0; 64]) && !starts_file(&file("default.array_record")[..63]) && !starts_file(b""));
}

#[test]
fn chunks_with_more_records_than_bytes_and_with_padding_are_read() {
    let plain = records(&file("plain.array_record")).unwrap();
    assert_eq!(plain.len(), 1002);
    assert_eq!((&plain[0][..], &plain[1001][..]), (&b"no example"[..], &[255; 300][..]));
    assert!(plain[1..1001].iter().all(Vec::is_empty));
    assert_eq!(records(&file("padded.array_record")).unwrap(), [b"0", b"1", b"2"]);
}

#[test]
fn chunks_that_heads_of_blocks_interrupt_are_read() {
    let found = records(&file("blocks.array_record")).unwrap();
    let made = (0..10_usize).map(|n| (0..20_000 + n).map(|i| ((i / 3 + n) % 251) as u8).collect::<Vec<_>>());
    assert!(made.eq(found));
}

#[test]
fn transposed_chunks_are_not_read() {
    let e = records(&file("transposed.array_record")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("without the option `transpose` (byte 64)"), "{e}");
}

#[test]
fn foreign_files_are_errors() {
    for len in [0, 1, 100, BLOCK_BYTES as usize, 2 * BLOCK_BYTES as usize] {
        assert_eq!(ranges(&vec![7; len]).unwrap_err().kind(), ErrorKind::Format, "{len}");
    }
    let file = file("set.array_record-00000-of-00003");
    assert_eq!(ranges(&file[..file.len() - 1]).unwrap_err().kind(), ErrorKind::Format);
    assert_eq!(ranges(&file[..BLOCK_BYTES as usize]).unwrap_err().kind(), ErrorKind::Format);
}

#[test]
fn every_damage_of_a_chunk_or_the_footer_is_an_error() {
    for name in ["snappy.array_record", "set.array_record-00001-of-00003", "set.array_record-00002-of-00003"] {
        let file = file(name);
        let all = records(&file).unwrap();
        // The head of the first block and the padding are not read.
        let postscript = file.len() - BLOCK_BYTES as usize + 24;
        let footer = footer_start(&file[postscript - 24..], file.len() as u64).unwrap() as usize;
        let used = file[..postscript - 24].iter().rposition(|byte| *byte != 0).unwrap();
        let footer_bytes = u64::from_le_bytes(*file[footer + 8..].first_chunk().unwrap()) as usize;
        assert!(footer + 40 + footer_bytes <= used + 1);
        for at in (64..footer + 40 + footer_bytes).chain(postscript..postscript + 60) {
            let mut bad = file.clone();
            bad[at] ^= 1 << (at % 8);
            match records(&bad) {
                Err(e) => assert_eq!(e.kind(), ErrorKind::Format, "{name} {at}"),
                Ok(found) => panic!("{name} {at}: {} of {}", found.len(), all.len()),
            }
        }
    }
}

/// Chunk with these numbers in its head, and right hashes.
fn chunk(kind: u8, records: u64, record_bytes: u64, data: &[u8]) -> Vec<u8> {
    let mut head = (data.len() as u64).to_le_bytes().to_vec();
    head.extend(super::chunk::hash(data).to_le_bytes());
    head.extend((records << 8 | u64::from(kind)).to_le_bytes());
    head.extend(record_bytes.to_le_bytes());
    let mut chunk = super::chunk::hash(&head).to_le_bytes().to_vec();
    chunk.extend(head);
    chunk.extend(data);
    chunk
}

/// Reads the records of a chunk that is in no file.
fn read(chunk: &[u8]) -> Result<usize> {
    let mut count = 0;
    each_record(chunk, 64, |_| {
        count += 1;
        Ok(true)
    })
    .map(|()| count)
}

#[test]
fn a_chunk_with_right_hashes_and_wrong_content_is_an_error() {
    assert_eq!(read(&chunk(b'r', 2, 3, b"\0\x02\x01\x02abc")).unwrap(), 2);
    assert_eq!(read(&chunk(b'p', 0, 0, b"anything")).unwrap(), 0);
    for (kind, records, record_bytes, data) in [
        (b'r', 3, 3, &b"\0\x02\x01\x02abc"[..]),
        (b'r', 1, 3, b"\0\x02\x01\x02abc"),
        (b'r', 2, 2, b"\0\x02\x01\x02abc"),
        (b'r', 2, 4, b"\0\x02\x01\x02abc"),
        (b'r', 2, 3, b"\0\x02\x01\x02ab"),
        (b'r', 2, 3, b"\0\x22\x01\x02abc"),
        (b'r', 2, 3, b""),
        (b'r', 2, 3, b"z\x02\x01\x02abc"),
        (b'r', 2, 3, b"q\x02\x01\x02abc"),
        (b'r', (1 << 56) - 1, 3, b"\0\x02\x01\x02abc"),
        (b'r', 2, u64::MAX, b"\0\x02\x01\x02abc"),
        // Snappy that declares more than memory has.
        (b'r', 2, u32::MAX.into(), b"s\x02\x02\x01\xff\xff\xff\xff\x0f\xff\xff\xff\xff\x0f\0"),
        (b'x', 2, 3, b"\0\x02\x01\x02abc"),
    ] {
        let e = read(&chunk(kind, records, record_bytes, data)).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Format | ErrorKind::Unsupported), "{e}");
    }
    let whole = chunk(b'r', 2, 3, b"\0\x02\x01\x02abc");
    for len in 1..whole.len() {
        assert_eq!(read(&whole[..len]).unwrap_err().kind(), ErrorKind::Format, "{len}");
    }
}

#[test]
fn a_shard_is_a_file_of_tensorflows_records() {
    let file = file("set.array_record-00001-of-00003");
    let ranges = ranges(&file).unwrap();
    assert_eq!(ranges.len(), 2);
    let chunks = RecordChunks {
        key: "a".into(),
        file_bytes: file.len() as u64,
        start: ranges[0].start,
        end: ranges[1].end,
        records: 7,
        record_bytes: ranges.iter().map(|range| range.record_bytes).sum(),
    };
    let bytes = chunks.assembled_bytes();
    let part = file[chunks.start as usize..chunks.end as usize].to_vec();
    let part = Bytes::from(part);
    let layout = Layout::tfrecord(&FeatureCounts::default());
    let made = chunks.assemble(&layout, 7, vec![part.clone()]).unwrap();
    assert_eq!(made.len() as u64, bytes);
    let path = format!("{}/../../tests/data/tfrecord/set.tfrecord-00001-of-00003", env!("CARGO_MANIFEST_DIR"));
    assert_eq!(made, std::fs::read(path).unwrap());
    assert_eq!(count_features(&made[..]).unwrap().samples, 7);
    assert_eq!(made.bytes(), bytes);
    for record_bytes in [chunks.record_bytes - 1, chunks.record_bytes + 1, 0, 1 << 40] {
        let other = RecordChunks { record_bytes, ..chunks.clone() };
        let e = other.assemble(&layout, 7, vec![part.clone()]).unwrap_err();
        assert!(e.to_string().contains("different records than the footer of the file declares (file a"), "{e}");
    }
}

#[test]
fn a_damaged_chunk_loses_its_own_records_alone() {
    let mut file = file("set.array_record-00001-of-00003");
    let ranges = ranges(&file).unwrap();
    let record_bytes = ranges.iter().map(|range| range.record_bytes).sum();
    let (start, end) = (ranges[0].start, ranges[1].end);
    let key = Arc::from("a");
    let chunks = RecordChunks { key, file_bytes: file.len() as u64, start, end, records: 7, record_bytes };
    let layout = Layout::tfrecord(&FeatureCounts::default());
    let part = |file: &[u8]| vec![Bytes::copy_from_slice(&file[start as usize..end as usize])];
    let whole = chunks.assemble(&layout, 7, part(&file)).unwrap();
    assert_eq!(chunks.assemble_damaged(&part(&file)).unwrap(), whole);
    file[ranges[1].end as usize - 1] ^= 4;
    let e = chunks.assemble(&layout, 7, part(&file)).unwrap_err();
    assert!(e.kind() == ErrorKind::Format && e.to_string().contains("does not match its hash"), "{e}");
    let damaged = chunks.assemble_damaged(&part(&file)).unwrap();
    assert_eq!(damaged.len(), whole.len());
    let counts = count_whole_records(&damaged[..]).unwrap();
    assert_eq!((counts.samples, counts.damaged), (ranges[0].records, ranges[1].records));
    let first = (ranges[0].record_bytes + 16 * ranges[0].records) as usize;
    assert_eq!(damaged[..first], whole[..first]);
    // Without the head of a chunk the next one cannot be found.
    file[ranges[1].start as usize + 20] ^= 4;
    assert_eq!(chunks.assemble_damaged(&part(&file)).unwrap_err().kind(), ErrorKind::Format);
}
