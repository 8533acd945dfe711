//! Exit codes of the command.

/// Result of a command, as the exit code of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command did its work, and found nothing wrong.
    Success = 0,
    /// The command did its work, and found damage, defects or differences, or a part of it failed.
    Found = 1,
    /// The arguments are wrong, or the data cannot be read.
    Failure = 2,
    /// The command was stopped, by Ctrl-C.
    Stopped = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
