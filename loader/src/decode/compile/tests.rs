use super::*;
use crate::decode::draw::DrawKey;
use crate::decode::plan::RowShape;
use crate::decode::ragged::read_ragged;
use crate::decode::row::Row;
use crate::error::ErrorKind;
use crate::format::encoding::{DType, Encoding};
use forebay_picture::geometry::{PIXELS_MAX, Size};
use forebay_picture::jpeg::{Subsampling, encode};

fn column(name: &str, encoding: &str) -> Column {
    Column::new(name, Encoding::parse(encoding).unwrap())
}

fn fields(json: &str) -> Vec<(String, FieldSpec)> {
    serde_json::from_str(json).unwrap()
}

fn compile(json: &str, columns: &[Column]) -> Result<Arc<FieldPlan>> {
    FieldPlan::compile(Some(&fields(json)), columns, 1)
}

/// Decodes with rows of the right kind. Fixed rows are returned as bytes, too.
fn decode(plan: &Arc<FieldPlan>, columns: &[&[u8]], draw: u64) -> Result<Vec<Vec<u8>>> {
    let mut out: Vec<Vec<u8>> = plan.outputs().iter().map(|o| vec![0xee; o.row_bytes().unwrap_or(3)]).collect();
    let rows = out.iter_mut().zip(plan.outputs());
    let rows = rows.map(|(v, o)| if o.row_bytes().is_some() { Row::Fixed(v.as_mut_slice()) } else { Row::Var(v) });
    plan.decoder().decode(|i| columns.get(i).copied(), |_| &[], DrawKey { epoch: 0, stream: 0, draw }, rows)?;
    Ok(out)
}

/// Raw picture: red is the column, green is the row.
fn ramp(w: u32, h: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [w, h, 3] {
        out.extend(word.to_le_bytes());
    }
    out.extend(b"RGB");
    for y in 0..h {
        for x in 0..w {
            out.extend([x as u8, y as u8, 7]);
        }
    }
    out
}

