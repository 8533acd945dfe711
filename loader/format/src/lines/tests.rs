use super::*;
use crate::encoding::{Encoding, Value};
use crate::index::{Slice, SlicePart};
use crate::{Digests, FileInfo, Layout, Recipe, Shard};
use std::sync::Arc;

fn survey_of(text: &[u8], form: LineForm, range_bytes: u64) -> Result<TextSurvey> {
    survey(&text, form, range_bytes)
}

fn layout(found: &TextSurvey, form: LineForm) -> Layout {
    match form {
        LineForm::Json => Layout::json_lines(&found.counts),
        form => Layout::cells(form, &found.counts, &found.header),
    }
}

/// Samples of `text` by slices of it, each with its line: the bytes of its columns, or `None`.
fn samples(text: &[u8], form: LineForm, range_bytes: u64) -> Vec<(u64, Vec<Option<Vec<u8>>>)> {
    let found = survey_of(text, form, range_bytes).unwrap();
    let layout = Arc::new(layout(&found, form));
    let info = FileInfo { basename: "a".into(), bytes: text.len() as u64, hashes: Digests::default() };
    let mut all = Vec::new();
    for range in &found.ranges {
        let slice = Slice { part: SlicePart::Lines(range.clone()), data_bytes: text.len() as u64, meta_bytes: 0 };
        let shard = Shard { slice: Some(Box::new(slice)), ..Shard::new(layout.clone(), range.samples, info.clone()) };
        let table = shard.offsets(&text).unwrap();
        for sample in 0..table.len() {
            let (start, bytes) = table.range(sample).unwrap();
            let bytes = &text[start as usize..][..bytes as usize];
            let mut scratch = Scratch::default();
            let columns = layout.split(bytes, &mut scratch).unwrap_or_else(|e| panic!("{e}"));
            let values = (0..columns.len()).map(|i| columns.find(i).map(<[u8]>::to_vec)).collect();
            all.push((shard.line_of(sample as u64).unwrap().line, values));
        }
    }
    all
}

fn texts(values: &[&str]) -> Vec<Option<Vec<u8>>> {
    values.iter().map(|text| Some(text.as_bytes().to_vec())).collect()
}

#[test]
fn rows_of_csv_equal_the_rows_of_python() {
    let text = "\u{feff}id,text,\"x,y\"\r\n1,plain,1.5\r\n\r\n2,\"two\r\nlines, \"\"quoted\"\"\",2\r\n\
                3,,\r\n4,a \"quote\" inside,-3e2\r\n5,\"\"\"\",\"7\"\r\n6,\"ab\"cd\"e,8";
    for range_bytes in [1, 30, 1 << 20] {
        let found = samples(text.as_bytes(), LineForm::Csv, range_bytes);
        let mut third = texts(&["3", "", ""]);
        third[2] = None;
        let expected = [
            (2, texts(&["1", "plain", "1.5"])),
            (4, texts(&["2", "two\r\nlines, \"quoted\"", "2"])),
            (6, third),
            (7, texts(&["4", "a \"quote\" inside", "-3e2"])),
            (8, texts(&["5", "\"", "7"])),
            (9, texts(&["6", "abcd\"e", "8"])),
        ];
        let optional: Vec<_> = found.iter().map(|(line, values)| (*line, values.clone())).collect();
        assert_eq!(optional, expected, "{range_bytes}");
    }
    let found = survey_of(text.as_bytes(), LineForm::Csv, 1).unwrap();
    let layout = layout(&found, LineForm::Csv);
    let columns: Vec<_> = layout.columns.iter().map(|c| (c.name.as_str(), c.encoding.clone())).collect();
    assert_eq!(columns, [("id", Encoding::StrInt), ("text", Encoding::Str), ("x,y", Encoding::StrFloat)]);
    assert_eq!(layout.format.optional(), ["x,y"]);
}

