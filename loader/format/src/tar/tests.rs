use super::samples::offsets;
use super::*;
use crate::{Column, ColumnForm, ColumnUse, Compression, Encoding, Layout, Scratch, Shard};
use ::tar::{Builder, EntryType, Header};
use forebay_core::error::ErrorKind;

/// Archive of files with names and contents.
fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    files.iter().for_each(|(name, content)| add(&mut builder, EntryType::Regular, name, content));
    builder.into_inner().unwrap()
}

fn add(builder: &mut Builder<Vec<u8>>, kind: EntryType, name: &str, content: &[u8]) {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    builder.append_data(&mut header, name, content).unwrap();
}

const TWO: [(&str, &[u8]); 5] = [
    ("a/0.jpg", b"JPEG"),
    ("a/0.cls", b" 7\n"),
    ("a/1.PNG", b"PNG of more bytes"),
    ("a/1.cls", b"8"),
    ("a/1.txt", b"x"),
];

fn required(name: &str) -> ColumnUse<'_> {
    ColumnUse { name, has_default: false, form: ColumnForm::Value }
}

/// Values of the columns `wanted` of every sample; `__key__` for all columns that every sample has.
fn values(bytes: &[u8], wanted: Option<&[&str]>) -> crate::Result<Vec<Vec<String>>> {
    let counts = count_fields(bytes)?;
    let wanted = wanted.map(|names| names.iter().map(|name| required(name)).collect::<Vec<_>>());
    let layout = Layout::tar(&counts).projected(wanted.as_deref()).unwrap_or(Layout::tar(&counts));
    let table = offsets(bytes, counts.samples)?;
    let mut scratch = Scratch::default();
    (0..table.len())
        .map(|i| {
            let (start, len) = table.range(i)?;
            let columns = layout.split(&bytes[start as usize..][..len as usize], &mut scratch)?;
            Ok(columns.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect())
        })
        .collect()
}

#[test]
fn files_with_one_key_are_a_sample() {
    let bytes = archive(&TWO);
    let counts = count_fields(&*bytes).unwrap();
    assert_eq!(counts.samples, 2);
    assert_eq!(
        counts.fields.clone().into_iter().map(|(field, n)| format!("{field} {n}")).collect::<Vec<_>>(),
        ["cls 2", "jpg 1", "png 1", "txt 1"]
    );
    let layout = Layout::tar(&counts);
    assert_eq!(layout.format.optional(), ["jpg", "png", "txt"]);
    let encodings: Vec<_> = layout.columns.iter().map(|column| (&*column.name, column.encoding.clone())).collect();
    assert_eq!(
        encodings,
        [
            ("__key__", Encoding::Str),
            ("cls", Encoding::StrInt),
            ("jpg", Encoding::Jpeg),
            ("png", Encoding::Png),
            ("txt", Encoding::Str)
        ]
    );
    assert_eq!(values(&bytes, None).unwrap(), [["a/0", " 7\n"], ["a/1", "8"]]);
}

#[test]
fn a_column_may_be_the_first_of_several_fields() {
    let found = values(&archive(&TWO), Some(&["jpg;png", "cls", "png;jpg"])).unwrap();
    assert_eq!(found[0], ["JPEG", " 7\n", "JPEG"]);
    assert_eq!(found[1], ["PNG of more bytes", "8", "PNG of more bytes"]);
    let both = archive(&[("0.png", b"second"), ("0.jpg", b"first")]);
    assert_eq!(values(&both, Some(&["jpg;png", "webp;png;jpg"])).unwrap(), [["first", "second"]]);
}

#[test]
fn a_sample_without_a_requested_field_is_an_error_with_its_key() {
    let error = values(&archive(&TWO), Some(&["txt"])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Format);
    assert!(error.to_string().contains("column txt") && error.to_string().contains("key a/0"), "{error}");
    // An unknown column leaves all of them, for the error of the fields.
    let layout = Layout::tar(&count_fields(&*archive(&TWO)).unwrap());
    assert_eq!(layout.projected(Some(&["cls", "absent;gone"].map(required))), None);
    assert!(layout.split(&archive(&TWO)[..2048], &mut Scratch::default()).is_ok(), "optional columns may be absent");
}

#[test]
fn a_column_with_a_default_may_be_absent_from_a_sample_and_from_all() {
    let layout = Layout::tar(&count_fields(&*archive(&TWO)).unwrap());
    let columns = ["txt", "absent;cls2"].map(|name| ColumnUse { name, has_default: true, form: ColumnForm::Value });
    let layout = layout.projected(Some(&columns)).unwrap();
    assert_eq!(layout.columns[1], Column::new("absent;cls2", Encoding::Bytes));
    let (archive, mut scratch) = (archive(&TWO), Scratch::default());
    let columns = layout.split(&archive[..2048], &mut scratch).unwrap();
    assert_eq!((columns.find(0), columns.get(0), columns.find(1)), (None, &b""[..], None));
}