#[test]
fn an_absent_column_is_an_error_with_as_many_columns_as_are_readable() {
    let mut columns: Vec<Column> = (0..30).map(|number| column(&format!("part{number}"), "int")).collect();
    columns.insert(0, column("__fields__", "str"));
    columns.insert(1, column("label", "int"));
    let e = compile(r#"[["y", {"kind": "scalar", "column": "lable"}]]"#, &columns).expect_err("absent");
    let text = e.to_string();
    assert!(text.contains("columns label, part0, "), "{text}");
    assert!(text.contains("part18, ...") && !text.contains("part19"), "{text}");
    assert!(text.ends_with("did you mean `label`?"), "{text}");
    let e = compile(r#"[["y", {"kind": "scalar", "column": "part 3"}]]"#, &columns).expect_err("with a space");
    assert!(e.to_string().contains("but `part3`: write it like that") && !e.to_string().contains("mean"), "{e}");
}

#[test]
fn without_fields_every_column_is_delivered_by_its_kind() {
    let columns = [
        column("image", "jpeg"),
        column("class", "int"),
        column("tokens", "ndarray:uint16:3"),
        column("any", "ndarray"),
        column("note", "str"),
        column("price", "str_decimal"),
        column("half", "float16"),
        column("line", "str_int"),
        column("word", "str"),
    ];
    let plan = FieldPlan::compile(None, &columns, 1).unwrap();
    let shapes: Vec<_> = plan.outputs().iter().map(|o| (o.name.as_str(), o.dtype.name(), o.shape.clone())).collect();
    let number = || RowShape::Fixed(vec![]);
    assert_eq!(
        shapes,
        [
            ("image", "uint8", RowShape::Bytes),
            ("class", "int64", number()),
            ("tokens", "uint16", RowShape::Fixed(vec![3])),
            ("any", "uint8", RowShape::RaggedArray),
            ("note", "uint8", RowShape::Text),
            ("price", "uint8", RowShape::Text),
            ("half", "float16", number()),
            ("line", "int64", number()),
            ("word", "uint8", RowShape::Text),
        ]
    );
    let sample: [&[u8]; 9] =
        [b"\xff", &7_i64.to_le_bytes(), &[1, 0, 2, 0, 3, 0], &[8, 4, 1, 9], b"n", b"1.5", &[0, 60], b"-3", b"w"];
    let out = decode(&plan, &sample, 0).unwrap();
    assert_eq!(out[0], b"\xff");
    assert_eq!(out[1], 7_i64.to_ne_bytes());
    assert_eq!(out[2], [1, 0, 2, 0, 3, 0]);
    assert_eq!(read_ragged(&out[3]).unwrap(), (DType::UInt8, vec![1], &[9][..]));
    assert_eq!(out[7], (-3_i64).to_ne_bytes());
    assert_eq!(out[8], b"w");
}

#[test]
fn tokens_are_widened_and_padded_and_too_many_are_rejected() {
    let columns = [column("t", "ndarray:uint16"), column("b", "bytes")];
    let plan = compile(
        r#"[["a", {"kind": "tokens", "column": "t", "length": 4, "pad": -1}],
            ["b", {"kind": "tokens", "column": "b", "length": 2, "dtype": "int32", "stored": "uint16"}]]"#,
        &columns,
    )
    .unwrap();
    let out = decode(&plan, &[&[4, 2, 5, 0, 6, 0], &[255, 255, 1, 0]], 0).unwrap();
    assert_eq!(out[0], [5_i64, 6, -1, -1].iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<_>>());
    assert_eq!(out[1], [65_535_i32, 1].iter().flat_map(|v| v.to_ne_bytes()).collect::<Vec<_>>());
    let e = decode(&plan, &[&[4, 5, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0], &[1, 0, 1, 0]], 0).unwrap_err();
    assert!(e.to_string().starts_with("the sample has more tokens than a row: raise `length`"), "{e}");
    assert!(e.to_string().ends_with("(tokens 5, length 4, column t, field a)"), "{e}");
    let e = decode(&plan, &[&[4, 1, 1, 0], &[1, 0]], 0).unwrap_err();
    assert!(e.to_string().contains("fewer tokens"), "{e}");
    assert!(compile(r#"[["b", {"kind": "tokens", "column": "b", "length": 2}]]"#, &columns).is_err());
}

#[test]
fn tokens_without_a_length_are_rows_of_their_own_length() {
    let columns = [column("t", "ndarray:uint16"), column("b", "bytes")];
    let plan = compile(
        r#"[["a", {"kind": "tokens", "column": "t"}],
            ["b", {"kind": "tokens", "column": "b", "dtype": "uint16", "stored": "uint16"}]]"#,
        &columns,
    )
    .unwrap();
    let out = decode(&plan, &[&[4, 2, 5, 0, 6, 0], &[255, 255, 1, 0, 2, 0]], 0).unwrap();
    let widened = [5_i64, 6].map(i64::to_ne_bytes).concat();
    assert_eq!(read_ragged(&out[0]).unwrap(), (DType::Int64, vec![2], &widened[..]));
    let copied = [65_535_u16, 1, 2].map(u16::to_ne_bytes).concat();
    assert_eq!(read_ragged(&out[1]).unwrap(), (DType::UInt16, vec![3], &copied[..]));
    assert_eq!(
        direct(r#"[["b", {"kind": "tokens", "column": "b", "dtype": "uint16", "stored": "uint16"}]]"#, &columns),
        None
    );
}

#[test]
fn joint_fields_share_their_draws_and_separate_ones_do_not() {
    let columns = [column("a", "pil"), column("b", "pil")];
    let image = |c: &str| {
        format!(
            r#"{{"kind": "image", "column": "{c}", "ops": [{{"op": "random_resized_crop", "size": [9, 9]}},
                {{"op": "random_horizontal_flip"}}]}}"#
        )
    };
    let joint = format!(
        r#"[["j", {{"kind": "joint", "fields": [["x", {}], ["m", {}]]}}], ["other", {}]]"#,
        image("a"),
        image("b"),
        image("b")
    );
    let plan = compile(&joint, &columns).unwrap();
    let picture = ramp(80, 70);
    let (mut others, mut draws) = (0, std::collections::HashSet::new());
    for draw in 0..20 {
        let out = decode(&plan, &[&picture, &picture], draw).unwrap();
        assert_eq!(out[0], out[1]);
        others += u32::from(out[0] != out[2]);
        assert_eq!(out, decode(&plan, &[&picture, &picture], draw).unwrap());
        draws.insert(out[0].clone());
    }
    assert_eq!((others, draws.len()), (20, 20));
}

