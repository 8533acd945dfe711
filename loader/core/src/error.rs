//! One error type for the whole engine.
//!
//! An [`Error`] has a [`kind`](Error::kind) that a caller can act on, a sentence with the failure and the change that
//! it needs, the facts (shard, key, range, attempt ...), its cause if there is one, and possibly a hint for the caller.
//!
//! ```
//! use forebay_core::{Error, ErrorKind};
//!
//! let error = Error::format("an offset is after the end of the file");
//! let error = error.with("shard", "shard.00003.mds").with("sample", 17);
//! assert_eq!(error.kind(), ErrorKind::Format);
//! assert_eq!(error.to_string(), "an offset is after the end of the file (shard shard.00003.mds, sample 17)");
//! ```

mod columns;
mod near;

pub use columns::ColumnNames;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// Result of the engine's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of an error, by which a caller can react to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument or a combination of arguments is wrong: change it.
    Config,
    /// A file, object or sample does not exist.
    NotFound,
    /// The store or the file system refuses access: check credentials and modes.
    Permission,
    /// The network failed in a way that a further attempt may cure.
    Network,
    /// Nothing arrived within the configured time.
    Timeout,
    /// Bytes do not match their recorded size or hash.
    Checksum,
    /// Bytes violate their format: index, shard header, compression stream.
    Format,
    /// A sample cannot be decoded into the configured fields.
    Decode,
    /// The data needs a feature that this build or this machine does not have.
    Unsupported,
    /// No room: disk, memory limit, locked-memory limit, limit of open files.
    Full,
    /// A checkpoint does not belong to this plan.
    State,
    /// The remote index changed since the cache was filled.
    Stale,
    /// A system call failed for a different reason.
    Io,
    /// The loader was closed, or used where it cannot work (a forked child).
    Closed,
    /// An invariant of the engine does not hold: please report it.
    Internal,
}

impl ErrorKind {
    const ALL: [Self; 15] = [
        Self::Config,
        Self::NotFound,
        Self::Permission,
        Self::Network,
        Self::Timeout,
        Self::Checksum,
        Self::Format,
        Self::Decode,
        Self::Unsupported,
        Self::Full,
        Self::State,
        Self::Stale,
        Self::Io,
        Self::Closed,
        Self::Internal,
    ];

    /// Returns the kind of this [`name`](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind's name in lower case, for messages and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::NotFound => "not found",
            Self::Permission => "permission",
            Self::Network => "network",
            Self::Timeout => "timeout",
            Self::Checksum => "checksum",
            Self::Format => "format",
            Self::Decode => "decode",
            Self::Unsupported => "unsupported",
            Self::Full => "full",
            Self::State => "state",
            Self::Stale => "stale",
            Self::Io => "io",
            Self::Closed => "closed",
            Self::Internal => "internal",
        }
    }
}

/// Error of the engine. One pointer wide, so that `Result` stays small.
pub struct Error(Box<ErrorParts>);

#[derive(Clone)]
struct ErrorParts {
    kind: ErrorKind,
    message: String,
    /// Facts by name, innermost first: `("shard", "shard.00003.mds")`.
    context: Vec<(&'static str, String)>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    /// End of the message.
    hint: Option<String>,
}

impl Error {
    /// Makes an error of `kind`; `message` is a sentence without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorParts { kind, message: message.into(), context: Vec::new(), source: None, hint: None }))
    }

