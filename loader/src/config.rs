//! Configuration of a loader, with defaults and checks.
//!
//! A [`LoaderConfig`] is also a JSON document, which rejects unknown names. The Python package and the C interface
//! build this document, so all three have the same arguments, in the same groups:
//!
//! * `stream`: [`StreamConfig`], the location of the data, with `select`: [`SelectConfig`], its samples;
//! * `window`: [`TokenWindow`], the samples of files of token ids, [`PackConfig`], the rows of packed documents, or
//!   [`TokenBatch`], batches under a limit of tokens;
//! * `extra`: [`ExtraOutput`], the outputs besides the fields;
//! * `order`: [`OrderConfig`], the order of the samples;
//! * `fetch`: [`FetchConfig`], the fetches of shards;
//! * `engine`: [`EngineConfig`], resources and limits of a process;
//! * `skip`: [`SkipConfig`], the samples that an epoch leaves out;
//! * `world`: [`WorldConfig`], the rank of a process;
//! * `writer`: [`WriterConfig`], a writer of data sets, which is a separate document.
//!
//! `options` declares a group, `limits` checks values, `json` reads documents, and `paths` names the group of an option
//! that is elsewhere.

mod engine;
mod extra;
mod fetch;
mod json;
mod limits;
mod options;
mod order;
mod pack;
mod paths;
mod select;
mod skip;
mod stream;
mod token_batch;
mod window;
mod world;
mod writer;

use crate::decode::FieldSpec;
use crate::error::Result;
use crate::format::tokens;
use crate::topology::Topology;
use limits::require;
use serde::{Deserialize, Serialize};
use window::window_or_null;

pub use engine::{EngineConfig, SAMPLE_BYTES_MAX};
pub use extra::ExtraOutput;
pub use fetch::FetchConfig;
pub use json::parse_bytes;
pub(crate) use json::read;
use options::options;
pub use options::{ByteSize, Fraction, OptionInfo, SampleValues, Seconds, Steps, Subset};
pub use order::OrderConfig;
pub use pack::{PackConfig, PackForm};
pub use select::SelectConfig;
pub use skip::SkipConfig;
pub use stream::{FilesAre, Grouping, StreamConfig};
pub use token_batch::TokenBatch;
pub(crate) use window::PackOptions;
pub use window::{LoaderWindow, TokenWindow};
pub use world::WorldConfig;
pub use writer::WriterConfig;

options! {
    /// A loader's arguments. The Python `Loader` has the same names, meanings and defaults. Two are different: the
    /// streams contain the location of the data and the samples to select, and `world` has the ranks.
    pub struct LoaderConfig {
        /// The data: at least one stream.
        #[serde(deserialize_with = "json::objects")]
        pub streams: Vec<StreamConfig> = Vec::new(),
        /// Outputs of a batch by name. None: every column under its own name; pictures and pickles undecoded.
        pub fields: Option<Vec<(String, FieldSpec)>> = None,
        /// Tokens of a sample, or their window, packs or token batches.
        #[serde(deserialize_with = "window_or_null")]
        pub window: Option<LoaderWindow> = None,
        /// Names of outputs to add: "repeat", "sample_ids", "sample_draws" and "sample_keys".
        pub extra: Vec<ExtraOutput> = Vec::new(),
        /// Rows of a batch on each device.
        pub batch_size: u32 = 0,
        /// Leave out a last batch that is not full.
        pub drop_last: bool = false,
        /// Shuffle samples, differently in each epoch.
        pub shuffle: bool = false,
        /// Seed of the order.
        pub seed: u64 = 9176,
        /// Order of the samples, besides `shuffle` and `seed`.
        #[serde(deserialize_with = "json::object")]
        pub order: OrderConfig = OrderConfig::default(),
        /// Decode threads. None: the CPUs of this process, shared with all ranks of the node.
        pub threads: Option<u32> = None,
        /// Bytes on disk of all streams, or "100gb". None: no limit.
        #[serde(deserialize_with = "json::size_or_null")]
        pub cache_limit: Option<ByteSize> = None,
        /// Fetches of shards: attempts, time limit and check.
        #[serde(deserialize_with = "json::object")]
        pub fetch: FetchConfig = FetchConfig::default(),
        /// Resources and limits of this process.
        #[serde(deserialize_with = "json::object")]
        pub engine: EngineConfig = EngineConfig::default(),
        /// Samples that an epoch leaves out instead of failing.
        #[serde(deserialize_with = "json::object")]
        pub skip: SkipConfig = SkipConfig::default(),
        /// Rank of this process.
        #[serde(deserialize_with = "json::object")]
        pub world: WorldConfig = WorldConfig::default(),
    }
}

