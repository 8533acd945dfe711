//! Pictures that share the decode of a file, against separate decodes.

use std::sync::Arc;

use super::PictureCounts;
use crate::decode::{DrawKey, FieldPlan, FieldSpec, Row};
use crate::error::{ErrorKind, Result};
use crate::format::{Column, Encoding};
use forebay_picture::geometry::Size;
use forebay_picture::jpeg::{RowIndexer, Subsampling, encode};

const SIZE: Size = Size { w: 230, h: 170 };

/// Returns a picture with edges, ramps and noise, so that every kind of upsampling shows.
fn jpeg(subsampling: Subsampling, progressive: bool) -> Vec<u8> {
    let mut state = 1_u32;
    let mut rgb = Vec::new();
    for y in 0..SIZE.h {
        for x in 0..SIZE.w {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let edge = if (x / 7 + y / 5) % 2 == 0 { 90 } else { 0 };
            rgb.extend([(x * 2 % 160 + edge) as u8, (y * 3 % 160 + edge) as u8, (state >> 24) as u8]);
        }
    }
    encode(&rgb, SIZE, 90, subsampling, progressive).unwrap()
}

/// Returns the file with this EXIF orientation.
fn oriented(file: &[u8], number: u8) -> Vec<u8> {
    let tiff = [b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".as_slice(), &[number, 0, 0, 0, 0, 0, 0]].concat();
    let length = (2 + 6 + tiff.len() as u16).to_be_bytes();
    [&file[..2], &[0xff, 0xe1], &length, b"Exif\0\0", &tiff, &file[2..]].concat()
}

fn png() -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, SIZE.w, SIZE.h);
    encoder.set_color(png::ColorType::Rgb);
    let data: Vec<u8> = (0..SIZE.pixels() * 3).map(|i| (i * i % 251) as u8).collect();
    encoder.write_header().unwrap().write_image_data(&data).unwrap();
    out
}

