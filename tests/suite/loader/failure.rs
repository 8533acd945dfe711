//! Failures and their messages.

use super::*;
use forebay_loader::ErrorKind;
use forebay_loader::config::{ExtraOutput, SkipConfig, WorldConfig};
use forebay_tests::disk::room;

/// Overwrites the picture of sample `index` in its shard's file so that it is not a JPEG.
fn spoil(directory: &Path, index: usize) {
    // The markers at the front stay: it is still recognised as a JPEG.
    spoil_from(directory, index, 16);
}

/// Overwrites the picture from byte `from` of the sample on.
fn spoil_from(directory: &Path, index: usize, from: usize) {
    let path = directory.join("shard.00000.mds");
    let mut bytes = std::fs::read(&path).expect("a shard");
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
    let (start, end) = (word(4 + 4 * index), word(8 + 4 * index));
    assert!(start + from < end, "sample {index} has {} bytes", end - start);
    bytes[start + from..end].fill(0);
    std::fs::write(path, bytes).expect("a shard is written");
}

fn pictures(directory: &Path, count: u64) {
    let size = forebay_loader::decode::geometry::Size { w: 40, h: 30 };
    let jpegs = (0..count).map(|i| forebay_tests::data::jpeg(size, i).map(|jpeg| (jpeg, i as i64)));
    forebay_tests::data::images(directory, jpegs, Options::default()).expect("a data set");
}

fn fields() -> Option<Vec<(String, forebay_loader::decode::FieldSpec)>> {
    let json = r#"[["x", {"kind": "image", "column": "image", "ops": [{"op": "random_resized_crop", "size": [16, 16]}]}],
                   ["y", {"kind": "scalar", "column": "class"}]]"#;
    Some(serde_json::from_str(json).expect("fields"))
}

fn classes(batches: &[Batch]) -> Vec<i64> {
    let class = |b: &Batch| match b.get("y") {
        Some(Output::Tensor(y)) => {
            let (words, _) = y.host().expect("host memory").as_chunks();
            words.iter().map(|word| i64::from_le_bytes(*word)).collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    batches.iter().flat_map(class).collect()
}

#[test]
fn a_corrupt_picture_is_an_error_that_names_shard_and_sample() {
    let dir = tempfile::tempdir().unwrap();
    pictures(dir.path(), 40);
    spoil(dir.path(), 20);
    let config =
        LoaderConfig { shuffle: false, batch_size: 8, fields: fields(), ..config(stream(Some(dir.path()), None)) };
    let loader = Loader::new(config).unwrap();
    loader.start_epoch().unwrap();
    let mut whole = 0;
    let error = loop {
        match loader.next() {
            Ok(Next::Batch(_)) => whole += 1,
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert_eq!(whole, 2, "batches before the bad one are delivered");
    assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    for word in ["shard.00000.mds", "sample 20", "batch 2", "image"] {
        assert!(error.to_string().contains(word), "{word} is missing: {error}");
    }
    assert!(error.to_string().ends_with("; skip.errors, such as 100, leaves such samples out"), "{error}");
    assert_eq!(loader.next().unwrap_err().to_string(), error.to_string(), "no batch after the gap");
    assert_eq!(loader.state().unwrap().sample_in_epoch, 16, "the bad batch is repeated");
}

#[test]
fn a_corrupt_picture_is_skipped_within_the_budget_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    pictures(dir.path(), 40);
    spoil(dir.path(), 20);
    spoil(dir.path(), 23);
    let skip = |errors| {
        let config = config(stream(Some(dir.path()), None));
        let skip = SkipConfig { errors, ..SkipConfig::default() };
        let config = LoaderConfig { shuffle: false, batch_size: 8, fields: fields(), skip, ..config };
        Loader::new(config).unwrap()
    };
    let loader = skip(2);
    let batches = epoch(&loader);
    assert_eq!(batches.iter().map(|b| b.rows).collect::<Vec<_>>(), [8, 8, 6, 8, 8]);
    let kept: Vec<i64> = (0..40).filter(|i| *i != 20 && *i != 23).collect();
    assert_eq!(classes(&batches), kept);
    assert!(loader.stats().unwrap().counters.contains(&("samples_skipped", 2)));
    let loader = skip(1);
    loader.start_epoch().unwrap();
    let error = std::iter::from_fn(|| Some(loader.next())).find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    assert!(error.to_string().contains("the epoch has more bad samples than skip.errors 1"), "{error}");
}

/// A loader of single samples that skips bad ones, for rank `rank` of `ranks`.
fn skipping(stream: StreamConfig, rank: u32, ranks: u32, errors: u64) -> LoaderConfig {
    LoaderConfig {
        shuffle: false,
        batch_size: 1,
        extra: vec![ExtraOutput::Repeat],
        fields: fields(),
        skip: SkipConfig { errors, ..SkipConfig::default() },
        world: WorldConfig { rank, world_size: ranks, ..WorldConfig::default() },
        ..config(stream)
    }
}

fn repeats(batches: &[Batch]) -> Vec<bool> {
    let repeat = |b: &Batch| match b.get("repeat") {
        Some(Output::Tensor(repeat)) => repeat.host().expect("host memory").iter().map(|byte| *byte == 1).collect(),
        other => panic!("{other:?}"),
    };
    batches.iter().flat_map::<Vec<bool>, _>(repeat).collect()
}

fn counters(loader: &Loader) -> (u64, u64) {
    let counters = loader.stats().expect("figures").counters;
    let of = |name| counters.iter().find(|(n, _)| *n == name).expect("a counter").1;
    (of("samples_skipped"), of("batches_refilled"))
}

#[test]
fn a_corrupt_picture_is_delivered_and_counted_where_fields_tolerate_it() {
    let dir = tempfile::tempdir().unwrap();
    pictures(dir.path(), 40);
    // From byte 16 on: not even the size can be read. From byte 700 on: the front is intact.
    spoil(dir.path(), 20);
    spoil_from(dir.path(), 23, 700);
    let json = r#"[["x", {"kind": "image", "column": "image", "ops": [{"op": "center_crop", "size": [40, 30]}],
                          "tolerant": true}],
                   ["y", {"kind": "scalar", "column": "class"}]]"#;
    let config = LoaderConfig {
        shuffle: false,
        batch_size: 8,
        fields: Some(serde_json::from_str(json).expect("fields")),
        skip: SkipConfig { errors: 1, ..SkipConfig::default() },
        ..config(stream(Some(dir.path()), None))
    };
    let loader = Loader::new(config).unwrap();
    let batches = epoch(&loader);
    assert_eq!(classes(&batches), (0..40).filter(|i| *i != 20).collect::<Vec<_>>());
    let counters = loader.stats().unwrap().counters;
    for counter in [("samples_skipped", 1), ("pictures_damaged", 1)] {
        assert!(counters.contains(&counter), "{counter:?}: {counters:?}");
    }
}

