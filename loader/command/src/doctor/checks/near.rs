//! Pictures that look the same, by a perceptual hash.
//!
//! A fingerprint has 64 bits, the signs of the differences between neighbours of 9 x 8 cells, and the mean colour. Two
//! pictures look the same if at most two bits differ, and the means are close. Of three parts of the bits, one is then
//! equal, so only fingerprints with an equal part are compared. The table has 24 bytes for each picture.

use super::check::{Check, CheckRun, percent};
use crate::doctor::finding::{Findings, Problem, Severity, Subject};
use crate::doctor::values::{Fingerprint, Sample, Value};
use forebay_loader::order::SampleId;
use std::collections::BTreeSet;

/// Pictures that are compared: 3 GiB of the table.
const ENTRIES_MAX: usize = 1 << 27;

/// Bits that may differ.
const DISTANCE_MAX: u32 = 2;

/// Levels by which the mean colours may differ.
const MEAN_DISTANCE_MAX: u8 = 6;

/// Later fingerprints with an equal part that each one is compared with. Frequent parts would need a square of time.
const COMPARED_MAX: usize = 256;

/// First bits of the parts, and their masks.
const PARTS: [(u32, u64); 3] = [(0, (1 << 21) - 1), (21, (1 << 21) - 1), (42, (1 << 22) - 1)];

/// Fingerprint of a sample: its gradients, then its mean, then its number.
type Print = (u64, [u8; 3], SampleId);

/// The check.
#[derive(Default)]
pub(super) struct Near {
    table: Vec<Print>,
    /// Hashes of the contents of the pictures, to leave out equal ones.
    contents: Vec<u32>,
}

impl Check for Near {
    fn sample(&mut self, sample: &Sample, _: &CheckRun<'_>, _: &mut Findings) {
        let Ok(values) = &sample.values else { return };
        let print = values.columns.iter().find_map(|(_, value)| match value {
            Value::Picture(picture) => picture.fingerprint,
            _ => None,
        });
        let (Some(Fingerprint { gradients, mean }), Some(contents)) = (print, values.contents) else { return };
        if self.table.len() < ENTRIES_MAX {
            self.table.push((gradients, mean, sample.id));
            self.contents.push(contents as u32);
        }
    }

    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        let pairs = self.pairs();
        let is_usual = percent(pairs.len() as u64, run.samples) > 20;
        // Frames of a video look like their neighbours.
        let severity = if is_usual { Severity::Note } else { Severity::Warning };
        for (sample, other) in pairs {
            let advice = "look at them with `forebay preview`, and remove the copies";
            let problem = Problem::new(severity, "near-duplicates", "pictures look like earlier ones", advice);
            findings.add(problem, Subject::Pair(sample, other), "");
        }
    }
}

impl Near {
    /// Returns the samples that look like an earlier one, each with the first such one.
    fn pairs(&self) -> BTreeSet<(SampleId, SampleId)> {
        let mut order: Vec<u32> = (0..self.table.len() as u32).collect();
        let mut found: BTreeSet<(SampleId, SampleId)> = BTreeSet::new();
        for (first, mask) in PARTS {
            let part = |number: u32| self.table[number as usize].0 >> first & mask;
            order.sort_unstable_by_key(|number| (part(*number), *number));
            for group in order.chunk_by(|a, b| part(*a) == part(*b)) {
                for (at, a) in group.iter().enumerate() {
                    for b in group.iter().skip(at + 1).take(COMPARED_MAX) {
                        if self.are_near(*a as usize, *b as usize) {
                            found.insert((self.table[*b as usize].2, self.table[*a as usize].2));
                        }
                    }
                }
            }
        }
        // Of each sample the earliest one that it looks like.
        let mut last = None;
        found.retain(|(sample, _)| last.replace(*sample) != Some(*sample));
        found
    }

    fn are_near(&self, a: usize, b: usize) -> bool {
        let ((bits, mean, _), (other_bits, other_mean, _)) = (self.table[a], self.table[b]);
        let are_close = mean.iter().zip(other_mean).all(|(level, other)| level.abs_diff(other) <= MEAN_DISTANCE_MAX);
        // Equal contents are exact duplicates.
        are_close && (bits ^ other_bits).count_ones() <= DISTANCE_MAX && self.contents[a] != self.contents[b]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_with_two_different_bits_in_any_parts_are_found() {
        let base = 0x0123_4567_89ab_cdef_u64;
        for (a, b) in [(0, 1), (0, 63), (20, 21), (41, 42), (30, 62)] {
            let near = Near {
                table: vec![
                    (base, [9; 3], SampleId(4)),
                    (!base, [9; 3], SampleId(5)),
                    (base ^ 1 << a ^ 1 << b, [12; 3], SampleId(7)),
                    (base, [80; 3], SampleId(8)),
                ],
                contents: vec![1, 2, 3, 4],
            };
            assert_eq!(near.pairs().into_iter().collect::<Vec<_>>(), [(SampleId(7), SampleId(4))], "bits {a} and {b}");
        }
        let three = Near {
            table: vec![(base, [9; 3], SampleId(0)), (base ^ 0b111, [9; 3], SampleId(1))],
            contents: vec![1, 2],
        };
        assert!(three.pairs().is_empty());
    }
}
