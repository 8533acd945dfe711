//! Ids and packs of texts: forebay compared with tokenizers and with programs that pack, over the same files.
//!
//! Every program is a separate Python process (`child`), as in `peers`. Its first epoch includes its start, and the
//! epochs after it are the measured ones. In the first round each makes a digest of all ids as well, in an epoch that
//! is not measured: a program with different ids is not in the table. CPU seconds are the main figure, since they
//! depend less on the load of the machine than rates do; each round has the opposite order of the round before.

mod data;
mod entrants;

use super::child::{self, Digest, Epoch, First, Peer, Watch};
use crate::folder::make_whole;
use crate::machine::cpus_allowed;
use crate::python::Scripts;
use crate::report::{Better, Column, Report, Row, Skipped, median};
use clap::Args;
use data::Texts;
use entrants::{DEFINITION, ENTRANTS, Entrant, Work};
use forebay_loader::{Error, ErrorKind, Result};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

const SCRIPTS: &[(&str, &str)] = &[
    child::SCRIPT,
    ("textpeer.py", include_str!("../../../scripts/text/textpeer.py")),
    ("texttokenizers.py", include_str!("../../../scripts/text/texttokenizers.py")),
    ("peer_text_forebay.py", include_str!("../../../scripts/text/peer_text_forebay.py")),
    ("peer_text_gigatoken.py", include_str!("../../../scripts/text/peer_text_gigatoken.py")),
    ("peer_text_grain.py", include_str!("../../../scripts/text/peer_text_grain.py")),
    ("peer_text_streaming.py", include_str!("../../../scripts/text/peer_text_streaming.py")),
    ("peer_text_tiktoken.py", include_str!("../../../scripts/text/peer_text_tiktoken.py")),
    ("peer_text_tokenizers.py", include_str!("../../../scripts/text/peer_text_tokenizers.py")),
    ("peer_text_tokenizers1.py", include_str!("../../../scripts/text/peer_text_tokenizers1.py")),
    ("peer_text_trl.py", include_str!("../../../scripts/text/peer_text_trl.py")),
];

/// Arguments of `text`.
#[derive(Debug, Args)]
pub(crate) struct TextArgs {
    /// Folder with texts, as DIR/jsonl/*.jsonl with a `text` in each line; `bench/scripts/text/make.py` makes one
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// A tokenizer.json
    #[arg(long, value_name = "FILE")]
    tokenizer: PathBuf,
    /// Interpreter with the programs; may be repeated: the first one that has a program runs it
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: Vec<PathBuf>,
    /// Programs, in this order [default: all]
    #[arg(long, value_name = "ID,...", value_delimiter = ',', value_parser = ids())]
    only: Vec<String>,
    /// Sizes of the CPU sets [default: 1 and 2, up to the number of CPUs]
    #[arg(long, value_name = "N,...", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Documents that the tokenizers take together
    #[arg(long, default_value_t = 256)]
    batch: usize,
    /// Rows of a batch
    #[arg(long, default_value_t = 8)]
    rows: usize,
    /// Tokens of a pack
    #[arg(long, default_value_t = 2048)]
    length: usize,
    /// Measured epochs per round, after the first one
    #[arg(long, default_value_t = 1)]
    epochs: usize,
    /// Rounds; each restarts every program
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Program that ratios refer to
    #[arg(long, value_name = "ID", default_value = DEFINITION, value_parser = ids())]
    baseline: String,
}

/// Names of the programs.
fn ids() -> Vec<&'static str> {
    ENTRANTS.iter().map(|entrant| entrant.id).collect()
}

/// One program on one CPU set, with the results of all rounds.
struct Run {
    entrant: &'static Entrant,
    cpus: usize,
    firsts: Vec<First>,
    first_epochs: Vec<Epoch>,
    epochs: Vec<Epoch>,
    digest: Option<Digest>,
    memory_bytes_max: u64,
    failure: Option<String>,
}

