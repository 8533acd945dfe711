//! Free runs within a piece of memory. Pure: offsets only.

use std::collections::BTreeMap;

/// Free runs by their start. The lowest address is used first, since pages are populated from the start of the piece.
#[derive(Debug)]
pub(super) struct Extents {
    /// Length by start, in bytes. Runs neither touch nor overlap.
    free: BTreeMap<usize, usize>,
    free_bytes: usize,
    total: usize,
}

impl Extents {
    pub(super) fn new(total: usize) -> Self {
        let free = if total == 0 { BTreeMap::new() } else { BTreeMap::from([(0, total)]) };
        Self { free, free_bytes: total, total }
    }

    pub(super) fn free_bytes(&self) -> usize {
        self.free_bytes
    }

    /// The free runs as (start, length).
    pub(super) fn runs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.free.iter().map(|(start, len)| (*start, *len))
    }

    /// Takes `len` bytes from the first run that is long enough.
    pub(super) fn take(&mut self, len: usize) -> Option<usize> {
        let (start, run) = self.free.iter().find(|(_, run)| **run >= len).map(|(start, run)| (*start, *run))?;
        self.free.remove(&start);
        if run > len {
            self.free.insert(start + len, run - len);
        }
        self.free_bytes -= len;
        Some(start)
    }

    /// Makes `start .. start + len` free again.
    pub(super) fn insert(&mut self, mut start: usize, mut len: usize) {
        self.free_bytes += len;
        if let Some((before, run)) = self.free.range(..start).next_back().map(|(s, r)| (*s, *r)) {
            debug_assert!(before + run <= start, "a run is returned once");
            if before + run == start {
                self.free.remove(&before);
                (start, len) = (before, run + len);
            }
        }
        if let Some(run) = self.free.remove(&(start + len)) {
            len += run;
        }
        self.free.insert(start, len);
        debug_assert!(start + len <= self.total && self.free_bytes <= self.total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_returned_in_any_order_merge_into_one() {
        let mut seed = 7_u64;
        let mut random = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let mut extents = Extents::new(1000);
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for _ in 0..10_000 {
            let len = 1 + random(90);
            match extents.take(len) {
                Some(start) if random(3) > 0 => {
                    assert!(start + len <= 1000);
                    assert!(taken.iter().all(|(s, l)| start + len <= *s || s + l <= start), "runs never overlap");
                    taken.push((start, len));
                }
                Some(start) => extents.insert(start, len),
                None => {
                    let (start, len) = taken.swap_remove(random(taken.len()));
                    extents.insert(start, len);
                }
            }
            assert_eq!(extents.free_bytes(), 1000 - taken.iter().map(|t| t.1).sum::<usize>());
        }
        taken.into_iter().for_each(|(start, len)| extents.insert(start, len));
        assert_eq!(extents.runs().collect::<Vec<_>>(), [(0, 1000)]);
    }

    #[test]
    fn the_lowest_run_that_fits_is_used_first() {
        let mut extents = Extents::new(100);
        assert_eq!([extents.take(10), extents.take(20), extents.take(30)], [Some(0), Some(10), Some(30)]);
        extents.insert(0, 10);
        extents.insert(30, 30);
        assert_eq!(extents.take(20), Some(30));
        assert_eq!(extents.take(10), Some(0));
        assert_eq!(extents.take(1000), None);
        assert_eq!(Extents::new(0).take(1), None);
    }
}
