//! Values that are far smaller or larger than the rest.

use super::check::{Check, CheckRun, PerColumn};
use crate::doctor::finding::{Examples, Findings, Problem, Severity};
use crate::doctor::values::{Sample, Value};
use std::collections::BTreeMap;

const NAME: &str = "sizes";

/// Side of a picture up to which it may be tiny.
const TINY_SIDE: u32 = 4;

/// Powers of two between the middle and a tiny picture, a picture that is tiny whatever its sides, a huge picture, and
/// a huge text.
const TINY: u32 = 4;
const TINY_ANYWAY: u32 = 10;
const HUGE: u32 = 8;
const HUGE_TEXT: u32 = 10;

/// Bytes from which a text may be huge, as a power of two.
const HUGE_TEXT_MIN: u32 = 17;

/// Sizes of a column, as powers of two.
#[derive(Default)]
struct ColumnSizes {
    pixels: BTreeMap<u32, Examples>,
    /// Pictures with a side of a few pixels.
    narrow: BTreeMap<u32, Examples>,
    texts: BTreeMap<u32, Examples>,
}

/// The check.
#[derive(Default)]
pub(super) struct Sizes(PerColumn<ColumnSizes>);

impl Check for Sizes {
    fn sample(&mut self, sample: &Sample, _: &CheckRun<'_>, _: &mut Findings) {
        self.0.each(sample, |found, id, value| match value {
            Value::Picture(picture) => {
                let (size, power) = (picture.size, picture.size.pixels().max(1).ilog2());
                if size.w.min(size.h) <= TINY_SIDE {
                    found.narrow.entry(power).or_default().add(id, || size.to_string());
                }
                found.pixels.entry(power).or_default().add(id, || size.to_string());
            }
            Value::Text(text) if text.bytes > 0 => {
                found.texts.entry(text.bytes.ilog2()).or_default().add(id, || format!("{} bytes", text.bytes));
            }
            _ => {}
        });
    }

    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        for (id, found) in self.0.iter() {
            let column = run.column(id);
            let mut report = |severity, words: &str, examples: &Examples| {
                let message = format!("{words} in {column}");
                findings.add_all(Problem::new(severity, NAME, message, "look at them"), examples);
            };
            if let Some((middle, pictures)) = middle(&found.pixels) {
                let is_rare = |examples: &Examples| examples.count * 10 <= pictures;
                let tiny = found.narrow.range(..=middle.saturating_sub(TINY)).filter(|_| middle >= TINY);
                let anyway =
                    found.pixels.range(..=middle.saturating_sub(TINY_ANYWAY)).filter(|_| middle >= TINY_ANYWAY);
                let anyway = anyway.filter(|(power, _)| !found.narrow.contains_key(power));
                for (_, examples) in tiny.chain(anyway).filter(|(_, examples)| is_rare(examples)) {
                    report(Severity::Warning, "pictures are tiny next to the rest", examples);
                }
                for (_, examples) in found.pixels.range(middle + HUGE..).filter(|(_, examples)| is_rare(examples)) {
                    report(Severity::Warning, "pictures are huge next to the rest", examples);
                }
            }
            if let Some((middle, _)) = middle(&found.texts) {
                for (_, examples) in found.texts.range((middle + HUGE_TEXT).max(HUGE_TEXT_MIN)..) {
                    report(Severity::Note, "texts are a thousand times as long as the usual ones", examples);
                }
            }
        }
    }
}

/// Returns the power in the middle, and the number of values.
fn middle(sizes: &BTreeMap<u32, Examples>) -> Option<(u32, u64)> {
    let values = sizes.values().map(|examples| examples.count).sum();
    let mut before = 0;
    let found = sizes.iter().find(|(_, examples)| {
        before += examples.count;
        before * 2 >= values
    });
    found.map(|(power, _)| (*power, values))
}
