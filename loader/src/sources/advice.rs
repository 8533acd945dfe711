//! Advice for addresses where nothing is read: the text to write instead.

use super::extension::ends_with;
use super::folder_names::is_hidden;
use super::kinds::claiming;
use super::location::without_query;
use super::parts::stem_of_part;
use super::wildcards::is_pattern;
use crate::format::INDEX_BASENAME;
use crate::format::array_record::starts_file;
use crate::format::compression::without_extension;
use crate::format::tfrecord::starts_record;
use crate::format::tokens::MAGIC as TOKENS_MAGIC;

/// Extension of files that may have a sample in each line, or are a sample each.
const TEXT: &str = ".txt";

/// Extensions of archives that are not read.
const ARCHIVES: [&str; 3] = [".zip", ".7z", ".rar"];

/// Returns advice for the address of a remote that no data set was found at; `None` if any folder may have it.
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

/// Files of a folder that are read at their starts, so that an error can name their kind.
const FRONTS_SEEN: usize = 4;

/// Returns advice for a folder with `names` among its files, none of them of a kind that a folder has. `front`
/// returns the first bytes of a file.
pub fn advice_for_files(names: &[String], front: impl Fn(&str) -> Vec<u8>) -> Option<String> {
    let shown = || names.iter().map(String::as_str).filter(|name| !is_hidden(name) && !is_text(base_of(name)));
    let unknown = shown().filter(|name| claiming(base_of(name)).is_none());
    shown()
        .find_map(|name| for_known(base_of(name)))
        .or_else(|| unknown.clone().take(FRONTS_SEEN).find_map(|name| for_content(name, &front(name))))
        .or_else(|| unknown.clone().find_map(|name| for_unknown(base_of(name))))
}

fn base_of(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn is_text(base: &str) -> bool {
    [TEXT, ".md", ".json"].iter().any(|end| ends_with(base, end))
}

/// Returns advice for a folder with the file `base`, if its name shows its kind.
fn for_known(base: &str) -> Option<String> {
    if ends_with(without_extension(base), ".mds") {
        return Some(
            "shards are there without their index.json, which MDSWriter writes when it is finished".to_owned(),
        );
    }
    claiming(base)?;
    let pattern = match (stem_of_part(base), base.rsplit_once('.')) {
        (Some(stem), _) => format!("{stem}-*-of-*"),
        (None, Some((_, extension))) => format!("*.{extension}"),
        (None, None) => return None,
    };
    Some(format!("name the files of one kind, as in FOLDER/{pattern}"))
}

/// Returns advice for a folder with the file `name`: its name does not show its kind, but its `front` does.
fn for_content(name: &str, front: &[u8]) -> Option<String> {
    let (noun, examples, list) = if starts_record(front) {
        ("a TFRecord file", "x.tfrecord or train-00000-of-00010", "FOLDER/*.tfrecord")
    } else if starts_file(front) {
        ("an ArrayRecord file", "x.array_record", "FOLDER/*.array_record")
    } else if front.starts_with(TOKENS_MAGIC) {
        return Some(format!(
            "{name} is the index of Megatron's tokens: give both files names such as corpus.bin and corpus.idx, with \
             links if they keep theirs, and name the .bin file"
        ));
    } else {
        return None;
    };
    Some(format!(
        "{name} is {noun}, which is known by its name: give the files names such as {examples}, with links if they \
         keep theirs, and name them by a list, as in {list}"
    ))
}

/// Returns advice for a folder with the file `base`, which has a different kind.
fn for_unknown(base: &str) -> Option<String> {
    let (stem, extension) = base.rsplit_once('.')?;
    (!stem.is_empty() && !extension.is_empty()).then(|| {
        format!(
            "files=\"each\" of a Stream makes each file a sample, such as its .{extension} files, and files=\"stem\" \
             the files that differ only in their extension"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tfrecord::append;

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
    fn a_folder_of_unknown_files_has_advice() {
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let files = |all: &[&str]| advice_for_files(&names(all), |_| Vec::new());
        assert_eq!(files(&["README.txt", "dataset_info.json", ".hidden", "Makefile"]), None);
        assert!(files(&["README.md", "a/0.wav"]).is_some_and(|advice| advice.contains("such as its .wav files")));
        assert!(files(&["shard.00000.mds"]).is_some_and(|advice| advice.contains("MDSWriter")));
        for (name, pattern) in [
            ("a.tfrecord", "FOLDER/*.tfrecord"),
            ("sub/train-00000-of-00010", "FOLDER/train-*-of-*"),
            ("x.tfrecord-00000-of-00010", "FOLDER/x.tfrecord-*-of-*"),
            ("x.array_record-00000-of-00010", "FOLDER/x.array_record-*-of-*"),
            ("corpus.bin", "FOLDER/*.bin"),
        ] {
            let advice = files(&["README.md", "a.idx", name]).expect(name);
            assert!(advice.ends_with(&format!("as in {pattern}")), "{advice}");
        }
    }

    #[test]
    fn files_without_a_known_name_are_known_by_their_first_bytes() {
        let mut records = Vec::new();
        append(b"any", &mut records);
        for (front, words) in [
            (records, ["d/part-r-0 is a TFRecord file", "x.tfrecord", "FOLDER/*.tfrecord"]),
            (b"MMIDIDX\0\0\x01".to_vec(), ["d/part-r-0 is the index", "corpus.bin", "name the .bin file"]),
        ] {
            let names = ["README.md", "d/part-r-0"].map(str::to_owned);
            let advice = advice_for_files(&names, |name| if name == "d/part-r-0" { front.clone() } else { Vec::new() });
            let advice = advice.unwrap();
            assert!(words.iter().all(|word| advice.contains(word)), "{advice}");
        }
        for front in [&b""[..], b"MMIDID", b"plain bytes, which are longer than the head of a record"] {
            assert_eq!(advice_for_files(&["part-r-0".to_owned()], |_| front.to_vec()), None);
        }
    }
}