/// Runs every program.
pub(crate) fn run(args: &TextArgs) -> Result<Report> {
    let texts = Texts::open(&args.data)?;
    let allowed = cpus_allowed();
    let sizes = super::peers::cpu_set_sizes(&args.cpus, allowed.len())?;
    let scripts = Scripts::unpack(SCRIPTS)?;
    let mut report = Report::new("text", title(args, &texts), columns());
    report.baseline =
        ENTRANTS.iter().find(|entrant| entrant.id == args.baseline).map(|entrant| entrant.name.to_owned());
    let mut runs = runs(&args.only, &sizes);
    for round in 0..args.rounds {
        let mut order: Vec<usize> = (0..runs.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for run in order {
            let run = &mut runs[run];
            if run.failure.is_some() {
                continue;
            }
            let name = run.entrant.name;
            eprintln!("round {}/{}, {}: {name}", round + 1, args.rounds, super::peers::group_name(run.cpus));
            if let Err(error) = measure(args, &texts, &scripts, run, &allowed, &mut report.versions) {
                eprintln!("  {error}");
                run.failure = Some(error.to_string());
            }
        }
    }
    compare(&mut runs, &mut report.notes);
    for run in &runs {
        match &run.failure {
            Some(reason) => report.skipped.push(Skipped { name: run.entrant.name.to_owned(), reason: reason.clone() }),
            None => report.rows.push(run.row(args, &texts)),
        }
    }
    ratios(&mut report);
    let ran = |entrant: &&Entrant| report.rows.iter().any(|row| row.name == entrant.name);
    let differ = ENTRANTS.iter().filter(ran).map(|entrant| entrant.differs).filter(|differs| !differs.is_empty());
    let differ: Vec<String> = differ.map(str::to_owned).collect();
    report.notes.extend(differ);
    Ok(report)
}

/// Returns the chosen programs, each with the CPU sets that it is measured on.
fn runs(only: &[String], sizes: &[usize]) -> Vec<Run> {
    let chosen = |entrant: &&Entrant| only.is_empty() || only.iter().any(|id| id == entrant.id);
    let largest = sizes.iter().copied().max().unwrap_or(1);
    let runs = ENTRANTS.iter().filter(chosen).flat_map(|entrant| {
        let of_entrant = sizes.iter().copied().filter(move |&size| entrant.scales || size == largest);
        of_entrant.map(|cpus| Run {
            entrant,
            cpus,
            firsts: Vec::new(),
            first_epochs: Vec::new(),
            epochs: Vec::new(),
            digest: None,
            memory_bytes_max: 0,
            failure: None,
        })
    });
    runs.collect()
}

fn title(args: &TextArgs, texts: &Texts) -> String {
    let tokenizer = args.tokenizer.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let megabytes = texts.bytes as f64 / 1e6;
    format!("{} texts of {megabytes:.0} MB together, {tokenizer}, packs of {} tokens", texts.documents, args.length)
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("mb_per_cpu_s", "MB per CPU s", 1, Better::Higher).plotted(),
        Column::new("mb_per_s", "MB/s", 1, Better::Higher).plotted(),
        Column::new("tokens_per_s", "tokens/s", 0, Better::Higher),
        Column::new("cpu_s_per_gb", "CPU s per GB", 1, Better::Lower),
        Column::new("first_epoch_cpu_s_per_gb", "first epoch", 1, Better::Lower).plotted(),
        Column::new("padding_percent", "padding %", 2, Better::Lower),
        Column::new("first_batch_s", "first batch s", 2, Better::Lower).plotted(),
        Column::new("memory_mib_max", "peak MiB", 0, Better::Lower),
    ]
}

fn measure(
    args: &TextArgs,
    texts: &Texts,
    scripts: &Scripts,
    run: &mut Run,
    allowed: &[usize],
    versions: &mut BTreeMap<String, String>,
) -> Result<()> {
    let failed = |e| Error::from_io(e, "a folder for a program's files cannot be made");
    let scratch = tempfile::Builder::new().prefix("forebay-bench-").tempdir().map_err(failed)?;
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let mut config = json!({
        "kind": run.entrant.work, "way": run.entrant.way, "cpus": allowed[..run.cpus], "workers": run.cpus,
        "batch": args.batch, "rows": args.rows, "length": args.length, "tokenizer": absolute(&args.tokenizer),
        "jsonl": absolute(&texts.jsonl()), "mds": absolute(&texts.mds()), "scratch": scratch.path(),
    });
    let start = |config: &_| start_somewhere(args, scripts, run.entrant, config);
    if run.entrant.reads_mds && !texts.mds().exists() {
        make_whole(&texts.mds(), |part| {
            config["mds"] = json!(absolute(&part.to_owned()));
            start(&config)?.convert()
        })?;
        config["mds"] = json!(absolute(&texts.mds()));
    }
    let mut peer = start(&config)?;
    versions.append(&mut peer.versions);
    let (first, first_epoch) = peer.first_epoch(Watch::AfterFirst)?;
    for _ in 0..args.epochs {
        let epoch = peer.epoch()?;
        if run.entrant.work == Work::Ids && epoch.items != texts.documents {
            let message = format!("it delivered {} of {} texts", epoch.items, texts.documents);
            return Err(Error::internal(message));
        }
        run.epochs.push(epoch);
    }
    if run.digest.is_none() {
        run.digest = Some(peer.digest()?);
    }
    run.firsts.push(first);
    run.first_epochs.push(first_epoch);
    run.memory_bytes_max = run.memory_bytes_max.max(peer.memory_bytes_max);
    Ok(())
}

