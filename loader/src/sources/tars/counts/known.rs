//! Facts about a tar that a file next to it has.

use crate::error::{Error, Result};
use crate::format::json;
use serde_json::{Map, Value as Json};

/// Facts about one tar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Number of its samples.
    pub samples: u64,
    /// Its size in bytes, where the file has it.
    pub bytes: Option<u64>,
}

/// Facts about a tar in a file about only that tar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TarFacts {
    /// Number of its samples.
    pub samples: u64,
    /// Offsets of the headers of a few samples, where the file has them. A different tar has none there.
    pub headers: Vec<u64>,
    /// Offset after the last file of the last sample, where the file has it. A different tar has a file there.
    pub end: Option<u64>,
}

impl TarFacts {
    /// Facts about a tar of `samples`, which end at `end`; `header` returns the offset of the first header of one of
    /// them.
    pub(super) fn new(samples: usize, header: impl Fn(usize) -> Option<u64>, end: Option<u64>) -> Self {
        // The last one has an offset that depends on the bytes of all before it.
        let numbers = [samples / 2, samples.saturating_sub(1)];
        let mut headers: Vec<u64> = numbers.into_iter().filter_map(header).collect();
        headers.dedup();
        Self { samples: samples as u64, headers, end }
    }
}

/// Facts about the tar of a path or address, as a file has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KnownTar {
    pub(super) path: String,
    pub(super) known: Known,
}

/// Most samples of a tar. One takes at least a block of 512 bytes, so more would be a file of 500 TB.
const SAMPLES_MAX: u64 = 1 << 40;

impl KnownTar {
    pub(super) fn new(path: &str, samples: u64) -> Self {
        Self { path: path.to_owned(), known: Known { samples, bytes: None } }
    }
}

/// Parses a JSON object.
pub(super) fn object(bytes: &[u8]) -> Result<Map<String, Json>> {
    match json::parse(bytes)? {
        Json::Object(map) => Ok(map),
        _ => Err(Error::format("a JSON object is expected")),
    }
}

/// Reads a number of samples, which some programs write as a text or as a float.
pub(super) fn samples(value: &Json) -> Result<u64> {
    let number = match value {
        Json::Number(number) => number.as_u64().or_else(|| {
            let float =
                number.as_f64().filter(|float| (0.0..SAMPLES_MAX as f64).contains(float) && float.fract() == 0.0);
            float.map(|float| float as u64)
        }),
        Json::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.filter(|number| *number <= SAMPLES_MAX).ok_or_else(|| Error::format("a number of samples is expected"))
}
