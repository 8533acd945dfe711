//! `forebay preview`: samples with their pictures, in the terminal or as a page.
//!
//! ```text
//!   data set --stored: Samples--.
//!                               +--> Row: names, texts, pictures --> terminal: a table, or cards with graphics
//!   run file --run: a Loader ---'                                `-> page: HTML
//! ```
//!
//! * `row`: a sample to be shown, by a `shape`; `picture`: pixels and their decoding; `boxes`: boxes in pictures;
//!   `palette`: colours of masks and boxes;
//! * `stored`: samples of a data set; `run`: the batch of a step of a run;
//! * `graphics`: pictures in terminals, a file for each protocol; `terminal` and `page`: the two forms.

mod boxes;
mod graphics;
mod page;
mod palette;
mod picture;
mod row;
mod run;
mod shape;
mod stored;
mod terminal;

use crate::data::DataArgs;
use crate::run_file::RunArg;
use crate::text::{counted, one_line};
use crate::{Command, Exit, Session};
pub(crate) use boxes::BoxForm;
use clap::{Args, ValueHint};
use forebay_loader::{Error, Result};
use graphics::Graphics;
use row::Row;
use shape::Shape;
use std::path::PathBuf;

/// Show samples of a data set, with their pictures, or the batch of a step of a run
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  forebay preview s3://bucket/train
  forebay preview data/train --shuffle 7 --count 20 --columns image,label
  forebay preview coco/val2017 --manifest instances_val2017.json --html page.html
  forebay preview --run run.json --step 1200")]
pub(crate) struct PreviewArgs {
    /// Address of a data set, as a Loader's `remote` has it; with --run as --remote
    #[arg(value_name = "URL", required_unless_present = "run")]
    addresses: Vec<String>,
    #[command(flatten)]
    data: DataArgs,
    /// Number of the first sample
    #[arg(long, value_name = "N", default_value_t = 0)]
    start: u64,
    /// Number of samples
    #[arg(long, value_name = "N", default_value_t = 8)]
    count: u64,
    /// Take random samples by this seed
    #[arg(long, value_name = "SEED")]
    shuffle: Option<u64>,
    /// Columns to show, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<String>,
    /// Column of boxes, which are drawn over the picture: four numbers each, or JSON as COCO has it
    #[arg(long, value_name = "COLUMN")]
    boxes: Option<String>,
    /// Meaning of the four numbers of a box [default: xywh in JSON of COCO, else xyxy]
    #[arg(long, value_name = "FORM")]
    boxes_format: Option<BoxForm>,
    /// Form of pictures in the terminal
    #[arg(long, value_name = "FORM", default_value = "auto")]
    graphics: Graphics,
    /// Write a page that needs no network instead
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// File of a run, which Loader.save_run writes: show the batch of a step, augmented
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath, requires = "step")]
    run: Option<RunArg>,
    /// Number of the step, counted through all epochs
    #[arg(long, value_name = "N", requires = "run")]
    step: Option<u64>,
    /// Rank of the run [default: all]
    #[arg(long, value_name = "R", requires = "run")]
    rank: Option<u32>,
    /// Address of the data of a stream of the run, once for each stream, if it is not the one in the file
    #[arg(long, value_name = "URL", requires = "run")]
    remote: Vec<String>,
}

/// Longest side of a picture on a page, and in a terminal.
const PAGE_SIDE_MAX: u32 = 640;
const TERMINAL_SIDE_MAX: u32 = 480;

impl Command for PreviewArgs {
    fn addresses(&self) -> Vec<String> {
        match &self.run {
            Some(run) => run.addresses(&self.remotes()),
            None => self.addresses.clone(),
        }
    }

    fn run(&self, session: &Session) -> Result<Exit> {
        let graphics = if session.output.is_json() { Graphics::None } else { self.graphics.resolved(&session.output) };
        let is_page = self.html.is_some();
        let shape = Shape {
            columns: &self.columns,
            boxes: self.boxes.as_deref(),
            boxes_form: self.boxes_format,
            // Pictures that are not shown are decoded, too: damage is named.
            side_max: if is_page { PAGE_SIDE_MAX } else { TERMINAL_SIDE_MAX },
        };
        let mut cards = String::new();
        // Many decoded pictures do not fit into memory.
        let each = |row: &mut Row| {
            if is_page {
                page::card(&mut cards, row)?;
            }
            if is_page || graphics == Graphics::None {
                row.drop_pictures();
            }
            Ok(())
        };
        let (title, rows) = self.rows(&shape, session, each)?;
        self.check_columns(&rows)?;
        match &self.html {
            Some(file) => {
                let name = file.display().to_string();
                std::fs::write(file, page::page(&title, &cards))
                    .map_err(|e| Error::from_io(e, "the page cannot be written").with("file", &name))?;
                let record = serde_json::json!({"html": name, "rows": rows.len()});
                let samples = counted(rows.len() as u64, "sample");
                session.output.line(&record, || one_line(&format!("{name} has {samples}")));
            }
            None => terminal::print(&rows, graphics, &session.output),
        }
        Ok(if rows.iter().any(|row| row.is_damaged) { Exit::Found } else { Exit::Success })
    }
}

impl PreviewArgs {
    /// Returns a title and the rows, after a call of `each` with every row.
    fn rows(
        &self,
        shape: &Shape<'_>,
        session: &Session,
        each: impl FnMut(&mut Row) -> Result<()>,
    ) -> Result<(String, Vec<Row>)> {
        let library = session.library.clone();
        if let (Some(run), Some(step)) = (&self.run, self.step) {
            let rank = self.rank.map_or_else(String::new, |rank| format!(" of rank {rank}"));
            let title = format!("step {step}{rank}, {}", run.path.display());
            let run = run.run(&self.remotes())?;
            return Ok((title, run::rows(run, step, self.rank, shape, library, each)?));
        }
        let [address] = &self.addresses[..] else {
            return Err(Error::config("write one URL: a preview shows one data set").with("URLs", self.addresses.len()));
        };
        let data = self.data.open(address, library.clone())?;
        let name = data.describe().swap_remove(0).name;
        let choice = stored::Choice { start: self.start, count: self.count, seed: self.shuffle };
        Ok((name, stored::rows(data, library, &choice, shape, session, each)?))
    }

    /// Returns the addresses of the data of a run, if they are not the ones in its file.
    fn remotes(&self) -> Vec<String> {
        self.addresses.iter().chain(&self.remote).cloned().collect()
    }

    /// Rejects names of columns that no row has.
    fn check_columns(&self, rows: &[Row]) -> Result<()> {
        let is_known = |name: &String| rows.iter().any(|row| row.names.contains(name));
        let asked = self.columns.iter().chain(&self.boxes);
        match asked.into_iter().find(|name| !rows.iter().all(|row| row.names.is_empty()) && !is_known(name)) {
            None => Ok(()),
            Some(name) => {
                let mut known: Vec<&str> = rows.iter().flat_map(|row| &row.names).map(String::as_str).collect();
                known.sort_unstable();
                known.dedup();
                Err(Error::config(format!("no sample has the column `{name}`: there are {}", known.join(", "))))
            }
        }
    }
}
