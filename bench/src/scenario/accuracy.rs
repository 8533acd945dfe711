//! A small ResNet trained on pictures from forebay, and on pictures from Pillow and torchvision.
//!
//! Both train on the same samples in the same order from the same weights, once per seed and recipe. Each library draws
//! crops and all operations itself, from the same distributions. A difference between the two matters only if it
//! exceeds the difference between seeds.

use super::recipe::{self, Recipe};
use crate::python::{Scripts, answer};
use crate::report::{Better, Column, Curves, Report, Row};
use crate::synth::{DataSet, SampleKind};
use clap::Args;
use forebay_loader::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

const SCRIPT: &str = "train.py";
const SCRIPTS: &[(&str, &str)] = &[(SCRIPT, include_str!("../../scripts/accuracy/train.py")), recipe::SCRIPT];
const LOADERS: [(&str, &str); 2] = [("forebay", "forebay"), ("pillow", "Pillow + torchvision")];

/// Arguments of `accuracy`.
#[derive(Debug, Args)]
pub(crate) struct AccuracyArgs {
    /// Pictures to train on: a data set made by `forebay-bench synth`, with the form mds
    #[arg(long, value_name = "DIR")]
    train: PathBuf,
    /// Pictures to test with: a data set of the same kind with a different seed
    #[arg(long, value_name = "DIR")]
    val: PathBuf,
    /// Interpreter with forebay, mosaicml-streaming and torchvision
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// Recipes of operations on the pictures
    #[arg(long, value_enum, value_delimiter = ',', default_value = "crop")]
    recipe: Vec<Recipe>,
    /// Runs per loader and recipe
    #[arg(long, default_value_t = 4)]
    seeds: u64,
    /// Epochs per run
    #[arg(long, default_value_t = 10)]
    epochs: u64,
    /// Samples per batch
    #[arg(long, default_value_t = 64)]
    batch: u64,
    /// Side of the square crop, pixels
    #[arg(long, default_value_t = 64)]
    crop: u32,
}

/// Trains every network in sequence.
pub(crate) fn run(args: &AccuracyArgs) -> Result<Report> {
    let (train, val) = (DataSet::open(&args.train)?, DataSet::open(&args.val)?);
    if train.kind != SampleKind::Images || val.kind != SampleKind::Images {
        return Err(Error::config("these are not pictures; make them with synth --kind images"));
    }
    if train.seed == val.seed {
        return Err(Error::config("both data sets have the same seed, so their pictures are the same"));
    }
    if args.recipe.contains(&Recipe::Dino) {
        return Err(Error::config(
            "the network takes one picture of each sample, and the recipe dino makes eight: leave it out",
        ));
    }
    let classes = train.classes()?;
    if val.classes()? != classes {
        return Err(Error::config(
            "the data sets have different classes; make them of the same photographs, or larger",
        ));
    }
    let classes = classes.len();
    let title = format!(
        "a ResNet-10 at {} pixels, {} pictures of {classes} photographs, {} epochs, {} seeds; {} more pictures to \
         test with",
        args.crop, train.samples, args.epochs, args.seeds, val.samples,
    );
    let columns = vec![
        Column::new("accuracy", "% right at the end", 2, Better::Higher).plotted(),
        Column::new("spread", "worst to best seed, points", 2, Better::Neither),
        Column::new("deviation", "standard deviation, points", 2, Better::Neither),
        Column::new("loss", "training loss at the end", 3, Better::Lower),
        Column::new("seconds", "s for a run", 0, Better::Lower),
    ];
    let mut report = Report::new("accuracy", title, columns);
    let scripts = Scripts::unpack(SCRIPTS)?;
    for recipe in &args.recipe {
        let subject = recipe.name();
        let (mut lines, mut runs) = (Vec::new(), LOADERS.map(|_| Vec::new()));
        for seed in 0..args.seeds.max(1) {
            for ((loader, name), runs) in LOADERS.iter().zip(&mut runs) {
                println!("{subject}, seed {} of {}: {name}", seed + 1, args.seeds.max(1));
                let config = json!({
                    "loader": loader, "recipe": recipe, "normalised": true, "seed": seed,
                    "train": train.form("mds"), "val": val.form("mds"), "classes": classes,
                    "epochs": args.epochs.max(1), "batch": args.batch, "batches": train.samples.div_ceil(args.batch),
                    "crop": args.crop, "cpus": crate::machine::cpus_allowed(),
                });
                let mut child = Command::new(&args.python);
                let found = answer(child.arg(scripts.path(SCRIPT)).arg(config.to_string()))?;
                let points = (1..).zip(&accuracies(&found)?).map(|(epoch, right)| (f64::from(epoch), *right)).collect();
                lines.push(((*name).to_owned(), points));
                runs.push(found);
            }
        }
        if runs[0].iter().zip(&runs[1]).any(|(ours, theirs)| ours["order"] != theirs["order"]) {
            return Err(Error::internal("the two loaders bring samples in different orders"));
        }
        let mut rows = Vec::new();
        for ((_, name), runs) in LOADERS.iter().zip(&runs) {
            rows.push(Row { group: subject.to_owned(), ..row(name, runs)? });
            runs.iter().for_each(|run| report.add_versions(run));
        }
        report.notes.push(format!("{subject}: {}", verdict(&rows)));
        report.rows.append(&mut rows);
        report.curves.push(Curves {
            subject: subject.to_owned(),
            x_title: "epoch",
            y_title: "% of the test pictures right",
            lines,
        });
    }
    Ok(report)
}

