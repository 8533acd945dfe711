//! Form of the results: text with or without colours, or JSON.
//!
//! A command prints records: each has a JSON form, and a form for people. Results go to the standard output, progress
//! and errors to the standard error. Progress is shown on a terminal alone.

use crate::exit::Exit;
use clap::{Args, ValueEnum};
use comfy_table::{ContentArrangement, Table, presets};
use forebay_loader::Error;
use forebay_loader::sync::{Arc, AtomicBool, Ordering};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use terminal_size::{Height, Width, terminal_size};

/// Columns of a terminal without a width, and of files and pipes.
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
    is_dumb: bool,
    size: (usize, usize),
    end: Arc<End>,
}

/// Reasons for an early end.
#[derive(Debug, Default)]
struct End {
    /// The command was stopped.
    is_stopped: AtomicBool,
    /// The reader of the standard output is gone.
    is_unread: AtomicBool,
    /// The standard output cannot be written for a different reason, such as a full disk.
    has_failed: AtomicBool,
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
        Self { is_json: arguments.json, has_colours, is_terminal, is_dumb, size, end: Arc::default() }
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

    /// True if no further results are needed, because their reader is gone or the command was stopped: it may end.
    pub(crate) fn is_closed(&self) -> bool {
        [&self.end.is_stopped, &self.end.is_unread, &self.end.has_failed].iter().any(|end| end.load(Ordering::Relaxed))
    }

    /// True if the command was stopped, also one with work besides its results.
    pub(crate) fn is_stopped(&self) -> bool {
        self.end.is_stopped.load(Ordering::Relaxed)
    }

    /// Stops the command.
    pub(crate) fn stop(&self) {
        self.end.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Prints `record` as JSON, or `text` of it as a line.
    pub(crate) fn line(&self, record: &Value, text: impl FnOnce() -> String) {
        let line = if self.is_json { record.to_string() } else { text() };
        self.bytes(format!("{line}\n").as_bytes());
    }

    /// Returns a line, for several that are printed at once.
    pub(crate) fn text(&self, record: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> String {
        let mut line = if self.is_json { record().to_string() } else { text() };
        line.push('\n');
        line
    }

    /// Prints bytes as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        if self.is_closed() {
            return;
        }
        let written = {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        };
        let Err(error) = written else { return };
        if error.kind() == ErrorKind::BrokenPipe {
            self.end.is_unread.store(true, Ordering::Relaxed);
        } else if !self.end.has_failed.swap(true, Ordering::Relaxed) {
            self.fail(&Error::from_io(error, "the standard output cannot be written"));
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
        self.bar(
            total,
            &format!("{{bar:30}} {{human_pos}} of {{human_len}} {unit}, {{elapsed}}, {{eta}} left  {{msg}}"),
        )
    }

    /// Bar for bytes, which are found and moved at the same time.
    pub(crate) fn progress_bytes(&self) -> ProgressBar {
        self.bar(0, "{bar:30} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left  {msg}")
    }

    fn bar(&self, total: u64, template: &str) -> ProgressBar {
        // A dumb terminal cannot replace a line.
        let target = if self.is_dumb { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }

    /// Prints an error, unless it is one of the end of a command that was stopped.
    pub(crate) fn fail(&self, error: &Error) -> Exit {
        if self.is_stopped() {
            return Exit::Failure;
        }
        if self.is_json {
            let record = serde_json::json!({"error": error.kind().name(), "message": error.to_string()});
            self.line(&record, String::new);
        }
        let label = if self.has_colours { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
        // An error of the standard error cannot be reported.
        let _ = writeln!(std::io::stderr(), "{label} {error}");
        Exit::Failure
    }

    /// Ends the results. A reader that has seen enough, as `head` has, is no failure.
    pub(crate) fn finish(&self, exit: Exit) -> Exit {
        let is_set = |end: &AtomicBool| end.load(Ordering::Relaxed);
        match exit {
            _ if is_set(&self.end.has_failed) => Exit::Failure,
            Exit::Failure if is_set(&self.end.is_unread) => Exit::Success,
            exit => exit,
        }
    }
}
