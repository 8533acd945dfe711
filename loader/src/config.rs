//! Configuration of a loader, with defaults and checks.
//!
//! A [`LoaderConfig`] is also a JSON document, which rejects unknown names. The Python package and the C interface
//! build this document, so all three have the same arguments.

mod json;
mod options;
mod writer;

use crate::decode::FieldSpec;
use crate::error::{Error, Result};
use crate::format::tokens::TokenWindow;
use crate::order::REPEAT_AUGMENT_MAX;
use crate::store::{is_url, redact};
use crate::subsets::filter::Filter;
use crate::subsets::fraction;
use crate::topology::Topology;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

pub use json::parse_bytes;
pub(crate) use json::read;
use options::options;
pub use options::{ByteSize, Fraction, OptionInfo, SampleValues, Seconds, Steps, Subset};
pub use writer::WriterConfig;

/// Default of the largest sample that is read: 1 GiB.
pub const SAMPLE_BYTES_MAX: u64 = 1 << 30;

/// Default prefetch depth, in batches.
const PREFETCH: u32 = 3;
/// Small batches are prefetched up to this many bytes in total.
const PREFETCH_BYTES: u64 = 8 << 20;
/// Upper bound of the default prefetch depth.
const PREFETCH_MAX: u32 = 31;

/// Name of the output with the keys of the samples.
pub(crate) const SAMPLE_KEYS: &str = "sample_keys";

options! {
    /// One directory of shards, remote and local, and its weight in the mix.
    pub struct StreamConfig {
        /// URL or path of the shards' folder, or files, such as `s3://bucket/train-{000..146}.tar`. None: `local` has
        /// them.
        pub remote: Option<String> = None,
        /// Folder that holds the shards, or will. None: a stable folder in the user's cache directory.
        pub local: Option<PathBuf> = None,
        /// Sub-folder of both, such as "train", or split of a folder of files without an index.
        pub split: Option<String> = None,
        /// Files that `remote` names are samples, whatever their extensions: "each", or "stem" for those that share a
        /// stem.
        pub files: Option<FilesAre> = None,
        /// CSV, TSV or JSON-lines file with a line for each sample: its files below `remote`, in columns such as
        /// `file_name` and `mask_file_name`, and values.
        pub manifest: Option<String> = None,
        /// Read tars and record files once to find their samples and all their fields, in place of counts of other
        /// programs.
        pub ignore_counts: bool = false,
        /// Samples to keep, by number: text such as "0:1000, 5000:6000", a list of numbers, or a file of them.
        pub subset: Option<Subset> = None,
        /// Seeded part to keep, such as (0, 0.9) and (0.9, 1): neighbouring parts share no sample and miss none.
        pub fraction: Option<Fraction> = None,
        /// Seed of `fraction`. None: 0.
        pub fraction_seed: Option<u64> = None,
        /// Condition on number and text columns of the samples to keep, such as `class < 100 and name != "unknown"`.
        pub filter: Option<String> = None,
        /// Weight of each sample, to draw with replacement: a number column, an array of numbers, or its `.npy` file.
        pub weights: Option<SampleValues> = None,
        /// Column of the classes that an epoch draws equally often, with replacement.
        pub balance: Option<String> = None,
        /// Share of an epoch, relative to the other streams' proportions.
        pub proportion: Option<f64> = None,
        /// Occurrences of each sample in an epoch: 0.5 takes every second sample.
        pub repeat: Option<f64> = None,
        /// Samples of this stream in an epoch.
        pub choose: Option<u64> = None,
        /// Total attempts per download.
        pub download_retry: Option<u32> = None,
        /// Seconds for an answer to begin, and for each 16 KiB of it, before an attempt fails.
        pub download_timeout: Option<Seconds> = None,
        /// Hash that must match when a shard is downloaded or unpacked, such as "xxh64".
        pub validate_hash: Option<String> = None,
        /// Keep compressed shards next to the unpacked ones.
        pub keep_zip: Option<bool> = None,
        /// Tokens of a sample, in files of token ids. None: a sample is a document.
        pub window: Option<u32> = None,
        /// Tokens from the start of a window to the start of the next one. None: `window`.
        pub window_stride: Option<u32> = None,
    }
}

/// Relation of the files of a stream to its samples.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesAre {
    /// Each file is a sample.
    Each,
    /// Files whose paths are equal up to the first dot of their names are a sample, with a column for each extension.
    Stem,
}

