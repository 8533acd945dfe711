//! Checks of data sets. A check is a file with a [`Check`], and a line of [`CHECKS`].

mod boxes;
mod check;
mod columns;
mod damage;
mod duplicates;
mod empty;
mod files;
mod labels;
mod near;
mod numbers;
mod order;
mod pictures;
mod shapes;
mod sizes;
mod splits;

pub(super) use check::{Check, CheckRun};

/// A line of the table of checks.
pub(super) struct CheckEntry {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) make: fn() -> Box<dyn Check>,
    /// It needs the values of the samples.
    pub(super) reads_samples: bool,
}

macro_rules! checks {
    ($($name:literal, $reads:literal, $about:literal, $check:path;)*) => {
        /// All checks of data sets.
        pub(super) const CHECKS: &[CheckEntry] = &[
            $(CheckEntry {
                name: $name,
                about: $about,
                make: || Box::new(<$check>::default()),
                reads_samples: $reads,
            },)*
        ];
    };
}

checks! {
    "damage", true, "samples that cannot be read or decoded", damage::Damage;
    "files", false, "hashes and sizes of the files, files without an entry in the index", files::Files;
    "duplicates", true, "equal samples", duplicates::Duplicates;
    "leaks", true, "samples that two of the data sets have", duplicates::Leaks;
    "near-duplicates", true, "pictures that look the same", near::Near;
    "labels", true, "labels that are constant, negative, rare or missing", labels::Labels;
    "numbers", true, "numbers that are not finite, arrays of one value", numbers::Numbers;
    "empty", true, "empty texts, bytes and lists, missing values", empty::Empty;
    "shapes", true, "arrays and lists that differ from the rest", shapes::Shapes;
    "pictures", true, "pictures of one colour, empty masks, odd modes", pictures::PictureContents;
    "sizes", true, "tiny and huge values", sizes::Sizes;
    "boxes", true, "boxes outside of their pictures", boxes::Boxes;
    "columns", false, "columns that some shards lack", columns::Columns;
    "order", true, "shards of different sizes, sorted labels, few shards", order::Storage;
    "splits", true, "classes that differ between the data sets", splits::Splits;
}
