//! Kinds of a stage's time.

/// Kinds of a stage's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeKind {
    /// Working.
    Busy,
    /// Waiting for the stage before it.
    Input,
    /// Waiting for the stage after it.
    Output,
}