/// Rank of this process in the training job.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorldConfig {
    /// Number of this process among all processes.
    pub rank: u32,
    /// Number of processes.
    pub world_size: u32,
    /// Number of this process among those of its node.
    pub local_rank: u32,
    /// Number of processes of one node.
    pub local_world_size: u32,
}

impl Default for WorldConfig {
    fn default() -> Self {
        Self { rank: 0, world_size: 1, local_rank: 0, local_world_size: 1 }
    }
}

/// Reaction to a sample that cannot be read or decoded.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// `next` returns the error.
    #[default]
    Raise,
    /// The batch is one row shorter, within `max_errors` per epoch. A batch that loses every row is not delivered if
    /// this is the only rank. If other ranks would wait for it, it is delivered with one row: a sample of another batch
    /// of this rank, marked as a repeat if repeats are marked, and the same one in every run. If no such sample can be
    /// read, it is an error.
    Skip,
}

options! {
    /// A loader's arguments. Names, meanings and defaults are those of the Python `Loader`. Two are different: the
    /// streams contain the location of the data, and `world` the ranks.
    pub struct LoaderConfig {
        /// The data: at least one stream.
        #[serde(deserialize_with = "json::objects")]
        pub streams: Vec<StreamConfig> = Vec::new(),
        /// Outputs of a batch by name. None: every column under its own name; pictures and pickles undecoded.
        pub fields: Option<Vec<(String, FieldSpec)>> = None,
        /// Rows of a batch on each device.
        pub batch_size: u32 = 0,
        /// Leave out a last batch that is not full.
        pub drop_last: bool = false,
        /// Add a bool output `repeat`, true for rows that only make ranks equally long.
        pub mark_repeats: bool = false,
        /// Add an int64 output `sample_ids`: for each row its stream, shard of the stream and index in the shard.
        pub sample_ids: bool = false,
        /// Add an int64 output `sample_draws`: epoch, stream and draw of each row, which key its random draws.
        pub sample_draws: bool = false,
        /// Add a text output `sample_keys`: key of each row's sample in a tar, or path of its file; else empty.
        pub sample_keys: bool = false,
        /// Shuffle samples, differently in each epoch.
        pub shuffle: bool = false,
        /// Seed of the order.
        pub shuffle_seed: u64 = 9176,
        /// Seed of random crops and flips. None: `shuffle_seed`.
        pub augment_seed: Option<u64> = None,
        /// Shuffle algorithm: "py1e", "py1br", "py1s", "py2s" or "naive".
        pub shuffle_algo: String = "py1e".into(),
        /// Samples that are shuffled together. None: max(4,000,000 / canonical nodes, 262,144).
        pub shuffle_block_size: Option<u64> = None,
        /// Partition algorithm: "relaxed" or "orig".
        pub partition_algo: String = "relaxed".into(),
        /// Nodes that define the order. None: this job's nodes, or 64 times as many for py1s and py2s.
        pub num_canonical_nodes: Option<u32> = None,
        /// Number of consecutive ranks that get the same samples.
        pub replication: Option<u32> = None,
        /// Samples of an epoch. None: the sum of the streams' shares.
        pub epoch_size: Option<u64> = None,
        /// Rows of each sample, with separate draws; an epoch keeps its length and has fewer samples.
        pub repeat_augment: u32 = 1,
        /// Sampling of stream shares: "balanced" draws again in each epoch, "fixed" draws once.
        pub sampling_method: String = "balanced".into(),
        /// Samples that are drawn together.
        pub sampling_granularity: u32 = 1,
        /// Mix of streams in a batch: "random", "stratified", "per_stream" or "device_per_stream".
        pub batching_method: String = "random".into(),
        /// Lengths, to batch samples of similar length: a number column, bytes of another one, or as in `weights`.
        pub bucket_by: Option<SampleValues> = None,
        /// Global batches that `bucket_by` sorts together.
        pub bucket_batches: u32 = 64,
        /// Steps to leave out on all ranks, counted through all epochs. Checkpoints keep them.
        pub skip_steps: Option<Steps> = None,
        /// Rank of this process.
        #[serde(deserialize_with = "json::object")]
        pub world: WorldConfig = WorldConfig::default(),
        /// Decode baseline JPEGs on the CUDA device (nvJPEG), whose grey levels may differ by a few.
        pub device_decode: bool = false,
        /// With `device_decode`, idle decode threads take pictures too; grey levels may vary between runs.
        pub share_decode: bool = false,
        /// Read stored rows of 4 KiB or more from local disk into CUDA memory (cuFile).
        pub gpu_direct_storage: bool = false,
        /// Decode threads. None: the CPUs of this process, shared with the node's other ranks.
        pub threads: Option<u32> = None,
        /// Bind each decode thread to one CPU.
        pub pin_threads: bool = false,
        /// Batches made ahead. None: 3, and more of batches below 2 MiB: as many as 8 MiB hold, at most 31.
        pub prefetch: Option<u32> = None,
        /// Bytes for batches and encoded samples, as a number or "2gb". None: a share of the machine's memory.
        #[serde(deserialize_with = "json::size_or_null")]
        pub memory: Option<ByteSize> = None,
        /// Copy samples of up to 16 KiB from memory maps; a failing disk then ends the process with SIGBUS.
        pub mmap: bool = false,
        /// Samples whose shards are fetched ahead. None: enough for `prefetch` batches, at least 8 batches.
        pub predownload: Option<u64> = None,
        /// Bytes on disk of the shards and indexes of all streams, as a number or "100gb". None: no limit.
        #[serde(deserialize_with = "json::size_or_null")]
        pub cache_limit: Option<ByteSize> = None,
        /// Keep compressed shards next to the unpacked ones.
        pub keep_zip: bool = false,
        /// Hash to match when a shard is fetched or unpacked, such as "xxh64". None: the cheapest in the index.
        pub validate_hash: Option<String> = None,
        /// Tokens of a sample, in files of token ids. None: a sample is a document.
        pub window: Option<u32> = None,
        /// Tokens from the start of a window to the start of the next one. None: `window`.
        pub window_stride: Option<u32> = None,
        /// Total attempts per download.
        pub download_retry: u32 = 2,
        /// Seconds for an answer to begin, and for each 16 KiB of it, before an attempt fails.
        pub download_timeout: Seconds = 60.0,
        /// Threads that talk to the store. None: one per 4 CPUs.
        pub fetch_threads: Option<u32> = None,
        /// File of certificates (PEM) that stores may have, in addition to the system's.
        pub ca_file: Option<PathBuf> = None,
        /// Seconds without progress before the next batch fails with an error.
        pub stall_timeout: Seconds = 600.0,
        /// Reaction to a sample that cannot be read or decoded: "raise", or "skip" to leave it out.
        pub on_error: OnError = OnError::Raise,
        /// Samples per epoch and rank that "skip" may leave out.
        pub max_errors: u64 = 0,
        /// Reaction to a sample that lacks a field without a default: "raise", or "skip" to plan without it.
        pub on_missing: OnError = OnError::Raise,
        /// Largest sample that is read, in bytes or as "1gb".
        #[serde(deserialize_with = "json::size")]
        pub sample_bytes_max: ByteSize = SAMPLE_BYTES_MAX,
        /// Accept columns of Python pickles; they are delivered as bytes.
        pub allow_unsafe_types: bool = false,
        /// Record every timed span for `trace_json`.
        pub trace: bool = false,
    }
}

