//! `forebay info`: a data set by its index and by some samples.
//!
//! * `choice`: the samples that are read; `read`, `column`: facts about their values, with `distribution`;
//! * `report`: the result as text and as JSON.

mod choice;
mod column;
mod distribution;
mod read;
mod report;

use crate::data::DataArgs;
use crate::samples::Samples;
use crate::tally::Tally;
use crate::{Command, Exit, Session};
use clap::Args;
use column::Columns;
use forebay_loader::Result;
use forebay_loader::config::parse_bytes;
use forebay_loader::worker::StreamDescription;
use read::Read;
use report::Report;

/// Bytes of shards that are fetched for the samples.
const FETCH_BYTES_MAX: &str = "64mb";

/// Show a data set: format, samples, columns with types and examples, sizes, lengths, the cost of an epoch
///
/// Most facts are from the index. For the facts about values some samples are read, the same ones each time; of
/// pictures only the headers.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  forebay info s3://bucket/train
  forebay info hf://datasets/ylecun/mnist --split test
  forebay info data/train --samples 0 --json")]
pub(crate) struct InfoArgs {
    /// Addresses of data sets, as a Loader's `remote` has them
    #[arg(required = true, value_name = "URL")]
    addresses: Vec<String>,
    #[command(flatten)]
    data: DataArgs,
    /// Samples that are read, spread over the data set; 0 reads only the index
    #[arg(long, value_name = "N", default_value_t = 256)]
    samples: u64,
    /// Most bytes of shards that are fetched for the samples; one shard is fetched in any case
    #[arg(long, value_name = "SIZE", default_value = FETCH_BYTES_MAX, value_parser = size)]
    fetch: u64,
}

fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

impl Command for InfoArgs {
    fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    fn run(&self, session: &Session) -> Result<Exit> {
        let (mut tally, mut has_damage) = (Tally::default(), false);
        for address in &self.addresses {
            match self.report(address, session) {
                Ok(is_damaged) => {
                    tally.found();
                    has_damage |= is_damaged;
                }
                // The remaining data sets are shown.
                Err(error) => tally.fail(session, &error),
            }
        }
        Ok(if has_damage { Exit::Found } else { tally.exit() })
    }
}

impl InfoArgs {
    /// Prints the report of a data set. Returns true if a sample is damaged.
    fn report(&self, address: &str, session: &Session) -> Result<bool> {
        let data = self.data.open(address, session.library.clone())?;
        let mut streams = data.describe();
        let stream: StreamDescription = streams.swap_remove(0);
        let (mut columns, mut read) = (Columns::new(&stream), Read::default());
        if self.samples > 0 {
            let numbers = choice::samples(&data, self.samples, self.fetch);
            let mut samples = Samples::open(data, session.library.clone())?;
            let bar = session.output.progress(numbers.len() as u64, "samples");
            for number in numbers.into_iter().take_while(|_| !session.output.is_closed()) {
                read.sample(&mut samples, number, &mut columns);
                bar.inc(1);
            }
            bar.finish_and_clear();
        }
        Report { stream: &stream, columns: &columns, read: &read }.print(&session.output);
        Ok(!read.damaged.is_empty())
    }
}
