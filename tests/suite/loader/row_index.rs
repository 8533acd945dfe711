//! Row indexes after the samples of shards: the batches are the same, and only the rows of each crop are decoded.

use super::*;
use forebay_loader::Result;
use forebay_loader::decode::geometry::Size;
use forebay_loader::format::{Index, Trailer, TrailerWriter};
use forebay_loader::indexing::{IndexedCopy, JpegRows};
use serde_json::json;
use std::fs;
use std::sync::Arc;

const SAMPLES: u64 = 60;

/// Makes a data set of small photographs in several shards.
fn pictures(directory: &Path, options: Options) -> Index {
    let picture = |number: u64| -> Result<(Vec<u8>, i64)> {
        let size = Size { w: 90 + number as u32, h: 170 - number as u32 };
        Ok((forebay_tests::data::jpeg(size, number)?, number as i64))
    };
    let options = Options { size_limit: Some(60_000), ..options };
    forebay_tests::data::images(directory, (0..SAMPLES).map(picture), options).expect("a data set")
}

fn with_index() -> Options {
    Options { index: Some(Arc::new(JpegRows)), ..Options::default() }
}

fn crops(directory: &Path) -> LoaderConfig {
    let ops = json!([{"op": "random_resized_crop", "size": [48, 40]}, {"op": "random_horizontal_flip"}]);
    let fields = json!([["x", {"kind": "image", "column": "image", "ops": ops}],
                        ["y", {"kind": "scalar", "column": "class"}]]);
    let fields = Some(serde_json::from_value(fields).expect("fields"));
    LoaderConfig { fields, ..config(stream(Some(directory), None)) }
}

/// The bytes of all outputs of all batches.
fn bytes(batches: &[Batch]) -> Vec<Vec<u8>> {
    let of = |batch: &Batch, name| match batch.get(name) {
        Some(Output::Tensor(tensor)) => tensor.host().expect("host memory").to_vec(),
        other => panic!("{other:?}"),
    };
    batches.iter().flat_map(|batch| [of(batch, "x"), of(batch, "y")]).collect()
}

fn two_epochs(directory: &Path) -> (Vec<Vec<u8>>, impl Fn(&str) -> u64) {
    let loader = Loader::new(crops(directory)).expect("a loader");
    let all = (0..2).flat_map(|_| bytes(&epoch(&loader))).collect();
    let counters = loader.stats().expect("stats").counters;
    (all, move |name: &str| counters.iter().find(|(n, _)| *n == name).map_or(0, |(_, value)| *value))
}

/// True if the native decoder is used on this machine. Without its vector instructions libjpeg-turbo is used, which
/// takes no index.
fn has_own_decoder() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("bmi2");
    #[cfg(not(target_arch = "x86_64"))]
    cfg!(target_arch = "aarch64")
}

#[test]
fn batches_decoded_with_row_indexes_equal_those_without() {
    let dir = tempfile::tempdir().unwrap();
    let [plain, indexed, copied] = ["plain", "indexed", "copied"].map(|name| dir.path().join(name));
    let shards = pictures(&plain, Options::default()).shards.len() as u64;
    pictures(&indexed, with_index());
    let copy = IndexedCopy::begin(&plain, &copied, false).unwrap();
    for number in 0..copy.shards() {
        copy.shard(number).unwrap();
    }
    copy.finish().unwrap();
    let (want, counter) = two_epochs(&plain);
    assert_eq!((counter("row_indexes_used"), counter("shard_indexes_read")), (0, 0));
    for directory in [&indexed, &copied] {
        let (got, counter) = two_epochs(directory);
        assert!(got == want, "different batches from {}", directory.display());
        let used = if has_own_decoder() { 2 * SAMPLES } else { 0 };
        assert_eq!((counter("row_indexes_used"), counter("row_indexes_refused")), (used, 0));
        assert_eq!((counter("shard_indexes_read"), counter("shard_indexes_refused")), (shards, 0));
    }
}

