//! Advice for addresses of which nothing is read: what to write in their place.

use super::extension::ends_with;
use super::kinds::claiming;
use super::place::without_query;
use super::wildcards::is_pattern;
use crate::format::INDEX_BASENAME;
use crate::format::compression::without_extension;

/// Extension of files that may have a sample in each line, or are a sample each.
const TEXT: &str = ".txt";

/// Extensions of archives that are not read.
const ARCHIVES: [&str; 3] = [".zip", ".7z", ".rar"];

/// Returns advice for the address of a remote that no data set was found at; `None` if it may be that of any folder.
pub fn advice_for(address: &str) -> Option<String> {
    let path = without_query(address).0;
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    if name == INDEX_BASENAME {
        return Some("name the folder of index.json, and not the file".to_owned());
    }
    if ends_with(without_extension(name), TEXT) {
        return Some(
            "lines of text without a form are not read: write an object in each line as .jsonl; files=\"each\" of a \
             Stream makes each file a sample"
                .to_owned(),
        );
    }
    if ends_with(without_extension(name), ".mds") {
        return Some("a shard is a part of a data set: name its folder, which has the index.json".to_owned());
    }
    if ARCHIVES.iter().any(|extension| ends_with(name, extension)) {
        return Some("unpack the archive, and name its folder or its files".to_owned());
    }
    (is_pattern(name) || name.contains('{')).then(|| {
        "names of a list have the extension of its files, as in *.tar or part-{0..9}.parquet; a folder is named \
         without *, and files=\"each\" of a Stream makes each file of any kind a sample"
            .to_owned()
    })
}

/// Returns advice for a folder of which some files are `names`, none of them of a kind that a folder has.
pub fn advice_for_files(names: &[String]) -> Option<String> {
    names.iter().find_map(|name| for_file(name))
}

/// Returns advice for a folder with the file `name`.
fn for_file(name: &str) -> Option<String> {
    let base = name.rsplit('/').next().unwrap_or(name);
    let (stem, extension) = base.rsplit_once('.')?;
    let is_text = [TEXT, ".md", ".json"].iter().any(|end| ends_with(base, end));
    if stem.is_empty() || extension.is_empty() || is_text {
        return None;
    }
    if ends_with(without_extension(base), ".mds") {
        return Some(
            "shards are there without their index.json, which MDSWriter writes when it is finished".to_owned(),
        );
    }
    Some(if claiming(base).is_some() {
        format!("name the files of one kind, as in *.{extension}")
    } else {
        format!(
            "files=\"each\" of a Stream makes each file a sample, such as its .{extension} files, and files=\"stem\" \
             those that differ in their extension alone"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_read_have_advice() {
        for (address, advice) in [
            ("a.txt", "as .jsonl"),
            ("s3://b/a.TXT.gz?sig=x", "makes each file a sample"),
            ("s3://b/set/index.json", "name the folder of index.json"),
            ("s3://b/set/shard.00000.mds.zstd", "name its folder"),
            ("a.zip", "unpack the archive"),
            ("wds/*", "as in *.tar"),
            ("wds/train-{0..9}", "as in *.tar"),
            ("wds/train-0?", "as in *.tar"),
        ] {
            let found = advice_for(address).expect(address);
            assert!(found.contains(advice) && !found.contains("sig"), "{address}: {found}");
        }
        for address in ["s3://b/train", "data/v1.5", "", "/", "s3://b"] {
            assert_eq!(advice_for(address), None, "{address}");
        }
    }

    #[test]
    fn a_folder_of_other_files_has_advice() {
        let files = |names: &[&str]| advice_for_files(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert_eq!(files(&["README.txt", "dataset_info.json", ".hidden", "Makefile"]), None);
        assert!(files(&["README.md", "a/0.wav"]).is_some_and(|advice| advice.contains("such as its .wav files")));
        assert!(files(&["a.tfrecord"]).is_some_and(|advice| advice.contains("as in *.tfrecord")));
        assert!(files(&["shard.00000.mds"]).is_some_and(|advice| advice.contains("MDSWriter")));
    }
}