impl LoaderConfig {
    /// Reads the JSON document.
    ///
    /// # Errors
    ///
    /// `Config`, with the path to the argument, for unknown names and wrong types.
    pub fn from_json(text: &str) -> Result<Self> {
        read(text, "the loader's arguments").map_err(|e| {
            // Python's Loader has them as its own.
            let message = e.to_string();
            let is_unknown =
                |option: &&OptionInfo| message.contains(&format!(" read: {0}: unknown field `{0}`", option.name));
            let of_stream = StreamConfig::OPTIONS.iter().find(is_unknown).map(|option| option.name);
            of_stream.map_or(e, |name| {
                Error::config(format!(
                    "`{name}` is an option of a stream, as in {{\"streams\": [{{\"{name}\": ...}}]}}"
                ))
            })
        })
    }

    /// Prefetch depth for batches of `batch_bytes` bytes.
    pub(crate) fn prefetch_of(&self, batch_bytes: u64) -> u32 {
        self.prefetch.unwrap_or_else(|| {
            // Small batches are built faster than threads wake each other.
            let bytes = self.memory.map_or(PREFETCH_BYTES, |memory| PREFETCH_BYTES.min(memory / 4));
            (bytes / batch_bytes.max(1)).clamp(PREFETCH.into(), PREFETCH_MAX.into()) as u32
        })
    }

    /// Threads that talk to the store.
    pub(crate) fn fetch_threads_on(&self, topology: &Topology) -> usize {
        let default = || topology.fetch_threads_default(self.world.local_world_size as usize);
        self.fetch_threads.map_or_else(default, |threads| threads as usize)
    }

