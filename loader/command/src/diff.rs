//! `forebay diff`: the first step with different samples in two runs, and the reasons.

use crate::run_file::{RunArg, RunFile};
use crate::text::one_line;
use crate::which::RowOfStep;
use crate::{Command, Exit, Session};
use clap::{Args, ValueHint};
use forebay_loader::store::LibraryStores;
use forebay_loader::{Loader, Result};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

/// Show the first step with different samples of two runs, and why
///
/// Compares versions, arguments and hashes of the data. Only if some differ are the steps compared, from the first one
/// on. The exit code is 0 if the runs are equal, and 1 if not.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  forebay diff monday.json tuesday.json")]
pub(crate) struct DiffArgs {
    /// File of a run, which Loader.save_run writes
    #[arg(value_name = "RUN.json", value_hint = ValueHint::AnyPath)]
    first: RunArg,
    /// File of the second run
    #[arg(value_name = "RUN.json", value_hint = ValueHint::AnyPath)]
    second: RunArg,
    /// Most steps that are compared
    #[arg(long, value_name = "N", default_value_t = 1000)]
    steps: u64,
}

/// Starts of the names of arguments on which no sample depends.
const WITHOUT_EFFECT: [&str; 6] = ["engine", "fetch", "threads", "cache_limit", "world.rank", "world.local_rank"];

/// Arguments of a stream that choose its data; the first two are locations.
const OF_DATA: [&str; 5] = ["remote", "local", "split", "files", "manifest"];

/// Starts of the names of arguments that change values of samples, and perhaps no sample.
const OF_VALUES: [&str; 2] = ["fields.", "order.augment_seed"];

/// Characters of a value in a line for people.
const SHOWN_MAX: usize = 120;

/// Facts of a run by their paths: version, arguments, and hashes of the data.
type Facts = BTreeMap<String, Json>;

impl Command for DiffArgs {
    fn addresses(&self) -> Vec<String> {
        [&self.first, &self.second].map(|run| run.addresses(&[])).concat()
    }

    fn run(&self, session: &Session) -> Result<Exit> {
        let (first, second) = (self.first.run(&[])?, self.second.run(&[])?);
        let differences = differences(&facts(first.document()), &facts(second.document()));
        for (name, of_first, of_second) in &differences {
            let reason = reason(name);
            let record = json!({"reason": reason, "name": name, "first": of_first, "second": of_second});
            let text = || format!("{reason}: {name} is {} and {}", shown(of_first), shown(of_second));
            session.output.line(&record, || one_line(&text()));
        }
        // The order is a function of the arguments and the data.
        if differences.is_empty() {
            let text = || "the samples of all steps are equal".to_owned();
            session.output.line(&json!({"first_step": null}), text);
            return Ok(Exit::Success);
        }
        let changes_values = differences.iter().any(|(name, ..)| OF_VALUES.iter().any(|start| name.starts_with(start)));
        // Data that have changed since are a reason above, and not a failure of the comparison.
        let (record, text) = self.step([first, second], changes_values, session).unwrap_or_else(|error| {
            let text = format!("the steps are not compared, since a run cannot be opened: {error}");
            (json!({"first_step": null, "unknown": error.to_string()}), text)
        });
        session.output.line(&record, || one_line(&text));
        Ok(Exit::Found)
    }
}

impl DiffArgs {
    /// Finds the first step with different samples, as a record and as text.
    fn step(&self, runs: [&RunFile; 2], changes_values: bool, session: &Session) -> Result<(Json, String)> {
        let [first, second] = runs.map(|run| Steps::open(run, session.library.clone()));
        let (first, second) = (first?, second?);
        for step in (0..self.steps).take_while(|_| !session.output.is_stopped()) {
            let (of_first, of_second) = (first.rows(step)?, second.rows(step)?);
            if of_first == of_second {
                continue;
            }
            let (epoch, batch) = first.loader.place_of_step(step)?;
            let pair = of_first.iter().zip(&of_second).find(|(one, other)| one != other);
            let (one, other) = pair.map_or_else(
                || ("one row".to_owned(), "a different number of rows".to_owned()),
                |(one, other)| (one.title(), other.title()),
            );
            let place = format!("batch {batch} of epoch {epoch}");
            let text = format!("step {step} is the first whose samples differ: {place}, {one} and {other}");
            let record = json!({"first_step": step, "epoch": epoch, "batch": batch, "first": one, "second": other});
            return Ok((record, text));
        }
        let values = if changes_values { "; the values that are made of them differ" } else { "" };
        let text = format!("the samples of the first {} steps are equal{values}", self.steps);
        Ok((json!({"first_step": null}), text))
    }
}

