//! Check of the contents and modes of pictures.

use super::check::{Check, CheckRun, PerColumn, is_usual};
use crate::doctor::finding::{Examples, Findings, Problem, Severity};
use crate::doctor::values::{Oddity, Sample, Value};
use std::collections::BTreeMap;

const NAME: &str = "pictures";

/// Difference of the largest values of masks from which the larger ones are apart from the rest.
const APART: u8 = 64;

/// Pictures of a column.
#[derive(Default)]
struct ColumnPictures {
    pictures: u64,
    masks: u64,
    black: Examples,
    one_colour: Examples,
    odd: BTreeMap<Oddity, Examples>,
    formats: BTreeMap<&'static str, u64>,
    /// Masks by their channels, and by their largest level.
    channels: BTreeMap<&'static str, Examples>,
    levels: BTreeMap<u8, Examples>,
    /// Masks with a different size than the picture of their sample.
    sizes: Examples,
}

/// The check.
#[derive(Default)]
pub(super) struct PictureContents(PerColumn<ColumnPictures>);

impl Check for PictureContents {
    fn sample(&mut self, sample: &Sample, _: &CheckRun<'_>, _: &mut Findings) {
        let pictures = sample.values.iter().flat_map(|values| &values.columns);
        let first = pictures.into_iter().find_map(|(_, value)| match value {
            Value::Picture(picture) if !picture.is_mask => Some(picture.size),
            _ => None,
        });
        self.0.each(sample, |found, id, value| {
            let Value::Picture(picture) = value else { return };
            if picture.is_mask {
                found.channels.entry(picture.channels).or_default().add(id, || picture.channels.to_owned());
                found.levels.entry(picture.level_max).or_default().add(id, || format!("value {}", picture.level_max));
                if let Some(size) = first.filter(|size| *size != picture.size) {
                    found.sizes.add(id, || format!("{}, and the picture has {size}", picture.size));
                }
            }
            found.pictures += 1;
            found.masks += u64::from(picture.is_mask);
            *found.formats.entry(picture.format).or_default() += 1;
            match picture.only_colour {
                Some([0, 0, 0]) => found.black.add(id, || format!("{} of black", picture.size)),
                Some([r, g, b]) => found.one_colour.add(id, || format!("{} of #{r:02x}{g:02x}{b:02x}", picture.size)),
                None => {}
            }
            for oddity in &picture.oddities {
                found.odd.entry(*oddity).or_default().add(id, || picture.format.to_owned());
            }
        });
    }

    fn end(&mut self, run: &CheckRun<'_>, findings: &mut Findings) {
        for (id, found) in self.0.iter().filter(|(_, found)| found.pictures > 0) {
            let column = run.column(id);
            // Most of the masks have few values.
            let are_masks = found.masks * 2 > found.pictures;
            let words = if are_masks { "masks are zero everywhere" } else { "pictures are black" };
            let mut rows = vec![(&found.black, words)];
            if !are_masks {
                rows.push((&found.one_colour, "pictures have one colour"));
            }
            for (examples, words) in rows.into_iter().filter(|(examples, _)| examples.count > 0) {
                let is_usual = is_usual(examples.count, found.pictures);
                let severity = if is_usual { Severity::Note } else { Severity::Warning };
                let message = format!("{words} in {column}");
                findings.add_all(Problem::new(severity, NAME, message, "look at them, and remove them"), examples);
            }
            if are_masks {
                masks(found, &column, findings);
            }
            for (oddity, examples) in &found.odd {
                let is_usual = examples.count * 4 > found.pictures;
                if *oddity == Oddity::Grey && is_usual || are_masks && *oddity == Oddity::Palette {
                    continue;
                }
                let message = format!("{} in {column}", oddity.words());
                let advice = "they are decoded; check that the result is meant";
                findings.add_all(Problem::new(Severity::Note, NAME, message, advice), examples);
            }
        }
    }
}

/// Finds masks that differ from the rest of their column.
fn masks(found: &ColumnPictures, column: &str, findings: &mut Findings) {
    let is_rare = |count: u64| count > 0 && count * 5 <= found.masks;
    let mut report = |words: &str, examples: &Examples| {
        let problem = Problem::new(Severity::Warning, NAME, format!("masks {words} in {column}"), "look at them");
        findings.add_all(problem, examples);
    };
    if is_rare(found.sizes.count) {
        report("have a different size than their pictures", &found.sizes);
    }
    for examples in found.channels.values().filter(|examples| is_rare(examples.count)) {
        report("have unusual channels", examples);
    }
    let mut last = None;
    let mut is_apart = false;
    for (level, examples) in &found.levels {
        is_apart |= last.is_some_and(|last| level - last >= APART);
        last = Some(*level);
        if is_apart && is_rare(examples.count) {
            report("have values far from the rest", examples);
        }
    }
}