impl LoaderConfig {
    /// Reads the JSON document.
    ///
    /// # Errors
    ///
    /// `Config`, with the path to the argument, for unknown names and wrong types.
    pub fn from_json(text: &str) -> Result<Self> {
        json::read_with(text, "the loader's arguments", |path, name| paths::elsewhere(path, name, Self::OPTIONS))
    }

    /// True if `output` is to be added to a batch.
    pub fn has_extra(&self, output: ExtraOutput) -> bool {
        self.extra.contains(&output)
    }

    /// Threads that talk to the store.
    pub(crate) fn fetch_threads_on(&self, topology: &Topology) -> usize {
        let default = || topology.fetch_threads_default(self.world.local_world_size as usize);
        self.engine.fetch_threads.map_or_else(default, |threads| threads as usize)
    }

    /// Returns the windows of `stream`; `None` if its documents are the samples.
    pub fn window_of(&self, stream: &StreamConfig) -> Option<tokens::TokenWindow> {
        let of_loader = match self.window {
            Some(LoaderWindow::Tokens(window)) => Some(window),
            Some(LoaderWindow::Pack(_) | LoaderWindow::TokenBatch(_)) | None => None,
        };
        stream.window.or(of_loader).map(tokens::TokenWindow::from)
    }

    /// Returns the options of batches that are planned by tokens; `None` if the rows of a batch are samples.
    pub(crate) fn pack(&self) -> Option<PackOptions<'_>> {
        match &self.window {
            Some(LoaderWindow::Pack(pack)) => Some(PackOptions::Packs(pack)),
            Some(LoaderWindow::TokenBatch(batch)) => Some(PackOptions::TokenBatches(batch)),
            Some(LoaderWindow::Tokens(_)) | None => None,
        }
    }

    /// Returns the options of the fetches of `stream`.
    pub fn fetch_of<'a>(&'a self, stream: &'a StreamConfig) -> &'a FetchConfig {
        stream.fetch.as_ref().unwrap_or(&self.fetch)
    }

    /// Seed of random augmentation.
    pub fn augment_seed(&self) -> u64 {
        self.order.augment_seed.unwrap_or(self.seed)
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
            stream.validate().map_err(|e| e.with("stream", i))?;
        }
        self.window.as_ref().map_or(Ok(()), LoaderWindow::validate)?;
        require(self.batch_size >= 1, "batch_size is required and must be at least 1")?;
        require(self.threads != Some(0), "threads must be at least 1")?;
        self.world.validate()?;
        self.order.validate(self.world.world_size)?;
        self.fetch.validate()?;
        self.engine.validate()?;
        require(
            self.pack().is_none() || self.extra.is_empty(),
            "`extra` adds an output for each sample, and a row of packs is no sample: leave `extra` out",
        )?;
        match self.pack() {
            None => {}
            // The starts of sequences in a batch are integers of 32 bits.
            Some(PackOptions::Packs(pack)) => require(
                u64::from(self.batch_size) * u64::from(pack.length) <= i32::MAX as u64,
                "a batch of packs has at most 2,147,483,647 tokens: lower batch_size or window.length",
            )?,
            Some(PackOptions::TokenBatches(_)) => require(
                self.batch_size == 1,
                "batch_size must be 1 with window.max_tokens, which makes the batches: see window.max_sequences",
            )?,
        }
        for name in self.extra.iter().map(|output| output.name()) {
            let is_taken = self.fields.iter().flatten().any(|(field, _)| field == name);
            let message = format!("`extra` adds an output called `{name}`: rename the field of that name");
            require(!is_taken, &message)?;
        }
        Ok(())
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

    /// Error about a document.
    fn error_of(text: &str) -> String {
        LoaderConfig::from_json(text).expect_err(text).to_string()
    }

    #[test]
    fn a_config_survives_its_own_json() {
        let full = LoaderConfig {
            window: Some(LoaderWindow::Tokens(TokenWindow { tokens: 8, stride: Some(4) })),
            extra: vec![ExtraOutput::SampleKeys, ExtraOutput::Repeat],
            ..good()
        };
        for config in [good(), full] {
            let text = serde_json::to_string(&config).expect("serialisable");
            let back = LoaderConfig::from_json(&text).expect("own JSON");
            assert_eq!(serde_json::to_string(&back).expect("serialisable"), text);
            back.validate().expect("valid");
        }
    }

    #[test]
    fn the_names_of_extra_outputs_are_those_in_documents() {
        use ExtraOutput::{Repeat, SampleDraws, SampleIds, SampleKeys};
        for output in [Repeat, SampleIds, SampleDraws, SampleKeys] {
            let config = LoaderConfig::from_json(&format!("{{\"extra\": [\"{}\"]}}", output.name())).expect("known");
            assert!(config.has_extra(output));
            assert!(!good().has_extra(output));
        }
        assert!(error_of(r#"{"extra": ["keys"]}"#).contains("extra[0]: unknown variant `keys`, expected one of"));
        assert!(error_of(r#"{"extra": "repeat"}"#).contains("extra: invalid type: string"));
    }

    #[test]
    fn a_stream_replaces_the_window_and_the_fetches_of_the_loader_as_a_whole() {
        let text = r#"{
            "window": {"tokens": 8, "stride": 4}, "fetch": {"retry": 5, "keep_zip": true},
            "streams": [{}, {"window": 16, "fetch": {"timeout": 1.5}}, {"window": null, "fetch": null}]
        }"#;
        let config = LoaderConfig::from_json(text).expect("valid");
        let of_stream = |stream: &StreamConfig| {
            let window = config.window_of(stream).expect("a window");
            let fetch = config.fetch_of(stream);
            (window.tokens, window.stride, fetch.retry, fetch.timeout, fetch.keep_zip)
        };
        let of_loader = (8, 4, 5, 60.0, true);
        let of_streams: Vec<_> = config.streams.iter().map(of_stream).collect();
        assert_eq!(of_streams, [of_loader, (16, 16, 2, 1.5, false), of_loader]);
    }

    #[test]
    fn an_unknown_argument_is_named() {
        let e = error_of(r#"{"batchsize": 3}"#);
        assert!(e.ends_with("batchsize: unknown field `batchsize`: did you mean `batch_size`?"), "{e}");
        let e = error_of(r#"{"streams": [{"remot": "a"}]}"#);
        assert!(e.ends_with("streams[0].remot: unknown field `remot`: did you mean `remote`?"), "{e}");
        let e = error_of(r#"{"order": {"epoch_siz": 3}}"#);
        assert!(e.ends_with("order.epoch_siz: unknown field `epoch_siz`: did you mean `epoch_size`?"), "{e}");
        let e = error_of(r#"{"xyzzy": 3}"#);
        assert!(e.contains("expected one of `streams`"), "{e}");
    }

    #[test]
    fn an_option_that_is_elsewhere_is_shown_at_its_path() {
        for (text, sentence) in [
            (
                r#"{"remote": "s3://b/a", "batch_size": 4}"#,
                r#"`remote` is an option of a stream, as in {"streams": [{"remote": ...}]}"#,
            ),
            (
                r#"{"shuffle_algo": "py1s"}"#,
                r#"`shuffle_algo` is an option of `order`, as in {"order": {"shuffle_algo": ...}}"#,
            ),
            (r#"{"order": {"memory": 1}}"#, r#"`memory` is an option of `engine`, as in {"engine": {"memory": ...}}"#),
            (
                r#"{"filter": "a > 1"}"#,
                r#"`filter` is an option of `select`, as in {"streams": [{"select": {"filter": ...}}]}"#,
            ),
            (
                r#"{"streams": [{"keep_zip": true}]}"#,
                r#"`keep_zip` is an option of `fetch`, as in {"streams": [{"fetch": {"keep_zip": ...}}]}"#,
            ),
            (
                r#"{"streams": [{"select": {"batch_size": 1}}]}"#,
                r#"`batch_size` is an option of the loader itself, as in {"batch_size": ...}"#,
            ),
            (r#"{"rank": 1}"#, r#"`rank` is an option of `world`, as in {"world": {"rank": ...}}"#),
            (r#"{"shuffle_seed": 1}"#, r#"`shuffle_seed` is not an option: write {"seed": ...}"#),
            (r#"{"mark_repeats": true}"#, r#"`mark_repeats` is not an option: write {"extra": ["repeat"]}"#),
            (
                r#"{"window_stride": 4}"#,
                r#"`window_stride` is not an option: write {"window": {"tokens": ..., "stride": ...}}"#,
            ),
            (
                r#"{"streams": [{"download_retry": 4}]}"#,
                r#"`download_retry` is not an option: write {"streams": [{"fetch": {"retry": ...}}]}"#,
            ),
        ] {
            assert_eq!(error_of(text), sentence, "{text}");
        }
        let e = LoaderConfig::from_json("{}").expect("all defaults").validate().expect_err("no stream").to_string();
        assert!(e.contains(r#"as in {"streams": [{"remote": "s3://bucket/set"}]}"#), "{e}");
        let e = error_of(r#"{"fields": [["x", {"kind": "image", "column": "a", "memory": 1}]]}"#);
        assert!(!e.contains("engine"), "an unknown option of a field is no option of the loader: {e}");
    }

    #[test]
    fn a_list_is_no_object() {
        for text in [
            "[]",
            r#"{"streams": [["s3://b/a"]]}"#,
            r#"{"streams": [{"select": ["0:8"]}]}"#,
            r#"{"streams": [{"fetch": [2]}]}"#,
            r#"{"world": [0, 1, 0, 1]}"#,
            r#"{"order": ["py1s"]}"#,
            r#"{"fetch": [2, 60.0]}"#,
            r#"{"engine": [3]}"#,
            r#"{"skip": [3, false]}"#,
            "null",
        ] {
            let e = error_of(text);
            assert!(e.contains("expected an object, such as {"), "{text}: {e}");
        }
    }

    #[test]
    fn a_wrong_type_is_named_by_its_path() {
        for (text, path) in [
            (r#"{"batch_size": -1}"#, "batch_size: "),
            (r#"{"streams": [{}, {"choose": "all"}]}"#, "streams[1].choose: "),
            (r#"{"streams": [{"select": {"fraction": 0.5}}]}"#, "streams[0].select.fraction: "),
            (r#"{"world": {"rank": 1.5}}"#, "world.rank: "),
            (r#"{"skip": {"errors": -1}}"#, "skip.errors: "),
            (
                r#"{"fields": [["x", {"kind": "image", "column": "a", "layout": "nchw"}]]}"#,
                "fields[0][1]: unknown variant `nchw`",
            ),
            (r#"{"engine": {"memory": "much"}}"#, "engine.memory: `much` is not a size"),
        ] {
            let e = error_of(text);
            assert!(e.starts_with(&format!("the loader's arguments cannot be read: {path}")), "{e}");
        }
    }

    #[test]
    fn each_bad_argument_is_rejected_with_its_name() {
        type Spoil = fn(&mut LoaderConfig);
        let cases: [(Spoil, &str); 25] = [
            (|c| c.order.bucket_batches = 0, "order.bucket_batches must be at least 1"),
            (
                |c| (c.streams[0].select.weights, c.streams[0].select.balance) = (Some("w".into()), Some("c".into())),
                "only one of weights and balance",
            ),
            (|c| c.streams[0].select.fraction_seed = Some(1), "fraction_seed is the seed of fraction"),
            (|c| c.order.repeat_augment = 0, "order.repeat_augment is the number of rows"),
            (|c| c.order.repeat_augment = 257, "order.repeat_augment is the number of rows"),
            (|c| c.window = Some(LoaderWindow::Tokens(0.into())), "window.tokens is required and must be at least 1"),
            (
                |c| c.window = Some(LoaderWindow::Tokens(TokenWindow { tokens: 8, stride: Some(0) })),
                "window.stride must be at least 1",
            ),
            (|c| c.streams[0].window = Some(0.into()), "window.tokens is required and must be at least 1"),
            (|c| c.streams.clear(), "no data"),
            (|c| c.batch_size = 0, "batch_size"),
            (|c| c.threads = Some(0), "threads must be at least 1"),
            (|c| c.engine.prefetch = Some(0), "engine.prefetch"),
            (|c| c.engine.fetch_threads = Some(0), "engine.fetch_threads"),
            (|c| c.engine.sample_bytes_max = 0, "engine.sample_bytes_max"),
            (|c| c.order.epoch_size = Some(0), "order.epoch_size must be at least 1 sample"),
            (|c| c.order.num_canonical_nodes = Some(0), "order.num_canonical_nodes must be at least 1"),
            (|c| c.order.shuffle_block_size = Some(0), "order.shuffle_block_size must be at least 1"),
            (|c| c.order.replication = Some(3), "order.replication"),
            (|c| c.fetch.retry = 0, "fetch.retry is the total number of attempts"),
            (
                |c| c.streams[0].fetch = Some(FetchConfig { timeout: 0.0, ..FetchConfig::default() }),
                "fetch.timeout must be a positive number of seconds (stream 0",
            ),
            (|c| c.engine.stall_timeout = f64::NAN, "engine.stall_timeout"),
            (|c| c.engine.share_decode = true, "engine.share_decode"),
            (|c| c.world.rank = 7, "rank"),
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

    #[test]
    fn a_field_may_not_have_the_name_of_an_extra_output() {
        let text = r#"{"fields": [["repeat", {"kind": "text", "column": "a"}]], "extra": ["sample_ids", "repeat"]}"#;
        let named = LoaderConfig::from_json(text).expect("readable");
        let e = LoaderConfig { fields: named.fields, extra: named.extra, ..good() }.validate().expect_err("taken");
        assert!(e.to_string().contains("`extra` adds an output called `repeat`"), "{e}");
    }
}