/// Fields as in self-supervised recipes, all of one column. `options` are the options of reading.
fn fields(options: &str) -> Vec<(String, FieldSpec)> {
    let json = r#"[
        ["global", {"kind": "image", "column": "jpg", OPTIONS "views": 2, "ops": [
            {"op": "random_resized_crop", "size": [64, 60], "scale": [0.4, 1.0]}, {"op": "random_horizontal_flip"},
            {"op": "color_jitter", "brightness": [0.6, 1.4]}, {"op": "gaussian_blur", "kernel_size": [3, 3], "sigma": [0.1, 2.0]}]}],
        ["local", {"kind": "image", "column": "jpg", OPTIONS "views": 6, "dtype": "float32", "layout": "NHWC", "ops": [
            {"op": "random_resized_crop", "size": [24, 24], "scale": [0.05, 0.4]}, {"op": "random_horizontal_flip"},
            {"op": "normalize", "mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}]}],
        ["evaluation", {"kind": "image", "column": "jpg", OPTIONS "ops": [
            {"op": "resize", "size": 48}, {"op": "center_crop", "size": [40, 44]}]}],
        ["same_size", {"kind": "image", "column": "jpg", OPTIONS "ops": [
            {"op": "random_crop", "size": [40, 44]}, {"op": "random_rotation", "degrees": [-30, 30]}, {"op": "random_erasing"}]}]
    ]"#;
    serde_json::from_str(&json.replace("OPTIONS", options)).unwrap()
}

fn plan(fields: &[(String, FieldSpec)], shares: bool) -> Arc<FieldPlan> {
    let columns = [Column::new("jpg", Encoding::Bytes)];
    let mut plan = FieldPlan::compile(Some(fields), &columns, 7).unwrap();
    if !shares {
        Arc::get_mut(&mut plan).unwrap().steps.iter_mut().for_each(|step| step.group = None);
    }
    plan
}

/// Returns the rows of draws 0 to `draws`, and the counts.
fn decode(plan: &Arc<FieldPlan>, file: &[u8], index: &[u8], draws: u64) -> (Vec<Result<Vec<Vec<u8>>>>, PictureCounts) {
    let mut decoder = plan.decoder();
    let all = (0..draws).map(|draw| {
        let mut rows: Vec<Vec<u8>> = plan.outputs().iter().map(|o| vec![0xee; o.row_bytes().unwrap()]).collect();
        let key = DrawKey { epoch: 1, stream: 0, draw };
        decoder.decode(|_| Some(file), |_| index, key, rows.iter_mut().map(|row| Row::Fixed(row)))?;
        Ok(rows)
    });
    (all.collect(), decoder.take_picture_counts())
}

/// Checks that sharing changes nothing, and returns the number of the pictures that shared a decode.
fn assert_equal(fields: &[(String, FieldSpec)], file: &[u8], index: &[u8], draws: u64, about: &str) -> u64 {
    let (shared, counts) = decode(&plan(fields, true), file, index, draws);
    let (separate, alone) = decode(&plan(fields, false), file, index, draws);
    assert_eq!(alone.shared, 0);
    assert_eq!((counts.damaged, counts.scaled), (alone.damaged, alone.scaled), "{about}");
    for (draw, (shared, separate)) in shared.into_iter().zip(separate).enumerate() {
        match (shared, separate) {
            (Ok(shared), Ok(separate)) => {
                for ((name, _), (shared, separate)) in fields.iter().zip(shared.iter().zip(&separate)) {
                    assert!(shared == separate, "{about}: {name}, draw {draw}");
                }
            }
            (shared, separate) => {
                assert_eq!(shared.unwrap_err().to_string(), separate.unwrap_err().to_string(), "{about}");
            }
        }
    }
    counts.shared
}

#[test]
fn pictures_that_share_a_decode_have_the_pixels_of_separate_decodes() {
    for progressive in [false, true] {
        for subsampling in [Subsampling::S420, Subsampling::S444, Subsampling::S440, Subsampling::Grey] {
            let file = jpeg(subsampling, progressive);
            let about = format!("{subsampling:?} {progressive}");
            let mut index = Vec::new();
            assert_eq!(RowIndexer::default().append(&file, &mut index), !progressive);
            // Ten pictures per sample, where nine use the pixels that the first one has decoded.
            assert_eq!(assert_equal(&fields(""), &file, &[], 12, &about), 9 * 12, "{about}");
            let indexed = assert_equal(&fields(""), &file, &index, 12, &about);
            assert!((9 * 9..=9 * 12).contains(&indexed), "{about}: {indexed}");
            let scaled = assert_equal(&fields(r#""scaled_decode": true,"#), &file, &[], 12, &about);
            // Each scale is decoded for its own pictures.
            assert!((40..9 * 12).contains(&scaled), "{about}: {scaled}");
        }
        for number in 1..=8 {
            let file = oriented(&jpeg(Subsampling::S420, progressive), number);
            let options = r#""apply_exif_orientation": true,"#;
            assert_eq!(assert_equal(&fields(options), &file, &[], 6, "oriented"), 9 * 6);
            assert_equal(&fields(&format!(r#"{options} "scaled_decode": true,"#)), &file, &[], 6, "oriented, scaled");
        }
    }
    assert_eq!(assert_equal(&fields(""), &png(), &[], 12, "png"), 9 * 12);
}

#[test]
fn distant_crops_of_an_indexed_picture_are_decoded_apart() {
    let file = jpeg(Subsampling::S420, false);
    let mut index = Vec::new();
    assert!(RowIndexer::default().append(&file, &mut index));
    let json = r#"[["a", {"kind": "image", "column": "jpg", "views": 2, "ops": [
        {"op": "random_resized_crop", "size": [8, 8], "scale": [0.001, 0.002]}]}]]"#;
    let fields: Vec<(String, FieldSpec)> = serde_json::from_str(json).unwrap();
    let shared = assert_equal(&fields, &file, &index, 200, "small crops");
    assert!((1..20).contains(&shared), "{shared}");
}

#[test]
fn damage_has_the_effect_that_it_has_on_separate_decodes() {
    let whole = jpeg(Subsampling::S420, false);
    for length in [whole.len() / 4, whole.len() / 2, whole.len() * 9 / 10, whole.len() - 40] {
        let file = &whole[..length];
        assert_equal(&fields(""), file, &[], 8, "truncated");
        assert_equal(&fields(r#""tolerant": true,"#), file, &[], 8, "tolerant");
    }
    // Crops above the damage are whole, those at it are errors.
    let small = r#"[["a", {"kind": "image", "column": "jpg", "views": 3, "ops": [
        {"op": "random_resized_crop", "size": [8, 8], "scale": [0.01, 0.05]}]}]]"#;
    let small: Vec<(String, FieldSpec)> = serde_json::from_str(small).unwrap();
    let file = &whole[..whole.len() / 2];
    assert_equal(&small, file, &[], 40, "small crops of a truncated file");
    let (rows, _) = decode(&plan(&small, true), file, &[], 40);
    let failed: Vec<_> = rows.into_iter().filter_map(Result::err).collect();
    assert!((1..40).contains(&failed.len()), "{}", failed.len());
    assert!(failed.iter().all(|e| e.kind() == ErrorKind::Decode && e.to_string().contains("view")), "{failed:?}");
}

#[test]
fn views_have_their_own_draws_and_the_first_one_has_the_field_s_draws() {
    let file = jpeg(Subsampling::S444, false);
    let field = |views: &str| -> Vec<(String, FieldSpec)> {
        let json = r#"[["x", {"kind": "image", "column": "jpg", VIEWS "ops": [
            {"op": "random_resized_crop", "size": [20, 20]}, {"op": "color_jitter", "brightness": [0.5, 1.5]},
            {"op": "random_erasing", "p": 1.0}]}]]"#;
        serde_json::from_str(&json.replace("VIEWS", views)).unwrap()
    };
    let rows = |views: &str| -> Vec<Vec<u8>> {
        let (rows, _) = decode(&plan(&field(views), true), &file, &[], 20);
        rows.into_iter().map(|row| row.unwrap().remove(0)).collect()
    };
    let (one, single, five) = (rows(""), rows(r#""views": 1,"#), rows(r#""views": 5,"#));
    assert_eq!(one, single);
    for (one, five) in one.iter().zip(&five) {
        let views: Vec<_> = five.chunks_exact(one.len()).collect();
        assert_eq!(views.len(), 5);
        assert_eq!(views[0], one);
        for (number, view) in views.iter().enumerate() {
            assert!(views[..number].iter().all(|other| other != view));
        }
    }
    let shape = |views| plan(&field(views), true).outputs()[0].shape.clone();
    use crate::decode::RowShape::Fixed;
    assert_eq!((shape(""), shape(r#""views": 5,"#)), (Fixed(vec![3, 20, 20]), Fixed(vec![5, 3, 20, 20])));
    assert_eq!(shape(r#""views": 1,"#), Fixed(vec![1, 3, 20, 20]));
}
