//! Fields of a Joint: a mask must show the same part of the scene as its picture.

use serde_json::Value;

use crate::decode::augment::Operation;
use crate::decode::field::{Op, leaves};
use crate::decode::fields::{CheckedOps, FieldSpec, ScenePart};
use crate::decode::framing::Reframe;
use crate::error::{Error, Result};
use forebay_picture::PaddingMode;
use forebay_picture::geometry::Size;

/// Rejects fields of a Joint with different random operations. Sizes and deterministic operations may differ, and so
/// may those that only change colours. Before an operation that counts pixels the sizes must be equal; those that
/// depend on the pictures are compared in each sample.
pub(super) fn check(fields: &[(String, FieldSpec)]) -> Result<()> {
    let has = |is_meant: fn(ScenePart<'_>) -> bool| fields.iter().any(|(_, spec)| is_meant(spec.scene_part()));
    let has_boxes = has(|part| matches!(part, ScenePart::Boxes(_) | ScenePart::Points));
    let has_labels = has_boxes || has(|part| matches!(part, ScenePart::Labels(_) | ScenePart::ObjectLabels));
    let mut first = None;
    for (name, spec) in fields {
        check_without_views(name, spec)?;
        let ops = match spec.scene_part() {
            ScenePart::Pixels(ops) | ScenePart::Labels(ops) => ops,
            // They follow the operations of a different field.
            ScenePart::Boxes(_) | ScenePart::BoxLabels | ScenePart::ObjectLabels | ScenePart::Points => continue,
            ScenePart::None => &[],
        };
        let drawn: Vec<Value> = ops.iter().filter_map(drawn_part).collect();
        let sizes = sizes_where_counted(ops).map_err(|e| e.with("field", name))?;
        if has_labels {
            leaves(ops).into_iter().try_for_each(labels_can_follow).map_err(|e| e.with("field", name))?;
        }
        if has_boxes && leaves(ops).into_iter().any(has_mirrored_borders) {
            let message =
                "boxes and key points cannot follow borders that repeat the picture: pass padding_mode=\"constant\"";
            return Err(Error::config(message).with("field", name));
        }
        let (first_drawn, first_sizes) = first.get_or_insert_with(|| (drawn.clone(), sizes.clone()));
        if *first_drawn != drawn {
            let message = "the fields of a Joint need the same random operations in the same order, or their crops and \
                           flips differ";
            return Err(Error::config(message).with("field", name));
        }
        if *first_sizes != sizes {
            let message = "the fields of a Joint need pictures of the same size before an operation that counts \
                           pixels, such as RandomCrop or RandAugment: resize the smaller ones after it";
            return Err(Error::config(message).with("field", name));
        }
    }
    Ok(())
}

/// Returns an error for a field with views, in a Joint or a Mix.
pub(super) fn check_without_views(name: &str, spec: &FieldSpec) -> Result<()> {
    match spec.views()? {
        Some(views) => Err(Error::config(
            "an Image in a Joint or a Mix has no `views`, nor FiveCrop or TenCrop: a mask or a label belongs to one \
             picture",
        )
        .with("field", name)
        .with("views", views)),
        None => Ok(()),
    }
}

fn has_mirrored_borders(op: &Op) -> bool {
    if let Op::Framing(framing) = op {
        return framing.repeats_picture();
    }
    let (Op::Pad { padding_mode, .. } | Op::RandomCrop { padding_mode, .. }) = op else { return false };
    *padding_mode != PaddingMode::Constant
}

fn labels_can_follow(op: &Op) -> Result<()> {
    if let Op::Augment(augment) = op { augment.check_labels() } else { Ok(()) }
}

/// Returns the size before each operation that counts pixels; `None` if it depends on the picture.
fn sizes_where_counted(ops: &[Op]) -> Result<Vec<Option<Size>>> {
    let counts_pixels = |op: &Op| match op {
        Op::RandomCrop { .. } => true,
        Op::Framing(framing) => framing.counts_pixels(),
        Op::Augment(augment) => augment.counts_pixels(),
        _ => false,
    };
    let counts = |place: &usize| leaves(&ops[*place..=*place]).into_iter().any(counts_pixels);
    let places = (0..ops.len()).filter(counts);
    places.map(|place| Ok(CheckedOps::new(&ops[..place])?.size)).collect()
}

/// Returns the arguments of an operation that the positions of pixels depend on; `None` if they do not depend on draws.
fn drawn_part(op: &Op) -> Option<Value> {
    let part = match *op {
        Op::RandomResizedCrop { scale, ratio, interpolation, .. } => {
            Op::RandomResizedCrop { size: [0, 0], scale, ratio, interpolation, alternative: None }
        }
        Op::RandomCrop { .. } | Op::RandomResize { .. } | Op::RandomHorizontalFlip { .. } => op.clone(),
        Op::Framing(ref framing) if framing.is_random() => op.clone(),
        Op::Augment(ref augment) if augment.moves() => op.clone(),
        // The position of an operation is part of its draws, so that those on colours count as well.
        Op::Composed(_) => op.clone(),
        Op::Resize { .. }
        | Op::CenterCrop { .. }
        | Op::FiveCrop { .. }
        | Op::TenCrop { .. }
        | Op::Pad { .. }
        | Op::Grayscale
        | Op::Normalize { .. }
        | Op::LinearTransformation(_)
        | Op::RandomErasing(_)
        | Op::Framing(_)
        | Op::Augment(_) => return None,
    };
    let mut part = serde_json::to_value(part).unwrap_or_default();
    remove_sampling(&mut part);
    Some(part)
}

/// Removes the arguments in which a mask may differ from its picture: the filter, and the colour outside.
fn remove_sampling(value: &mut Value) {
    match value {
        Value::Object(arguments) => {
            let sampling = ["interpolation", "interpolations", "alternative", "fill"];
            arguments.retain(|name, _| !sampling.contains(&name.as_str()));
            arguments.values_mut().for_each(remove_sampling);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_sampling),
        _ => {}
    }
}