#[test]
fn with_one_rank_a_batch_of_skipped_samples_is_omitted() {
    let dir = tempfile::tempdir().unwrap();
    pictures(dir.path(), 12);
    spoil(dir.path(), 3);
    spoil(dir.path(), 7);
    let loader = Loader::new(skipping(stream(Some(dir.path()), None), 0, 1, 2)).unwrap();
    loader.start_epoch().unwrap();
    let mut first = Vec::new();
    while first.len() < 4 {
        let Next::Batch(batch) = loader.next().unwrap() else { panic!("ended early") };
        first.push(batch);
    }
    assert_eq!(loader.state().unwrap().sample_in_epoch, 5, "the batch that was left out counts");
    first.extend(rest(&loader));
    assert_eq!(classes(&first), [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]);
    assert_eq!(first.iter().map(|b| b.number).collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]);
    assert_eq!(counters(&loader), (2, 0));
}

#[test]
fn with_several_ranks_a_batch_of_skipped_samples_repeats_one_of_the_next_and_all_ranks_make_the_same_steps() {
    let dir = tempfile::tempdir().unwrap();
    pictures(dir.path(), 12);
    [3, 7, 11].iter().for_each(|bad| spoil(dir.path(), *bad));
    let rank = |rank| Loader::new(skipping(stream(Some(dir.path()), None), rank, 2, 2)).unwrap();
    let loaders = [rank(0), rank(1)];
    let batches = [epoch(&loaders[0]), epoch(&loaders[1])];
    assert_eq!(classes(&batches[0]), [0, 1, 2, 4, 4, 5]);
    assert_eq!(repeats(&batches[0]), [false, false, false, true, false, false]);
    assert_eq!(classes(&batches[1]), [6, 8, 8, 9, 10, 6], "after the last batch, the first one is used");
    assert_eq!(repeats(&batches[1]), [false, true, false, false, false, true]);
    assert_eq!([counters(&loaders[0]), counters(&loaders[1])], [(1, 1), (2, 2)]);
    // The picture is the one of the sample's own batch.
    let pixels = |batch: &Batch| match batch.get("x") {
        Some(Output::Tensor(x)) => x.host().expect("host memory").to_vec(),
        other => panic!("{other:?}"),
    };
    assert_eq!(pixels(&batches[0][3]), pixels(&batches[0][4]));
    assert_eq!((batches[0][3].rows, batches[0][3].number), (1, 3));
    // Every resumed run uses the same replacement.
    for stop in 0..=6 {
        let first = rank(1);
        first.start_epoch().unwrap();
        for _ in 0..stop {
            assert!(matches!(first.next().unwrap(), Next::Batch(_)));
        }
        let state = first.state().unwrap();
        assert_eq!((state.epoch, state.sample_in_epoch), (0, 2 * stop as u64));
        let resumed = rank(1);
        resumed.load_state(&state, true).unwrap();
        assert_eq!(classes(&epoch(&resumed)), classes(&batches[1])[stop..], "resumed after {stop} batches");
    }
}