    /// [`ErrorKind::Config`].
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Config, message)
    }

    /// [`ErrorKind::Format`].
    pub fn format(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Format, message)
    }

    /// [`ErrorKind::Decode`].
    pub fn decode(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Decode, message)
    }

    /// [`ErrorKind::Internal`].
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Makes an error from an I/O error, which determines the kind. Where a limit of the system was reached, the
    /// message also names the change.
    pub fn from_io(error: std::io::Error, message: impl Into<String>) -> Self {
        if let Some(remedy) = error.raw_os_error().and_then(remedy_of_limit) {
            return Self::new(ErrorKind::Full, format!("{}: {remedy}", message.into())).caused_by(error);
        }
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Permission,
            std::io::ErrorKind::OutOfMemory | std::io::ErrorKind::FileTooLarge => ErrorKind::Full,
            std::io::ErrorKind::TimedOut => ErrorKind::Timeout,
            _ => ErrorKind::Io,
        };
        Self::new(kind, message).caused_by(error)
    }

    /// Adds a fact, such as the shard concerned.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((name, value.to_string()));
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into().into());
        self
    }

    /// Adds an advice that ends the message, whatever facts and causes it gets later. It replaces an earlier one.
    #[must_use]
    pub fn hinting(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the advice that there may be.
    #[must_use]
    pub fn hinting_if(self, hint: Option<String>) -> Self {
        match hint {
            Some(hint) => self.hinting(hint),
            None => self,
        }
    }

    /// Changes the kind.
    #[must_use]
    pub fn of_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// The error's kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence, without context.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The facts, innermost first.
    pub fn context(&self) -> &[(&'static str, String)] {
        &self.0.context
    }

    /// Returns true if a store has added a hint about its response, which is a fact of the error.
    pub fn has_hint_of_store(&self) -> bool {
        self.context().iter().any(|(name, _)| *name == "hint")
    }

    /// Copies the error, for a second waiting thread.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Returns the change that cures error number `errno`, if it reports a limit of the system.
fn remedy_of_limit(errno: i32) -> Option<&'static str> {
    match errno {
        libc::EMFILE => Some("this process has too many open files, raise its limit (ulimit -n)"),
        libc::ENFILE => Some("this machine has too many open files, raise its limit (sysctl fs.file-max)"),
        libc::ENOSPC => Some("free space on the disk, or inodes if there is space (df and df -i show both)"),
        libc::EDQUOT => Some("free space or files of the user's quota, or raise the quota"),
        libc::EFBIG => Some("raise the limit of a file's size (ulimit -f), or use a file system with larger files"),
        _ => None,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if !self.0.context.is_empty() {
            f.write_str(" (")?;
            for (i, (name, value)) in self.0.context.iter().enumerate() {
                let comma = if i == 0 { "" } else { ", " };
                write!(f, "{comma}{name} {value}")?;
            }
            f.write_str(")")?;
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        match &self.0.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {self}", self.0.kind.name())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|s| s.as_ref() as &(dyn StdError + 'static))
    }
}

/// Adds a fact to an error that is passed up.
pub trait Context<T> {
    /// Returns `self`, with the fact `name` = `value()` on failure.
    fn context<V: fmt::Display>(self, name: &'static str, value: impl FnOnce() -> V) -> Result<T>;
}

impl<T> Context<T> for Result<T> {
    fn context<V: fmt::Display>(self, name: &'static str, value: impl FnOnce() -> V) -> Result<T> {
        self.map_err(|e| e.with(name, value()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_sentence_with_its_facts() {
        let e = Error::format("offset 9 is after the end")
            .with("shard", "shard.00003.mds")
            .with("sample", 17)
            .caused_by(std::io::Error::other("the cause"));
        assert_eq!(e.to_string(), "offset 9 is after the end (shard shard.00003.mds, sample 17): the cause");
        assert_eq!(e.kind(), ErrorKind::Format);
        assert_eq!(e.duplicate().to_string(), e.to_string());
    }

    #[test]
    fn a_hint_ends_the_message() {
        let e = Error::decode("it cannot be decoded").hinting("leave it out").with("sample", 17);
        assert_eq!(e.to_string(), "it cannot be decoded (sample 17); leave it out");
        let e = e.caused_by(std::io::Error::other("the cause"));
        assert_eq!(e.duplicate().to_string(), "it cannot be decoded (sample 17): the cause; leave it out");
    }

    #[test]
    fn a_full_disk_has_its_own_kind() {
        let e = Error::from_io(std::io::Error::from_raw_os_error(28), "writing a shard");
        assert_eq!(e.kind(), ErrorKind::Full);
    }

    #[test]
    fn a_limit_of_the_system_is_named_with_the_change_to_make() {
        for (errno, words) in [
            (libc::EMFILE, "ulimit -n"),
            (libc::ENFILE, "fs.file-max"),
            (libc::ENOSPC, "df -i"),
            (libc::EDQUOT, "quota"),
            (libc::EFBIG, "ulimit -f"),
        ] {
            let e = Error::from_io(std::io::Error::from_raw_os_error(errno), "a file cannot be written");
            assert_eq!(e.kind(), ErrorKind::Full);
            assert!(e.to_string().starts_with("a file cannot be written: ") && e.to_string().contains(words), "{e}");
        }
    }
}
