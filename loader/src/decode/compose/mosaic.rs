//! Mosaic: four pictures that meet at a random point, as for YOLO.
//!
//! The picture of the sample is above and left of the point, its partners are above and right, below and left, and
//! below and right. Each has a corner at the point and its own size; parts outside of the result are cut off, and
//! places without a picture have the fill. A sample that is not composed is in the middle of the result.

use serde::{Deserialize, Serialize};

use super::objects::PartObjects;
use super::pixels::{Placement, Planes};
use super::{Composition, Role, SamplePart};
use crate::decode::augment::check_range;
use crate::decode::draw::Draws;
use crate::error::{Error, Result};
use forebay_picture::geometry::{PIXELS_MAX, Size};

/// Four pictures that meet at a random point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mosaic {
    /// Height and width of the result.
    pub size: [u32; 2],
    /// Smallest and largest position of the point, divided by width and height.
    #[serde(default = "anywhere")]
    pub center_range: [f64; 2],
    /// Colour of places without a picture.
    #[serde(default = "grey")]
    pub fill: [u8; 3],
    /// Label of these places in masks.
    #[serde(default)]
    pub fill_mask: u8,
}

fn anywhere() -> [f64; 2] {
    [0.0, 1.0]
}

fn grey() -> [u8; 3] {
    [114; 3]
}

impl Mosaic {
    pub(super) fn check(&self) -> Result<Size> {
        let [h, w] = self.size;
        check_range("Mosaic", "center_range", self.center_range, 0.0, 1.0)?;
        if w == 0 || h == 0 || u64::from(w) * u64::from(h) > PIXELS_MAX {
            let message = format!("the size of a Mosaic is from 1 to {PIXELS_MAX} pixels");
            return Err(Error::config(message).with("size", format!("{:?}", self.size)));
        }
        Ok(Size { w, h })
    }

    /// Returns the places of pictures of these sizes.
    pub(super) fn places(&self, mut numbers: Draws, parts: &[Option<Size>]) -> Vec<Placement> {
        let [h, w] = self.size.map(i64::from);
        if let &[Some(own)] = parts {
            let at = [(w - i64::from(own.w)).div_euclid(2), (h - i64::from(own.h)).div_euclid(2)];
            return vec![Placement { at, bounds: [0, 0, w, h] }];
        }
        let [low, high] = self.center_range;
        let mut point = |side: i64| ((side as f64 * numbers.uniform(low, high)) as i64).min(side);
        let (x, y) = (point(w), point(h));
        let quarter = |(number, size): (usize, &Option<Size>)| {
            let size = size.unwrap_or(Size { w: 0, h: 0 });
            let (left, right, column) = if number % 2 == 0 { (0, x, x - i64::from(size.w)) } else { (x, w, x) };
            let (top, bottom, line) = if number < 2 { (0, y, y - i64::from(size.h)) } else { (y, h, y) };
            Placement { at: [column, line], bounds: [left, top, right, bottom] }
        };
        parts.iter().enumerate().map(quarter).collect()
    }
}

impl Placement {
    /// Moves a position of the picture, and returns true if it is in its part of the result.
    fn point(&self, [x, y]: [f64; 2]) -> ([f64; 2], bool) {
        let ([left, top, right, bottom], [column, line]) = (self.bounds.map(|n| n as f64), self.at.map(|n| n as f64));
        let (x, y) = (x + column, y + line);
        ([x, y], (left..=right).contains(&x) && (top..=bottom).contains(&y))
    }
}

impl Composition {
    pub(super) fn compose_mosaic(
        &self,
        mosaic: &Mosaic,
        numbers: Draws,
        parts: &[Option<SamplePart<'_>>],
        pictures: &mut [&mut [u8]],
    ) -> Result<Vec<Vec<u8>>> {
        let sizes = parts.iter().map(|part| part.as_ref().map(|part| self.size_of(part)).transpose());
        let sizes: Vec<Option<Size>> = sizes.collect::<Result<_>>()?;
        let places = mosaic.places(numbers, &sizes);
        let there = parts.iter().zip(&sizes).zip(&places);
        let there: Vec<(&SamplePart<'_>, Size, Placement)> =
            there.filter_map(|((part, size), place)| Some((part.as_ref()?, (*size)?, *place))).collect();
        let mut pictures = pictures.iter_mut();
        for (number, member) in self.members.iter().enumerate() {
            let Role::Picture { form, .. } = &member.role else { continue };
            let Some(out) = pictures.next() else { return Err(Error::internal("a composition has no room")) };
            for ((part, size), place) in parts.iter().zip(&sizes).zip(&places) {
                let from = part.as_ref().zip(*size).map(|(part, size)| (part[number].bytes, size));
                form.planes().place(from, (out, self.size), *place, &form.fill);
            }
        }
        let mut masks = Vec::new();
        let mut objects = Vec::with_capacity(there.len());
        for (part, size, place) in &there {
            let of_part = self.moved_objects(part, place);
            self.add_masks(part, *size, (&of_part, place), &mut masks);
            objects.push((*part, of_part));
        }
        self.write_objects(&objects, &masks, |place, point| there[place].2.point(point))
    }

    /// Returns the objects of a part at its place.
    fn moved_objects(&self, part: &SamplePart<'_>, place: &Placement) -> PartObjects {
        let Some((rule, mut boxes)) = self.boxes_of(part) else { return PartObjects { kept: None, boxes: Vec::new() } };
        let ([left, top, right, bottom], [x, y]) = (place.bounds.map(|n| n as f64), place.at.map(|n| n as f64));
        for corners in &mut boxes {
            let [a, b, c, d] = *corners;
            let ([a, c], [b, d]) = (
                [a, c].map(|column| (column + x).clamp(left, right)),
                [b, d].map(|line| (line + y).clamp(top, bottom)),
            );
            *corners = [a, b, c, d];
        }
        PartObjects { kept: Some(boxes.iter().map(|corners| rule.keeps(corners)).collect()), boxes }
    }

    /// Adds the masks of a part's objects that are kept.
    fn add_masks(
        &self,
        part: &SamplePart<'_>,
        size: Size,
        (objects, place): (&PartObjects, &Placement),
        out: &mut Vec<u8>,
    ) {
        let Some(masks) = self.masks_of(part) else { return };
        for (number, mask) in masks.bytes.chunks_exact(masks.entry_bytes().max(1)).enumerate() {
            if objects.kept.as_ref().is_none_or(|kept| kept.get(number).copied().unwrap_or(true)) {
                let start = out.len();
                out.resize(start + self.size.pixels() as usize, 0);
                let plane = Planes { count: 1, pixel: 1 };
                plane.place(Some((mask, size)), (&mut out[start..], self.size), *place, &[]);
            }
        }
    }
}