#[test]
fn a_bad_replacement_is_counted_and_a_further_sample_is_tried() {
    let dir = tempfile::tempdir().unwrap();
    pictures(dir.path(), 12);
    [3, 4].iter().for_each(|bad| spoil(dir.path(), *bad));
    let with = |errors| Loader::new(skipping(stream(Some(dir.path()), None), 0, 2, errors)).unwrap();
    let loader = with(3);
    assert_eq!(classes(&epoch(&loader)), [0, 1, 2, 5, 5, 5]);
    assert_eq!(counters(&loader), (3, 2), "sample 4 failed at its own position and at the position of sample 3");
    let loader = with(2);
    loader.start_epoch().unwrap();
    let error = std::iter::from_fn(|| Some(loader.next())).find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
}

#[test]
fn an_empty_batch_without_a_replacement_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    pictures(dir.path(), 12);
    (0..12).for_each(|bad| spoil(dir.path(), bad));
    let loader = Loader::new(skipping(stream(Some(dir.path()), None), 1, 2, 1000)).unwrap();
    loader.start_epoch().unwrap();
    let error = std::iter::from_fn(|| Some(loader.next())).find_map(Result::err).unwrap();
    assert!(error.kind() == ErrorKind::Decode && error.to_string().contains("remaining ranks"), "{error}");
}

#[test]
fn a_replacement_is_fetched_even_if_the_cache_holds_little_more_than_its_shard() {
    let (remote, local) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let size = forebay_loader::decode::geometry::Size { w: 40, h: 30 };
    let jpegs = (0..60).map(|i| forebay_tests::data::jpeg(size, i).map(|jpeg| (jpeg, i as i64)));
    let options = Options { size_limit: Some(1 << 13), ..Options::default() };
    let index = forebay_tests::data::images(remote.path(), jpegs, options).expect("a data set");
    let in_first = index.shards[0].samples;
    assert!(in_first > 1 && index.shards.len() > 8, "{in_first} samples in each of {} shards", index.shards.len());
    (0..in_first as usize).for_each(|bad| spoil(remote.path(), bad));
    let bytes = |name: &str| std::fs::metadata(remote.path().join(name)).expect("a file").len();
    let place = stream(Some(local.path()), Some(&remote.path().display().to_string()));
    let mut config = skipping(place, 0, 2, 100);
    let shard = bytes("shard.00000.mds");
    config.cache_limit = Some(room(local.path(), [bytes("index.json"), shard, shard]));
    let loader = Loader::new(config).unwrap();
    let batches = epoch(&loader);
    assert_eq!(batches.len(), 30);
    let bad = in_first as usize;
    assert!(classes(&batches)[..bad].iter().all(|class| *class >= bad as i64), "{:?}", classes(&batches));
    assert_eq!(repeats(&batches), [vec![true; bad], vec![false; 30 - bad]].concat());
    assert_eq!(classes(&batches)[bad..], (bad as i64..30).collect::<Vec<_>>());
}

#[test]
fn a_shard_of_a_different_size_is_named_with_both_sizes() {
    let dir = tempfile::tempdir().unwrap();
    tokens(dir.path(), 200, None);
    let path = dir.path().join("shard.00003.mds");
    let bytes = std::fs::metadata(&path).unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(7).unwrap();
    let loader = Loader::new(config(stream(Some(dir.path()), None))).unwrap();
    loader.start_epoch().unwrap();
    let error = std::iter::from_fn(|| Some(loader.next())).find_map(Result::err).unwrap().to_string();
    for word in ["size differs", "bytes 7,", &format!("expected {bytes}"), &path.display().to_string()] {
        assert!(error.contains(word), "{word} is missing: {error}");
    }
}

