//! Single samples of a data set in a folder, as `dataset[i]` reads them.

use super::work::{SEED, Work};
use forebay_loader::format::Scratch;
use forebay_loader::format::writer::Options;
use forebay_loader::order::SampleId;
use forebay_loader::worker::{DataConfig, DataSet, SampleReader, StreamLocation};
use forebay_loader::{Error, Result};
use forebay_tests::data::{self, Draws};
use std::hint::black_box;
use std::sync::Arc;

pub(super) fn read() -> Result<Work> {
    const SAMPLES: u64 = 1_000;
    let folder = tempfile::tempdir().map_err(|e| Error::from_io(e, "a folder for samples cannot be made"))?;
    let options = Options { size_limit: Some(100_000), threads: 1, ..Options::default() };
    let index = data::tokens(folder.path(), SAMPLES, 256, SEED, options)?;
    let stream = StreamLocation {
        remote: None,
        dir: folder.path().to_owned(),
        keep_zip: false,
        download_retry: 1,
        download_timeout: 60.0,
        validate_hash: None,
    };
    let config = DataConfig { streams: vec![stream], cache_limit: None };
    let reader = SampleReader::open(Arc::new(DataSet::new(config, vec![Arc::new(index)])?), Vec::new())?;
    let mut bytes = Vec::new();
    Ok(Box::new(move |pass| {
        // The folder lives as long as the work.
        let _ = &folder;
        let (mut draws, mut scratch) = (Draws::new(SEED, pass), Scratch::default());
        for _ in 0..4 * SAMPLES {
            let sample = reader.read(SampleId(draws.below(SAMPLES)), &mut bytes)?;
            let sample = sample.ok_or_else(|| Error::internal("a shard is not in its folder"))?;
            black_box(reader.layouts()[sample.layout].split(&bytes[..sample.bytes], &mut scratch)?.get(0));
        }
        Ok(())
    }))
}
