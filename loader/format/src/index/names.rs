//! Names of the files in an index, which are unique.

use super::shard::{FileInfo, Shard};
use forebay_core::error::{Error, Result};
use std::collections::HashSet;

/// Returns true if no two files have one name. The names of a data set are nearly always in order, so that it takes no
/// table of all.
fn are_unique(shards: &[Shard]) -> bool {
    let files: [fn(&Shard) -> Option<&FileInfo>; 4] = [
        |shard| Some(&shard.raw_data),
        |shard| shard.zip_data.as_ref(),
        |shard| shard.raw_meta.as_deref(),
        |shard| shard.zip_meta.as_deref(),
    ];
    let names = |file: fn(&Shard) -> Option<&FileInfo>| shards.iter().filter_map(file).map(|file| &*file.basename);
    if files.iter().all(|file| names(*file).is_sorted_by(|a, b| key_of(a) < key_of(b))) {
        // Equal names are neighbours where the lists are merged.
        let mut lists = files.map(names);
        let mut heads = lists.each_mut().map(Iterator::next);
        let mut last = None;
        while let Some((name, list)) =
            (0..heads.len()).filter_map(|n| Some((heads[n]?, n))).min_by_key(|(name, _)| key_of(name))
        {
            if last == Some(name) {
                return false;
            }
            last = Some(name);
            heads[list] = lists[list].next();
        }
        return true;
    }
    let mut names: Vec<&str> = files.iter().flat_map(|file| names(*file)).collect();
    // The sort finds parts that are in order.
    names.sort_by_key(|name| key_of(name));
    names.windows(2).all(|pair| pair[0] != pair[1])
}

/// Order of names: numbers in them may become longer.
fn key_of(name: &str) -> (usize, &str) {
    (name.len(), name)
}

/// Checks that no two files of `shards` have one name.
pub(super) fn unique_names(shards: &[Shard]) -> Result<()> {
    if are_unique(shards) {
        return Ok(());
    }
    let mut seen = HashSet::new();
    for (i, shard) in shards.iter().enumerate() {
        for info in shard.files().flat_map(|pair| [Some(pair.raw), pair.zip]).flatten() {
            if !seen.insert(&*info.basename) {
                let e = Error::format(format!("the file name `{}` is used twice", info.basename));
                return Err(e.with("field", "basename").with("shard", i));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Digests;
    use crate::{Encoding, Layout};
    use std::sync::Arc;

    #[test]
    fn equal_names_are_found_in_any_order() {
        let layout = Arc::new(Layout::mds([("x".to_owned(), Encoding::Int)]).unwrap());
        let file = |name: String| FileInfo { basename: name.into(), bytes: 1, hashes: Digests::default() };
        let shard = |name: &&str| {
            let zip_data = Some(file(format!("{name}.zstd")));
            Shard { zip_data, ..Shard::new(layout.clone(), 0, file((*name).to_owned())) }
        };
        let check = |names: &[&str]| unique_names(&names.iter().map(shard).collect::<Vec<_>>());
        for names in [&["a", "a"][..], &["a", "b", "a"], &["b", "a", "b"], &["a", "b", "a.zstd"], &["a.zstd", "a"]] {
            assert!(check(names).unwrap_err().to_string().contains("is used twice"), "{names:?}");
        }
        for names in [&["a", "b"][..], &["b", "a"], &["b", "a", "aa"], &["a.gz", "b"], &[]] {
            check(names).unwrap();
        }
    }
}
