//! Offsets of the rows of an Arrow IPC file, by its record batches.

use super::head::TableHead;
use serde::{Deserialize, Serialize};

/// Offsets of the rows of a file.
#[derive(Debug)]
pub struct Batches {
    /// The columns.
    pub schema: TableHead,
    /// Batches of rows, in order.
    pub batches: Vec<Batch>,
    /// Values that rows name by their numbers, in order.
    pub dictionaries: Vec<Dictionary>,
}

/// Batch of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// First byte of its message.
    pub start: u64,
    /// Bytes of its message.
    pub bytes: u64,
    /// Number of rows.
    pub rows: u64,
}

/// Values that rows of a column name by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dictionary {
    /// Number by which columns name it.
    pub id: i64,
    /// First byte of its message.
    pub start: u64,
    /// Bytes of its message.
    pub bytes: u64,
    /// Number of batches before it, for which it has no meaning.
    pub before: u64,
    /// Its values come after the values of the one before it, and do not replace them.
    pub is_delta: bool,
}
