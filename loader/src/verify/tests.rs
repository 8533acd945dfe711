//! Repairs of shards that a running job holds.

use super::*;
use crate::format::writer::{LocalDir, Options, Writer};
use crate::format::{Layout, Value};

#[test]
fn a_shard_that_a_job_holds_is_left_and_is_an_error_only_if_it_is_damaged() {
    let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let layout = Layout::jsonl([("number", "int")], "\n").unwrap();
    let sink = LocalDir::create(data.path(), false).unwrap();
    let options = Options { size_limit: Some(64), ..Options::default() };
    let mut writer = Writer::new(layout, Box::new(sink), options).unwrap();
    (0..20).for_each(|number| writer.write(&[Value::Int(number)]).unwrap());
    let index = writer.finish().unwrap();
    std::fs::copy(data.path().join(INDEX_BASENAME), cache.path().join(INDEX_BASENAME)).unwrap();
    let verification = Verification::open(cache.path().to_str().unwrap(), data.path().to_str()).unwrap();
    verification.repair(1).expect("fetched");
    let ShardsLocation::Cache { catalog, .. } = &verification.location else { panic!("no cache") };
    let policy = WaitPolicy::new(&|| false, BUSY_MAX);
    let ClaimOutcome::Resident(held) = catalog.streams()[0].dir.claim(1, policy).unwrap() else { panic!("not here") };
    verification.repair(1).expect("intact: a job may have replaced it meanwhile");
    let path = cache.path().join(&*index.shards[1].raw_data.basename);
    let intact = std::fs::read(&path).unwrap();
    // A different size than in the index would be absent.
    let meta = cache.path().join(&*index.shards[1].raw_meta.as_ref().unwrap().basename);
    let table = std::fs::read(&meta).unwrap();
    std::fs::write(&meta, vec![0xff; table.len()]).unwrap();
    assert!(matches!(verification.check(1), Ok(ShardState::Damaged(_))));
    assert_eq!(verification.repair(1).expect_err("in use").kind(), ErrorKind::Full);
    drop(held);
    verification.repair(1).expect("repaired");
    assert_eq!((std::fs::read(&path).unwrap(), std::fs::read(&meta).unwrap()), (intact, table));
}