#[test]
fn members_that_are_no_files_of_samples_are_left_out() {
    let mut builder = Builder::new(Vec::new());
    add(&mut builder, EntryType::Directory, "a/", b"");
    add(&mut builder, EntryType::Regular, "__meta__/info.json", b"{}");
    add(&mut builder, EntryType::Regular, "a/0.txt", b"zero");
    add(&mut builder, EntryType::Regular, "README", &[b'r'; 3000]);
    add(&mut builder, EntryType::Regular, "a/._1.txt", b"AppleDouble");
    add(&mut builder, EntryType::Regular, &format!("{}/1.txt", "long".repeat(60)), b"one");
    add(&mut builder, EntryType::Link, "a/2.txt", b"");
    let bytes = builder.into_inner().unwrap();
    let long = format!("{}/1", "long".repeat(60));
    assert_eq!(values(&bytes, Some(&["txt", "__key__"])).unwrap(), [["zero", "a/0"], ["one", &long]]);
    let table = offsets(&*bytes, 2).unwrap();
    assert_eq!(table.range(0).unwrap().1, 1024, "files between two samples are not read");
    assert!(table.range(2).is_err());
}

#[test]
fn one_empty_block_is_an_end() {
    assert_eq!(values(&archive(&TWO)[..11 * 512], None).unwrap().len(), 2);
}

#[test]
fn damaged_archives_are_rejected_with_the_offset() {
    let whole = archive(&TWO);
    let joined = [&whole[..], &whole[..]].concat();
    let mut flipped = whole.clone();
    flipped[1024 + 3] ^= 1;
    for (bytes, words) in [
        (&whole[..514], "cut off"),
        (&whole[..9 * 512 - 100], "cut off"),
        (&whole[..10 * 512], "cut off"),
        (&[], "cut off"),
        (&joined[..], "data follow the end of the archive"),
        (&flipped[..], "checksum"),
        (b"<html>no such page</html>", "cut off"),
        (&[b'x'; 600], "checksum"),
    ] {
        let error = count_fields(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Format);
        assert!(error.to_string().contains(words) && error.to_string().contains("offset"), "{words}: {error}");
    }
    let twice = archive(&[("0.txt", b"1"), ("0.TXT", b"2")]);
    assert!(count_fields(&*twice).unwrap_err().to_string().contains("two files of one field"));
    let dotted: Vec<String> = (0..1001).map(|number| format!("0.{number}.jpg")).collect();
    let dotted = archive(&dotted.iter().map(|name| (&**name, &b"x"[..])).collect::<Vec<_>>());
    assert!(count_fields(&*dotted).unwrap_err().to_string().contains("keys of the samples may not contain dots"));
    let key = archive(&[("0.__key__", b"1")]);
    assert!(count_fields(&*key).unwrap_err().to_string().contains("field __key__"));
    assert!(offsets(&*whole, 3).unwrap_err().to_string().contains("2 samples where the index declares 3"));
}

#[test]
fn an_index_of_tars_is_written_and_read() {
    let bytes = archive(&TWO);
    let layout = Layout::tar(&count_fields(&*bytes).unwrap());
    let file = crate::FileInfo { basename: "a.tar".into(), bytes: bytes.len() as u64, hashes: Default::default() };
    let shard = Shard::new(layout.into(), 2, file);
    let index = crate::Index { shards: vec![shard] };
    assert_eq!(crate::Index::parse(index.to_json().as_bytes(), "index.json").unwrap(), index);
    assert_eq!(index.shards[0].offsets(&*bytes).unwrap().len(), 2);
}

#[test]
fn a_sparse_file_of_too_many_pieces_is_an_error_and_not_cut() {
    for pieces in [1 << 16, (1 << 16) + 1] {
        let mut builder = Builder::new(Vec::new());
        let map = vec!["0,0"; pieces].join(",");
        let records = [("GNU.sparse.size", &b"1"[..]), ("GNU.sparse.map", map.as_bytes())];
        builder.append_pax_extensions(records).unwrap();
        add(&mut builder, EntryType::Regular, "a.x", b"");
        let counted = count_fields(&*builder.into_inner().unwrap()).map(|counts| counts.samples);
        match counted {
            Ok(samples) => assert_eq!((samples, pieces), (1, 1 << 16)),
            Err(error) => assert!(pieces > 1 << 16 && error.to_string().contains("more than 65536 pieces"), "{error}"),
        }
    }
}

