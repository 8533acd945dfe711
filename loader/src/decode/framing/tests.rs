use super::*;
use crate::decode::box_format::Corners;
use crate::decode::field::Op;
use crate::decode::steps::{Steps, resolve, resolve_like};
use forebay_picture::geometry::{PixelWindow, Region};

const SIZE: Size = Size { w: 60, h: 40 };

fn framing(json: &str) -> Framing {
    serde_json::from_str(json).unwrap()
}

fn ops(json: &str) -> Vec<Op> {
    serde_json::from_str(json).unwrap()
}

fn key(draw: u64) -> DrawKey {
    DrawKey { epoch: 0, stream: 0, draw }
}

fn cut(json: &str, size: Size, boxes: &[Corners], draw: u64) -> Cut {
    let framing = framing(json);
    framing.check(None).unwrap();
    framing.draw(framing.draws(FieldDraws::new(1, "x"), key(draw), 0), Framed { size, boxes })
}

fn resized(json: &str, size: Size, draw: u64) -> Size {
    let Cut::Resize { to, .. } = cut(json, size, &[], draw) else { panic!("{json}") };
    to
}

fn window(json: &str, size: Size, draw: u64) -> PixelWindow {
    let Cut::Window { window, .. } = cut(json, size, &[], draw) else { panic!("{json}") };
    window
}