#[test]
fn objects_of_json_lines_have_their_keys_as_columns() {
    let text = "{\"t\": \"a\\u00e9\\n\", \"n\": 1, \"b\": true, \"m\": {\"u\": [1]}, \"l\": [1, 2], \"f\": [1, 2.5], \
                \"x\": 1}\r\n\
                \n  \n{\"n\": 2.5, \"t\": \"\", \"b\": false, \"m\": null, \"l\": [], \"f\": [], \"x\": \"1\"}\n\
                {\"n\": -3, \"t\": \"é\", \"b\": true, \"m\": 7, \"l\": [-3], \"f\": [0], \"x\": [], \"late\": 1}";
    let found = survey_of(text.as_bytes(), LineForm::Json, 1).unwrap();
    assert_eq!((found.counts.records, found.ranges.len(), found.damaged.0), (3, 3, 0));
    let layout = layout(&found, LineForm::Json);
    let columns: Vec<_> = layout.columns.iter().map(|c| (c.name.as_str(), c.encoding.to_string())).collect();
    let ints = Encoding::Array(crate::encoding::ArrayType::flat(crate::encoding::DType::Int64)).to_string();
    let floats = Encoding::Array(crate::encoding::ArrayType::flat(crate::encoding::DType::Float64)).to_string();
    let expected = [
        ("t", "str"),
        ("n", "str_float"),
        ("b", "str_int"),
        ("m", "json"),
        ("l", &ints),
        ("f", &floats),
        ("x", "json"),
        ("late", "str_int"),
    ];
    assert_eq!(columns, expected.map(|(name, encoding)| (name, encoding.to_owned())));
    assert_eq!(layout.format.optional(), ["m", "late"]);
    let rows = samples(text.as_bytes(), LineForm::Json, 1);
    assert_eq!(rows.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 4, 5]);
    assert_eq!(rows[0].1[0].as_deref(), Some("aé\n".as_bytes()));
    assert_eq!(rows[1].1[3], None);
    assert_eq!(rows[2].1[3].as_deref(), Some(&b"7"[..]));
    let floats: Vec<u8> = [1.0_f64, 2.5].iter().flat_map(|float| float.to_le_bytes()).collect();
    assert_eq!(rows[0].1[5].as_deref(), Some(&*floats));
    assert_eq!(rows[2].1[4].as_deref(), Some(&(-3_i64).to_le_bytes()[..]));
    assert_eq!(layout.columns[2].encoding.decode(rows[1].1[2].as_deref().unwrap()).unwrap(), Value::Int(0));
}

#[test]
fn texts_that_are_no_records_have_errors_that_name_the_cause() {
    for (text, form, says) in [
        (&b"[\n{\"a\": 1}]"[..], LineForm::Json, "JSON list"),
        (b"{\n \"a\": 1\n}\n", LineForm::Json, "A record is a JSON object in one line"),
        (b"7\n", LineForm::Json, "not a JSON object (line 1)"),
        (b"\xff\xfe{\0", LineForm::Json, "UTF-16"),
        (b"{\0\"\0", LineForm::Json, "UTF-16"),
        (b"a;b\n1;2\n", LineForm::Csv, "semicolons"),
        (b"a\tb\n1\t2\n", LineForm::Csv, ".tsv"),
        (b"a,b\n1,2\n", LineForm::Tsv, "commas"),
        (b"a,a\n1,2\n", LineForm::Csv, "twice"),
        (b"a,b\n1,2\n3,\"4\n5,6\n", LineForm::Csv, "a quote is not closed (line 3)"),
        (b"a,b\n1,2,3\n", LineForm::Csv, "the row has 3 cells, and the first line of the file names 2 columns"),
        (b"caf\xe9,b\n1,2\n", LineForm::Csv, "not UTF-8"),
    ] {
        let e = survey_of(text, form, 1).expect_err(says);
        assert!(e.to_string().contains(says), "{e}");
        assert_eq!(e.kind(), crate::ErrorKind::Format);
    }
    for text in [&b""[..], b"\n\n", b"\xef\xbb\xbf"] {
        assert_eq!(survey_of(text, LineForm::Json, 1).unwrap().ranges, []);
        assert_eq!(survey_of(text, LineForm::Csv, 1).unwrap().ranges, []);
    }
}

#[test]
fn a_damaged_record_is_a_sample_with_an_error() {
    let text = b"{\"a\": 1}\n{\"a\": \n{\"a\": 3}\n";
    let found = survey_of(text, LineForm::Json, 1 << 20).unwrap();
    assert_eq!((found.ranges[0].samples, found.damaged.0), (3, 1));
    assert!(found.damaged.1.unwrap().contains("line 2"));
    let text = b"a,b\n1,2\n3\n4,5\n";
    let found = survey_of(text, LineForm::Csv, 1 << 20).unwrap();
    assert_eq!((found.ranges[0].samples, found.damaged.0), (3, 1));
    let layout = layout(&found, LineForm::Csv);
    assert!(layout.split(b"3", &mut Scratch::default()).unwrap_err().to_string().contains("1 cells"));
    let layout = Layout::json_lines(&survey_of(b"{\"a\": 1, \"b\": 2}\n", LineForm::Json, 1).unwrap().counts);
    for (text, says) in [("{\"a\": 1}", "column b"), ("{\"a\": 1, \"b\": \"x\"}", "column b"), ("{\"a\"", "`:`")] {
        let e = layout.split(text.as_bytes(), &mut Scratch::default()).unwrap_err();
        assert!(e.to_string().contains(says), "{text}: {e}");
    }
}

#[test]
fn kinds_of_cells_are_numbers_only_where_all_cells_are() {
    for (cells, encoding) in [
        (&["1", "-2", ""][..], Encoding::StrInt),
        (&["1", "2.5", "nan", "-inf", ".5", "1e-3"], Encoding::StrFloat),
        (&["1", "x"], Encoding::Str),
        (&["", ""], Encoding::Str),
        (&["+1"], Encoding::Str),
        (&["1_000"], Encoding::Str),
        (&[" 1"], Encoding::Str),
        (&["2024-01-01"], Encoding::Str),
        (&["infinity"], Encoding::Str),
        (&["1", "-9007199254740993"], Encoding::StrInt),
        (&["1.5", "9007199254740993"], Encoding::Str),
        (&["1", "17293822569102704640"], Encoding::Str),
    ] {
        let text = format!("a,b\n{}\n", cells.iter().map(|cell| format!("{cell},z")).collect::<Vec<_>>().join("\n"));
        let found = survey_of(text.as_bytes(), LineForm::Csv, 1).unwrap();
        assert_eq!(layout(&found, LineForm::Csv).columns[0].encoding, encoding, "{cells:?}");
    }
}

