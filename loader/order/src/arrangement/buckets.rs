//! Buckets by length: batches of samples of similar length.
//!
//! Each window of some global batches is sorted by length and cut into as many global batches again, which are then put
//! into a random order. Each canonical node's part of the window is sorted by itself: it keeps its samples, hence its
//! shards, and gives each batch the same share of its lengths, such as the shortest tenth. So global batches do not
//! depend on the physical nodes, and a use of a shard extends to whole windows.

use std::ops::Range;
use std::sync::Arc;

use crate::rng::Generator;
use crate::shuffle::Cursor;

/// Division of a sequence into windows and batches. Columns count the cells of a canonical node's part.
#[derive(Clone, Debug)]
pub(super) struct Division {
    pub(super) canonical: u64,
    /// Cells of the sequence in a global batch.
    pub(super) batch: u64,
    /// Global batches of a window.
    pub(super) batches: u64,
    /// Cells of the sequence in the epoch.
    pub(super) places: u64,
    /// Seed of the order of a window's batches; `None`: from the shortest to the longest.
    pub(super) seed: Option<u128>,
}

impl Division {
    /// First column of a canonical node in a global batch.
    fn column(&self, canonical: u32, batch: u64) -> u64 {
        batch.saturating_mul(self.batch).saturating_sub(canonical.into()).div_ceil(self.canonical)
    }

    /// The window of a column.
    fn window(&self, canonical: u32, column: u64) -> u64 {
        (column * self.canonical + u64::from(canonical)) / self.batch / self.batches
    }

    /// The columns of a window, for a canonical node of `len`.
    fn columns(&self, canonical: u32, window: u64, len: u64) -> Range<u64> {
        let first = window * self.batches;
        self.column(canonical, first).min(len)..self.column(canonical, first + self.batches).min(len)
    }

    /// The global batches of a window, from the one with the shortest samples to that with the longest.
    fn batches_by_length(&self, window: u64) -> Vec<u64> {
        let first = window * self.batches;
        let end = self.places.div_ceil(self.batch).min(first + self.batches);
        let mut batches: Vec<u64> = (first..end).collect();
        if let Some(seed) = self.seed {
            // Windows and epochs differ, and all canonical nodes and streams agree.
            Generator::new(seed | 1 << 72 | u128::from(window) << 80).shuffle(&mut batches);
        }
        batches
    }

    /// First and last column that samples of the columns `first` to `last` may get.
    pub(super) fn extent(&self, canonical: u32, (first, last): (u64, u64), len: u64) -> (u64, u64) {
        let start = self.columns(canonical, self.window(canonical, first), len).start;
        let end = self.columns(canonical, self.window(canonical, last), len).end;
        (start, end - 1)
    }
}

/// A property of a row's sample.
pub(crate) type SampleOf<T> = Box<dyn Fn(u64) -> T + Send>;

/// Cursor of rows in buckets.
pub(super) struct Buckets {
    rows: Box<dyn Cursor>,
    division: Division,
    /// First position of each canonical node, and the number of positions at the end.
    starts: Arc<[u64]>,
    /// Returns the length of a row's sample.
    length: SampleOf<f32>,
    /// The last two windows of each canonical node: positions that equalise parts are a little before the current one.
    windows: Vec<[NodeWindow; 2]>,
    /// Memory for sorting.
    sorted: Vec<(f32, u64)>,
}

/// Rows of a canonical node in a window.
#[derive(Clone, Default)]
struct NodeWindow {
    /// Column of the first.
    first: u64,
    rows: Vec<u64>,
}

impl Buckets {
    pub(super) fn new(rows: Box<dyn Cursor>, division: Division, starts: Arc<[u64]>, length: SampleOf<f32>) -> Self {
        Self { rows, division, starts, length, windows: Vec::new(), sorted: Vec::new() }
    }

    fn fill(&mut self, canonical: u32, column: u64) {
        let (start, end) = (self.starts[canonical as usize], self.starts[canonical as usize + 1]);
        let number = self.division.window(canonical, column);
        let columns = self.division.columns(canonical, number, end - start);
        self.sorted.clear();
        for column in columns.clone() {
            let row = self.rows.draw(canonical, start + column);
            self.sorted.push(((self.length)(row), row));
        }
        // Stable: samples of one length keep the shuffle's order, and the repeats of one sample remain together.
        self.sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let windows = &mut self.windows[canonical as usize];
        windows.swap(0, 1);
        let window = &mut windows[0];
        window.first = columns.start;
        window.rows.clear();
        window.rows.resize(self.sorted.len(), 0);
        let mut sorted = self.sorted.iter().map(|(_, row)| *row);
        for batch in self.division.batches_by_length(number) {
            let [first, end] = [batch, batch + 1].map(|batch| {
                let column = self.division.column(canonical, batch).clamp(columns.start, columns.end);
                (column - columns.start) as usize
            });
            window.rows[first..end].iter_mut().zip(&mut sorted).for_each(|(place, row)| *place = row);
        }
    }
}

