//! Decoded parts of one file that several pictures of a sample are cut from: views of a field, or fields of one column.
//!
//! Each picture needs a region of the file. Decoding the smallest box around all of their regions once costs less than
//! decoding each of them, if the regions overlap or if decoding starts at the top of the file each time. The first
//! picture compares both ([`Cost`]), and those after it follow. The pixels are the same in either way, since a region
//! of a file is decoded exactly; only the time differs.

use forebay_picture::PaddingMode;
use forebay_picture::geometry::{Grid, Region, Scale, Size, Stage};
use forebay_picture::orientation::Orientation;
use forebay_picture::pixels::Pixels;

/// Time of decoding a region, in parts of the time of one pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cost {
    /// Per pixel that precedes the region in the file.
    pub(super) passed: f64,
    /// Per pixel of the region.
    pub(super) decoded: f64,
    /// Rows and columns that are passed.
    pub(super) order: Order,
}

/// Part of a file that is read before a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// All rows down to the region's last one.
    FromTop,
    /// The columns left of the region.
    FromLeft,
    /// The whole file.
    Whole,
}

impl Cost {
    /// Returns the cost of `region` of a picture of `size`.
    fn of(self, region: Region, size: Size) -> f64 {
        let [x, y, w, h] = [region.x, region.y, region.w, region.h].map(f64::from);
        let read = match self.order {
            Order::FromTop => f64::from(size.w) * (y + h),
            Order::FromLeft => (x + w) * h,
            Order::Whole => f64::from(size.w) * f64::from(size.h),
        };
        self.passed * (read - w * h) + self.decoded * w * h
    }
}

/// Regions of one upright picture that are needed, under construction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Union {
    cost: Cost,
    /// From the decoded picture, which has this size, to the upright one.
    orientation: Orientation,
    size: Size,
    /// The smallest box around the regions.
    region: Region,
    /// Cost of decoding each of them.
    separate: f64,
    count: usize,
}

impl Union {
    /// Starts with one region. `size` is the size of the picture before it is turned upright.
    pub(super) fn new(cost: Cost, orientation: Orientation, size: Size, region: Region) -> Self {
        let empty = Self { cost, orientation, size, region, separate: 0.0, count: 1 };
        Self { separate: empty.cost_of(region), ..empty }
    }

    fn cost_of(&self, region: Region) -> f64 {
        self.cost.of(self.orientation.stored(region, self.size), self.size)
    }

    /// Adds a region.
    pub(super) fn add(&mut self, region: Region) {
        self.region = around(self.region, region);
        self.separate += self.cost_of(region);
        self.count += 1;
    }

    /// Returns the box around all regions, if decoding it costs less than decoding each.
    pub(super) fn worthwhile(self) -> Option<Region> {
        (self.count > 1 && self.cost_of(self.region) < self.separate).then_some(self.region)
    }
}

/// Returns the smallest box around two.
fn around(a: Region, b: Region) -> Region {
    let (x, y) = (a.x.min(b.x), a.y.min(b.y));
    Region { x, y, w: (a.x + a.w).max(b.x + b.w) - x, h: (a.y + a.h).max(b.y + b.h) - y }
}

/// Returns true if `outer` has all of `inner`.
pub(super) fn contains(outer: Region, inner: Region) -> bool {
    around(outer, inner) == outer
}

/// Returns a box around the pixels that `stage` reads from a picture on `grid`, which is decoded to `size`: without the
/// weights of the resize, with exact bounds that may be smaller.
pub(super) fn bound(stage: &Stage, grid: Grid, size: Size) -> Region {
    let Stage { crop, resized, window, border, .. } = *stage;
    let axis = |start: u32, cut: u32, resized: u32, corner: i64, shown: u32, before: u32, side: u32| {
        let factor = f64::from(cut) / f64::from(resized);
        // A filter reaches two output pixels to either side at most, or two decoded ones when it enlarges.
        let by = f64::from(grid.by);
        let reach = if cut == resized && grid.by == 1 { 0.0 } else { 2.0 * factor.max(by) + by };
        // Mirrored pixels in borders may be anywhere.
        let reach = if border.mode == PaddingMode::Constant { reach } else { f64::from(cut) };
        let place = |output: i64| output.clamp(0, i64::from(resized)) as f64 * factor;
        let low = (place(corner) - reach).max(0.0) as u32;
        let high = (place(corner + i64::from(shown)) + reach).ceil().min(f64::from(cut)) as u32;
        // Something is read even if nothing is shown.
        let (low, high) = (low.min(cut - 1), high.max(low.min(cut - 1) + 1));
        let first = ((before + start + low) / grid.by).min(side - 1);
        let end = (before + start + high).div_ceil(grid.by).clamp(first + 1, side.max(first + 1));
        (first, end - first)
    };
    let (x, w) = axis(crop.x, crop.w, resized.w, window.x, window.size.w, grid.left, size.w);
    let (y, h) = axis(crop.y, crop.h, resized.h, window.y, window.size.h, grid.above, size.h);
    Region { x, y, w, h }
}

/// Decoded parts of the files of one sample. Their memory is kept for the next.
#[derive(Default)]
pub(super) struct SharedSources {
    sources: Vec<SharedSource>,
    /// Number of the sources of this sample.
    used: usize,
}

/// Decision about the pictures of a group that are decoded at one scale, and the pixels if they share them.
#[derive(Default)]
struct SharedSource {
    group: usize,
    scale: Scale,
    is_shared: bool,
    pixels: Pixels,
}

/// Number of a shared part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedPart(usize);

impl SharedSources {
    /// Forgets the decisions of the last sample.
    pub(super) fn start_sample(&mut self) {
        self.used = 0;
    }

