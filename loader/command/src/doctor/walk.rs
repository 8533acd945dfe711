//! Walk over the samples: read and decoded by threads, and seen by the checks in their order.
//!
//! Samples are taken in rounds of a bounded number. Threads share the samples of a round, and the checks see them when
//! all are there. So a check has no lock, and finds the same on any number of threads.

use super::source::Source;
use super::values::{Prober, Sample};
use forebay_loader::format::Scratch;
use forebay_loader::order::{SampleId, ShardId};
use forebay_loader::sync::{AtomicUsize, Ordering, in_threads};
use forebay_loader::worker::ATTEMPTS;
use forebay_loader::{Error, ErrorKind, Result};

/// Samples of a round for each thread. A thread that waits for the last sample of a round loses little.
const ROUND_SAMPLES: usize = 128;

/// Shards of a remote that are fetched at once.
const SHARDS_AHEAD: usize = 8;

/// Reads the samples `ids`, and calls `seen` with each round of them, until it returns false.
///
/// # Errors
///
/// Errors that are not the fault of a sample, such as the network's.
pub(super) fn walk(
    source: &Source,
    threads: usize,
    ids: &[SampleId],
    mut seen: impl FnMut(Vec<Sample>) -> bool,
) -> Result<()> {
    let size = ROUND_SAMPLES * threads.max(1);
    for (number, round) in ids.chunks(size).enumerate() {
        let ahead = shards_from(source, &ids[(number * size).min(ids.len())..]);
        let (next, next_ahead) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let read = || -> Result<Vec<(usize, Sample)>> {
            let (mut prober, mut bytes, mut scratch) = (Prober::default(), Vec::new(), Scratch::default());
            let mut samples = Vec::new();
            while let Some(shard) = ahead.get(next_ahead.fetch_add(1, Ordering::Relaxed)) {
                // The read of a sample has the error.
                let _ = source.reader.try_fetch(*shard);
            }
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(id) = round.get(number) else { return Ok(samples) };
                samples.push((number, read(source, *id, &mut prober, &mut bytes, &mut scratch)?));
            }
        };
        let mut samples = Vec::with_capacity(round.len());
        for read in in_threads(threads.min(round.len()), read) {
            samples.extend(read.map_err(|_| Error::internal("a thread that reads samples ended early"))??);
        }
        samples.sort_unstable_by_key(|(number, _)| *number);
        if !seen(samples.into_iter().map(|(_, sample)| sample).collect()) {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the next shards that samples of `ids` are in. They are fetched at once.
fn shards_from(source: &Source, ids: &[SampleId]) -> Vec<ShardId> {
    let shape = source.data.shape();
    let mut shards: Vec<ShardId> = Vec::new();
    for id in ids.iter().step_by(ROUND_SAMPLES / 4).take(SHARDS_AHEAD * 64) {
        let Some((shard, _)) = shape.locate(*id) else { break };
        if shards.last() != Some(&shard) {
            shards.push(shard);
        }
        if shards.len() == SHARDS_AHEAD {
            break;
        }
    }
    shards
}

fn read(
    source: &Source,
    id: SampleId,
    prober: &mut Prober,
    bytes: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Sample> {
    let mut probed = || {
        let info = source.reader.fetch_and_read(id, bytes, ATTEMPTS)?;
        let layout = &source.reader.layouts()[info.layout];
        let ids = source.columns.of(source.stream_of(id), info.layout);
        let columns = layout.split(&bytes[..info.bytes], scratch)?;
        Ok(prober.values(&layout.columns, ids, &columns))
    };
    match probed() {
        Ok(values) => Ok(Sample { id, values: Ok(values) }),
        Err(error) if is_of_data(&error) => {
            // A part of a shard that cannot be read may be the fault of a different file of it.
            let file = error.context().iter().find(|(name, _)| *name == "file").map(|(_, file)| file);
            let own = source.reader.name_of(id).unwrap_or_default();
            let other = file.filter(|file| !own.contains(file.as_str())).map(|file| format!("{file}: "));
            Ok(Sample { id, values: Err(other.unwrap_or_default() + error.message()) })
        }
        Err(error) => Err(error),
    }
}

/// Returns true for errors that the data causes, and not the machine or the network.
pub(super) fn is_of_data(error: &Error) -> bool {
    use ErrorKind::{Checksum, Decode, Format, NotFound, Stale, Unsupported};
    matches!(error.kind(), Checksum | Decode | Format | NotFound | Stale | Unsupported)
}

/// Returns true for errors of damaged files, and not of files that do not exist or cannot be used.
pub(super) fn is_damage(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Checksum | ErrorKind::Decode | ErrorKind::Format | ErrorKind::Stale)
}