#[test]
fn pictures_without_a_fixed_size_are_ragged() {
    let columns = [column("a", "pil")];
    let plan = compile(
        r#"[["x", {"kind": "image", "column": "a", "ops": [{"op": "resize", "size": 4}], "layout": "NHWC"}]]"#,
        &columns,
    )
    .unwrap();
    assert_eq!(plan.outputs()[0].shape, RowShape::RaggedArray);
    let out = decode(&plan, &[&ramp(16, 8)], 0).unwrap();
    let (dtype, shape, values) = read_ragged(&out[0]).unwrap();
    assert_eq!((dtype, &shape[..], values.len()), (DType::UInt8, &[4, 8, 3][..], 96));
    assert!(values.chunks_exact(3).all(|p| p[2] == 7));
}

#[test]
fn two_resizes_equal_two_passes() {
    let columns = [column("a", "pil")];
    let json = |ops: &str| format!(r#"[["x", {{"kind": "image", "column": "a", "ops": [{ops}], "layout": "NHWC"}}]]"#);
    let (one, two) = (r#"{"op": "resize", "size": [20, 30]}"#, r#"{"op": "resize", "size": [7, 5]}"#);
    let source = ramp(61, 47);
    let both = decode(&compile(&json(&format!("{one},{two}")), &columns).unwrap(), &[&source], 0).unwrap();
    let first = decode(&compile(&json(one), &columns).unwrap(), &[&source], 0).unwrap();
    let mut middle = Vec::new();
    for word in [30_u32, 20, 3] {
        middle.extend(word.to_le_bytes());
    }
    middle.extend(b"RGB");
    middle.extend(&first[0]);
    let second = decode(&compile(&json(two), &columns).unwrap(), &[&middle], 0).unwrap();
    assert_eq!(both, second);
}

#[test]
fn fields_that_cannot_work_are_rejected_at_compile_time() {
    let columns = [
        column("i", "jpeg"),
        column("n", "int"),
        column("s", "str"),
        column("a", "ndarray:int8:2"),
        column("l", "list[jpeg]"),
    ];
    for (json, part) in [
        (r#"[["x", {"kind": "image", "column": "nope"}]]"#, "columns i, n, s, a, l"),
        (r#"[["x", {"kind": "image", "column": "n"}]]"#, "a column of pictures"),
        (r#"[["x", {"kind": "image", "column": "s"}]]"#, "a column of pictures"),
        (r#"[["x", {"kind": "mask", "column": "l"}]]"#, "a JPEG cannot hold labels"),
        (
            r#"[["x", {"kind": "mask", "column": "i"}]]"#,
            "write the masks as PNG of one channel (encoding png, pil or bytes) (column i, encoding jpeg, field x)",
        ),
        (r#"[["x", {"kind": "scalar", "column": "i"}]]"#, "numbers"),
        (r#"[["x", {"kind": "array", "column": "s"}]]"#, "ndarray"),
        (r#"[["x", {"kind": "text", "column": "n"}]]"#, "strings"),
        (r#"[["x", {"kind": "tokens", "column": "a", "length": 0}]]"#, "length"),
        (r#"[["x", {"kind": "tokens", "column": "a", "length": 3, "dtype": "uint8", "pad": -1}]]"#, "pad"),
        (r#"[["x", {"kind": "bytes", "column": "i"}], ["x", {"kind": "bytes", "column": "n"}]]"#, "same name"),
        (r#"[["x", {"kind": "joint", "fields": [["y", {"kind": "joint", "fields": []}]]}]]"#, "Joint"),
        (
            r#"[["x", {"kind": "joint", "fields": [
                ["y", {"kind": "image", "column": "i", "ops": [
                    {"op": "random_resized_crop", "size": [8, 8]}, {"op": "random_horizontal_flip"}]}],
                ["z", {"kind": "mask", "column": "i", "ops": [{"op": "random_resized_crop", "size": [8, 8]}]}]]}]]"#,
            "same random operations",
        ),
        (
            r#"[["x", {"kind": "image", "column": "i", "ops": [{"op": "normalize", "mean": [0,0,0], "std": [1,1,1]}]}]]"#,
            "float dtype",
        ),
        (
            r#"[["x", {"kind": "image", "column": "i", "dtype": "float32", "ops": [
                {"op": "normalize", "mean": [0,0,0], "std": [1,1,1]}, {"op": "resize", "size": 3}]}]]"#,
            "last",
        ),
        (r#"[["x", {"kind": "image", "column": "i", "ops": [{"op": "resize", "size": 0}]}]]"#, "at least 1 x 1"),
        (
            r#"[["x", {"kind": "image", "column": "i", "ops": [{"op": "center_crop", "size": [99999, 99999]}]}]]"#,
            "limit",
        ),
        (
            r#"[["x", {"kind": "image", "column": "i", "ops": [{"op": "random_horizontal_flip", "p": 2}]}]]"#,
            "probability",
        ),
        (
            r#"[["x", {"kind": "image", "column": "i", "ops": [
                {"op": "random_resized_crop", "size": [2, 2], "scale": [0.5, 0.1]}]}]]"#,
            "scale",
        ),
        ("[]", "empty"),
    ] {
        let e = compile(json, &columns).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config, "{json}");
        assert!(e.to_string().contains(part), "{json}: {e}");
    }
}

#[test]
fn a_bad_sample_names_field_and_column() {
    let plan = compile(r#"[["x", {"kind": "image", "column": "i"}]]"#, &[column("i", "jpeg")]).unwrap();
    for bad in [&b""[..], b"GIF89a", b"\xff\xd8\xff\xd9", b"\x89PNG\r\n\x1a\n"] {
        let e = decode(&plan, &[bad], 0).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Decode | ErrorKind::Unsupported), "{e:?}");
        assert!(e.to_string().contains("column i, field x"), "{e}");
    }
    let plan = compile(r#"[["x", {"kind": "text", "column": "s"}]]"#, &[column("s", "str")]).unwrap();
    assert!(decode(&plan, &[b"a\xff"], 0).unwrap_err().to_string().contains("byte 1"));
}

#[test]
fn a_header_with_too_many_pixels_is_rejected_before_memory_is_allocated() {
    let plan = compile(r#"[["x", {"kind": "image", "column": "a"}]]"#, &[column("a", "png")]).unwrap();
    // Rejected by size, or decoded and found to be cut.
    for (width, reason) in [(1000, "the PNG cannot be decoded"), (PIXELS_MAX as u32 + 1, "pixels_max")] {
        let mut header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        header.extend([width, 1].map(u32::to_be_bytes).as_flattened());
        let e = decode(&plan, &[&header], 0).unwrap_err();
        assert!(e.to_string().contains(reason), "{e}");
    }
}

#[test]
fn a_mask_is_cut_like_its_picture_and_keeps_its_labels() {
    // The labels are the picture's red channel; every label is a column's number, so a blend would show.
    let (w, h) = (90, 60);
    let picture = ramp(w, h);
    let mut mask = Vec::new();
    for word in [w, h, 1] {
        mask.extend(word.to_le_bytes());
    }
    mask.push(b'P');
    mask.extend((0..w * h).map(|i| if (i % w) < w / 2 { 3 } else { 200_u8 }));
    let ops = r#""ops": [{"op": "random_resized_crop", "size": [16, 20]}, {"op": "random_horizontal_flip"}]"#;
    let json = format!(
        r#"[["j", {{"kind": "joint", "fields": [["x", {{"kind": "image", "column": "a", {ops}}}],
            ["m", {{"kind": "mask", "column": "b", {ops}}}]]}}]]"#
    );
    let plan = compile(&json, &[column("a", "pil"), column("b", "pil")]).unwrap();
    assert_eq!(plan.outputs()[1].shape, RowShape::Fixed(vec![16, 20]));
    for draw in 0..50 {
        let out = decode(&plan, &[&picture, &mask], draw).unwrap();
        let labels: Vec<i64> = out[1].chunks_exact(8).map(|c| i64::from_ne_bytes(c.try_into().unwrap())).collect();
        for (red, label) in out[0][..16 * 20].iter().zip(labels) {
            let expected = if f64::from(*red) < 44.5 { 3 } else { 200 };
            // At the border both labels are correct.
            assert!(label == expected || red.abs_diff(44) <= 3, "{red} {label}");
            assert!(label == 3 || label == 200);
        }
    }
    let e = compile(r#"[["m", {"kind": "mask", "column": "a", "dtype": "float32"}]]"#, &[column("a", "png")]);
    assert!(e.unwrap_err().to_string().contains("integers"));
}

