//! Tars of a list found in the entries of a file, which may have been written for a different folder or machine.

use super::known::{Known, KnownTar};
use std::collections::HashMap;

/// Returns the facts about each of `names`, which are paths below `root`; `None` where the entries have none, or
/// several that differ.
///
/// A tar with a unique file name is found by that name, since the entries may have addresses of a different
/// machine. The remaining tars are found by their paths. Of several entries the one with the longest common end of the
/// address counts.
pub(super) fn find(entries: &[KnownTar], root: &str, names: &[String]) -> Vec<Option<Known>> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for name in names {
        *uses.entry(last(name)).or_default() += 1;
    }
    // Entries by the last parts of their paths, for each number of parts that is looked up. So each entry is compared
    // with few names, whatever they are.
    let mut by_end: HashMap<usize, HashMap<&str, Vec<&KnownTar>>> = HashMap::new();
    let found = |name: &String| {
        let parts = if uses.get(last(name)) == Some(&1) { 1 } else { name.split('/').count() };
        let by_end = by_end.entry(parts).or_insert_with(|| {
            let mut by_end: HashMap<&str, Vec<&KnownTar>> = HashMap::new();
            for entry in entries {
                if let Some(end) = end(&entry.path, parts) {
                    by_end.entry(end).or_default().push(entry);
                }
            }
            by_end
        });
        let fitting = by_end.get(end(name, parts)?)?;
        let address = format!("{root}/{name}");
        let common = |entry: &KnownTar| {
            let parts = entry.path.rsplit('/').zip(address.rsplit('/'));
            parts.take_while(|(a, b)| a == b).count()
        };
        let longest = fitting.iter().map(|entry| common(entry)).max()?;
        let mut best = fitting.iter().filter(|entry| common(entry) == longest).map(|entry| entry.known);
        let known = best.next()?;
        best.all(|other| other == known).then_some(known)
    };
    names.iter().map(found).collect()
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the last `parts` parts of a path; `None` if it has fewer.
fn end(path: &str, parts: usize) -> Option<&str> {
    match path.rmatch_indices('/').nth(parts - 1) {
        Some((at, _)) => Some(&path[at + 1..]),
        None => (path.matches('/').count() + 1 == parts).then_some(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(entries: &[(&str, u64)], root: &str, names: &[&str]) -> Vec<Option<u64>> {
        let entries: Vec<_> = entries.iter().map(|(path, samples)| KnownTar::new(path, *samples)).collect();
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        find(&entries, root, &names).into_iter().map(|known| known.map(|known| known.samples)).collect()
    }

    #[test]
    fn a_tar_is_found_by_its_name_or_by_its_path() {
        let sets = [("train/0.tar", 1), ("val/0.tar", 2), ("val/1.tar", 3)];
        assert_eq!(counts(&sets, "s3://b", &["train/0.tar", "val/0.tar", "val/1.tar"]), [Some(1), Some(2), Some(3)]);
        assert_eq!(counts(&sets, "s3://b/val", &["0.tar", "1.tar", "2.tar"]), [Some(2), Some(3), None]);
        assert_eq!(counts(&sets, "s3://b/test", &["0.tar", "1.tar"]), [None, Some(3)], "two that differ");
        let moved = [("/tmp/0.tar", 1), ("s3://old/x/1.tar", 2)];
        assert_eq!(counts(&moved, "/data", &["a/0.tar", "b/1.tar"]), [Some(1), Some(2)]);
        assert_eq!(counts(&moved, "/data", &["a/0.tar", "b/0.tar"]), [None, None], "one of two tars");
        assert_eq!(counts(&[("0.tar", 1), ("0.tar", 1)], "/data", &["0.tar"]), [Some(1)]);
        assert_eq!(counts(&[("0.tar", 1), ("0.tar", 2)], "/data", &["0.tar"]), [None]);
        assert_eq!(counts(&[], "/data", &["0.tar"]), [None]);
    }

    #[test]
    fn tars_of_one_file_name_are_not_compared() {
        let names: Vec<_> = (0..20_000).map(|n| format!("{n}/data.tar")).collect();
        let entries: Vec<_> = names.iter().zip(0..).map(|(name, samples)| KnownTar::new(name, samples)).collect();
        let found = find(&entries, "s3://b", &names);
        assert!(found.iter().zip(0..).all(|(known, samples)| known.map(|known| known.samples) == Some(samples)));
    }
}
