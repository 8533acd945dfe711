//! Samples of a data set as they are stored.

use super::row::Row;
use super::shape::Shape;
use crate::Session;
use crate::samples::{Content, Record, Samples};
use forebay_loader::store::LibraryStores;
use forebay_loader::sync::Arc;
use forebay_loader::worker::DataSet;
use forebay_loader::{Error, ErrorKind, Result};
use serde_json::json;
use std::collections::HashSet;

/// Samples to be shown.
pub(super) struct Choice {
    pub(super) start: u64,
    pub(super) count: u64,
    /// Seed of random samples.
    pub(super) seed: Option<u64>,
}

/// Reads the samples, and calls `each` with every row. A damaged sample is a row, too.
///
/// # Errors
///
/// `Config` for a start after the last sample; errors of the folders, and of `each`.
pub(super) fn rows(
    data: Arc<DataSet>,
    library: Option<LibraryStores>,
    choice: &Choice,
    shape: &Shape<'_>,
    session: &Session,
    mut each: impl FnMut(&mut Row) -> Result<()>,
) -> Result<Vec<Row>> {
    let mut samples = Samples::open(data, library)?;
    let total = samples.count();
    if choice.start >= total {
        return Err(Error::config("`--start` is after the last sample").with("samples", total));
    }
    let numbers = choice.numbers(total);
    let bar = session.output.progress(numbers.len() as u64, "samples");
    let mut rows = Vec::with_capacity(numbers.len());
    for number in numbers.into_iter().take_while(|_| !session.output.is_closed()) {
        let mut row = row(&mut samples, number, shape);
        each(&mut row)?;
        rows.push(row);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if session.output.is_stopped() {
        return Err(Error::new(ErrorKind::Closed, "the command was stopped"));
    }
    Ok(rows)
}

impl Choice {
    fn numbers(&self, total: u64) -> Vec<u64> {
        let end = self.start.saturating_add(self.count).min(total);
        let Some(seed) = self.seed else { return (self.start..end).collect() };
        let (mut state, mut seen, mut numbers) = (seed, HashSet::new(), Vec::new());
        while (numbers.len() as u64) < end {
            let number = ((u128::from(next(&mut state)) * u128::from(total)) >> 64) as u64;
            if seen.insert(number) {
                numbers.push(number);
            }
        }
        numbers.split_off(self.start as usize)
    }
}

/// Returns the next number of the generator SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn row(samples: &mut Samples, number: u64, shape: &Shape<'_>) -> Row {
    let mut title = format!("sample {number}");
    let mut facts = serde_json::Map::new();
    facts.insert("sample".to_owned(), json!(number));
    if let Some((shard, index)) = samples.locate(number) {
        title.push_str(&format!(", shard {}, index {index}", shard.0));
        facts.insert("shard".to_owned(), json!(shard.0));
        facts.insert("index".to_owned(), json!(index));
    }
    match samples.read(number) {
        Ok(record) => {
            let mut row = Row { title, facts, ..Row::default() };
            fill(&mut row, &record, shape);
            row
        }
        Err(error) => Row { facts, ..Row::failed(title, &error) },
    }
}

fn fill(row: &mut Row, record: &Record, shape: &Shape<'_>) {
    record.columns().for_each(|(column, stored)| row.add(column, stored, shape));
    for (column, stored) in record.columns() {
        if let Some(Ok(content)) = stored.map(|stored| Content::of(column, stored)) {
            row.add_boxes(&column.name, &content, shape);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_takes_different_samples_and_continues() {
        let numbers = |start, count| Choice { start, count, seed: Some(7) }.numbers(100);
        let all = numbers(0, 100);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 100);
        assert_eq!([numbers(0, 3), numbers(3, 5)].concat(), all[..8]);
        assert_eq!(numbers(98, 8), all[98..]);
        assert_eq!(Choice { start: 2, count: 3, seed: None }.numbers(4), [2, 3]);
    }
}