    /// Returns the decision about `group` at `scale`, if there is one: the shared part, or none.
    pub(super) fn decided(&self, group: usize, scale: Scale) -> Option<Option<SharedPart>> {
        let place = self.sources[..self.used].iter().position(|s| s.group == group && s.scale == scale)?;
        Some(self.sources[place].is_shared.then_some(SharedPart(place)))
    }

    /// Records the decision about `group` at `scale`. With `pixels` it shares them, and gives a buffer in exchange.
    pub(super) fn decide(&mut self, group: usize, scale: Scale, pixels: Option<&mut Pixels>) -> Option<SharedPart> {
        if self.used == self.sources.len() {
            self.sources.push(SharedSource::default());
        }
        let source = &mut self.sources[self.used];
        (source.group, source.scale, source.is_shared) = (group, scale, pixels.is_some());
        if let Some(pixels) = pixels {
            std::mem::swap(&mut source.pixels, pixels);
        }
        self.used += 1;
        source.is_shared.then_some(SharedPart(self.used - 1))
    }

    /// Returns the pixels of a shared part.
    pub(super) fn pixels(&self, part: SharedPart) -> &Pixels {
        &self.sources[part.0].pixels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::draw::{DrawKey, FieldDraws};
    use crate::decode::field::Op;
    use crate::decode::steps::{Steps, resolve};
    use forebay_picture::pixels::Content;
    use forebay_picture::resize::Resizer;

    const SIZE: Size = Size { w: 500, h: 375 };

    fn region(x: u32, y: u32, w: u32, h: u32) -> Region {
        Region { x, y, w, h }
    }

    #[test]
    fn regions_that_overlap_share_a_decode_and_distant_ones_do_not() {
        let indexed = Cost { passed: 1.0, decoded: 3.0, order: Order::FromLeft };
        let shared = |cost, regions: &[Region]| {
            let mut union = Union::new(cost, Orientation::default(), SIZE, regions[0]);
            regions[1..].iter().for_each(|region| union.add(*region));
            union.worthwhile()
        };
        let near = [region(10, 10, 300, 200), region(60, 40, 300, 200)];
        assert_eq!(shared(indexed, &near), Some(region(10, 10, 350, 230)));
        let distant = [region(0, 0, 90, 90), region(400, 280, 90, 90)];
        assert_eq!(shared(indexed, &distant), None);
        // Both are read down to the second one, which leaves out the first.
        let from_top = Cost { order: Order::FromTop, ..indexed };
        assert_eq!(
            shared(from_top, &[region(0, 200, 90, 90), region(90, 210, 90, 90)]),
            Some(region(0, 200, 180, 100))
        );
        let whole = Cost { passed: 1.0, decoded: 1.1, order: Order::Whole };
        assert_eq!(shared(whole, &distant), Some(region(0, 0, 490, 370)));
        assert_eq!(shared(whole, &distant[..1]), None);
    }

    #[test]
    fn the_bound_has_all_that_a_stage_reads_and_little_more() {
        let json = r#"[[{"op": "random_resized_crop", "size": [96, 80], "scale": [0.001, 1.0]}],
            [{"op": "resize", "size": 64}, {"op": "center_crop", "size": [48, 40]}],
            [{"op": "random_crop", "size": [224, 300], "padding": [9, 3, 0, 100]}, {"op": "random_horizontal_flip"}],
            [{"op": "resize", "size": [900, 1200]}, {"op": "random_crop", "size": [100, 70]}, {"op": "random_horizontal_flip"}],
            [{"op": "pad", "padding": [900, 0, 0, 0]}, {"op": "random_crop", "size": [20, 20]}]]"#;
        let lists: Vec<Vec<Op>> = serde_json::from_str(json).unwrap();
        let (mut steps, mut resizer) = (Steps::default(), Resizer::default());
        for ops in &lists {
            for draw in 0..300 {
                let key = DrawKey { epoch: 0, stream: 0, draw };
                resolve(ops, SIZE, FieldDraws::new(1, "x"), key, &mut steps).unwrap();
                let stage = &steps.stages[0];
                for (scale, left, above) in [(Scale::Full, 0, 0), (Scale::Half, 0, 1), (Scale::Eighth, 4, 1)] {
                    let grid = Grid { by: scale.divisor(), left, above };
                    let size = Size { w: (SIZE.w + left).div_ceil(grid.by), h: (SIZE.h + above).div_ceil(grid.by) };
                    let needed = resizer.plan_reduced(stage, Content::Colours, grid);
                    let bound = bound(stage, grid, size);
                    assert!(contains(bound, needed), "{bound:?} {needed:?} {stage:?} {grid:?}");
                    assert!(contains(Region::all(size), bound), "{bound:?} {stage:?} {grid:?}");
                    let factor = (stage.crop.w / stage.resized.w).max(stage.crop.h / stage.resized.h) / grid.by + 2;
                    assert!(
                        bound.w <= needed.w + 8 * factor && bound.h <= needed.h + 8 * factor,
                        "{bound:?} {needed:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn decisions_last_for_one_sample() {
        let mut shared = SharedSources::default();
        let mut pixels = Pixels::default();
        pixels.start(region(1, 2, 3, 4), 3).fill(7);
        let part = shared.decide(2, Scale::Half, Some(&mut pixels)).unwrap();
        assert_eq!(shared.decide(2, Scale::Full, None), None);
        assert_eq!(shared.decided(2, Scale::Half), Some(Some(part)));
        assert_eq!(shared.decided(2, Scale::Full), Some(None));
        assert_eq!(shared.decided(1, Scale::Half), None);
        assert_eq!((shared.pixels(part).region(), &shared.pixels(part).rgb()[..2]), (region(1, 2, 3, 4), &[7, 7][..]));
        shared.start_sample();
        assert_eq!(shared.decided(2, Scale::Half), None);
    }
}