    /// Returns the windows of `stream`; `None` if its documents are the samples.
    pub fn window_of(&self, stream: &StreamConfig) -> Option<TokenWindow> {
        let tokens = stream.window.or(self.window)?;
        // A stride of the loader belongs to the loader's window.
        let stride = stream.window_stride.or(if stream.window.is_none() { self.window_stride } else { None });
        Some(TokenWindow { tokens, stride: stride.unwrap_or(tokens) })
    }

    /// Checks the arguments, without reading the data.
    ///
    /// # Errors
    ///
    /// `Config`, with the change that is needed.
    pub fn validate(&self) -> Result<()> {
        require(
            !self.streams.is_empty(),
            "there is no data: name at least one stream, as in {\"streams\": [{\"remote\": \"s3://bucket/set\"}]}",
        )?;
        for (i, stream) in self.streams.iter().enumerate() {
            stream.validate(self.window).map_err(|e| e.with("stream", i))?;
        }
        require(self.batch_size >= 1, "batch_size is required and must be at least 1")?;
        require(self.prefetch != Some(0), "prefetch must be at least 1 batch")?;
        require(self.shuffle_block_size != Some(0), "shuffle_block_size must be at least 1 sample")?;
        require(
            self.epoch_size != Some(0),
            "epoch_size must be at least 1 sample, or None for the sum of the streams",
        )?;
        require(
            self.num_canonical_nodes != Some(0),
            "num_canonical_nodes must be at least 1, or None for the default",
        )?;
        require(
            self.on_error != OnError::Skip || self.max_errors > 0,
            "on_error=\"skip\" leaves out up to max_errors samples per epoch, which is 0: pass it too, such as \
             max_errors=100",
        )?;
        require(
            self.on_error == OnError::Skip || self.max_errors == 0,
            "max_errors counts samples that on_error=\"skip\" leaves out: pass that too, or omit max_errors",
        )?;
        require(
            self.device_decode || !self.share_decode,
            "share_decode shares what device_decode leaves to the device: set both, or neither",
        )?;
        require(self.threads != Some(0), "threads must be at least 1")?;
        require(self.fetch_threads != Some(0), "fetch_threads must be at least 1")?;
        require(self.sampling_granularity >= 1, "sampling_granularity must be at least 1")?;
        require(
            (1..=REPEAT_AUGMENT_MAX).contains(&self.repeat_augment),
            "repeat_augment is the number of rows of a sample: from 1, which repeats nothing, to 256",
        )?;
        require(self.bucket_batches >= 1, "bucket_batches must be at least 1 global batch")?;
        check_window(self.window, self.window_stride, self.window)?;
        check_download(self.download_retry, self.download_timeout)?;
        require(positive(self.stall_timeout), "stall_timeout must be a positive number of seconds")?;
        require(self.sample_bytes_max >= 1, "sample_bytes_max must be at least 1")?;
        self.world.validate()?;
        if let Some(r) = self.replication {
            require(
                r >= 1 && self.world.world_size.is_multiple_of(r),
                "replication must be at least 1 and divide the number of ranks",
            )?;
        }
        for (argument, is_set, output) in [
            ("mark_repeats", self.mark_repeats, "repeat"),
            ("sample_ids", self.sample_ids, "sample_ids"),
            ("sample_draws", self.sample_draws, "sample_draws"),
            ("sample_keys", self.sample_keys, SAMPLE_KEYS),
        ] {
            let is_taken = self.fields.iter().flatten().any(|(name, _)| name == output);
            let message = format!("{argument} adds an output called `{output}`: rename the field of that name");
            require(!(is_set && is_taken), &message)?;
        }
        Ok(())
    }

    /// Seed of random augmentation.
    pub fn augment_seed(&self) -> u64 {
        self.augment_seed.unwrap_or(self.shuffle_seed)
    }
}

fn require(ok: bool, message: &str) -> Result<()> {
    if ok { Ok(()) } else { Err(Error::config(message)) }
}

fn positive(seconds: f64) -> bool {
    seconds.is_finite() && seconds > 0.0
}

fn check_download(retry: u32, timeout: f64) -> Result<()> {
    require(retry >= 1, "download_retry is the total number of attempts: at least 1")?;
    require(positive(timeout), "download_timeout must be a positive number of seconds")
}