#[test]
fn whole_numbers_of_json_are_never_rounded() {
    let array = |dtype| Encoding::Array(crate::encoding::ArrayType::flat(dtype));
    for (values, encoding) in [
        (&["1", "9007199254740993"][..], Encoding::StrInt),
        (&["1", "2.5"], Encoding::StrFloat),
        (&["9007199254740993", "2.5"], Encoding::Json),
        (&["1", "17293822569102704640"], Encoding::Json),
        (&["[1]", "[9007199254740993]"], array(crate::encoding::DType::Int64)),
        (&["[1]", "[2.5]"], array(crate::encoding::DType::Float64)),
        (&["[9007199254740993]", "[2.5]"], Encoding::Json),
        (&["[17293822569102704640]"], Encoding::Json),
    ] {
        let text: String = values.iter().map(|value| format!("{{\"a\": {value}}}\n")).collect();
        let found = survey_of(text.as_bytes(), LineForm::Json, 1).unwrap();
        assert_eq!(layout(&found, LineForm::Json).columns[0].encoding, encoding, "{values:?}");
    }
}

#[test]
fn columns_of_several_files_are_merged_and_rows_keep_the_order_of_their_file() {
    let first = survey_of(b"a,b\n1,x\n", LineForm::Csv, 1).unwrap();
    let second = survey_of(b"b,c,a\ny,2,0.5\n", LineForm::Csv, 1).unwrap();
    let mut counts = LineCounts::default();
    let kept: LineCounts = serde_json::from_str(&serde_json::to_string(&first.counts).unwrap()).unwrap();
    counts.merge(&kept).unwrap();
    counts.merge(&second.counts).unwrap();
    let layouts = [&first, &second].map(|found| Layout::cells(LineForm::Csv, &counts, &found.header));
    assert_eq!(layouts[0].columns, layouts[1].columns);
    assert_eq!(layouts[0].columns[0].encoding, Encoding::StrFloat);
    assert_eq!(layouts[0].format.optional(), ["c"]);
    let wanted = ["c", "a"].map(|name| ColumnUse { name, has_default: name == "c", form: crate::ColumnForm::Value });
    let rows = [(&layouts[0], &b"1,x"[..]), (&layouts[1], b"y,2,0.5")].map(|(layout, row)| {
        let layout = layout.projected(Some(&wanted)).unwrap();
        let mut scratch = Scratch::default();
        let columns = layout.split(row, &mut scratch).unwrap();
        [0, 1].map(|i| columns.find(i).map(<[u8]>::to_vec))
    });
    assert_eq!(rows, [[None, Some(b"1".to_vec())], [Some(b"2".to_vec()), Some(b"0.5".to_vec())]]);
}

#[test]
fn a_packed_text_becomes_the_bytes_of_its_records() {
    let text = b"a,b\n1,2\n3,4\n";
    let found = survey_of(text, LineForm::Csv, 1 << 20).unwrap();
    let layout = layout(&found, LineForm::Csv);
    let packed = crate::Compression::GZIP.compress(text).unwrap();
    let recipe = crate::recipe::LinesOfText {
        key: "a.csv.gz".into(),
        file_bytes: packed.len() as u64,
        range: found.ranges[0].clone(),
        packed: Some((crate::Compression::GZIP, text.len() as u64)),
    };
    assert_eq!(recipe.ranges()[0].bytes, packed.len() as u64);
    assert_eq!(recipe.assemble(&layout, 2, vec![packed.into()]).unwrap(), b"1,2\n3,4\n");
}

#[test]
fn a_record_is_whole_wherever_the_reads_of_its_file_end() {
    let long = "x".repeat((1 << 20) - 7);
    let text = format!("{{\"a\": \"{long}\"}}\r\n{{\"a\": \"{long}\"}}\n{{\"a\": \"b\"}}");
    let found = samples(text.as_bytes(), LineForm::Json, 1 << 40);
    assert_eq!(
        found.iter().map(|(_, values)| values[0].as_ref().unwrap().len()).collect::<Vec<_>>(),
        [long.len(), long.len(), 1]
    );
    let text = format!("a,b\n\"{long}\n\"\"\",2\n\"\"\"\",3\n");
    let found = samples(text.as_bytes(), LineForm::Csv, 1 << 40);
    assert_eq!(
        found.iter().map(|(_, values)| values[0].as_ref().unwrap().len()).collect::<Vec<_>>(),
        [long.len() + 2, 1]
    );
}
