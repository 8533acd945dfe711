//! `forebay bench`: a data set on this machine, and the limits of the machine.
//!
//! * `plain`: the read rate of a program that does nothing else; `fields`: the outputs of the loader; `epoch`: their
//!   rate; `report`: the result as text and as JSON.
//!
//! It finds the limit of one data set, with the loader as a library. The comparisons with other loaders are in the
//! crate `forebay-bench`.

mod epoch;
mod fields;
mod plain;
mod report;

use crate::data::DataArgs;
use crate::samples::Samples;
use crate::text::seconds;
use crate::{Command, Exit, Session};
use clap::Args;
use epoch::Epoch;
use forebay_loader::config::{FetchConfig, LoaderConfig};
use forebay_loader::delivery::HostDelivery;
use forebay_loader::sync::Arc;
use forebay_loader::{Loader, Result};
use report::Report;

/// Attempts of a fetch: a store that refuses requests as too many is to be measured, too.
const ATTEMPTS: u32 = 20;

/// Measure a data set on this machine: the store or the disk, decoding, and an epoch; name the limit
///
/// Reads the files as they are, as fast as it can, and then loads an epoch in a loop that does nothing else. Pictures
/// are cropped at random and resized, other columns are delivered as they are. Shards of a URL are fetched into the
/// folder that a Loader would use, so a second run measures that folder.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  forebay bench s3://bucket/train
  forebay bench data/train --seconds 0 --threads 8")]
pub(crate) struct BenchArgs {
    /// Address of a data set, as a Loader's `remote` has it
    #[arg(value_name = "URL")]
    address: String,
    #[command(flatten)]
    data: DataArgs,
    /// Seconds after which the epoch ends; 0 loads all of it
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    #[arg(value_parser = |text: &str| seconds(text, 0.0..=86_400.0))]
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
            fetch: FetchConfig { retry: ATTEMPTS, ..FetchConfig::default() },
            fields: Some(fields::of(columns, &first, self.size)),
            ..LoaderConfig::default()
        };
        config.validate()?;
        let loader = Loader::with_library(config, Arc::new(HostDelivery), session.library.clone())?;
        let epoch = Epoch::load(&loader, self.samples, self.seconds, output)?;
        let total =
            (described.iter().map(|stream| stream.samples).sum(), described.iter().map(|s| s.stored_bytes).sum());
        Report { plain, epoch, total }.print(output);
        Ok(Exit::Success)
    }
}
