//! `forebay bench`: a data set on this machine, beside the limits of the machine.
//!
//! * `plain`: the read rate of a program that does nothing else; `fields`: the outputs of the loader; `report`: the
//!   result as text and as JSON.
//!
//! It finds the limit of one data set, with the loader as a library. The comparisons with other loaders are in the crate
//! `forebay-bench`.

mod fields;
mod plain;
mod report;

use crate::data::DataArgs;
use crate::output::Output;
use crate::samples::Samples;
use crate::{Command, Exit, Session};
use clap::Args;
use forebay_loader::config::LoaderConfig;
use forebay_loader::delivery::HostDelivery;
use forebay_loader::sync::Arc;
use forebay_loader::{Loader, Next, Result};
use report::Report;
use std::time::{Duration, Instant};

/// Interval in which a stop is noticed.
const STOPPED_EVERY: Duration = Duration::from_millis(100);

/// Measure a data set on this machine: the store or the disk, decoding, and an epoch; name the limit
///
/// Reads the files as they are, as fast as it can, and then loads an epoch in a loop that does nothing else. Pictures are
/// cropped at random and resized, other columns are delivered as they are. Shards of a URL are fetched into the folder
/// that a Loader would use, so a second run measures that folder.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// Address of a data set, as a Loader's `remote` has it
    #[arg(value_name = "URL")]
    address: String,
    #[command(flatten)]
    data: DataArgs,
    /// Seconds after which the epoch ends; 0 loads all of it
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS", value_parser = seconds)]
    seconds: f64,
    /// Samples after which the epoch ends
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    samples: Option<u64>,
    /// Samples of a batch
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    batch_size: u32,
    /// Height and width of pictures
    #[arg(long, default_value_t = 224, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(1..=8192))]
    size: u32,
    /// Decode threads [default: the CPUs of this process]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| (0.0..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "it must be between 0 and 86400 seconds".to_owned())
}

/// Result of an epoch, or a part of it.
struct Epoch {
    samples: u64,
    seconds: f64,
    first_batch_s: f64,
    /// The loader's figures at the end.
    figures: serde_json::Value,
}

impl Command for BenchArgs {
    fn addresses(&self) -> Vec<String> {
        vec![self.address.clone()]
    }

    fn run(&self, session: &Session) -> Result<Exit> {
        let output = &session.output;
        let data = self.data.open(&self.address, session.library.clone())?;
        let described = data.describe();
        let files = plain::files(&self.address, self.data.split(), &data, session)?;
        let plain = plain::rate(&*session.objects()?, &files, output)?;
        let columns = described.iter().flat_map(|stream| &stream.columns);
        let first = Samples::open(data.clone(), session.library.clone())?.read(0)?;
        let config = LoaderConfig {
            streams: vec![self.data.stream(&self.address)],
            batch_size: self.batch_size,
            shuffle: true,
            threads: self.threads,
            fields: Some(fields::of(columns, &first, self.size)),
            ..LoaderConfig::default()
        };
        config.validate()?;
        let loader = Loader::with_library(config, Arc::new(HostDelivery), session.library.clone())?;
        let epoch = self.load(&loader, output)?;
        let total =
            (described.iter().map(|stream| stream.samples).sum(), described.iter().map(|s| s.stored_bytes).sum());
        Report { plain, epoch, total }.print(output);
        Ok(Exit::Success)
    }
}

impl BenchArgs {
    fn load(&self, loader: &Loader, output: &Output) -> Result<Epoch> {
        let most = self.samples.unwrap_or(u64::MAX).min(loader.epoch_samples()?);
        let limit = if self.seconds == 0.0 { f64::INFINITY } else { self.seconds };
        let bar = output.progress(most, "samples");
        let began = Instant::now();
        let (mut samples, mut first_batch_s) = (0, 0.0);
        loader.start_epoch()?;
        while samples < most && began.elapsed().as_secs_f64() < limit && !output.is_stopped() {
            match loader.next_within(STOPPED_EVERY)? {
                Next::Batch(batch) => {
                    if samples == 0 {
                        first_batch_s = began.elapsed().as_secs_f64();
                    }
                    samples += batch.rows as u64;
                    bar.set_position(samples);
                }
                Next::Pending => {}
                Next::End => break,
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        bar.finish_and_clear();
        Ok(Epoch { samples, seconds, first_batch_s, figures: loader.stats()?.json() })
    }
}
