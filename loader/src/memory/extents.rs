//! Which runs of a piece of memory are free. Pure: offsets only.

use std::collections::BTreeMap;

/// Free runs by their start. Lowest address first, so that memory which is already populated (and in the CPU's cache)
/// is used before memory that is not.
#[derive(Debug)]
pub(super) struct Extents {
    /// Start to length, in bytes; runs neither touch nor overlap.
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

    /// Takes `len` bytes out of the first run that holds them.
    pub(super) fn take(&mut self, len: usize) -> Option<usize> {
        let (start, run) = self.free.iter().find(|(_, run)| **run >= len).map(|(start, run)| (*start, *run))?;
        self.free.remove(&start);
        if run > len {
            self.free.insert(start + len, run - len);
        }
        self.free_bytes -= len;
        Some(start)
    }

    /// Gives `start .. start + len` back, which `take` returned.
    pub(super) fn give(&mut self, mut start: usize, mut len: usize) {
        self.free_bytes += len;
        if let Some((before, run)) = self.free.range(..start).next_back().map(|(s, r)| (*s, *r)) {
            debug_assert!(before + run <= start, "a run is given back once");
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
    fn runs_given_back_in_any_order_become_one_again() {
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
                Some(start) => extents.give(start, len),
                None => {
                    let (start, len) = taken.swap_remove(random(taken.len()));
                    extents.give(start, len);
                }
            }
            assert_eq!(extents.free_bytes(), 1000 - taken.iter().map(|t| t.1).sum::<usize>());
        }
        taken.into_iter().for_each(|(start, len)| extents.give(start, len));
        assert_eq!(extents.runs().collect::<Vec<_>>(), [(0, 1000)]);
    }

    #[test]
    fn the_lowest_run_that_fits_is_used_first() {
        let mut extents = Extents::new(100);
        assert_eq!([extents.take(10), extents.take(20), extents.take(30)], [Some(0), Some(10), Some(30)]);
        extents.give(0, 10);
        extents.give(30, 30);
        assert_eq!(extents.take(20), Some(30));
        assert_eq!(extents.take(10), Some(0));
        assert_eq!(extents.take(1000), None);
        assert_eq!(Extents::new(0).take(1), None);
    }
}
