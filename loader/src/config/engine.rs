//! Options of the resources and limits of a process.

use super::json;
use super::limits::{positive, require};
use super::options::{ByteSize, OptionInfo, Seconds, options};
use crate::error::Result;
use crate::monitor::Metrics;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Default of the largest sample that is read: 1 GiB.
pub const SAMPLE_BYTES_MAX: u64 = 1 << 30;

/// Default prefetch depth, in batches.
const PREFETCH: u32 = 3;
/// Small batches are prefetched up to this many bytes in total.
const PREFETCH_BYTES: u64 = 8 << 20;
/// Upper bound of the default prefetch depth.
const PREFETCH_MAX: u32 = 31;

options! {
    /// Resources and limits of this process, on which the order does not depend.
    pub struct EngineConfig {
        /// Batches made ahead. None: 3, and more of batches below 2 MiB: as many as 8 MiB hold, at most 31.
        pub prefetch: Option<u32> = None,
        /// Bytes for batches and encoded samples, as a number or "2gb". None: a share of the machine's memory.
        #[serde(deserialize_with = "json::size_or_null")]
        pub memory: Option<ByteSize> = None,
        /// Copy samples of up to 16 KiB from memory maps; a failing disk then ends the process with SIGBUS.
        pub mmap: bool = false,
        /// Bind each decode thread to one CPU.
        pub pin_threads: bool = false,
        /// Threads that talk to the store. None: one per 4 CPUs.
        pub fetch_threads: Option<u32> = None,
        /// Samples whose shards are fetched ahead. None: enough for `prefetch` batches, at least 8 batches.
        pub predownload: Option<u64> = None,
        /// File of certificates (PEM) that stores may have, in addition to the system's.
        pub ca_file: Option<PathBuf> = None,
        /// Seconds without progress before the next batch fails with an error.
        pub stall_timeout: Seconds = 600.0,
        /// Largest sample that is read, in bytes or as "1gb".
        #[serde(deserialize_with = "json::size")]
        pub sample_bytes_max: ByteSize = SAMPLE_BYTES_MAX,
        /// Accept columns of Python pickles; they are delivered as bytes.
        pub allow_unsafe_types: bool = false,
        /// Decode baseline JPEGs on the CUDA device (nvJPEG). Its grey levels may differ by a few.
        pub device_decode: bool = false,
        /// With `device_decode`, idle decode threads take pictures too; grey levels may vary between runs.
        pub share_decode: bool = false,
        /// Read stored rows of 4 KiB or more from local disk into CUDA memory (cuFile).
        pub gpu_direct_storage: bool = false,
        /// Serve the figures to Prometheus, "prometheus://:9400" (the local rank is added to the port), or send them:
        /// "otlp". Python has "tensorboard:DIR" and functions of figures and step too.
        pub metrics: Option<String> = None,
        /// Let `forebay top` of the same user look into this process, by a Unix socket.
        pub monitor: bool = true,
        /// Record every timed span for `trace_json`.
        pub trace: bool = false,
    }
}

impl EngineConfig {
    /// Prefetch depth for batches of `batch_bytes` bytes.
    pub(crate) fn prefetch_of(&self, batch_bytes: u64) -> u32 {
        self.prefetch.unwrap_or_else(|| {
            // Small batches are built faster than a thread wakes the next.
            let bytes = self.memory.map_or(PREFETCH_BYTES, |memory| PREFETCH_BYTES.min(memory / 4));
            (bytes / batch_bytes.max(1)).clamp(PREFETCH.into(), PREFETCH_MAX.into()) as u32
        })
    }

    pub(super) fn validate(&self) -> Result<()> {
        require(self.prefetch != Some(0), "engine.prefetch must be at least 1 batch")?;
        self.metrics.as_deref().map_or(Ok(()), |text| Metrics::parse(text, 0).map(drop))?;
        require(self.fetch_threads != Some(0), "engine.fetch_threads must be at least 1")?;
        require(positive(self.stall_timeout), "engine.stall_timeout must be a positive number of seconds")?;
        require(self.sample_bytes_max >= 1, "engine.sample_bytes_max must be at least 1")?;
        require(
            self.device_decode || !self.share_decode,
            "engine.share_decode shares the pictures that engine.device_decode leaves to the device: set both, or \
             neither",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_batches_are_prefetched_further_unless_prefetch_is_set() {
        let ahead = |engine: EngineConfig| [0, 256 << 10, 1 << 20, 3 << 20, 1 << 40].map(|b| engine.prefetch_of(b));
        assert_eq!(ahead(EngineConfig::default()), [31, 31, 8, 3, 3]);
        assert_eq!(ahead(EngineConfig { memory: Some(4 << 20), ..EngineConfig::default() }), [31, 4, 3, 3, 3]);
        assert_eq!(ahead(EngineConfig { prefetch: Some(1), ..EngineConfig::default() }), [1; 5]);
    }

    #[test]
    fn share_decode_needs_device_decode() {
        let shared = EngineConfig { share_decode: true, ..EngineConfig::default() };
        let error = shared.validate().expect_err("nothing to share");
        assert!(error.to_string().contains("share_decode"), "{error}");
        EngineConfig { device_decode: true, ..shared }.validate().expect("valid");
    }
}
