//! Samples that are read for the facts about values.

use super::column::Columns;
use crate::samples::Samples;

/// Samples that were read.
#[derive(Default)]
pub(super) struct Read {
    pub(super) samples: u64,
    pub(super) stored_bytes: u64,
    /// Samples without damage, and their bytes once they are decoded.
    pub(super) whole: u64,
    pub(super) decoded_bytes: u64,
    /// Numbers and errors of samples that are damaged.
    pub(super) damaged: Vec<(u64, String)>,
}

impl Read {
    /// Reads a sample.
    pub(super) fn sample(&mut self, samples: &mut Samples, number: u64, columns: &mut Columns) {
        self.samples += 1;
        let record = match samples.read(number) {
            Ok(record) => record,
            Err(error) => return self.damaged.push((number, error.to_string())),
        };
        self.stored_bytes += record.bytes as u64;
        let (damaged_before, mut decoded_bytes) = (self.damaged.len(), 0);
        for (column, stored) in record.columns() {
            match columns.add(column, stored) {
                Ok(bytes) => decoded_bytes += bytes,
                Err(error) => self.damaged.push((number, error.to_string())),
            }
        }
        if self.damaged.len() == damaged_before {
            self.whole += 1;
            self.decoded_bytes += decoded_bytes;
        }
    }
}
