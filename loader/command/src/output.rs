//! Form of the results: text with or without colours, or JSON.
//!
//! A command prints records: each has a JSON form, and a form for people. Results go to the standard output, progress
//! and errors to the standard error. Progress is shown only on a terminal.

use crate::exit::Exit;
use crate::text::one_line;
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
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,
    /// Use colours: on a terminal unless NO_COLOR or CLICOLOR=0 is set or it is dumb, always, or never
    #[arg(long, global = true, help_heading = "Output", value_name = "WHEN", default_value = "auto")]
    color: Colours,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Colours {
    Auto,
    Always,
    Never,
}

impl Colours {
    /// Returns true if text has colours, by the `variable`s of the environment.
    fn are_used(self, is_terminal: bool, variable: &dyn Fn(&str) -> String) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto if !variable("NO_COLOR").is_empty() => false,
            Self::Auto if !matches!(&*variable("CLICOLOR_FORCE"), "" | "0") => true,
            Self::Auto => is_terminal && variable("CLICOLOR") != "0" && !matches!(&*variable("TERM"), "" | "dumb"),
        }
    }
}

/// Destination of the results of a command.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    is_json: bool,
    has_colours: bool,
    /// Errors may have colours: the standard error is perhaps a file.
    are_errors_coloured: bool,
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
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let is_dumb = matches!(&*variable("TERM"), "" | "dumb");
        let has_colours = arguments.color.are_used(is_terminal, &variable);
        let are_errors_coloured = arguments.color.are_used(std::io::stderr().is_terminal(), &variable);
        let size =
            terminal_size().map_or((COLUMNS, 24), |(Width(columns), Height(rows))| (columns.into(), rows.into()));
        let size = if is_terminal { size } else { (COLUMNS, 24) };
        let (is_json, end) = (arguments.json, Arc::default());
        Self { is_json, has_colours, are_errors_coloured, is_terminal, is_dumb, size, end }
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
        self.print(&if self.is_json { record.to_string() } else { text() });
    }

    /// Prints a line.
    pub(crate) fn print(&self, line: &str) {
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
        self.print(&table.trim_fmt());
    }

    /// Bar on the standard error for work of `total` steps, only on a terminal.
    pub(crate) fn progress(&self, total: u64, unit: &str) -> ProgressBar {
        self.bar(
            total,
            &format!("{{bar:30}} {{human_pos}} of {{human_len}} {unit}, {{elapsed}}, {{eta}} left  {{msg}}"),
        )
    }

    /// Bar for bytes, which are found and moved at the same time.
    pub(crate) fn progress_bytes(&self) -> ProgressBar {
        self.bar(0, "{bar:30} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left  {msg}")
    }

    fn bar(&self, total: u64, template: &str) -> ProgressBar {
        // A dumb terminal cannot replace a line, and objects come while the bar is there.
        let target = if self.is_dumb || self.is_json && self.is_terminal {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }

    /// Prints a line for people that is no result.
    pub(crate) fn note(&self, line: &str) {
        // An error of the standard error cannot be reported.
        let _ = writeln!(std::io::stderr(), "{line}");
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
        let label = if self.are_errors_coloured { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
        self.note(&format!("{label} {}", one_line(&error.to_string())));
        Exit::Failure
    }

    /// Ends the results. A reader that has seen enough, as `head` has, is no failure.
    pub(crate) fn finish(&self, exit: Exit) -> Exit {
        let is_set = |end: &AtomicBool| end.load(Ordering::Relaxed);
        match exit {
            _ if self.is_stopped() => Exit::Stopped,
            _ if is_set(&self.end.has_failed) => Exit::Failure,
            Exit::Failure if is_set(&self.end.is_unread) => Exit::Success,
            exit => exit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_the_option_the_environment_and_the_terminal() {
        let plain = [("TERM", "xterm")];
        for (colours, is_terminal, variables, expected) in [
            (Colours::Auto, true, &plain[..], true),
            (Colours::Auto, false, &plain, false),
            (Colours::Always, false, &[("NO_COLOR", "1")], true),
            (Colours::Never, true, &[("TERM", "xterm"), ("CLICOLOR_FORCE", "1")], false),
            (Colours::Auto, true, &[("TERM", "xterm"), ("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], false),
            (Colours::Auto, true, &[("TERM", "xterm"), ("CLICOLOR", "0")], false),
            (Colours::Auto, false, &[("CLICOLOR", "0"), ("CLICOLOR_FORCE", "1")], true),
            (Colours::Auto, false, &[("CLICOLOR_FORCE", "0")], false),
            (Colours::Auto, true, &[("TERM", "dumb")], false),
            (Colours::Auto, true, &[], false),
        ] {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map_or(String::new(), |(_, text)| (*text).to_owned())
            };
            assert_eq!(colours.are_used(is_terminal, &variable), expected, "{colours:?} {variables:?}");
        }
    }
}