fn check_window(tokens: Option<u32>, stride: Option<u32>, tokens_in_use: Option<u32>) -> Result<()> {
    require(tokens != Some(0), "window must be at least 1 token, or None for documents")?;
    require(stride != Some(0), "window_stride must be at least 1 token, or None for `window`")?;
    require(
        stride.is_none() || tokens_in_use.is_some(),
        "window_stride is the distance of windows, and there is no window: set `window`, or omit window_stride",
    )
}

impl StreamConfig {
    /// Checks the arguments; `window` is the loader's.
    fn validate(&self, window: Option<u32>) -> Result<()> {
        require(self.remote.is_some() || self.local.is_some(), "a stream needs remote, local or both")?;
        if let Some(local) = self.local.as_ref().and_then(|local| local.to_str()).filter(|local| is_url(local)) {
            let message = "`local` is a folder of this machine, and this is a URL: pass it as `remote`";
            return Err(Error::config(message).with("local", redact(local)));
        }
        let weights = [self.proportion.is_some(), self.repeat.is_some(), self.choose.is_some()];
        let is_one = weights.iter().filter(|w| **w).count() <= 1;
        require(is_one, "a stream takes only one of proportion, repeat and choose")?;
        for (name, weight) in [("proportion", self.proportion), ("repeat", self.repeat)] {
            let is_weight = weight.is_none_or(|w| w.is_finite() && w >= 0.0);
            require(is_weight, &format!("{name} must be a number of at least 0"))?;
        }
        check_window(self.window, self.window_stride, self.window.or(window))?;
        self.fraction.map_or(Ok(()), fraction::check)?;
        self.filter.as_deref().map(Filter::parse).transpose()?;
        let has_part = self.fraction.is_some() || self.fraction_seed.is_none();
        let is_one = self.weights.is_none() || self.balance.is_none();
        require(is_one, "a stream takes only one of weights and balance: 1 / count of each class is a weight, too")?;
        require(has_part, "fraction_seed is the seed of fraction, which is not set: pass both, or neither")?;
        check_download(self.download_retry.unwrap_or(1), self.download_timeout.unwrap_or(1.0))
    }
}

impl WorldConfig {
    /// Nodes of the job.
    pub fn nodes(&self) -> u32 {
        self.world_size / self.local_world_size
    }

