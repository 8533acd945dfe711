//! Objects of several samples in one: the arrays of boxes, labels, masks and points, one after the other.

use super::{Array, BoxRule, Composition, Role, SamplePart};
use crate::decode::box_format::Corners;
use crate::decode::boxes::is_large;
use crate::decode::ragged::start_ragged;
use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// Objects of a part.
pub(super) struct PartObjects {
    /// True for each object that is kept, by the boxes or masks; `None` for a part without them.
    pub kept: Option<Vec<bool>>,
    /// Corners of the boxes after the composition.
    pub boxes: Vec<Corners>,
}

impl PartObjects {
    /// Returns true if the object with this number is kept.
    fn keeps(&self, number: usize) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.get(number).copied().unwrap_or(true))
    }
}

impl BoxRule {
    /// Returns true for a box that is large enough and has an area.
    pub(super) fn keeps(self, corners: &Corners) -> bool {
        let [left, top, right, bottom] = *corners;
        right > left && bottom > top && is_large(*corners, self.min_size, self.min_area)
    }
}

impl Array<'_> {
    /// Its elements as numbers of single precision.
    pub(super) fn floats(&self) -> Vec<f64> {
        self.bytes.as_chunks::<4>().0.iter().map(|number| f64::from(f32::from_ne_bytes(*number))).collect()
    }

    /// Bytes of an entry of the first dimension.
    pub(super) fn entry_bytes(&self) -> usize {
        self.shape.iter().skip(1).product::<usize>() * self.dtype.size()
    }

    fn entries(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }
}

impl Composition {
    /// Returns the boxes of a part, and their rule; `None` without boxes.
    pub(super) fn boxes_of(&self, part: &SamplePart<'_>) -> Option<(BoxRule, Vec<Corners>)> {
        self.members.iter().zip(part).find_map(|(member, array)| {
            let Role::Boxes(rule) = member.role else { return None };
            let numbers = array.floats();
            Some((rule, numbers.as_chunks::<4>().0.iter().map(|one| rule.format.corners(*one)).collect()))
        })
    }

    /// Returns the array of the masks of a part.
    pub(super) fn masks_of<'p, 'a>(&self, part: &'p SamplePart<'a>) -> Option<&'p Array<'a>> {
        let mut arrays = self.members.iter().zip(part);
        arrays.find(|(member, _)| matches!(member.role, Role::ObjectMasks)).map(|(_, array)| array)
    }

    /// Writes the boxes, labels and points of all parts, and `masks`, those of the objects that are kept. `point` moves
    /// a point of a part, and returns `None` for one that is outside.
    pub(super) fn write_objects(
        &self,
        parts: &[(&SamplePart<'_>, PartObjects)],
        masks: &[u8],
        point: impl Fn(usize, [f64; 2]) -> ([f64; 2], bool),
    ) -> Result<Vec<Vec<u8>>> {
        let mut rows = vec![Vec::new(); self.members.len()];
        for (number, (member, row)) in self.members.iter().zip(&mut rows).enumerate() {
            match &member.role {
                Role::Picture { .. } => {}
                Role::Boxes(rule) => {
                    let kept = |(_, objects): &(&SamplePart<'_>, PartObjects)| -> Vec<Corners> {
                        let all = objects.boxes.iter().enumerate();
                        all.filter(|(number, _)| objects.keeps(*number)).map(|(_, corners)| *corners).collect()
                    };
                    let boxes: Vec<Corners> = parts.iter().flat_map(kept).collect();
                    let out = start_ragged(row, DType::Float32, &[boxes.len(), 4])?.as_chunks_mut::<4>().0;
                    let numbers = boxes.iter().flat_map(|corners| rule.format.numbers(*corners));
                    out.iter_mut().zip(numbers).for_each(|(out, number)| *out = (number as f32).to_ne_bytes());
                }
                Role::BoxLabels => {
                    let arrays = parts.iter().map(|(part, objects)| (&part[number], objects));
                    join(&arrays.collect::<Vec<_>>(), row)?;
                }
                Role::ObjectMasks => {
                    let pixels = self.size.pixels() as usize;
                    let shape = [masks.len() / pixels.max(1), self.size.h as usize, self.size.w as usize];
                    start_ragged(row, DType::UInt8, &shape)?.copy_from_slice(masks);
                }
                Role::Points => {
                    let moved: Vec<Vec<u8>> = (0..)
                        .zip(parts)
                        .map(|(place, (part, _))| move_points(&part[number], |p| point(place, p)))
                        .collect();
                    let arrays: Vec<(Array<'_>, &PartObjects)> = parts
                        .iter()
                        .zip(&moved)
                        .map(|((part, objects), bytes)| (Array { bytes, ..part[number].clone() }, objects))
                        .collect();
                    join(&arrays.iter().map(|(array, objects)| (array, *objects)).collect::<Vec<_>>(), row)?;
                }
            }
        }
        Ok(rows)
    }
}

/// Moves the points of an array: numbers (column, row) or (column, row, visibility).
fn move_points(array: &Array<'_>, point: impl Fn([f64; 2]) -> ([f64; 2], bool)) -> Vec<u8> {
    let mut numbers = array.floats();
    let dims = array.shape.last().copied().unwrap_or(0).max(1);
    for numbers in numbers.chunks_exact_mut(dims) {
        match numbers {
            // A point that is not labelled is at 0, 0, as in COCO.
            [_, _, visibility] if *visibility <= 0.0 => {}
            [x, y, rest @ ..] => {
                let ([column, line], is_inside) = point([*x, *y]);
                [*x, *y] = [column, line];
                if let ([visibility], false) = (&mut *rest, is_inside) {
                    [*x, *y, *visibility] = [0.0; 3];
                }
            }
            _ => {}
        }
    }
    numbers.iter().flat_map(|number| (*number as f32).to_ne_bytes()).collect()
}

/// Joins arrays along their first dimension, without the entries of objects that are left out.
fn join(arrays: &[(&Array<'_>, &PartObjects)], row: &mut Vec<u8>) -> Result<()> {
    // An array without entries may lack the dimensions inside them.
    let filled = arrays.iter().find(|(array, _)| !array.bytes.is_empty()).or(arrays.first());
    let Some((form, _)) = filled else { return Err(Error::internal("a composition has no parts")) };
    let used = || arrays.iter().filter(|(array, _)| !array.bytes.is_empty());
    if used().any(|(array, _)| array.dtype != form.dtype || array.shape.get(1..) != form.shape.get(1..)) {
        return Err(Error::decode("samples that are composed have labels or points of different shapes or types")
            .with("shapes", format!("{:?}", arrays.iter().map(|(array, _)| &array.shape).collect::<Vec<_>>())));
    }
    // Points of one object have no dimension for objects.
    let keeps = |array: &Array<'_>, objects: &PartObjects, entry: usize| {
        objects.kept.as_ref().is_none_or(|kept| kept.len() != array.entries()) || objects.keeps(entry)
    };
    let entries = used().flat_map(|(array, objects)| {
        let all = array.bytes.chunks_exact(array.entry_bytes().max(1)).enumerate();
        all.filter(|(entry, _)| keeps(array, objects, *entry)).map(|(_, bytes)| bytes)
    });
    let entries: Vec<&[u8]> = entries.collect();
    let mut shape = form.shape.clone();
    if let Some(first) = shape.first_mut() {
        *first = entries.len();
    }
    start_ragged(row, form.dtype, &shape)?.copy_from_slice(&entries.concat());
    Ok(())
}
