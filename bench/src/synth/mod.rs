//! Generated data sets: JPEGs cut from photographs, or tokens.
//!
//! A [`DataSet`] is a folder with `dataset.json` and one folder per form: `files` (class folders, as torchvision's
//! ImageFolder reads them), `tar` (WebDataset), `mds` (forebay and MosaicML streaming) and `mds-indexed` (with row
//! indexes). All forms contain the same samples,
//! tar and mds in the same order: the files shuffled by the seed.

mod files;
mod images;
mod mds;
mod set;
pub(crate) mod tar;

use forebay_loader::{Error, Result};
use forebay_tests::data;
pub(crate) use set::{DataSet, SampleKind, SynthArgs, files_below, read_through};
use std::fs;

/// Makes a data set, or the missing parts of it.
pub(crate) fn run(args: &SynthArgs) -> Result<()> {
    if let Ok(set) = DataSet::open(&args.out)
        && (set.kind, set.seed, set.samples) != (args.kind, args.seed, args.samples)
    {
        return Err(
            Error::config("a different data set is here already; name a new --out").with("out", args.out.display())
        );
    }
    fs::create_dir_all(&args.out)
        .map_err(|e| Error::from_io(e, "the folder cannot be made").with("out", args.out.display()))?;
    let set = match args.kind {
        SampleKind::Images => images::make(args)?,
        SampleKind::Tokens => {
            let (samples, length, seed) = (args.samples, args.length, args.seed);
            mds::write(args, |into, options| data::tokens(into, samples, length, seed, options))?;
            let bytes = samples * 2 * length as u64;
            DataSet { kind: SampleKind::Tokens, samples, bytes, length, seed, root: args.out.clone() }
        }
    };
    set.save(&args.out)?;
    println!("{} samples, {:.1} MB, in {}", set.samples, set.bytes as f64 / 1e6, args.out.display());
    Ok(())
}
