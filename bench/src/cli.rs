//! Commands and their arguments.

use crate::report::Report;
use crate::{scenario, serve, synth};
use clap::{Args, Parser, Subcommand};
use forebay_loader::{Error, Result};
use std::path::{Path, PathBuf};

/// forebay compared with its peers and with the machine's limits.
#[derive(Debug, Parser)]
#[command(name = "forebay-bench", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a data set: JPEGs or tokens, as files, tar and MDS
    Synth(synth::SynthArgs),
    /// Decoding on one thread: libjpeg-turbo, forebay's decoder, and the engine's random crops
    Decode(Measured<scenario::decode::DecodeArgs>),
    /// Operations of training recipes, each alone: forebay's and torchvision's
    Operations(Measured<scenario::operations::OperationsArgs>),
    /// Instructions of the hot paths under valgrind, compared with committed numbers
    Counts(scenario::counts::CountsArgs),
    /// The paths in this process; used by `counts`
    #[command(hide = true)]
    CountsChild,
    /// Random reads: the engine's readers, plain pread, and the device's limit
    Disk(Measured<scenario::disk::DiskArgs>),
    /// Planning and resuming an epoch: the engine and MosaicML streaming
    Order(Measured<scenario::order::OrderArgs>),
    /// One order in this process; used by `order`
    #[command(hide = true)]
    OrderChild(scenario::order::WayArgs),
    /// Fetching over HTTP and HTTPS: the engine's store and curl
    Store(Measured<scenario::store::StoreArgs>),
    /// Files of a store as they are: lists, objects, lines of texts
    Files(Measured<scenario::files::FilesArgs>),
    /// A state dict saved and loaded, on S3 and in a folder
    Checkpoint(Measured<scenario::checkpoint::CheckpointArgs>),
    /// Serve a folder as an object store on loopback
    Serve(serve::ServeArgs),
    /// The whole engine without Python, with the time of every stage
    Pipeline(Measured<scenario::pipeline::PipelineArgs>),
    /// The engine from one thread to many, with the nearest limit at each step
    Scaling(Measured<scenario::scaling::ScalingArgs>),
    /// Small samples from memory: the engine, one pread per sample, and memcpy
    Tokens(Measured<scenario::tokens::TokensArgs>),
    /// Ids and packs of texts: forebay, gigatoken, tokenizers, tiktoken, TRL, Grain and more
    Text(Measured<scenario::text::TextArgs>),
    /// Bytes fetched under a cache limit: the engine, LRU, and the optimum
    Evict(Measured<scenario::evict::EvictArgs>),
    /// Finished batches through the Rust call, the C interface and Python
    Ffi(Measured<scenario::ffi::FfiArgs>),
    /// forebay.streaming and MosaicML streaming, both through torch's DataLoader
    Dropin(Measured<scenario::dropin::DropinArgs>),
    /// A small network trained on pictures of forebay and of Pillow and torchvision
    Accuracy(Measured<scenario::accuracy::AccuracyArgs>),
    /// forebay, WebDataset, MosaicML streaming, ImageFolder and more over the same files
    Peers(Measured<scenario::peers::PeersArgs>),
}

/// Arguments of a scenario and of its output.
#[derive(Debug, Args)]
pub(crate) struct Measured<A: Args> {
    #[command(flatten)]
    scenario: A,
    #[command(flatten)]
    output: Output,
}

/// Output files of a scenario.
#[derive(Debug, Args)]
struct Output {
    /// Write all results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the results into this file, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// Runs one command.
pub(crate) fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Synth(args) => synth::run(&args),
        Command::Decode(m) => m.output.publish(scenario::decode::run(&m.scenario)?),
        Command::Operations(m) => m.output.publish(scenario::operations::run(&m.scenario)?),
        Command::Counts(args) => scenario::counts::run(&args),
        Command::CountsChild => scenario::counts::run_child(),
        Command::Disk(m) => m.output.publish(scenario::disk::run(&m.scenario)?),
        Command::Order(m) => m.output.publish(scenario::order::run(&m.scenario)?),
        Command::OrderChild(way) => scenario::order::run_child(&way),
        Command::Files(m) => m.output.publish(scenario::files::run(&m.scenario)?),
        Command::Checkpoint(m) => m.output.publish(scenario::checkpoint::run(&m.scenario)?),
        Command::Store(m) => m.output.publish(scenario::store::run(&m.scenario)?),
        Command::Serve(args) => serve::run(&args),
        Command::Pipeline(m) => m.output.publish(scenario::pipeline::run(&m.scenario)?),
        Command::Scaling(m) => m.output.publish(scenario::scaling::run(&m.scenario)?),
        Command::Tokens(m) => m.output.publish(scenario::tokens::run(&m.scenario)?),
        Command::Text(m) => m.output.publish(scenario::text::run(&m.scenario)?),
        Command::Evict(m) => m.output.publish(scenario::evict::run(&m.scenario)?),
        Command::Ffi(m) => m.output.publish(scenario::ffi::run(&m.scenario)?),
        Command::Dropin(m) => m.output.publish(scenario::dropin::run(&m.scenario)?),
        Command::Accuracy(m) => m.output.publish(scenario::accuracy::run(&m.scenario)?),
        Command::Peers(m) => m.output.publish(scenario::peers::run(&m.scenario)?),
    }
}

impl Output {
    fn publish(&self, report: Report) -> Result<()> {
        print!("{}", report.table());
        for (path, text) in [(&self.json, Report::json as fn(&Report) -> String), (&self.plot, Report::svg)] {
            if let Some(path) = path {
                write(path, &text(&report))?;
            }
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let failed = |e| Error::from_io(e, "the results cannot be written").with("file", path.display());
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    std::fs::write(path, text).map_err(failed)?;
    println!("wrote {}", path.display());
    Ok(())
}