/// Starts the program under the first interpreter that has it.
fn start_somewhere(args: &TextArgs, scripts: &Scripts, entrant: &Entrant, config: &serde_json::Value) -> Result<Peer> {
    let mut missing = Vec::new();
    for python in &args.python {
        match Peer::start(scripts, python, &format!("text_{}", entrant.module), config) {
            Err(e) if e.kind() == ErrorKind::Unsupported => missing.push(e.to_string()),
            other => return other,
        }
    }
    Err(Error::new(ErrorKind::Unsupported, missing.join("; ")))
}

/// Marks the programs whose ids are not the ids of the definition, or of the first program without it.
fn compare(runs: &mut [Run], notes: &mut Vec<String>) {
    let measured = |run: &&Run| run.failure.is_none() && run.digest.is_some();
    let definition = runs.iter().filter(measured).find(|run| run.entrant.id == DEFINITION);
    let Some(reference) = definition.or_else(|| runs.iter().find(measured)) else { return };
    let (name, expected) = (reference.entrant.name, reference.digest);
    let mut equal = Vec::new();
    for run in runs.iter_mut().filter(|run| run.failure.is_none()) {
        let is_equal = match (run.digest, expected, run.entrant.work) {
            (Some(found), Some(expected), Work::Ids) => found == expected,
            // Packs have different ends of documents.
            (Some(found), Some(expected), Work::Packs) => (found.tokens, found.ids) == (expected.tokens, expected.ids),
            _ => false,
        };
        if is_equal {
            equal.push(run.entrant.name);
        } else {
            let tokens = run.digest.map_or(0, |digest| digest.tokens);
            run.failure = Some(format!("its {tokens} ids are not the ids of {name}"));
        }
    }
    equal.dedup();
    if let Some(expected) = expected {
        notes.push(format!("equal ids of all texts, {} tokens: {}", expected.tokens, equal.join("; ")));
    }
}

impl Run {
    fn row(&self, args: &TextArgs, texts: &Texts) -> Row {
        let group = match self.entrant.work {
            Work::Ids => format!("ids, {}", super::peers::group_name(self.cpus)),
            Work::Packs => format!("packs of {}, {}", args.length, super::peers::group_name(self.cpus)),
        };
        let megabytes = texts.bytes as f64 / 1e6;
        let cpu_s = |epochs: &[Epoch]| median(epochs.iter().map(|epoch| epoch.cpu_seconds).collect());
        let seconds = median(self.epochs.iter().map(|epoch| epoch.seconds).collect());
        let tokens = self.digest.map_or(f64::NAN, |digest| digest.tokens as f64);
        let slots = self.epochs.first().and_then(|epoch| epoch.slots).filter(|_| self.entrant.work == Work::Packs);
        let padding = slots.map(|slots| 100.0 * (1.0 - tokens / slots as f64));
        let values = BTreeMap::from([
            ("mb_per_cpu_s", megabytes / cpu_s(&self.epochs)),
            ("mb_per_s", megabytes / seconds),
            ("tokens_per_s", tokens / seconds),
            ("cpu_s_per_gb", cpu_s(&self.epochs) / megabytes * 1e3),
            ("first_epoch_cpu_s_per_gb", cpu_s(&self.first_epochs) / megabytes * 1e3),
            ("padding_percent", padding.unwrap_or(f64::NAN)),
            ("first_batch_s", median(self.firsts.iter().map(|first| first.seconds).collect())),
            ("memory_mib_max", self.memory_bytes_max as f64 / f64::from(1 << 20)),
        ]);
        // A child that ends within a tick of the clock has no CPU time to divide by.
        let values = values.into_iter().filter(|(_, value)| value.is_finite()).collect();
        let details = json!({ "first_epochs": self.first_epochs, "epochs": self.epochs, "first_batches": self.firsts });
        Row { group, name: self.entrant.name.to_owned(), values, details, ..Row::default() }
    }
}

/// Adds notes that compare forebay with every program of its group, by CPU seconds.
fn ratios(report: &mut Report) {
    let mut notes = Vec::new();
    for ours in report.rows.iter().filter(|row| row.name.starts_with("forebay")) {
        for (key, epochs) in [("cpu_s_per_gb", "later epochs"), ("first_epoch_cpu_s_per_gb", "first epoch")] {
            let theirs = report.rows.iter().filter(|row| row.group == ours.group && row.name != ours.name);
            let ratios = theirs.filter_map(|theirs| {
                let ratio = theirs.values.get(key)? / ours.values.get(key)?;
                Some(format!("{ratio:.2} times {}", theirs.name))
            });
            let ratios: Vec<String> = ratios.collect();
            if !ratios.is_empty() {
                notes.push(format!("{}, {epochs}, per CPU second: {} is {}", ours.group, ours.name, ratios.join(", ")));
            }
        }
    }
    report.notes.append(&mut notes);
}
