//! Form of the results: text with or without colours, or JSON.
//!
//! A command prints records: each has a JSON form, and a form for people. Results go to the standard output, progress
//! and errors to the standard error. Progress is shown on a terminal alone.

use crate::Exit;
use clap::{Args, ValueEnum};
use comfy_table::{ContentArrangement, Table, presets};
use forebay_loader::Error;
use forebay_loader::sync::{Arc, AtomicBool, Ordering};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use std::io::{IsTerminal as _, Write as _};
use terminal_size::{Height, Width, terminal_size};

/// Columns of a terminal that does not say its width, and of files and pipes.
const COLUMNS: usize = 80;

/// Options of all commands about the form of results.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct OutputArgs {
    /// Print JSON, an object in each line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Use colours: on a terminal unless NO_COLOR is set or it is dumb, always, or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Colours,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Colours {
    Auto,
    Always,
    Never,
}

/// Destination of the results of a command.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    is_json: bool,
    has_colours: bool,
    is_terminal: bool,
    size: (usize, usize),
    /// The reader of the standard output is gone.
    is_closed: Arc<AtomicBool>,
}

impl Output {
    pub(crate) fn new(arguments: OutputArgs) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let has_text = |name| std::env::var_os(name).is_some_and(|text| !text.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
        let has_colours = match arguments.color {
            Colours::Auto => is_terminal && !has_text("NO_COLOR") && !is_dumb,
            Colours::Always => true,
            Colours::Never => false,
        };
        let size =
            terminal_size().map_or((COLUMNS, 24), |(Width(columns), Height(rows))| (columns.into(), rows.into()));
        let size = if is_terminal { size } else { (COLUMNS, 24) };
        Self { is_json: arguments.json, has_colours, is_terminal, size, is_closed: Arc::default() }
    }

    /// True if results are JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    /// True if results go to a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// True if text may have colours.
    pub(crate) fn has_colours(&self) -> bool {
        self.has_colours
    }

    /// Columns and rows of the terminal.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.size
    }

    /// True if nobody reads the results any more: the command may stop.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Prints `record` as JSON, or `text` of it as a line.
    pub(crate) fn line(&self, record: &Value, text: impl FnOnce() -> String) {
        let line = if self.is_json { record.to_string() } else { text() };
        self.bytes(format!("{line}\n").as_bytes());
    }

    /// Prints bytes as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        let mut out = std::io::stdout().lock();
        if !self.is_closed() && out.write_all(bytes).and_then(|()| out.flush()).is_err() {
            self.is_closed.store(true, Ordering::Relaxed);
        }
    }

    /// Prints a table with the names of its columns, which fits into the width of the terminal.
    pub(crate) fn table(&self, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(self.size.0).unwrap_or(u16::MAX)).set_header(header).add_rows(rows);
        self.bytes(format!("{}\n", table.trim_fmt()).as_bytes());
    }

    /// Bar on the standard error for work of `total` steps, on a terminal alone.
    pub(crate) fn progress(&self, total: u64, unit: &str) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        let template = format!("{{bar:30}} {{human_pos}} of {{human_len}} {unit}, {{elapsed}}, {{eta}} left  {{msg}}");
        match ProgressStyle::with_template(&template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }

    /// Prints an error.
    pub(crate) fn fail(&self, error: &Error) -> Exit {
        if self.is_json {
            let record = serde_json::json!({"error": error.kind().name(), "message": error.to_string()});
            self.line(&record, String::new);
        }
        let label = if self.has_colours { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
        // Nobody can be told of an error of the standard error.
        let _ = writeln!(std::io::stderr(), "{label} {error}");
        Exit::Failure
    }

    /// Ends the results. A reader that has seen enough, as `head` has, is no failure.
    pub(crate) fn finish(&self, exit: Exit) -> Exit {
        if self.is_closed() { Exit::Success } else { exit }
    }
}