/// Steps of a run.
struct Steps {
    loader: Loader,
    ranks: u32,
}

impl Steps {
    fn open(run: &RunFile, library: Option<LibraryStores>) -> Result<Self> {
        Ok(Self { loader: run.loader(0, library)?, ranks: run.config(0)?.world.world_size })
    }

    /// Returns the rows of a step on all ranks.
    fn rows(&self, step: u64) -> Result<Vec<RowOfStep>> {
        let (epoch, batch) = self.loader.place_of_step(step)?;
        RowOfStep::all(&self.loader, epoch, batch, 0..self.ranks)
    }
}

/// Returns the word for the reason of a difference.
fn reason(name: &str) -> &'static str {
    let (first, last) = (name.split('.').next().unwrap_or(name), name.rsplit('.').next().unwrap_or(name));
    match first {
        "streams" if OF_DATA.contains(&last) => "data",
        _ if name.ends_with("seed") => "seed",
        "world" => "world",
        "forebay" => "version",
        "data" => "data",
        _ => "arguments",
    }
}

fn facts(document: &Json) -> Facts {
    let (config, state) = (&document["config"], &document["state"]);
    let mut facts = Facts::new();
    leaves(config, "", &mut facts);
    for (name, value) in [
        ("data.index", &state["forebay"]["plan"]["index"]),
        ("data.selection", &state["forebay"]["plan"]["selection"]),
        ("data.shards", &state["forebay"]["described"]["shard sizes"]),
        ("order.num_canonical_nodes", &state["num_canonical_nodes"]),
        ("forebay", &document["forebay"]),
    ] {
        facts.insert(name.to_owned(), value.clone());
    }
    if state["shuffle_seed"] != config["seed"] {
        facts.insert("order.shuffle_seed".to_owned(), state["shuffle_seed"].clone());
    }
    facts
}

/// Adds the values that have no parts with names, by their paths.
fn leaves(value: &Json, path: &str, facts: &mut Facts) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Json::Object(members) => members.iter().for_each(|(name, item)| leaves(item, &below(name), facts)),
        Json::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            for (number, item) in items.iter().enumerate() {
                // A field has a name, and an operation its number and its name.
                match (item.as_array().map(Vec::as_slice), item["op"].as_str()) {
                    (Some([Json::String(name), content @ Json::Object(_)]), _) => leaves(content, &below(name), facts),
                    (_, Some(op)) => leaves(item, &below(&format!("{number}.{op}")), facts),
                    _ => leaves(item, &below(&number.to_string()), facts),
                }
            }
        }
        leaf => {
            facts.insert(path.to_owned(), leaf.clone());
        }
    }
}

/// Returns the names of facts that differ, with both values.
fn differences(first: &Facts, second: &Facts) -> Vec<(String, Json, Json)> {
    let value = |facts: &Facts, name: &str| facts.get(name).cloned().unwrap_or_default();
    let index = value(first, "data.index");
    let is_same_data = !index.is_null() && index == value(second, "data.index");
    let names: BTreeSet<&String> = first.keys().chain(second.keys()).collect();
    let differ = |name: &&String| {
        let location = name.rsplit('.').next().filter(|_| name.starts_with("streams."));
        let is_location = location.is_some_and(|location| OF_DATA[..2].contains(&location));
        value(first, name) != value(second, name)
            && !WITHOUT_EFFECT.iter().any(|start| name.starts_with(start))
            && !(is_location && is_same_data)
    };
    names.into_iter().filter(differ).map(|name| (name.clone(), value(first, name), value(second, name))).collect()
}

/// Returns a value as Python prints it, abridged.
fn shown(value: &Json) -> String {
    let text = python(value);
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

fn python(value: &Json) -> String {
    match value {
        Json::Null => "None".to_owned(),
        Json::Bool(flag) => if *flag { "True" } else { "False" }.to_owned(),
        Json::Number(number) => number.to_string(),
        Json::String(text) => format!("'{text}'"),
        Json::Array(items) => format!("[{}]", items.iter().map(python).collect::<Vec<_>>().join(", ")),
        Json::Object(members) => {
            let pairs = members.iter().map(|(name, item)| format!("'{name}': {}", python(item)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}