#[test]
fn indexes_in_compressed_shards_are_used_and_an_epoch_resumes() {
    let dir = tempfile::tempdir().unwrap();
    let [plain, indexed] = ["plain", "indexed"].map(|name| dir.path().join(name));
    pictures(&plain, Options::default());
    let compression = Some(Compression::parse("zstd").unwrap());
    pictures(&indexed, Options { compression, ..with_index() });
    let (want, _) = two_epochs(&plain);
    let loader = Loader::new(crops(&indexed)).unwrap();
    loader.start_epoch().unwrap();
    let Next::Batch(first) = loader.next().unwrap() else { panic!("ended early") };
    let mut got = bytes(&[first]);
    let resumed = Loader::new(crops(&indexed)).unwrap();
    resumed.load_state(&loader.state().unwrap(), true).unwrap();
    got.extend(bytes(&epoch(&resumed)));
    assert!(got == want[..got.len()] && got.len() == want.len() / 2);
    let counters = resumed.stats().unwrap().counters;
    let used = if has_own_decoder() { SAMPLES - 16 } else { 0 };
    assert!(counters.contains(&("row_indexes_used", used)), "{counters:?}");
}

#[test]
fn an_index_that_no_field_can_use_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    pictures(dir.path(), with_index());
    let fields = json!([["y", {"kind": "scalar", "column": "class"}], ["z", {"kind": "bytes", "column": "image"}]]);
    let fields = Some(serde_json::from_value(fields).unwrap());
    let loader = Loader::new(LoaderConfig { fields, ..config(stream(Some(dir.path()), None)) }).unwrap();
    epoch(&loader);
    assert!(loader.stats().unwrap().counters.contains(&("shard_indexes_read", 0)));
}

/// Changes the bytes after the samples of every shard, but not their length.
fn change_trailers(directory: &Path, index: &Index, change: impl Fn(&mut Vec<u8>, usize)) {
    for shard in &index.shards {
        let path = directory.join(&*shard.raw_data.basename);
        let mut bytes = fs::read(&path).expect("a shard");
        let end = shard.offsets(&bytes).expect("offsets").end() as usize;
        let mut trailer = bytes.split_off(end);
        let length = trailer.len();
        change(&mut trailer, shard.samples as usize);
        assert_eq!(trailer.len(), length, "a different length is a different file size");
        bytes.extend(trailer);
        fs::write(&path, bytes).expect("written");
    }
}

#[test]
fn a_damaged_index_costs_nothing_but_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let [plain, indexed] = ["plain", "indexed"].map(|name| dir.path().join(name));
    pictures(&plain, Options::default());
    let index = pictures(&indexed, with_index());
    change_trailers(&indexed, &index, |trailer, _| *trailer.last_mut().expect("bytes") ^= 1);
    let (got, counter) = two_epochs(&indexed);
    assert!(got == two_epochs(&plain).0);
    assert_eq!((counter("shard_indexes_read"), counter("row_indexes_used")), (0, 0));
    assert_eq!(counter("shard_indexes_refused"), index.shards.len() as u64);
}

#[test]
fn an_index_of_different_samples_is_rejected_sample_by_sample() {
    let dir = tempfile::tempdir().unwrap();
    let [plain, indexed] = ["plain", "indexed"].map(|name| dir.path().join(name));
    pictures(&plain, Options::default());
    let index = pictures(&indexed, with_index());
    // Every sample gets its neighbour's entry, under a hash that is right.
    change_trailers(&indexed, &index, |bytes, samples| {
        let trailer = Trailer::parse(bytes.as_slice().into(), samples).expect("a trailer");
        let mut writer = TrailerWriter::new(&[1]);
        for sample in 0..samples {
            writer.push(0, |out| out.extend(trailer.entry(1, (sample + 1) % samples))).expect("room");
        }
        *bytes = writer.finish();
    });
    let (got, counter) = two_epochs(&indexed);
    assert!(got == two_epochs(&plain).0);
    let refused = if has_own_decoder() { 2 * SAMPLES } else { 0 };
    assert_eq!((counter("row_indexes_used"), counter("row_indexes_refused")), (0, refused));
}
