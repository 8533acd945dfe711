//! Counter of the tokens of the columns of a field, for several threads.

use crate::decode::{ColumnTokens, CountMemory};
use crate::error::{ErrorKind, Result};
use crate::subsets::filter::Cell;
use crate::sync::Mutex;

/// Counter of the tokens of the columns of a field.
#[derive(Debug)]
pub(super) struct Counting {
    pub(super) column: ColumnTokens,
    /// True if a value that no tokens can be made of is no error.
    pub(super) skips_errors: bool,
    /// Memory that no thread uses.
    spare: Mutex<Vec<CountMemory>>,
}

impl Counting {
    /// Makes a counter for all threads. If it `skips_errors`, a value without tokens is none.
    pub(super) fn new(column: ColumnTokens, skips_errors: bool) -> Self {
        Self { column, skips_errors, spare: Mutex::new(Vec::new()) }
    }

    /// Returns the number of tokens of a sample with these stored values, in the order of the counter's columns.
    ///
    /// # Errors
    ///
    /// A value that no tokens can be made of.
    pub(super) fn cell(&self, values: &[Option<&[u8]>]) -> Result<Cell<'static>> {
        let spare = self.spare.lock().pop();
        let mut memory = spare.unwrap_or_default();
        let counted = self.column.count(values, &mut memory);
        self.spare.lock().push(memory);
        match counted {
            Ok(tokens) => Ok(tokens.map_or(Cell::Null, |tokens| Cell::Int(tokens.into()))),
            Err(e) if self.skips_errors && e.kind() == ErrorKind::Decode => Ok(Cell::Null),
            Err(e) => Err(e),
        }
    }
}
