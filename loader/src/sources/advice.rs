//! Advice for addresses of which nothing is read: what to write in their place.

use super::extension::ends_with;
use super::place::without_query;
use super::wildcards::is_pattern;
use crate::format::INDEX_BASENAME;
use crate::format::compression::without_extension;

/// Extensions of files of rows as text, and the formats by which the library `datasets` reads them.
const ROWS: [(&str, &str); 4] = [(".jsonl", "json"), (".ndjson", "json"), (".csv", "csv"), (".tsv", "csv")];

/// Extensions of files that may be rows as text, or a sample each.
const TEXTS: [(&str, &str); 2] = [(".json", "json"), (".txt", "text")];

/// Extensions of archives that are not read.
const ARCHIVES: [&str; 3] = [".zip", ".7z", ".rar"];

/// Returns advice for the address of a remote that no data set was found at; `None` if it may be that of any folder.
pub fn advice_for(address: &str) -> Option<String> {
    let path = without_query(address).0;
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    if name == INDEX_BASENAME {
        return Some("name the folder of index.json, and not the file".to_owned());
    }
    if let Some(format) = format_of(name, &ROWS) {
        return Some(format!("{}; a list of files is the `manifest` of a Stream", for_rows(format)));
    }
    if let Some(format) = format_of(name, &TEXTS) {
        return Some(format!("{}; files=\"each\" of a Stream makes each file a sample", for_rows(format)));
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

/// Returns advice for a folder of which some files are `names`, none of them of a known kind.
pub fn advice_for_files(names: &[String]) -> Option<String> {
    names.iter().find_map(|name| format_of(name, &ROWS)).map(for_rows)
}

fn for_rows(format: &str) -> String {
    format!(
        "rows of text are not read as they are: write them as Parquet, as by datasets.load_dataset(\"{format}\", \
         data_files=..., split=\"train\").to_parquet(\"rows.parquet\"), or as MDS by MDSWriter"
    )
}

fn format_of(name: &str, known: &[(&str, &'static str)]) -> Option<&'static str> {
    known.iter().find(|(extension, _)| ends_with(without_extension(name), extension)).map(|(_, format)| *format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_read_have_advice() {
        for (address, advice) in [
            ("data/a.jsonl", "load_dataset(\"json\""),
            ("s3://b/a.JSONL.gz", "load_dataset(\"json\""),
            ("https://h/a.csv?sig=x", "load_dataset(\"csv\""),
            ("data/*.tsv", "`manifest` of a Stream"),
            ("a.txt", "load_dataset(\"text\""),
            ("a.txt", "makes each file a sample"),
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
    fn a_folder_of_rows_has_advice() {
        let files = |names: &[&str]| advice_for_files(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert!(files(&["README.md", "a/0.jsonl"]).is_some_and(|advice| advice.contains("write them as Parquet")));
        assert_eq!(files(&["README.txt", "dataset_info.json"]), None);
    }
}
