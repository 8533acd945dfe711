//! Operations on pictures, each alone: forebay's in its decode, torchvision's on pictures of Pillow. One thread.
//!
//! The time of forebay's operation is the difference between decoding crops with it and without it. All operations take
//! turns in each round, and the best round of each counts. Times are the thread's CPU time.

use super::decode::{Choices, Picture, Way, row, thread_cpu_seconds};
use crate::python::{Scripts, answer};
use crate::report::{Better, Column, Report, Row};
use crate::synth::files_below;
use clap::Args;
use forebay_loader::decode::jpeg::RowIndexer;
use forebay_loader::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

const SCRIPT: &str = "torchvision_operations.py";
const SCRIPTS: &[(&str, &str)] = &[(SCRIPT, include_str!("../../scripts/operations/torchvision_operations.py"))];

/// Arguments of `operations`.
#[derive(Debug, Args)]
pub(crate) struct OperationsArgs {
    /// Data set with files, or any folder of JPEG files
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Interpreter with forebay and torchvision
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// Number of pictures, in the order of their names
    #[arg(long, default_value_t = 300)]
    pictures: usize,
    /// Side of the square crop, pixels
    #[arg(long, default_value_t = 224)]
    crop: u32,
    /// Rounds; the best one counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// Operation, measured so far.
struct Operation {
    name: String,
    /// Decode of a crop with the operation.
    way: Way,
    /// CPU seconds of the best round.
    best: f64,
    /// Microseconds of torchvision's.
    torchvision_us: Option<f64>,
}

/// Measures all operations.
pub(crate) fn run(args: &OperationsArgs) -> Result<Report> {
    let mut files = files_below(&args.data)?;
    files.retain(|path| path.extension().is_some_and(|e| e == "jpg" || e == "jpeg"));
    files.truncate(args.pictures);
    if files.is_empty() {
        return Err(Error::config("no JPEG files here").with("data", args.data.display()));
    }
    let scripts = Scripts::unpack(SCRIPTS)?;
    let config = json!({"files": files, "crop": args.crop, "rounds": args.rounds});
    let found = answer(Command::new(&args.python).arg(scripts.path(SCRIPT)).arg(config.to_string()))?;
    let mut operations = operations(&found)?;
    let mut indexer = RowIndexer::default();
    let read = |path: &PathBuf| -> Result<Picture> {
        let file = std::fs::read(path).map_err(|e| Error::from_io(e, "a picture").with("file", path.display()))?;
        Ok(Picture::new(file, &mut indexer))
    };
    let pictures: Vec<Picture> = files.iter().map(read).collect::<Result<_>>()?;
    for round in 0..u64::from(args.rounds) {
        for Operation { way, best, .. } in &mut operations {
            let start = thread_cpu_seconds();
            for (draw, picture) in (round * pictures.len() as u64..).zip(&pictures) {
                way(picture, draw)?;
            }
            *best = best.min(thread_cpu_seconds() - start);
        }
    }
    let title = format!(
        "{} JPEGs in memory, crops of {} pixels as uint8, one thread, best of {} rounds",
        pictures.len(),
        args.crop,
        args.rounds
    );
    let columns = vec![
        Column::new("images_per_s", "images per CPU s, decoded", 0, Better::Higher),
        Column::new("us", "us alone", 0, Better::Lower).plotted(),
        Column::new("torchvision_us", "us alone, torchvision", 0, Better::Lower).plotted(),
        Column::new("times", "torchvision's time, x ours", 1, Better::Higher),
    ];
    let mut report = Report::new("operations", title, columns);
    report.is_listed = true;
    report.add_versions(&found);
    let count = pictures.len() as f64;
    let plain = operations[0].best;
    report.rows = operations.iter().map(|operation| operation.row(count, plain)).collect();
    Ok(report)
}

/// Returns crop and flip alone, then the operations that the script has `found`.
fn operations(found: &Value) -> Result<Vec<Operation>> {
    let operation = |name: &str, ops: &Value, torchvision_us| -> Result<Operation> {
        let way = row(ops, "uint8", Choices::default())?;
        Ok(Operation { name: name.to_owned(), way, best: f64::INFINITY, torchvision_us })
    };
    let mut all = vec![operation("crop and flip alone", &found["crop"], None)?];
    for each in found["operations"].as_array().into_iter().flatten() {
        all.push(operation(each["name"].as_str().unwrap_or_default(), &each["ops"], each["us"].as_f64())?);
    }
    Ok(all)
}

impl Operation {
    /// Returns the figures for rounds of `count` pictures, which take `plain` seconds without an operation.
    fn row(&self, count: f64, plain: f64) -> Row {
        let mut values = BTreeMap::from([("images_per_s", count / self.best)]);
        if let Some(theirs) = self.torchvision_us {
            let ours = (self.best - plain) / count * 1e6;
            values.extend([("us", ours), ("torchvision_us", theirs)]);
            // The difference of two times may be as small as their errors.
            values.extend((ours >= 1.0).then_some(("times", theirs / ours)));
        }
        Row { name: self.name.clone(), values, ..Row::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_loader::decode::geometry::Size;

    #[test]
    fn operations_are_measured_as_what_they_add() {
        let crop = json!([{"op": "random_resized_crop", "size": [32, 32]}]);
        let mut inverted = crop.clone();
        inverted.as_array_mut().expect("a list").push(json!({"op": "random_invert", "p": 1.0}));
        let found = json!({"crop": crop, "operations": [{"name": "RandomInvert", "us": 40.0, "ops": inverted}]});
        let mut all = operations(&found).expect("made");
        let file = forebay_tests::data::jpeg(Size { w: 120, h: 80 }, 7).expect("encoded");
        let picture = Picture::new(file, &mut RowIndexer::default());
        all.iter_mut().for_each(|operation| (operation.way)(&picture, 1).expect("decoded"));
        all[0].best = 0.010;
        all[1].best = 0.011;
        let rows = [all[0].row(100.0, 0.010), all[1].row(100.0, 0.010)];
        assert_eq!(rows[0].values.keys().collect::<Vec<_>>(), [&"images_per_s"]);
        assert!((rows[1].values["us"] - 10.0).abs() < 1e-6 && (rows[1].values["times"] - 4.0).abs() < 1e-6);
        let unknown = json!({"crop": crop, "operations": [{"name": "X", "ops": [{"op": "x"}]}]});
        assert!(operations(&unknown).is_err());
    }
}
