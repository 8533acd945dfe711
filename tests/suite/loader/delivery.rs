//! Delivered batches and their order.

use super::*;
use forebay_loader::config::{ExtraOutput, WorldConfig};

#[test]
fn every_epoch_delivers_the_order_of_the_plan() {
    let dir = tempfile::tempdir().unwrap();
    let counts = tokens(dir.path(), 1000, None);
    let config = config(stream(Some(dir.path()), None));
    let loader = Loader::new(config.clone()).unwrap();
    for number in 0..3 {
        assert_eq!(loader.epoch().unwrap(), number);
        let batches = epoch(&loader);
        assert_eq!(batches.len() as u64, loader.batches().unwrap());
        assert!(batches.iter().enumerate().all(|(i, b)| b.number == i as u64 && b.epoch == number));
        assert_eq!(rows(&batches), expected(&planned(&counts, &config, number)), "epoch {number}");
    }
}

#[test]
fn compressed_local_shards_are_unpacked_into_their_folder_and_read() {
    for compression in ["zstd", "gz", "br:1", "bz2", "snappy"] {
        let dir = tempfile::tempdir().unwrap();
        let counts = tokens(dir.path(), 300, Some(compression));
        let config = config(stream(Some(dir.path()), None));
        let loader = Loader::new(config.clone()).unwrap();
        assert_eq!(rows(&epoch(&loader)), expected(&planned(&counts, &config, 0)), "{compression}");
    }
}

#[test]
fn ranks_share_an_epoch_and_repeats_are_marked() {
    let dir = tempfile::tempdir().unwrap();
    let counts = tokens(dir.path(), 1001, None);
    let (mut seen, mut firsts) = (Vec::new(), 0);
    for rank in 0..4 {
        let world = WorldConfig { rank, world_size: 4, local_rank: rank % 2, local_world_size: 2 };
        let extra = vec![ExtraOutput::Repeat];
        let config = LoaderConfig { world, extra, ..config(stream(Some(dir.path()), None)) };
        let loader = Loader::new(config.clone()).unwrap();
        let batches = epoch(&loader);
        for batch in &batches {
            let Some(Output::Tensor(repeat)) = batch.get("repeat") else { panic!("no `repeat`") };
            assert!(repeat.is_bool() && repeat.shape() == [batch.rows as i64]);
            firsts += repeat.host().unwrap().iter().filter(|r| **r == 0).count();
        }
        let rank_rows = rows(&batches);
        assert_eq!(rank_rows, expected(&planned(&counts, &config, 0)), "rank {rank}");
        seen.extend(rank_rows);
    }
    assert_eq!(firsts, 1001, "each sample is once without the mark");
    let mut all = expected(&(0..1001).collect::<Vec<_>>());
    seen.sort();
    seen.dedup();
    all.sort();
    all.dedup();
    assert_eq!(seen, all);
}

#[test]
fn drop_last_omits_only_the_incomplete_batch() {
    let dir = tempfile::tempdir().unwrap();
    tokens(dir.path(), 100, None);
    let whole = Loader::new(config(stream(Some(dir.path()), None))).unwrap();
    let short = Loader::new(LoaderConfig { drop_last: true, ..config(stream(Some(dir.path()), None)) }).unwrap();
    assert_eq!((whole.batches().unwrap(), short.batches().unwrap()), (7, 6));
    assert_eq!(rows(&epoch(&whole))[..96], rows(&epoch(&short))[..]);
}

#[test]
fn a_checkpoint_resumes_after_the_last_delivered_batch() {
    let dir = tempfile::tempdir().unwrap();
    tokens(dir.path(), 500, None);
    let config = config(stream(Some(dir.path()), None));
    let first = Loader::new(config.clone()).unwrap();
    let reference: Vec<_> = (0..2).flat_map(|_| rows(&epoch(&first))).collect();
    for stop in [0, 1, 7, 31, 32] {
        let loader = Loader::new(config.clone()).unwrap();
        loader.start_epoch().unwrap();
        let mut seen = Vec::new();
        for _ in 0..stop {
            let Next::Batch(batch) = loader.next().unwrap() else { panic!("ended early") };
            seen.extend(rows(&[batch]));
        }
        let state = loader.state().unwrap();
        assert!(state.to_json().len() < 1000, "{}", state.to_json());
        let resumed = Loader::new(config.clone()).unwrap();
        resumed.load_state(&state, true).unwrap();
        assert_eq!(resumed.epoch().unwrap(), 0);
        assert_eq!(resumed.state().unwrap(), state, "loading and saving again changes nothing");
        seen.extend(rows(&epoch(&resumed)));
        seen.extend(rows(&epoch(&resumed)));
        assert_eq!(seen, reference, "stopped after {stop} batches");
    }
}

#[test]
fn a_state_taken_after_the_last_batch_resumes_at_the_next_epoch() {
    let dir = tempfile::tempdir().unwrap();
    tokens(dir.path(), 100, None);
    let loader = Loader::new(config(stream(Some(dir.path()), None))).unwrap();
    epoch(&loader);
    let state = loader.state().unwrap();
    assert_eq!((state.epoch, state.sample_in_epoch), (1, 0));
}

#[test]
fn a_checkpoint_of_a_different_plan_lists_the_arguments() {
    let dir = tempfile::tempdir().unwrap();
    tokens(dir.path(), 100, None);
    let plain = config(stream(Some(dir.path()), None));
    let state = Loader::new(plain.clone()).unwrap().state().unwrap();
    let mut other = LoaderConfig { shuffle: false, ..plain };
    other.order.augment_seed = Some(1);
    let other = Loader::new(other).unwrap();
    let e = other.load_state(&state, true).unwrap_err();
    assert_eq!(e.kind(), forebay_loader::ErrorKind::State);
    assert!(e.to_string().contains("shuffle was true and is false") && e.to_string().contains("augment_seed"), "{e}");
    other.load_state(&state, false).unwrap();
}

#[test]
fn an_epoch_that_is_ended_early_is_followed_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let counts = tokens(dir.path(), 400, None);
    let config = config(stream(Some(dir.path()), None));
    let loader = Loader::new(config.clone()).unwrap();
    loader.start_epoch().unwrap();
    loader.next().unwrap();
    assert_eq!(loader.epoch().unwrap(), 1);
    assert_eq!(rows(&epoch(&loader)), expected(&planned(&counts, &config, 1)));
}

#[test]
fn batches_stay_valid_after_the_loader_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let counts = tokens(dir.path(), 400, None);
    let config = config(stream(Some(dir.path()), None));
    let loader = Loader::new(config.clone()).unwrap();
    let batches = epoch(&loader);
    drop(loader);
    assert_eq!(rows(&batches), expected(&planned(&counts, &config, 0)));
}