#[test]
fn resizes_keep_the_ratio_of_the_sides() {
    let fixed = r#"{"op": "scale_jitter", "target_size": [30, 40], "scale_range": [1, 1]}"#;
    assert_eq!(resized(fixed, SIZE, 0), Size { w: 30, h: 20 });
    for draw in 0..100 {
        let to = resized(r#"{"op": "scale_jitter", "target_size": [600, 400]}"#, SIZE, draw);
        assert!((60..=1200).contains(&to.w) && (to.w * 2).abs_diff(to.h * 3) <= 3, "{to}");
        let to = resized(r#"{"op": "random_shortest_size", "min_size": [20, 80], "max_size": 90}"#, SIZE, draw);
        assert!([Size { w: 30, h: 20 }, Size { w: 90, h: 60 }].contains(&to), "{to}");
    }
    for (longest, to) in [(0.0, Size { w: 36, h: 24 }), (1.0, Size { w: 24, h: 16 }), (0.5, Size { w: 29, h: 19 })] {
        let json = format!(r#"{{"op": "resize_keep_ratio", "size": [24, 24], "longest": {longest}}}"#);
        assert_eq!(resized(&json, SIZE, 0), to);
    }
    let tiny = r#"{"op": "scale_jitter", "target_size": [1, 1], "scale_range": [0.001, 0.001]}"#;
    assert_eq!(resized(tiny, SIZE, 0), Size { w: 1, h: 1 });
}

#[test]
fn windows_of_a_fixed_size_have_borders_where_the_picture_is_smaller() {
    let to = Size { w: 70, h: 20 };
    for draw in 0..100 {
        let fixed = window(r#"{"op": "fixed_size_crop", "size": [20, 70]}"#, SIZE, draw);
        assert!(fixed.x == 0 && (0..=20).contains(&fixed.y) && fixed.size == to, "{fixed:?}");
        let random = window(r#"{"op": "random_crop_or_pad", "size": [20, 70]}"#, SIZE, draw);
        assert!((-10..=0).contains(&random.x) && (0..=20).contains(&random.y) && random.size == to, "{random:?}");
    }
    let middle = window(r#"{"op": "center_crop_or_pad", "size": [20, 70]}"#, SIZE, 0);
    assert_eq!(middle, PixelWindow { x: -5, y: 10, size: to });
    let least = window(r#"{"op": "pad_if_smaller", "size": [20, 70]}"#, SIZE, 0);
    assert_eq!(least, PixelWindow { x: 0, y: 0, size: Size { w: 70, h: 40 } });
    assert_eq!(cut(r#"{"op": "pad_if_smaller", "size": [40, 60]}"#, SIZE, &[], 0), Cut::Nothing);
}

#[test]
fn a_picture_that_is_zoomed_out_is_inside_of_the_result() {
    let mut kept = 0;
    for draw in 0..200 {
        match cut(r#"{"op": "random_zoom_out"}"#, SIZE, &[], draw) {
            Cut::Nothing => kept += 1,
            Cut::Window { window: PixelWindow { x, y, size }, .. } => {
                assert!(size.w >= 60 && size.w < 240 && size.h >= 40 && size.h < 160);
                assert!(x <= 0 && y <= 0 && 60 - x <= size.w.into() && 40 - y <= size.h.into());
            }
            other => panic!("{other:?}"),
        }
    }
    assert!((60..140).contains(&kept), "{kept}");
}

#[test]
fn a_part_holds_the_middle_of_an_object_and_overlaps_with_it() {
    let boxes = [[10.0, 10.0, 40.0, 30.0], [50.0, 1.0, 58.0, 6.0]];
    let json = r#"{"op": "random_iou_crop", "sampler_options": [0.5, 1.0]}"#;
    let mut parts = 0;
    for draw in 0..300 {
        let Cut::Objects(Region { x, y, w, h }) = cut(json, SIZE, &boxes, draw) else { continue };
        parts += 1;
        let [left, top, right, bottom] = [x, y, x + w, y + h].map(f64::from);
        assert!(right <= 60.0 && bottom <= 40.0 && left < 25.0 && 25.0 < right && top < 20.0 && 20.0 < bottom);
        let common = (right.min(40.0) - left.max(10.0)) * (bottom.min(30.0) - top.max(10.0));
        assert!(common / (f64::from(w * h) + 600.0 - common) >= 0.5);
    }
    assert!((90..210).contains(&parts), "{parts}");
}

#[test]
fn a_picture_without_a_suitable_part_stays_as_it_is() {
    for boxes in [&[][..], &[[0.0; 4]], &[[f64::NAN; 4]]] {
        for draw in 0..20 {
            assert_eq!(cut(r#"{"op": "random_iou_crop", "sampler_options": [0.0]}"#, SIZE, boxes, draw), Cut::Nothing);
        }
    }
    // No part has these sides.
    let narrow = r#"{"op": "random_iou_crop", "min_aspect_ratio": 900, "max_aspect_ratio": 1000, "trials": 1800}"#;
    assert_eq!(cut(narrow, SIZE, &[[1.0, 1.0, 9.0, 9.0]], 0), Cut::Nothing);
    assert_eq!(
        cut(r#"{"op": "random_iou_crop", "min_scale": 0.0}"#, Size { w: 1, h: 1 }, &[[0.0, 0.0, 1.0, 1.0]], 0),
        Cut::Nothing
    );
}

#[test]
fn boxes_with_their_middle_outside_of_the_part_have_no_area() {
    let boxes = [[2.0, 3.0, 12.0, 13.0], [40.0, 20.0, 58.0, 38.0]];
    let crop = r#"{"op": "random_iou_crop", "sampler_options": [0.2]}"#;
    let mut left_out = 0;
    for (before, after) in [
        ("", ""),
        (r#"{"op": "pad", "padding": [5, 6, 7, 8]},"#, r#", {"op": "random_horizontal_flip", "p": 1}"#),
        (r#"{"op": "random_vertical_flip", "p": 1}, {"op": "resize", "size": [80, 90]},"#, ""),
        (
            r#"{"op": "random_invert", "p": 1}, {"op": "random_zoom_out", "p": 1},"#,
            r#", {"op": "random_vertical_flip", "p": 1}"#,
        ),
        (
            r#"{"op": "center_crop", "size": [38, 58]}, {"op": "random_horizontal_flip", "p": 1},"#,
            r#", {"op": "resize", "size": 9}"#,
        ),
    ] {
        let list = ops(&format!("[{before}{crop}{after}]"));
        let start = ops(&format!("[{}]", before.trim_end_matches(',')));
        for draw in 0..40 {
            let draws = FieldDraws::new(1, "x");
            let mut steps = Steps::with_objects(Some(boxes.to_vec()));
            resolve(&list, SIZE, draws, key(draw), &mut steps).unwrap();
            let mut followed = boxes.to_vec();
            steps.follow(&mut followed, SIZE);
            // The same up to the crop, which a different resolution draws alone.
            let mut placed = boxes.to_vec();
            let mut first = Steps::default();
            resolve(&start, SIZE, draws, key(draw), &mut first).unwrap();
            let size = first.follow(&mut placed, SIZE);
            let part = match cut(crop, size, &placed, draw) {
                Cut::Objects(Region { x, y, w, h }) => [x, y, x + w, y + h].map(f64::from),
                _ => [0.0, 0.0, f64::from(size.w), f64::from(size.h)],
            };
            for (one, placed) in followed.iter().zip(&placed) {
                let is_inside = is_middle_inside(placed, &part);
                assert_eq!(*one == [0.0; 4], !is_inside, "{list:?} {draw}");
                left_out += u32::from(!is_inside);
            }
        }
    }
    assert!((40..300).contains(&left_out), "{left_out}");
}

#[test]
fn a_second_picture_of_the_scene_is_cut_as_the_first_one() {
    let list = ops(r#"[{"op": "random_iou_crop", "sampler_options": [0.0]}]"#);
    let draws = FieldDraws::new(1, "x");
    let mut first = Steps::with_objects(Some(vec![[10.0, 10.0, 40.0, 30.0]]));
    let mut other = Steps::with_objects(Some(Vec::new()));
    for draw in 0..20 {
        resolve(&list, SIZE, draws, key(draw), &mut first).unwrap();
        resolve_like(Some(&first.scene), &list, SIZE, draws, key(draw), &mut other).unwrap();
        assert_eq!(first.stages, other.stages);
        assert_ne!(first.stages[0].output(), SIZE);
        let small = Size { w: 30, h: 20 };
        assert!(resolve_like(Some(&first.scene), &list, small, draws, key(draw), &mut other).is_err());
    }
}

#[test]
fn an_argument_out_of_its_range_is_an_error() {
    for json in [
        r#"{"op": "random_zoom_out", "p": 1.5}"#,
        r#"{"op": "random_zoom_out", "side_range": [0.5, 2]}"#,
        r#"{"op": "random_zoom_out", "side_range": [3, 2]}"#,
        r#"{"op": "random_iou_crop", "min_scale": 0.5, "max_scale": 0.4}"#,
        r#"{"op": "random_iou_crop", "max_scale": 1.1}"#,
        r#"{"op": "random_iou_crop", "sampler_options": []}"#,
        r#"{"op": "random_iou_crop", "sampler_options": [-0.1]}"#,
        r#"{"op": "random_iou_crop", "trials": 0}"#,
        r#"{"op": "scale_jitter", "target_size": [0, 3]}"#,
        r#"{"op": "scale_jitter", "target_size": [3, 3], "scale_range": [0, 1]}"#,
        r#"{"op": "random_shortest_size", "min_size": []}"#,
        r#"{"op": "random_shortest_size", "min_size": [4, 0]}"#,
        r#"{"op": "random_shortest_size", "min_size": [4], "max_size": 0}"#,
        r#"{"op": "fixed_size_crop", "size": [4, 0]}"#,
        r#"{"op": "pad_if_smaller", "size": [0, 4]}"#,
        r#"{"op": "center_crop_or_pad", "size": [0, 4]}"#,
        r#"{"op": "random_crop_or_pad", "size": [0, 4]}"#,
        r#"{"op": "resize_keep_ratio", "size": [4, 4], "longest": 2}"#,
        r#"{"op": "resize_keep_ratio", "size": [4, 4], "random_scale_range": [0, 1]}"#,
    ] {
        assert!(framing(json).check(None).is_err(), "{json}");
    }
}

#[test]
fn a_result_above_the_bound_is_an_error() {
    let large = ops(r#"[{"op": "random_zoom_out", "side_range": [1e6, 1e6], "p": 1}]"#);
    let resolved = resolve(&large, SIZE, FieldDraws::new(1, "x"), key(0), &mut Steps::default());
    assert!(resolved.is_err());
    let crop = ops(r#"[{"op": "random_iou_crop"}]"#);
    let e = resolve(&crop, SIZE, FieldDraws::new(1, "x"), key(0), &mut Steps::default()).unwrap_err();
    assert!(e.to_string().contains("boxes"), "{e}");
}