/// Accuracy in percent, by epoch.
fn accuracies(run: &Value) -> Result<Vec<f64>> {
    let curve = run["curve"].as_array().filter(|curve| !curve.is_empty());
    let all: Option<_> = curve.and_then(|curve| curve.iter().map(|epoch| epoch["accuracy"].as_f64()).collect());
    all.ok_or_else(|| Error::internal("a run without accuracies"))
}

fn row(name: &str, runs: &[Value]) -> Result<Row> {
    let mut last = Vec::new();
    for run in runs {
        last.extend(accuracies(run)?.last());
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let of = |values: fn(&Value) -> Option<f64>| mean(&runs.iter().filter_map(values).collect::<Vec<_>>());
    let (low, high) = last.iter().fold((f64::MAX, f64::MIN), |(low, high), a| (low.min(*a), high.max(*a)));
    let squares: f64 = last.iter().map(|a| (a - mean(&last)).powi(2)).sum();
    let values = BTreeMap::from([
        ("accuracy", mean(&last)),
        ("spread", high - low),
        ("deviation", (squares / (last.len() as f64 - 1.0)).sqrt()),
        ("loss", of(|run| run["curve"].as_array()?.last()?["loss"].as_f64())),
        ("seconds", of(|run| run["seconds"].as_f64())),
    ]);
    // A single seed has no deviation.
    let values = values.into_iter().filter(|(_, value)| value.is_finite()).collect();
    Ok(Row { name: name.to_owned(), values, details: json!({ "runs": runs }), ..Row::default() })
}

/// Returns a sentence that compares the difference of the two with the difference between seeds.
fn verdict(rows: &[Row]) -> String {
    let [ours, theirs] = rows else { return String::new() };
    let apart = ours.values["accuracy"] - theirs.values["accuracy"];
    let spread = ours.values["spread"].max(theirs.values["spread"]);
    let than = if apart.abs() <= spread { "less" } else { "MORE" };
    format!(
        "the two means are {apart:+.2} points apart, {than} than the {spread:.2} points between the seeds of one loader"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(last: &[f64]) -> Vec<Value> {
        let run =
            |a: &f64| json!({"curve": [{"accuracy": 1.0, "loss": 4.0}, {"accuracy": a, "loss": 2.0}], "seconds": 3.0});
        last.iter().map(run).collect()
    }

    #[test]
    fn a_difference_is_compared_with_the_spread_of_the_seeds() {
        let row_of = |last: &[f64]| row("x", &runs(last)).expect("a row");
        let (near, far) = (row_of(&[70.0, 74.0]), row_of(&[79.0, 80.0]));
        assert_eq!((near.values["accuracy"], near.values["spread"], near.values["loss"]), (72.0, 4.0, 2.0));
        assert!((near.values["deviation"] - 8_f64.sqrt()).abs() < 1e-9);
        assert!(verdict(&[near.clone(), row_of(&[71.0])]).contains("less than the 4.00"));
        assert!(verdict(&[near, far]).contains("MORE than"));
        assert!(!row_of(&[71.0]).values.contains_key("deviation"));
        assert!(row("x", &[json!({"curve": []})]).is_err());
    }
}
