//! Steps of a field for one sample, described for people and tests.

use serde_json::{Value, json};

use crate::decode::augment::Erasure;
use crate::decode::draw::{DrawKey, FieldDraws};
use crate::decode::fields::{CheckedOps, FieldSpec, ScenePart, check_labels, crops, grey_last, of_crop, of_labels};
use crate::decode::steps::{Steps, erasures, resolve};
use crate::error::{Error, Result};
use forebay_picture::geometry::{PixelWindow, Region, Size, Stage};

/// Returns the steps of the field `spec` for a picture of `size`, with the numbers that are drawn for `key`: an object
/// for each crop with its resize, for each action (of a Mask: that moves pixels) and for each erased box. `size` is
/// the size of the picture as it is delivered without operations, turned by its EXIF data if the field does so. `name`
/// is the name of the field, or of its Joint; `boxes` are the boxes of the picture, as left, top, right and bottom, for
/// operations that draw by them; `view` the number of one of its views, or of a crop of FiveCrop or TenCrop; 0 without
/// these.
///
/// # Errors
/// [`crate::ErrorKind::Config`]: a field without operations, arguments outside of their range.
/// [`crate::ErrorKind::Decode`]: a picture that is too small, or becomes too large.
pub fn drawn(
    spec: &FieldSpec,
    (name, view): (&str, u32),
    augment_seed: u64,
    key: DrawKey,
    (size, boxes): (Size, Option<&[[f64; 4]]>),
) -> Result<Vec<Value>> {
    let part = spec.scene_part();
    let (ScenePart::Pixels(ops) | ScenePart::Labels(ops)) = part else {
        return Err(Error::config("only an Image or a Mask has operations").with("field", name));
    };
    let views = spec.views()?.unwrap_or(1);
    if view >= views {
        return Err(Error::config("the field does not have this view: they are numbered from 0")
            .with("view", view)
            .with("views", views));
    }
    let are_labels = matches!(part, ScenePart::Labels(_));
    if are_labels {
        check_labels(ops)?;
    }
    let (ops, _) = grey_last(ops, CheckedOps::new(ops)?.is_grey);
    let ops = if are_labels { of_labels(&ops) } else { ops };
    let mut steps = Steps::with_objects(boxes.map(<[_]>::to_vec));
    let draws = FieldDraws::new(augment_seed, name);
    let (ops, draws) = match crops(&ops)? {
        Some(_) => (of_crop(&ops, view), draws),
        None => (ops, draws.view(view)),
    };
    resolve(&ops, size, draws, key, &mut steps)?;
    let mut described = Vec::new();
    for (number, stage) in steps.stages.iter().enumerate() {
        described.push(describe(stage));
        for action in steps.after(number).iter().filter(|action| !are_labels || action.moves()) {
            described.push(serde_json::to_value(action).unwrap_or_default());
        }
    }
    let output = steps.stages.last().map_or(size, Stage::output);
    for Erasure { region: Region { x, y, w, h }, value, .. } in erasures(&ops, output, draws, key) {
        described.push(json!({"action": "erase", "i": y, "j": x, "h": h, "w": w, "value": value}));
    }
    Ok(described)
}

/// Boxes are top, left, height and width; sizes are height and width.
fn describe(stage: &Stage) -> Value {
    let Stage { crop: Region { x, y, w, h }, resized, interpolation, window, border, flip } = *stage;
    let PixelWindow { x: left, y: top, size } = window;
    json!({
        "crop": [y, x, h, w],
        "resized": [resized.h, resized.w],
        "interpolation": interpolation,
        "window": [top, left, size.h, size.w],
        "padding_mode": border.mode,
        "fill": border.fill,
        "flip": flip,
    })
}