impl NodeWindow {
    fn get(&self, column: u64) -> Option<u64> {
        self.rows.get(usize::try_from(column.checked_sub(self.first)?).ok()?).copied()
    }
}

impl Cursor for Buckets {
    fn draw(&mut self, canonical: u32, position: u64) -> u64 {
        let at = canonical as usize;
        if at >= self.windows.len() {
            self.windows.resize_with(at + 1, Default::default);
        }
        let column = position - self.starts[at];
        let found = |windows: &[NodeWindow; 2]| windows[0].get(column).or_else(|| windows[1].get(column));
        if let Some(row) = found(&self.windows[at]) {
            return row;
        }
        self.fill(canonical, column);
        self.windows[at][0].get(column).expect("a window contains the column it was made for")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Identity;

    impl Cursor for Identity {
        fn draw(&mut self, _canonical: u32, position: u64) -> u64 {
            position
        }
    }

    fn length(row: u64) -> f32 {
        (row * 7919 % 100) as f32
    }

    /// Lengths of each global batch of two canonical nodes' parts, by canonical node.
    fn batches(division: &Division, starts: &[u64]) -> Vec<[Vec<f32>; 2]> {
        let mut buckets = Buckets::new(Box::new(Identity), division.clone(), starts.into(), Box::new(length));
        let mut batches = vec![<[Vec<f32>; 2]>::default(); division.places.div_ceil(division.batch) as usize];
        let mut seen = Vec::new();
        for canonical in 0..2_u32 {
            for position in starts[canonical as usize]..starts[canonical as usize + 1] {
                let place = (position - starts[canonical as usize]) * 2 + u64::from(canonical);
                let row = buckets.draw(canonical, position);
                seen.push(row);
                batches[(place / division.batch) as usize][canonical as usize].push(length(row));
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..starts[2]).collect::<Vec<_>>(), "each row is in the epoch once");
        batches
    }

    #[test]
    fn batches_of_a_window_have_disjoint_ranges_of_lengths_in_each_canonical_node() {
        for (batch, samples) in [(10, 301), (7, 300), (10, 300)] {
            let division = Division { canonical: 2, batch, batches: 4, places: samples + samples % 2, seed: Some(5) };
            let starts = [0, samples / 2, samples];
            let found = batches(&division, &starts);
            let mut is_shuffled = false;
            for window in found.chunks(4) {
                let mut ranges: Vec<[f32; 4]> = Vec::new();
                for batch in window.iter().filter(|nodes| nodes.iter().all(|lengths| !lengths.is_empty())) {
                    let of_node = |lengths: &Vec<f32>| {
                        lengths.iter().fold([f32::INFINITY, 0.0], |[a, b], &l| [a.min(l), b.max(l)])
                    };
                    let [[a, b], [c, d]] = [of_node(&batch[0]), of_node(&batch[1])];
                    ranges.push([a, b, c, d]);
                }
                is_shuffled |= !ranges.is_sorted_by(|x, y| x[1] <= y[0]);
                ranges.sort_by(|x, y| x[0].total_cmp(&y[0]).then(x[1].total_cmp(&y[1])));
                assert!(ranges.is_sorted_by(|x, y| x[1] <= y[0]), "{ranges:?}");
                // Both nodes give a batch the same part of their lengths.
                assert!(ranges.is_sorted_by(|x, y| x[3] <= y[2]), "{ranges:?}");
            }
            assert!(is_shuffled);
            let ascending = batches(&Division { seed: None, ..division }, &starts);
            for window in ascending.chunks(4) {
                let lengths: Vec<f32> = window.iter().flat_map(|batch| batch[0].clone()).collect();
                assert!(lengths.is_sorted(), "{lengths:?}");
            }
        }
    }

    #[test]
    fn a_window_is_the_same_whichever_way_it_is_reached() {
        let division = Division { canonical: 1, batch: 5, batches: 3, places: 100, seed: Some(1) };
        let made = || Buckets::new(Box::new(Identity), division.clone(), [0, 100].into(), Box::new(length));
        let mut forward = made();
        let rows: Vec<u64> = (0..100).map(|position| forward.draw(0, position)).collect();
        let mut back = made();
        for position in (0..100).rev().step_by(7).chain([99, 0, 50]) {
            assert_eq!(back.draw(0, position), rows[position as usize]);
        }
    }
}
