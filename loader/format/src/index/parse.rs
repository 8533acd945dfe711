//! Parser of the index. Later stages rely on its checks: names stay below the index and are unique, raw files fit the
//! 32-bit offsets, sample counts fit the files, and lists of columns agree.

use std::collections::HashSet;

use super::entries::Entries;
use super::entry::version;
use super::object::{expected, missing};
use super::shard::{FileInfo, Index, Shard};
use crate::json::{self, ScannedPart};
use crate::registry;
use forebay_core::error::{Context, Error, ErrorKind, Result};

/// Key of the list of entries, as it is written.
const SHARDS: &[u8] = b"\"shards\"";

impl Index {
    /// Parses an index; `file` is its name in errors.
    ///
    /// Unknown keys next to `version` and `shards` are ignored; unknown keys inside a shard are errors, both as in the
    /// reference. An index without shards is valid and holds no sample.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`], or [`crate::ErrorKind::Unsupported`] for a different version, format, compression
    /// or hash, with `file`, shard number and field.
    pub fn parse(bytes: &[u8], file: &str) -> Result<Self> {
        index(bytes).context("file", || file)
    }
}

fn index(bytes: &[u8]) -> Result<Index> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Error::format("an index is a JSON object with `version` and `shards`"));
    }
    let (mut version_at, mut shards_at) = (None, None);
    let (mut entries, mut is_in_list) = (Entries::default(), false);
    json::scan_object_with_list(bytes, SHARDS, |part| {
        let is_item = matches!(part, ScannedPart::Item(_));
        match part {
            ScannedPart::Item(entry) => {
                if !is_in_list {
                    entries = Entries::default();
                }
                entries.add(&bytes[entry]);
            }
            // Of two equal keys the last counts, as everywhere in JSON.
            ScannedPart::Entry(key, value) => match &bytes[key] {
                b"\"version\"" => version_at = Some(value),
                SHARDS => {
                    if !is_in_list {
                        entries = Entries::default();
                    }
                    shards_at = Some(value);
                }
                _ => {}
            },
        }
        is_in_list = is_item;
    })?;
    if shards_at.is_none()
        && let Some(noun) = registry::foreign_index(bytes)
    {
        let message = format!("this is an index of {noun}, which a Loader reads");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    // A different version may have other entries, so the version is checked before errors in the entries are reported.
    version(version_at.map(|at| json::parse(&bytes[at])).transpose()?.as_ref())?;
    let list = &bytes[shards_at.ok_or_else(|| missing("shards"))?];
    if !list.starts_with(b"[") {
        return Err(expected("shards", "a list", &json::parse(list)?));
    }
    let shards = entries.finish()?;
    unique_names(&shards)?;
    Ok(Index { shards })
}

/// Returns true if no two files have one name. The names of a data set are nearly in order, so that it takes no table
/// of all.
fn are_unique(shards: &[Shard]) -> bool {
    let files: [fn(&Shard) -> Option<&FileInfo>; 4] = [
        |shard| Some(&shard.raw_data),
        |shard| shard.zip_data.as_ref(),
        |shard| shard.raw_meta.as_deref(),
        |shard| shard.zip_meta.as_deref(),
    ];
    let mut names: Vec<&str> =
        files.iter().flat_map(|file| shards.iter().filter_map(file)).map(|file| &*file.basename).collect();
    // Numbers may become longer. The sort finds parts that are in order.
    names.sort_by_key(|name| (name.len(), *name));
    names.windows(2).all(|pair| pair[0] != pair[1])
}

