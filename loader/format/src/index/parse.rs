//! Parser of the index. Later stages rely on its checks: names stay below the index and are unique, raw files fit the
//! 32-bit offsets, sample counts fit the files, and lists of columns agree.

use std::io::Read;

use super::entries::Entries;
use super::entry::version;
use super::names::unique_names;
use super::object::{expected, missing};
use super::shard::Index;
use crate::json::{self, ObjectScanner, ObjectVisitor};
use crate::registry;
use forebay_core::error::{Context, Error, ErrorKind, Result};

/// Key of the list of entries, as it is written.
const SHARDS: &[u8] = b"\"shards\"";

/// Bytes of a piece of an index that is read.
const PIECE_BYTES: usize = 1 << 20;

/// Most bytes of one entry in an index that is read in pieces.
const ENTRY_BYTES_MAX: usize = 16 << 20;

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

    /// Parses the index `text` piece by piece: the text takes no memory, whatever its length.
    ///
    /// # Errors
    ///
    /// Errors of `text`; [`ErrorKind::Full`] without memory for the shards; the errors of [`parse`](Self::parse), which
    /// also knows the indexes of other programs.
    pub fn read(text: impl Read, file: &str) -> Result<Self> {
        read(text).context("file", || file)
    }
}

/// Parts of an index.
#[derive(Default)]
struct Parts {
    version: Option<Vec<u8>>,
    shards: Option<Shards>,
}

/// Value of the list of entries.
enum Shards {
    List(Entries),
    /// No list.
    Value(Vec<u8>),
}

impl ObjectVisitor for Parts {
    fn known_item(&mut self, text: &[u8]) -> Option<usize> {
        self.entries()?.add_like(text)
    }

    fn item(&mut self, item: &[u8]) {
        if let Some(entries) = self.entries() {
            entries.add(item);
        }
    }

    fn entry(&mut self, key: &[u8], value: Option<&[u8]>) {
        // Of two equal keys the last counts, as everywhere in JSON.
        match (key, value) {
            (SHARDS, None) => self.shards = Some(Shards::List(Entries::default())),
            (SHARDS, Some(value)) => self.shards = Some(Shards::Value(value.to_owned())),
            (b"\"version\"", Some(value)) => self.version = Some(value.to_owned()),
            _ => {}
        }
    }
}

impl Parts {
    fn entries(&mut self) -> Option<&mut Entries> {
        match &mut self.shards {
            Some(Shards::List(entries)) => Some(entries),
            _ => None,
        }
    }

    fn finish(self) -> Result<Index> {
        // A different version may have different entries, so the version is checked before errors in the entries are
        // reported.
        version(self.version.as_deref().map(json::parse).transpose()?.as_ref())?;
        let entries = match self.shards.ok_or_else(|| missing("shards"))? {
            Shards::List(entries) => entries,
            Shards::Value(value) => return Err(expected("shards", "a list", &json::parse(&value)?)),
        };
        let shards = entries.finish()?;
        unique_names(&shards)?;
        Ok(Index { shards })
    }
}

fn index(bytes: &[u8]) -> Result<Index> {
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Error::format("an index is a JSON object with `version` and `shards`"));
    }
    let mut parts = Parts::default();
    ObjectScanner::new(SHARDS).scan(bytes, true, &mut parts)?;
    if parts.shards.is_none()
        && let Some(noun) = registry::foreign_index(bytes)
    {
        let message = format!("this is an index of {noun}, which a Loader reads");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    parts.finish()
}

fn read(mut text: impl Read) -> Result<Index> {
    let (mut scanner, mut parts) = (ObjectScanner::new(SHARDS), Parts::default());
    let mut piece = Vec::new();
    loop {
        let mut room = PIECE_BYTES;
        if piece.len() > PIECE_BYTES {
            // An entry is longer: the pieces grow faster than the work that is done again for it.
            room = piece.len();
        }
        let is_read = |e| Error::from_io(e, "the index cannot be read");
        let found = text.by_ref().take(room as u64).read_to_end(&mut piece).map_err(is_read)?;
        let is_last = found < room;
        let done = scanner.scan(&piece, is_last, &mut parts)?;
        if is_last {
            return parts.finish();
        }
        if done == 0 && piece.len() > ENTRY_BYTES_MAX {
            return Err(Error::format("an entry of the index is not JSON, or has more than 16 MiB"));
        }
        piece.drain(..done);
    }
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
    fn an_entry_after_a_first_one_is_parsed_as_alone() {
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

    /// Text in pieces of at most `bytes` bytes.
    struct Pieces<'a> {
        text: &'a [u8],
        bytes: usize,
        largest: usize,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.largest = self.largest.max(buffer.len());
            let (piece, rest) = self.text.split_at(self.bytes.min(self.text.len()).min(buffer.len()));
            buffer[..piece.len()].copy_from_slice(piece);
            self.text = rest;
            Ok(piece.len())
        }
    }

    #[test]
    fn an_index_that_is_read_in_pieces_is_the_one_that_is_parsed_as_a_whole() {
        let entry = |text: &str| text["{\"shards\": [".len()..text.len() - "], \"version\": 2}".len()].to_owned();
        let mut entries = Vec::new();
        for number in 0..5_000 {
            for text in [MDS, JSONL] {
                let name = format!("{number:05}");
                entries.push(entry(text).replace("00000", &name).replace("\"samples\": 3", "\"samples\": 11"));
            }
        }
        // More than a piece, with an entry that is longer than one.
        let mut long = entry(MDS).replace("00000", "long");
        long.insert_str(1, &" ".repeat(3 * PIECE_BYTES));
        entries.insert(17, long);
        let text = format!("{{\"shards\": [{}], \"version\": 2}}", entries.join(", "));
        assert!(text.len() > 4 * PIECE_BYTES);
        let whole = parse(&text).unwrap();
        assert_eq!(whole.shards.len(), 10_001);
        let mut pieces = Pieces { text: text.as_bytes(), bytes: 300_007, largest: 0 };
        assert_eq!(Index::read(&mut pieces, "index.json").unwrap(), whole);
        assert!(pieces.largest <= 8 * PIECE_BYTES, "{}", pieces.largest);
        for text in [MDS, JSONL, XSV, r#"{"shards": [], "version": 2}"#] {
            let pieces = Pieces { text: text.as_bytes(), bytes: 1, largest: 0 };
            assert_eq!(Index::read(pieces, "index.json").unwrap().to_json(), text);
        }
        for text in [
            "",
            "[]",
            "{\"version\": 2}",
            "{\"shards\": 3, \"version\": 2}",
            "{\"shards\": [3], \"version\": 2}",
            "{\"shards\": [",
        ] {
            assert_eq!(Index::read(text.as_bytes(), "index.json").unwrap_err().kind(), ErrorKind::Format, "{text}");
        }
    }

    #[test]
    fn text_without_end_that_is_no_json_does_not_fill_the_memory() {
        let mut endless = Pieces { text: &vec![b'x'; 64 << 20], bytes: usize::MAX, largest: 0 };
        let e = Index::read(Read::chain(&b"{\"shards\": [\""[..], &mut endless), "index.json").unwrap_err();
        assert!(e.to_string().contains("more than 16 MiB"), "{e}");
        assert!(endless.text.len() > 16 << 20, "{}", endless.text.len());
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
    fn values_that_the_reference_tolerates_are_tolerated() {
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
