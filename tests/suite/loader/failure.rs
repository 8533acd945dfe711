//! What goes wrong, and what it says.

use super::*;
use forebay_loader::ErrorKind;
use forebay_loader::config::OnError;

/// Overwrites the picture of sample `index` in its shard's file so that it is no JPEG any more.
fn spoil(directory: &Path, index: usize) {
    let path = directory.join("shard.00000.mds");
    let mut bytes = std::fs::read(&path).expect("a shard");
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
    let (start, end) = (word(4 + 4 * index), word(8 + 4 * index));
    // The markers at the front stay: it is still recognised as a JPEG.
    bytes[start + 16..end].fill(0);
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
    assert_eq!(loader.next().unwrap_err().to_string(), error.to_string(), "no batch after the gap");
    assert_eq!(loader.state().unwrap().sample_in_epoch, 16, "the bad batch comes again");
}

#[test]
fn a_corrupt_picture_is_skipped_within_the_budget_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    pictures(dir.path(), 40);
    spoil(dir.path(), 20);
    spoil(dir.path(), 23);
    let skip = |max_errors| {
        let config = config(stream(Some(dir.path()), None));
        let config = LoaderConfig {
            shuffle: false,
            batch_size: 8,
            fields: fields(),
            on_error: OnError::Skip,
            max_errors,
            ..config
        };
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
}

#[test]
fn a_batch_of_nothing_but_skipped_samples_is_left_out_on_one_rank_and_an_error_on_several() {
    let dir = tempfile::tempdir().unwrap();
    pictures(dir.path(), 12);
    spoil(dir.path(), 3);
    spoil(dir.path(), 7);
    let skip = |world_size| {
        let world = forebay_loader::config::WorldConfig { world_size, ..Default::default() };
        let config = config(stream(Some(dir.path()), None));
        LoaderConfig {
            shuffle: false,
            batch_size: 1,
            fields: fields(),
            on_error: OnError::Skip,
            max_errors: 2,
            world,
            ..config
        }
    };
    let loader = Loader::new(skip(1)).unwrap();
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
    // A second rank would wait for the batch that this one leaves out.
    let loader = Loader::new(skip(2)).unwrap();
    loader.start_epoch().unwrap();
    let error = std::iter::from_fn(|| Some(loader.next())).find_map(Result::err).unwrap();
    assert!(error.kind() == ErrorKind::Decode && error.to_string().contains("other ranks"), "{error}");
}

#[test]
fn a_shard_of_another_size_is_named_with_both_sizes() {
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
fn a_remote_that_is_a_missing_folder_says_so_and_an_open_that_fails_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let e = Loader::new(config(stream(None, Some(&format!("{}/", missing.display()))))).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound);
    let text = e.to_string();
    assert!(text.contains("does not exist") && text.contains(&missing.display().to_string()), "{text}");
    assert!(!text.contains("//"), "{text}");
    let e = Loader::new(config(stream(None, dir.path().to_str()))).unwrap_err();
    assert!(e.to_string().contains("no data set"), "{e}");
    let cache = dir.path().join("cache");
    let e = Loader::new(config(stream(Some(&cache.join("deep")), missing.to_str()))).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
    assert!(!cache.exists(), "the folders that were made for it are gone");
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
fn next_without_an_epoch_says_what_to_call() {
    let dir = tempfile::tempdir().unwrap();
    tokens(dir.path(), 20, None);
    let loader = Loader::new(config(stream(Some(dir.path()), None))).unwrap();
    assert!(loader.next().unwrap_err().to_string().contains("start_epoch"));
}

#[test]
fn unknown_columns_and_algorithms_are_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    tokens(dir.path(), 20, None);
    let plain = config(stream(Some(dir.path()), None));
    let e = Loader::new(LoaderConfig { fields: fields(), ..plain.clone() }).unwrap_err();
    assert!(e.to_string().contains("image") && e.to_string().contains("tokens"), "{e}");
    let e = Loader::new(LoaderConfig { shuffle_algo: "py3".into(), ..plain }).unwrap_err();
    assert!(e.to_string().contains("py1e"), "{e}");
}

#[test]
fn a_closed_epoch_is_an_error_and_never_looks_like_its_end() {
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