fn unique_names(shards: &[Shard]) -> Result<()> {
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
    use super::super::entry::zip_bytes_max;
    use super::*;
    use crate::{Compression, Encoding};
    use std::sync::Arc;

    const MDS: &str = r#"{"shards": [{"column_encodings": ["str", "int"], "column_names": ["id", "x"], "column_sizes": [null, 8], "compression": "zstd:3", "format": "mds", "hashes": ["xxh64"], "raw_data": {"basename": "shard.00000.mds", "bytes": 256, "hashes": {"xxh64": "ef46db3751d8e999"}}, "samples": 3, "size_limit": 256, "version": 2, "zip_data": {"basename": "shard.00000.mds.zstd", "bytes": 100, "hashes": {"xxh64": "ef46db3751d8e999"}}}], "version": 2}"#;
    const JSONL: &str = r#"{"shards": [{"columns": {"a": "int", "b": "str"}, "compression": null, "format": "json", "hashes": [], "newline": "\n", "raw_data": {"basename": "shard.00000.json", "bytes": 20, "hashes": {}}, "raw_meta": {"basename": "shard.00000.json.meta", "bytes": 200, "hashes": {}}, "samples": 2, "size_limit": null, "version": 2, "zip_data": null, "zip_meta": null}], "version": 2}"#;
    const XSV: &str = r#"{"shards": [{"column_encodings": ["int", "float"], "column_names": ["a", "b"], "compression": null, "format": "xsv", "hashes": [], "newline": "\n", "raw_data": {"basename": "shard.00000.xsv", "bytes": 20, "hashes": {}}, "raw_meta": {"basename": "shard.00000.xsv.meta", "bytes": 200, "hashes": {}}, "samples": 2, "separator": "|", "size_limit": 67108864, "version": 2, "zip_data": null, "zip_meta": null}], "version": 2}"#;

    fn parse(text: &str) -> Result<Index> {
        Index::parse(text.as_bytes(), "index.json")
    }

    #[test]
    fn every_format_is_written_back_byte_for_byte() {
        for text in [MDS, JSONL, XSV, r#"{"shards": [], "version": 2}"#] {
            assert_eq!(parse(text).unwrap().to_json(), text);
        }
        let shard = &parse(JSONL).unwrap().shards[0];
        assert_eq!(&*shard.table_file().basename, "shard.00000.json.meta");
        assert_eq!((shard.table_bytes(), shard.raw_bytes(), shard.zip_bytes()), (16, 220, None));
    }

    #[test]
    fn shards_with_the_same_columns_share_them() {
        let entry = &MDS["{\"shards\": [".len()..MDS.len() - "], \"version\": 2}".len()];
        let second = entry.replace("00000", "00001");
        let index = parse(&format!("{{\"version\": 2, \"shards\": [{entry}, {second}]}}")).unwrap();
        assert!(Arc::ptr_eq(&index.shards[0].layout, &index.shards[1].layout));
        assert_eq!(index.samples(), 6);
    }

    #[test]
    fn no_compression_makes_files_larger_than_the_bound() {
        let raw: Vec<u8> = (0..1 << 20).map(|n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        for name in ["zstd", "br", "bz2", "gz", "snappy"] {
            for len in [0, 1, 1000, raw.len()] {
                let packed = Compression::parse(name).unwrap().compress(&raw[..len]).unwrap();
                assert!(packed.len() as u64 <= len as u64 + len as u64 / 6 + 1000, "{name}: {len} to {}", packed.len());
                assert!(packed.len() as u64 <= zip_bytes_max(len as u64));
            }
        }
    }

    #[test]
    fn hostile_indexes_are_rejected_with_file_and_field() {
        for (text, from, to, field) in [
            (MDS, "\"version\": 2}", "\"version\": 1}", "field version"),
            (MDS, "\"samples\": 3", "\"samples\": -3", "field samples"),
            (MDS, "\"samples\": 3", "\"samples\": 3.5", "field samples"),
            (MDS, "\"samples\": 3", "\"samples\": 18446744073709551615", "field samples"),
            (MDS, "\"samples\": 3", "\"samples\": 64", "field samples"),
            (MDS, "\"samples\": 3", "\"samples\": 3, \"extra\": 1", "field \"extra\""),
            (MDS, "\"samples\": 3, ", "", "field samples"),
            (MDS, "\"mds\"", "\"mds2\"", "field format"),
            (MDS, "zstd:3", "zstd:99", "field compression"),
            (MDS, "\"bytes\": 256", "\"bytes\": 4294967296", "field raw_data.bytes"),
            (MDS, "\"bytes\": 256", "\"bytes\": 256, \"more\": 0", "in raw_data"),
            (
                MDS,
                "[null, 8]",
                "[0, 8]",
                "from 1 to 4294967295 or null is expected, not 0 (field column_sizes, column id",
            ),
            (MDS, "[null, 8]", "[4611686018427387904, 8]", "not 4611686018427387904 (field column_sizes"),
            (
                MDS,
                "\"ef46db3751d8e999\"",
                "\"00\"",
                "text of 16 hexadecimal digits for xxh64 is expected, not \"00\" (field hashes",
            ),
            (MDS, "[\"id\", \"x\"]", "[\"id\", 3]", "a list of texts is expected, not 3 (field column_names"),
            (MDS, "[null, 8]", "[null]", "field column_names"),
            (MDS, "[\"id\", \"x\"]", "[\"x\", \"x\"]", "column x"),
            (MDS, "[\"xxh64\"]", "[\"crc32\"]", "field hashes"),
            (MDS, "ef46db3751d8e999", "EF46DB3751D8E999", "field hashes"),
            (MDS, "\"zstd:3\"", "null", "field zip_data"),
            (MDS, "\"bytes\": 100,", "\"bytes\": 100000000000000000,", "field zip_data.bytes"),
            (MDS, "\"bytes\": 100,", "\"bytes\": 1049089,", "field zip_data.bytes"),
            (MDS, "shard.00000.mds.zstd", "shard.00000.mds", "field basename"),
            (JSONL, "\"int\"", "\"bytes\"", "field columns"),
            (JSONL, "\"bytes\": 200", "\"bytes\": 12", "field samples"),
            (XSV, "\"|\"", "\"\"", "newline"),
        ] {
            assert!(text.contains(from), "{from}");
            let e = parse(&text.replace(from, to)).unwrap_err();
            assert!(e.to_string().contains(field), "{from} -> {to}: {e}");
            assert!(e.to_string().contains("file index.json"), "{e}");
            assert!(matches!(e.kind(), ErrorKind::Format | ErrorKind::Unsupported), "{e:?}");
        }
    }

    #[test]
    fn an_entry_after_another_one_is_parsed_as_alone() {
        let entry = |text: &str| text["{\"shards\": [".len()..text.len() - "], \"version\": 2}".len()].to_owned();
        let second = |text: &str| {
            let names = text.replace("00000", "00001").replace("\"samples\": ", "\"samples\":  1");
            names.replace("\"bytes\": 256", "\"bytes\": 912").replace("ef46db3751d8e999", "0123456789abcdef")
        };
        let index = |entries: &[&str]| format!("{{\"shards\": [{}], \"version\": 2}}", entries.join(", "));
        for text in [MDS, JSONL, XSV] {
            let (first, second) = (entry(text), second(&entry(text)));
            let (alone, both) = (parse(&index(&[&second])).unwrap(), parse(&index(&[&first, &second])).unwrap());
            assert_eq!((both.shards.len(), &both.shards[1]), (2, &alone.shards[0]));
            assert_ne!(both.shards[0].samples, both.shards[1].samples);
            // Different columns, and a shard without compression.
            let other = entry(text).replace("\"x\"", "\"y\"").replace("\"a\"", "\"c\"").replace("00000", "00002");
            let mixed = parse(&index(&[&first, &other])).unwrap();
            assert_eq!(mixed.shards[1], parse(&index(&[&other])).unwrap().shards[0]);
            assert_ne!(mixed.shards[1].layout, mixed.shards[0].layout);
        }
        let first = entry(MDS);
        for (from, to) in [
            ("\"samples\": 3", "\"samples\": -3"),
            ("\"samples\": 3", "\"samples\": NaN"),
            ("\"samples\": 3", "\"samples\": 64"),
            ("\"samples\": 3, ", ""),
            ("\"bytes\": 256", "\"bytes\": 4294967296"),
            ("\"bytes\": 256", "\"bytes\": 256, \"more\": 0"),
            ("\"bytes\": 100,", "\"bytes\": 1049089,"),
            ("ef46db3751d8e999", "EF46DB3751D8E999"),
            ("\"xxh64\": ", "\"crc32\": "),
            ("shard.00001.mds.zstd", "../shard.00001.mds.zstd"),
            ("shard.00001.mds.zstd", "shard.00000.mds"),
            ("\"version\": 2", "\"version\": 1"),
        ] {
            let changed = first.replace("00000", "00001").replacen(from, to, 1);
            let e = parse(&index(&[&first, &changed])).expect_err(to);
            assert!(e.to_string().contains("shard 1"), "{to}: {e}");
        }
        let escaped = first.replace("00000", "00001").replace("shard.00001.mds\"", "sh\\u0061rd.00001.mds\"");
        assert_eq!(&*parse(&index(&[&first, &escaped])).unwrap().shards[1].raw_data.basename, "shard.00001.mds");
    }

    #[test]
    fn names_that_leave_their_directory_are_rejected() {
        for name in [
            "",
            "/etc/passwd",
            "../x",
            "a/../../x",
            "a//x",
            "./x",
            "a/",
            "a\\\\x",
            "a\\u0000",
            "index.json",
            "a/index.json",
            "x.tmp",
        ] {
            let e = parse(&JSONL.replace("shard.00000.json\"", &format!("{name}\""))).unwrap_err();
            assert!(e.to_string().contains("field basename"), "{name}: {e}");
        }
        let long = "a".repeat(256);
        assert!(parse(&JSONL.replace("shard.00000.json\"", &format!("{long}\""))).is_err());
        parse(&JSONL.replace("shard.00000.json\"", "part-1/deeper/shard.00000.json\"")).unwrap();
    }

    #[test]
    fn what_the_reference_tolerates_is_tolerated() {
        parse(&MDS.replace("\"version\": 2}", "\"version\": 2, \"made_by\": \"x\"}").replacen(
            ", \"made_by\": \"x\"}]",
            "}]",
            1,
        ))
        .unwrap();
        assert_eq!(
            parse(&MDS.replace("\"size_limit\": 256", "\"size_limit\": \"1.5kb\"")).unwrap().shards[0].size_limit,
            Some(1536)
        );
        let custom = parse(&MDS.replace("[\"str\"", "[\"my_encoding\"")).unwrap();
        assert_eq!(custom.shards[0].layout.columns[0].encoding, Encoding::Custom("my_encoding".into()));
    }

    #[test]
    fn an_encoding_registered_under_a_known_name_is_recognised_by_its_size() {
        let encoding = |name: &str, sizes: &str| {
            let text = MDS.replace("[\"str\"", &format!("[\"{name}\"")).replace("[null, 8]", sizes);
            let column = parse(&text).unwrap().shards[0].layout.columns[0].clone();
            (column.encoding, column.size)
        };
        let custom = |name: &str, size| (Encoding::Custom(name.into()), size);
        assert_eq!(encoding("uint8", "[1, 8]"), (Encoding::parse("uint8").unwrap(), Some(1)));
        assert_eq!(encoding("uint8", "[null, 8]"), custom("uint8", None));
        assert_eq!(encoding("uint16", "[4, 8]"), custom("uint16", Some(4)));
        assert_eq!(encoding("jpeg", "[9, 8]"), custom("jpeg", Some(9)));
        assert_eq!(encoding("pkl", "[9, 8]"), (Encoding::Pickle, Some(9)));
    }

    #[test]
    fn json_that_is_not_an_index_is_described() {
        let entry = &MDS["{\"shards\": [".len()..MDS.len() - "], \"version\": 2}".len()];
        for (text, says) in [
            ("[]".to_owned(), "an index is a JSON object"),
            ("3".to_owned(), "an index is a JSON object"),
            ("{\"version\": 2}".to_owned(), "field shards"),
            ("{\"shards\": []}".to_owned(), "field version"),
            ("{\"shards\": 3, \"version\": 2}".to_owned(), "a list is expected, not 3"),
            ("{\"shards\": {}, \"version\": 1}".to_owned(), "version 1 is not supported"),
            // The version comes after the entries.
            ("{\"shards\": [3], \"version\": 1}".to_owned(), "version 1 is not supported"),
            (format!("{{\"shards\": [{entry}, 3], \"version\": 2}}"), "a shard is a JSON object (shard 1"),
            (format!("{MDS} x"), "not valid JSON"),
            ("{\"shards\": [], \"version\": 2".to_owned(), "not valid JSON"),
            ("<html>".to_owned(), "an index is a JSON object"),
        ] {
            let e = parse(&text).unwrap_err();
            assert!(e.to_string().contains(says), "{text}: {e}");
        }
        // The last of two lists counts.
        let twice = format!("{{\"shards\": [{entry}], \"shards\": [], \"version\": 2}}");
        assert_eq!(parse(&twice).unwrap().shards, []);
    }

    #[test]
    fn deep_json_is_rejected() {
        let e = parse(&format!("{{\"version\": 2, \"shards\": {}", "[".repeat(100_000))).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Format);
    }
}
