//! Completion of the command in shells.

use crate::Exit;
use clap::{Args, Command};
use clap_complete::{Shell, generate};
use std::io::Write as _;

/// Print the completion script of a shell
///
/// For bash: forebay completion bash > ~/.local/share/bash-completion/completions/forebay
#[derive(Args, Debug)]
pub(crate) struct CompletionArgs {
    /// The shell
    shell: Shell,
}

impl CompletionArgs {
    /// Prints the script for the grammar.
    pub(crate) fn print(&self, mut grammar: Command) -> Exit {
        let mut script = Vec::new();
        generate(self.shell, &mut grammar, "forebay", &mut script);
        // The reader may be gone.
        let _ = std::io::stdout().write_all(&script);
        Exit::Success
    }
}