#[test]
fn a_decoder_can_move_to_its_thread() {
    let plan = compile(r#"[["x", {"kind": "scalar", "column": "n"}]]"#, &[column("n", "int")]).unwrap();
    let mut decoder = plan.decoder();
    let value = std::thread::spawn(move || {
        let mut row = [0; 8];
        let stored = 5_i64.to_le_bytes();
        decoder.decode(|_| Some(&stored[..]), |_| &[], DrawKey::default(), [Row::Fixed(&mut row)]).unwrap();
        i64::from_ne_bytes(row)
    });
    assert_eq!(value.join().unwrap(), 5);
}

/// Returns the direct output if 4 bytes precede each column and none follow it.
fn direct(json: &str, columns: &[Column]) -> Option<usize> {
    compile(json, columns).unwrap().stored_column(|_| Some((4, 0))).map(|d| d.output)
}

#[test]
fn outputs_equal_to_the_stored_bytes_are_read_directly_into_the_row() {
    let columns = [column("b", "bytes"), column("n", "int"), column("t", "ndarray:uint16:4")];
    let number = r#"["n", {"kind": "scalar", "column": "n"}]"#;
    let bytes = r#"["b", {"kind": "bytes", "column": "b"}]"#;
    let array = r#"["t", {"kind": "array", "column": "t"}]"#;
    assert_eq!(direct(&format!("[{number}, {bytes}]"), &columns), Some(1));
    assert_eq!(direct(&format!("[{array}, {number}]"), &columns), Some(0));
    assert_eq!(direct(&format!("[{array}, {bytes}]"), &columns), Some(1), "the larger one");
    let plan = compile(&format!("[{bytes}]"), &columns).unwrap();
    assert_eq!(plan.stored_column(|_| None), None, "the bytes around the column differ between samples");
}

#[test]
fn converted_or_shared_columns_are_not_read_directly_into_the_row() {
    let columns = [column("b", "bytes"), column("t", "ndarray:uint16:4"), column("r", "ndarray:uint16")];
    let wider = r#"[["t", {"kind": "array", "column": "t", "dtype": "int64"}]]"#;
    let own_shape = r#"[["r", {"kind": "array", "column": "r"}]]"#;
    let twice = r#"[["a", {"kind": "bytes", "column": "b"}], ["b", {"kind": "bytes", "column": "b"}]]"#;
    for json in [wider, own_shape, twice] {
        assert_eq!(direct(json, &columns), None, "{json}");
    }
    let same = r#"[["t", {"kind": "tokens", "column": "t", "length": 4, "dtype": "uint16"}]]"#;
    assert_eq!(direct(same, &columns), Some(0));
}

/// Returns the stored form of a list of pictures, as `jpeg_array` has it.
fn array(pictures: &[Vec<u8>]) -> Vec<u8> {
    let sizes = pictures.iter().map(|picture| picture.len() as u32);
    let table = [pictures.len() as u32].into_iter().chain(sizes).flat_map(u32::to_le_bytes);
    table.chain(pictures.concat()).collect()
}

#[test]
fn the_pictures_of_a_list_become_one_array_and_are_cut_alike() {
    let size = Size { w: 40, h: 30 };
    let jpeg = |seed: usize| {
        let pixels: Vec<u8> = (0..40 * 30 * 3).map(|i| (i * (7 + seed) / 5) as u8).collect();
        encode(&pixels, size, 90, Subsampling::S420, false).unwrap()
    };
    let files = [jpeg(0), jpeg(1), jpeg(2)];
    let raw = [ramp(40, 30), ramp(80, 60)];
    let list = |pictures: &[Vec<u8>]| [vec![0; 4], array(pictures)].concat();
    let ops = r#""ops": [{"op": "random_resized_crop", "size": [8, 9]}, {"op": "random_horizontal_flip"}]"#;
    for (many, one, pictures, stored) in [
        ("jpeg_array", "jpeg", &files[..], array(&files)),
        ("jpegarray", "jpeg", &files[..1], array(&files[..1])),
        ("list[jpeg]", "jpeg", &files, list(&files)),
        ("list[pil]", "pil", &raw, list(&raw)),
    ] {
        for layout in ["NCHW", "NHWC"] {
            let json = format!(r#"[["x", {{"kind": "image", "column": "a", "layout": "{layout}", {ops}}}]]"#);
            let list = compile(&json, &[column("a", many)]).unwrap();
            assert_eq!(list.outputs()[0].shape, RowShape::RaggedArray);
            let single = compile(&json, &[column("a", one)]).unwrap();
            for draw in 0..5 {
                let row = decode(&list, &[&stored], draw).unwrap();
                let (dtype, shape, pixels) = read_ragged(&row[0]).unwrap();
                let sides = if layout == "NCHW" { [3, 8, 9] } else { [8, 9, 3] };
                assert_eq!((dtype, shape), (DType::UInt8, [&[pictures.len()], &sides[..]].concat()));
                let each: Vec<_> = pictures.iter().map(|p| decode(&single, &[p], draw).unwrap().remove(0)).collect();
                assert_eq!(pixels, each.concat(), "{many}");
            }
        }
    }
}

#[test]
fn a_list_that_is_no_array_of_pictures_is_an_error() {
    let plan = compile(r#"[["x", {"kind": "image", "column": "a"}]]"#, &[column("a", "list[pil]")]).unwrap();
    let list = |pictures: &[Vec<u8>]| [vec![0; 4], array(pictures)].concat();
    assert!(decode(&plan, &[&list(&[ramp(4, 3), ramp(4, 3)])], 0).is_ok());
    let mut cut = list(&[ramp(4, 3)]);
    cut.pop();
    for (stored, reason) in [
        (list(&[]), "no pictures"),
        (list(&[ramp(4, 3), ramp(3, 4)]), "different sizes"),
        (list(&[ramp(4, 3), vec![]]), "picture 1"),
        (cut, "ends before element 0"),
        (list(&[vec![ramp(300, 300)], vec![Vec::new(); 5000]].concat()), "more pixels than the limit"),
    ] {
        let e = decode(&plan, &[&stored], 0).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Decode, "{e}");
        assert!(e.to_string().contains(reason), "{e}");
    }
}

#[test]
fn a_sample_without_a_value_has_the_default_of_its_field() {
    let json = r#"[["n", {"kind": "scalar", "column": "n", "default": -1}],
        ["f", {"kind": "scalar", "column": "f", "dtype": "float32", "default": "nan"}],
        ["t", {"kind": "text", "column": "t", "default": "none"}],
        ["b", {"kind": "bytes", "column": "b", "default": [0, 255]}],
        ["a", {"kind": "array", "column": "a", "dtype": "uint8", "default": [[1, 2]]}],
        ["z", {"kind": "array", "column": "a", "dtype": "uint8", "shape": [2], "default": 7}],
        ["j", {"kind": "json", "column": "j", "path": "x", "dtype": "json", "default": {"k": null}}]]"#;
    let columns = [
        column("n", "int"),
        column("f", "float32"),
        column("t", "str"),
        column("b", "bytes"),
        column("a", "ndarray:uint8"),
        column("j", "json"),
    ];
    let expected = |rows: Vec<Vec<u8>>| {
        assert_eq!(rows[0], (-1_i64).to_ne_bytes());
        assert!(f32::from_ne_bytes(rows[1].as_slice().try_into().unwrap()).is_nan());
        assert_eq!((&rows[2][..], &rows[3][..], &rows[5][..]), (&b"none"[..], &[0, 255][..], &[7, 7][..]));
        assert_eq!(read_ragged(&rows[4]).unwrap(), (DType::UInt8, vec![1, 2], &[1, 2][..]));
        assert_eq!(rows[6], br#"{"k":null}"#);
    };
    // A sample without the columns, one without the value inside, and a layout without the columns.
    expected(decode(&compile(json, &columns).unwrap(), &[], 0).unwrap());
    expected(decode(&compile(json, &[]).unwrap(), &[], 0).unwrap());
    let plan =
        compile(r#"[["j", {"kind": "json", "column": "j", "path": "x", "default": "d"}]]"#, &columns[5..]).unwrap();
    assert_eq!(decode(&plan, &[br#"{"x": "v"}"#], 0).unwrap(), [b"v"]);
    assert_eq!(decode(&plan, &[b"{}"], 0).unwrap(), [b"d"]);
    let plan = compile(r#"[["t", {"kind": "text", "column": "t"}]]"#, &columns).unwrap();
    let e = decode(&plan, &[], 0).unwrap_err();
    assert!(e.to_string().contains("give the field a `default`") && e.to_string().contains("column t, field t"), "{e}");
}
