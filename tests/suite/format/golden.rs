//! Data sets recorded by `tests/oracle/format_golden.py`.

use std::path::{Path, PathBuf};

use forebay_loader::format::{INDEX_BASENAME, Index};

use super::copy::{self, Counts};

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/format/golden")
}

fn check(name: &str) -> Counts {
    let ours = tempfile::tempdir().unwrap();
    copy::check(&folder().join(name), ours.path())
}

#[test]
fn every_encoding_reads_and_writes_the_bytes_of_the_reference() {
    assert_eq!(check("mds_every_encoding"), Counts { samples: 12, values: 12 * 31 });
}

#[test]
fn all_17_hashes_equal_the_reference_s() {
    assert_eq!(check("mds_every_hash").samples, 20);
}

#[test]
fn shards_have_the_same_samples_as_the_references() {
    assert_eq!(check("mds_first_too_large").samples, 4);
    assert_eq!(check("mds_one_shard").samples, 7);
    assert_eq!(check("mds_nothing").samples, 0);
}

#[test]
fn every_compression_unpacks_to_the_same_bytes() {
    for name in ["br", "bz2", "gz", "snappy", "zstd"] {
        assert_eq!(check(&format!("mds_{name}")).samples, 40, "{name}");
    }
}

#[test]
fn text_formats_read_and_write_the_bytes_of_the_reference() {
    for name in ["json", "json_zstd", "csv", "tsv", "xsv"] {
        assert_eq!(check(name).samples, 25, "{name}");
    }
}

#[test]
fn an_index_that_the_reference_merged_has_the_shards_of_all_parts() {
    let merged = folder().join("merge");
    let read = |path: &Path| {
        let bytes = std::fs::read(path.join(INDEX_BASENAME)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Index::parse(&bytes, INDEX_BASENAME).unwrap()
    };
    let mut shards = Vec::new();
    for part in ["000", "001", "002"] {
        shards.extend(read(&merged.join(part)).shards.into_iter().map(|mut shard| {
            shard.raw_data.basename = format!("{part}/{}", shard.raw_data.basename).into();
            if let Some(zip) = &mut shard.zip_data {
                zip.basename = format!("{part}/{}", zip.basename).into();
            }
            shard
        }));
    }
    assert_eq!(read(&merged).shards, shards);
}
