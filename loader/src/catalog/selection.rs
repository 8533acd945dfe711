//! Kept samples of a stream: its file of numbers is read here, and `subsets` does the rest.

use crate::config::SelectConfig;
use crate::error::{Context, Error, ErrorKind, Result};
use crate::format::hash::Hasher;
use crate::format::{HashAlgo, Index};
use crate::subsets::fraction::{FRACTION_SAMPLES_MAX, Fraction};
use crate::subsets::kept::KeptSamples;
use crate::subsets::{Conditions, numbers, select};
use std::path::Path;

/// Longest description of the selections in a checkpoint, which in all has less than 1 kB.
pub(super) const WORDS_BYTES_MAX: usize = 100;

/// Samples of a stream that the loader keeps.
#[derive(Clone, Debug)]
pub(crate) struct StreamSelection {
    /// Kept samples of each shard.
    pub(super) kept: Vec<KeptSamples>,
    /// Digest of the kept samples, for checkpoints.
    pub(super) digest: String,
    /// The arguments in short, for messages.
    pub(super) words: String,
}

impl StreamSelection {
    /// Applies the options of a stream to the shards of `index`; `None` if they keep all samples.
    pub(super) fn new(options: &SelectConfig, index: &Index) -> Result<Option<Self>> {
        if options.subset.is_none() && options.fraction.is_none() {
            return Ok(None);
        }
        let sizes: Vec<u64> = index.shards.iter().map(|shard| shard.samples).collect();
        let samples = index.samples();
        let ranges = |given: &String| {
            if numbers::is_list(given) {
                return numbers::of_list(given, samples);
            }
            read(Path::new(given)).and_then(|bytes| numbers::of_file(&bytes, samples)).context("file", || given)
        };
        let conditions = Conditions {
            subset: options.subset.as_ref().map(ranges).transpose()?,
            fraction: match options.fraction {
                Some(_) if samples > FRACTION_SAMPLES_MAX => {
                    let message = "a fraction is taken of at most 2^34 samples, and the stream has more";
                    return Err(Error::config(message).with("samples", samples));
                }
                bounds => bounds.map(|bounds| Fraction::new(bounds, options.fraction_seed.unwrap_or(0), samples)),
            },
        };
        let kept = select(&sizes, &conditions);
        Self::of(kept, &sizes, words_of(options))
    }

    /// The selection of `kept` samples of shards of `sizes`, which `words` describe; `None` if all are kept.
    pub(super) fn of(kept: Vec<KeptSamples>, sizes: &[u64], words: String) -> Result<Option<Self>> {
        if kept.iter().all(KeptSamples::is_all) {
            return Ok(None);
        }
        if kept.iter().zip(sizes).all(|(kept, size)| kept.count(*size) == 0) {
            let samples = sizes.iter().sum::<u64>();
            return Err(Error::config(format!("no sample of the stream is kept by {words}")).with("samples", samples));
        }
        let mut hasher = Hasher::new(HashAlgo::Xxh3_64);
        kept.iter().for_each(|kept| kept.hash(|bytes| hasher.update(bytes)));
        Ok(Some(Self { kept, digest: hasher.finish_hex(), words }))
    }
}

/// The options that select samples by their numbers.
fn words_of(options: &SelectConfig) -> String {
    let subset = options.subset.as_ref().map(|subset| format!("subset={:?}", shortened(subset, WORDS_BYTES_MAX / 2)));
    let seed = |seed: u64| format!(", fraction_seed={seed}");
    let seed = options.fraction_seed.map_or(String::new(), seed);
    let fraction = options.fraction.map(|(first, end)| format!("fraction=({first}, {end}){seed}"));
    subset.into_iter().chain(fraction).collect::<Vec<_>>().join(", ")
}

/// Returns `text`, cut to about `bytes_max`.
pub(crate) fn shortened(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = (0..=bytes_max).rfind(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

/// Reads a file of numbers.
fn read(path: &Path) -> Result<Vec<u8>> {
    let read = || {
        let bytes = std::fs::metadata(path)?.len();
        if bytes > numbers::FILE_BYTES_MAX { Ok(Err(bytes)) } else { std::fs::read(path).map(Ok) }
    };
    let message = "subset is a list such as \"0:1000, 5000:6000\", or the path of a file of numbers, and this file \
                   cannot be read";
    match read().map_err(|e| Error::from_io(e, message))? {
        Ok(bytes) => Ok(bytes),
        Err(bytes) => {
            let message = "a file of numbers has at most 4 GiB: write ranges into it, or a bool for each sample";
            Err(Error::new(ErrorKind::Unsupported, message).with("bytes", bytes))
        }
    }
}