    fn validate(&self) -> Result<()> {
        let ok = self.local_world_size >= 1
            && self.world_size >= 1
            && self.world_size.is_multiple_of(self.local_world_size)
            && self.rank < self.world_size
            && self.local_rank < self.local_world_size;
        if ok {
            return Ok(());
        }
        Err(Error::config(
            "rank must be below world_size, local_rank below local_world_size, and world_size a multiple of \
             local_world_size",
        )
        .with("rank", self.rank)
        .with("world_size", self.world_size)
        .with("local_rank", self.local_rank)
        .with("local_world_size", self.local_world_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> LoaderConfig {
        LoaderConfig {
            streams: vec![StreamConfig { local: Some("data".into()), ..StreamConfig::default() }],
            batch_size: 4,
            ..LoaderConfig::default()
        }
    }

    #[test]
    fn small_batches_are_prefetched_further_unless_prefetch_is_set() {
        let ahead = |config: LoaderConfig| [0, 256 << 10, 1 << 20, 3 << 20, 1 << 40].map(|b| config.prefetch_of(b));
        let default = LoaderConfig::default();
        assert_eq!(ahead(default.clone()), [31, 31, 8, 3, 3]);
        assert_eq!(ahead(LoaderConfig { memory: Some(4 << 20), ..default.clone() }), [31, 4, 3, 3, 3]);
        assert_eq!(ahead(LoaderConfig { prefetch: Some(1), ..default }), [1; 5]);
    }

    #[test]
    fn share_decode_needs_device_decode() {
        let shared = LoaderConfig { share_decode: true, ..good() };
        let error = shared.validate().expect_err("nothing to share");
        assert!(error.to_string().contains("share_decode"), "{error}");
        LoaderConfig { device_decode: true, ..shared }.validate().expect("valid");
    }

    #[test]
    fn a_config_survives_its_own_json() {
        let text = serde_json::to_string(&good()).expect("serialisable");
        let back = LoaderConfig::from_json(&text).expect("own JSON");
        assert_eq!(serde_json::to_string(&back).expect("serialisable"), text);
        back.validate().expect("valid");
    }

    #[test]
    fn an_unknown_argument_is_named() {
        let e = LoaderConfig::from_json(r#"{"batchsize": 3}"#).expect_err("unknown");
        assert!(e.to_string().ends_with("batchsize: unknown field `batchsize`: did you mean `batch_size`?"), "{e}");
        let e = LoaderConfig::from_json(r#"{"streams": [{"remot": "a"}]}"#).expect_err("unknown").to_string();
        assert!(e.ends_with("streams[0].remot: unknown field `remot`: did you mean `remote`?"), "{e}");
        let e = LoaderConfig::from_json(r#"{"xyzzy": 3}"#).expect_err("unknown").to_string();
        assert!(e.contains("expected one of `streams`"), "{e}");
    }

    #[test]
    fn an_option_of_a_stream_is_shown_in_its_place() {
        let e = LoaderConfig::from_json(r#"{"remote": "s3://b/a", "batch_size": 4}"#).expect_err("of a stream");
        assert_eq!(e.to_string(), r#"`remote` is an option of a stream, as in {"streams": [{"remote": ...}]}"#);
        let e = LoaderConfig::from_json("{}").expect("all defaults").validate().expect_err("no stream").to_string();
        assert!(e.contains(r#"as in {"streams": [{"remote": "s3://bucket/set"}]}"#), "{e}");
    }

    #[test]
    fn a_list_is_no_object() {
        for text in ["[]", r#"{"streams": [["s3://b/a"]]}"#, r#"{"world": [0, 1, 0, 1]}"#, "null"] {
            let e = LoaderConfig::from_json(text).expect_err(text).to_string();
            assert!(e.contains("expected an object, such as {"), "{text}: {e}");
        }
    }

    #[test]
    fn a_wrong_type_is_named_by_its_path() {
        for (text, path) in [
            (r#"{"batch_size": -1}"#, "batch_size: "),
            (r#"{"streams": [{}, {"choose": "all"}]}"#, "streams[1].choose: "),
            (r#"{"world": {"rank": 1.5}}"#, "world.rank: "),
            (
                r#"{"fields": [["x", {"kind": "image", "column": "a", "layout": "nchw"}]]}"#,
                "fields[0][1]: unknown variant `nchw`",
            ),
            (r#"{"memory": "much"}"#, "memory: `much` is no size"),
        ] {
            let e = LoaderConfig::from_json(text).expect_err(text).to_string();
            assert!(e.starts_with(&format!("the loader's arguments cannot be read: {path}")), "{e}");
        }
    }

    #[test]
    fn each_bad_argument_is_rejected_with_its_name() {
        type Spoil = fn(&mut LoaderConfig);
        let cases: [(Spoil, &str); 21] = [
            (|c| c.bucket_batches = 0, "bucket_batches must be at least 1"),
            (
                |c| (c.streams[0].weights, c.streams[0].balance) = (Some("w".into()), Some("c".into())),
                "only one of weights and balance",
            ),
            (|c| c.repeat_augment = 0, "repeat_augment is the number of rows"),
            (|c| c.repeat_augment = 257, "repeat_augment is the number of rows"),
            (|c| c.window = Some(0), "window must be at least 1"),
            (|c| (c.window, c.window_stride) = (Some(8), Some(0)), "window_stride must be at least 1"),
            (|c| c.window_stride = Some(8), "there is no window"),
            (|c| c.streams[0].window_stride = Some(8), "there is no window"),
            (|c| c.streams.clear(), "no data"),
            (|c| c.batch_size = 0, "batch_size"),
            (|c| c.prefetch = Some(0), "prefetch"),
            (|c| c.epoch_size = Some(0), "epoch_size must be at least 1 sample"),
            (|c| c.num_canonical_nodes = Some(0), "num_canonical_nodes must be at least 1"),
            (|c| c.shuffle_block_size = Some(0), "shuffle_block_size must be at least 1"),
            (|c| c.max_errors = 5, "max_errors counts samples that on_error=\"skip\" leaves out"),
            (|c| c.download_retry = 0, "download_retry"),
            (|c| c.stall_timeout = f64::NAN, "stall_timeout"),
            (|c| c.world.rank = 7, "rank"),
            (|c| c.replication = Some(3), "replication"),
            (|c| c.streams[0].local = Some("s3://b/x".into()), "pass it as `remote` (local s3://b/x"),
            (|c| (c.streams[0].repeat, c.streams[0].choose) = (Some(1.0), Some(2)), "only one"),
        ];
        for (spoil, word) in cases {
            let mut config = good();
            spoil(&mut config);
            let e = config.validate().expect_err(word);
            assert!(e.to_string().contains(word), "{e}");
        }
    }
}