#[test]
fn a_column_without_files_and_without_a_type_is_unknown_unless_more_samples_may_have_it() {
    let layout =
        |is_sampled| Layout::tar(&FieldCounts { samples: 2, fields: [("txt".to_owned(), 2)].into(), is_sampled });
    // The last two are read as bytes, since their fields have several types.
    for name in ["label", "label;caption", "label;cls", "jpg;png"] {
        assert!(layout(false).is_unknown(name) && !layout(true).is_unknown(name), "{name}");
    }
    for name in ["txt", "label;txt", "cls", "cls;id"] {
        assert!(!layout(false).is_unknown(name), "{name}");
    }
    assert!(!layout(false).may_have_more_columns() && layout(true).may_have_more_columns());
}

fn gz(raw: &[u8]) -> Vec<u8> {
    Compression::GZIP.compress(raw).unwrap()
}

#[test]
fn compressed_files_are_unpacked_unless_their_stored_bytes_are_read() {
    let (text, json) = (gz(b"some text"), gz(b"{}"));
    let bytes = archive(&[
        ("0.txt.gz", &text),
        ("0.json.gz", &json),
        ("0.gz", &text),
        ("1.txt", b"plain"),
        ("1.json.gz", &json),
        ("1.gz", &json),
    ]);
    let wanted = ["txt;txt.gz", "json.gz", "gz"];
    assert_eq!(values(&bytes, Some(&wanted)).unwrap(), [["some text", "{}", "some text"], ["plain", "{}", "{}"]]);
    let layout = Layout::tar(&count_fields(&*bytes).unwrap());
    let encodings = |form| {
        let wanted = wanted.map(|name| ColumnUse { name, has_default: false, form });
        let layout = layout.projected(Some(&wanted)).unwrap();
        let mut scratch = Scratch::default();
        let end = offsets(&*bytes, 2).unwrap().range(0).unwrap().1 as usize;
        let values: Vec<_> = layout.split(&bytes[..end], &mut scratch).unwrap().iter().map(<[u8]>::to_vec).collect();
        (layout.columns.iter().map(|column| column.encoding.clone()).collect::<Vec<_>>(), values)
    };
    let (known, values) = encodings(ColumnForm::Value);
    assert_eq!(known, [Encoding::Str, Encoding::Json, Encoding::Bytes]);
    assert_eq!(values[0], b"some text");
    let (known, values) = encodings(ColumnForm::Stored);
    assert_eq!((known, values), (vec![Encoding::Bytes; 3], vec![text.clone(), json.clone(), text.clone()]));
    // Without fields they stay as they are stored.
    let all = layout.projected(None).unwrap();
    assert!(all.columns.iter().all(|column| column.name == "__key__" || column.encoding == Encoding::Bytes));
}

#[test]
fn a_compressed_file_that_is_damaged_or_a_bomb_is_an_error_with_its_sample() {
    let zeros = gz(&vec![0; 1 << 20]).repeat(300);
    for (content, words) in [(&gz(b"text")[..9], "gz"), (b"no gzip", "gz"), (&zeros, "decompression bomb")] {
        let bytes = archive(&[("a/7.txt.gz", content)]);
        let e = values(&bytes, Some(&["txt.gz"])).unwrap_err();
        let text = e.to_string();
        assert!(text.contains(words) && text.contains("column txt.gz") && text.contains("key a/7"), "{text}");
    }
}

#[test]
fn the_place_of_a_file_is_known_by_the_headers_of_its_sample() {
    let bytes = archive(&[("0.txt", b"x"), ("0.jpeg", b"second"), ("0.jpg", b"first"), ("0.cls.gz", b"1")]);
    let layout = Layout::tar(&count_fields(&*bytes).unwrap());
    let wanted = [
        required("jpg;jpeg"),
        ColumnUse { name: "absent", has_default: true, form: ColumnForm::Value },
        required("cls.gz"),
        ColumnUse { name: "txt", has_default: false, form: ColumnForm::Stored },
    ];
    let layout = layout.projected(Some(&wanted)).unwrap();
    let (start, length) = offsets(&*bytes, 1).unwrap().range(0).unwrap();
    let sample = &bytes[start as usize..][..length as usize];
    let place = |column| {
        let place = layout.value_range(column, &sample).unwrap()?;
        Some(&sample[place.start as usize..place.end as usize])
    };
    // A compressed file is unpacked.
    assert_eq!([0, 1, 2, 3].map(place), [Some(&b"first"[..]), None, None, Some(b"x")]);
    assert!(layout.value_range(0, &&sample[..300]).is_err());
}
