//! File of the committed counts, and the verdict on a count.

use forebay_loader::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Largest difference from the committed count. Random seeds of tables change counts by less than a hundredth of it.
pub(super) const TOLERANCE_PERCENT: u64 = 3;

/// Instructions of all paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Counts {
    /// Version of the compiler.
    pub(super) compiler: String,
    /// By the name of the path.
    pub(super) instructions: BTreeMap<String, u64>,
}

impl Counts {
    /// Reads the committed file.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).map_err(|e| {
            let message =
                "the committed counts cannot be read: run this in the repository's root, or write them with --write";
            Error::from_io(e, message).with("file", file.display())
        })?;
        serde_json::from_str(&text).map_err(|e| Error::format("not counts").with("file", file.display()).caused_by(e))
    }

    /// Replaces the file.
    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).expect("texts and numbers") + "\n";
        fs::write(file, text)
            .map_err(|e| Error::from_io(e, "the counts cannot be written").with("file", file.display()))
    }

    /// Returns the paths of both, by name.
    pub(super) fn compare(&self, committed: &Self) -> Vec<PathCount> {
        let names: BTreeSet<&String> = self.instructions.keys().chain(committed.instructions.keys()).collect();
        let of = |counts: &Self, name: &String| counts.instructions.get(name).copied();
        let path =
            |name: &String| PathCount { name: name.clone(), counted: of(self, name), committed: of(committed, name) };
        names.into_iter().map(path).collect()
    }
}

/// Counts of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathCount {
    pub(super) name: String,
    /// Instructions of this run.
    pub(super) counted: Option<u64>,
    /// Instructions in the file.
    pub(super) committed: Option<u64>,
}

/// Result of the comparison of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Within the tolerance.
    Equal,
    More,
    Fewer,
    /// The file does not have the path.
    Added,
    /// Only the file has the path.
    Missing,
}

impl PathCount {
    pub(super) fn verdict(&self) -> Verdict {
        let (Some(counted), Some(committed)) = (self.counted, self.committed) else {
            return if self.counted.is_some() { Verdict::Added } else { Verdict::Missing };
        };
        let (counted, committed) = (u128::from(counted) * 100, u128::from(committed));
        let tolerance = u128::from(TOLERANCE_PERCENT);
        if counted > committed * (100 + tolerance) {
            Verdict::More
        } else if counted < committed * (100 - tolerance) {
            Verdict::Fewer
        } else {
            Verdict::Equal
        }
    }

    /// Returns this run's instructions for each committed one.
    pub(super) fn ratio(&self) -> Option<f64> {
        Some(self.counted? as f64 / self.committed? as f64)
    }
}

/// Returns the message of a run with different counts: the paths, and the remedy. `None` if all are within the
/// tolerance.
pub(super) fn failure(paths: &[PathCount], compiler: &str, committed_compiler: &str) -> Option<String> {
    let different: Vec<&PathCount> = paths.iter().filter(|path| path.verdict() != Verdict::Equal).collect();
    if different.is_empty() {
        return None;
    }
    let list: Vec<String> = different.iter().map(|path| described(path)).collect();
    let (count, of, list) = (different.len(), paths.len(), list.join(", "));
    let mut message = format!("{count} of {of} paths differ from the committed counts: {list}");
    if compiler != committed_compiler {
        let _ = write!(
            message,
            "; the file is of {committed_compiler} and this run of {compiler}, so count the commit before the change \
             as well"
        );
    }
    let _ = write!(
        message,
        "; if the change is meant, run `make bench-check WRITE=1` and commit the file with the reason, else compare \
         the profiles of `forebay-bench counts --profiles DIR` before and after it, with \
         `callgrind_annotate --inclusive=yes`"
    );
    Some(message)
}

fn described(path: &PathCount) -> String {
    match path.ratio() {
        Some(ratio) => format!("{} {:+.1} %", path.name, (ratio - 1.0) * 100.0),
        None if path.counted.is_some() => format!("{} is not in the file", path.name),
        None => format!("{} is only in the file", path.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts<const N: usize>(of: [(&str, u64); N]) -> Counts {
        let instructions = of.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        Counts { compiler: "rustc 1".to_owned(), instructions }
    }

    #[test]
    fn a_count_may_differ_by_the_tolerance_in_both_directions() {
        let of = |counted, committed| PathCount { name: "a".to_owned(), counted, committed }.verdict();
        for (counted, verdict) in [
            (1_000, Verdict::Equal),
            (1_030, Verdict::Equal),
            (1_031, Verdict::More),
            (970, Verdict::Equal),
            (969, Verdict::Fewer),
            (u64::MAX, Verdict::More),
            (0, Verdict::Fewer),
        ] {
            assert_eq!(of(Some(counted), Some(1_000)), verdict, "{counted}");
        }
        assert_eq!(of(Some(1), None), Verdict::Added);
        assert_eq!(of(None, Some(1)), Verdict::Missing);
    }

    #[test]
    fn a_difference_names_the_paths_and_the_remedy() {
        let committed = counts([("same", 100), ("slow", 100), ("fast", 100), ("gone", 100)]);
        let compared = counts([("same", 102), ("slow", 150), ("fast", 50), ("new", 1)]).compare(&committed);
        assert!(compared.is_sorted_by_key(|path| &path.name));
        let message = failure(&compared, "rustc 1", "rustc 1").expect("four are different");
        for part in [
            "4 of 5 paths",
            "slow +50.0 %",
            "fast -50.0 %",
            "new is not in the file",
            "gone is only in the file",
            "make bench-check WRITE=1",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert!(!message.contains("same") && !message.contains("rustc"), "{message}");
        let message = failure(&compared, "rustc 2", "rustc 1").expect("four are different");
        assert!(message.contains("the file is of rustc 1 and this run of rustc 2"), "{message}");
    }

    #[test]
    fn equal_counts_are_no_failure_whatever_the_compiler() {
        let compared = counts([("a", 100)]).compare(&counts([("a", 99)]));
        assert_eq!(failure(&compared, "rustc 1", "rustc 2"), None);
    }

    #[test]
    fn the_file_is_sorted_and_reads_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("counts.json");
        let written = counts([("b", 2), ("a", 1)]);
        written.write(&file).expect("written");
        assert_eq!(Counts::read(&file).expect("read"), written);
        let text = fs::read_to_string(&file).expect("text");
        assert!(text.find("\"a\"") < text.find("\"b\"") && text.ends_with("}\n"), "{text}");
        let message = Counts::read(&folder.path().join("absent")).expect_err("no file").to_string();
        assert!(message.contains("--write"), "{message}");
    }
}