#[test]
fn a_missing_remote_folder_is_named_and_a_failed_open_leaves_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let e = Loader::new(config(stream(None, Some(&format!("{}/", missing.display()))))).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    let text = e.to_string();
    assert!(text.contains("there is no such folder") && text.contains(&missing.display().to_string()), "{text}");
    assert!(!text.contains("//"), "{text}");
    let e = Loader::new(config(stream(None, dir.path().to_str()))).unwrap_err();
    assert!(e.to_string().contains("there is no index.json: the folder holds no data set"), "{e}");
    std::fs::create_dir(dir.path().join("train")).unwrap();
    std::fs::write(dir.path().join("train/index.json"), "{}").unwrap();
    let e = Loader::new(config(stream(None, dir.path().to_str()))).unwrap_err();
    assert!(e.to_string().contains("data sets in train: name one with `split`"), "{e}");
    let cache = dir.path().join("cache");
    let e = Loader::new(config(stream(Some(&cache), dir.path().to_str()))).unwrap_err();
    assert!(e.to_string().contains("data sets in train: name one with `split`"), "{e}");
    let e = Loader::new(config(stream(Some(&cache.join("deep")), missing.to_str()))).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
    assert!(!cache.exists(), "the folders that were made for it are removed");
}

#[test]
fn a_missing_shard_of_a_local_stream_is_named() {
    let dir = tempfile::tempdir().unwrap();
    tokens(dir.path(), 200, None);
    std::fs::remove_file(dir.path().join("shard.00003.mds")).unwrap();
    let loader = Loader::new(config(stream(Some(dir.path()), None))).unwrap();
    loader.start_epoch().unwrap();
    let error = std::iter::from_fn(|| Some(loader.next())).find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("shard.00003.mds"), "{error}");
    assert_eq!(error.to_string().matches("stage shard").count(), 1, "{error}");
}

#[test]
fn next_without_an_epoch_names_the_call_to_make() {
    let dir = tempfile::tempdir().unwrap();
    tokens(dir.path(), 20, None);
    let loader = Loader::new(config(stream(Some(dir.path()), None))).unwrap();
    assert!(loader.next().unwrap_err().to_string().contains("start_epoch"));
}

#[test]
fn unknown_columns_and_algorithms_are_rejected_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    tokens(dir.path(), 20, None);
    let plain = config(stream(Some(dir.path()), None));
    let e = Loader::new(LoaderConfig { fields: fields(), ..plain.clone() }).unwrap_err();
    assert!(e.to_string().contains("image") && e.to_string().contains("tokens"), "{e}");
    let mut unknown = plain;
    unknown.order.shuffle_algo = "py3".into();
    let e = Loader::new(unknown).unwrap_err();
    assert!(e.to_string().contains("py1e"), "{e}");
}

#[test]
fn next_on_a_closed_epoch_is_an_error_and_not_its_end() {
    let dir = tempfile::tempdir().unwrap();
    tokens(dir.path(), 400, None);
    let loader = Loader::new(config(stream(Some(dir.path()), None))).unwrap();
    loader.start_epoch().unwrap();
    loader.next().unwrap();
    loader.close().unwrap();
    for _ in 0..2 {
        let error = loader.next().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert!(error.to_string().contains("before its end"), "{error}");
    }
    assert_eq!(loader.state().unwrap().sample_in_epoch, 16, "it can still be saved");
    assert_eq!(epoch(&loader)[0].epoch, 1);
}

#[test]
fn several_threads_that_see_the_end_end_one_epoch() {
    let dir = tempfile::tempdir().unwrap();
    tokens(dir.path(), 100, None);
    let loader = Loader::new(config(stream(Some(dir.path()), None))).unwrap();
    for number in 0..50 {
        assert_eq!(loader.epoch().unwrap(), number);
        loader.start_epoch().unwrap();
        let together = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    together.wait();
                    loop {
                        match loader.next() {
                            Ok(Next::End) => break,
                            Ok(_) => {}
                            Err(e) => return assert_eq!(e.kind(), ErrorKind::Closed, "{e}"),
                        }
                    }
                });
            }
        });
    }
}
