//! Frame header, and the geometry that follows from it.

use std::ops::Range;

use super::fallback::Fallback;
use crate::geometry::{Region, Scale, Size};

/// Columns and rows of a stored block.
pub(super) const BLOCK: u32 = 8;

/// Longest side that libjpeg accepts.
const SIDE_MAX: u32 = 65_500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    Grey,
    YCbCr,
    Rgb,
}

/// Upsampling of a component to one sample per pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Upsampling {
    /// Pixels per sample, across and down.
    pub across: u32,
    pub down: u32,
    /// Samples are doubled with blends of the nearest ones, libjpeg's "fancy upsampling". Otherwise they are repeated.
    pub is_smooth: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Component {
    pub id: u8,
    /// Blocks per MCU across and down.
    pub h: u32,
    pub v: u32,
    /// Slot of its quantisation table.
    pub quantisation: usize,
    /// Samples of a decoded block, across and down: 8, or fewer at a smaller scale.
    pub block: u32,
    /// Size in samples; the blocks at the right and lower edges may hold more.
    pub size: Size,
    pub upsampling: Upsampling,
}

/// Frame of one or three components of 8 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// As stored.
    pub size: Size,
    /// As decoded.
    pub decoded: Size,
    /// Pixels, across and down, of a decoded block of a component with the largest factors.
    pub block: u32,
    components: [Component; 3],
    count: usize,
    pub h_max: u32,
    pub v_max: u32,
    pub colours: Colours,
    /// True if scans hold parts of the coefficients.
    pub is_progressive: bool,
}

impl Frame {
    /// Parses a frame header's body. It contains neither the colours nor the kind of frame.
    pub(super) fn parse(body: &[u8]) -> Result<Self, Fallback> {
        let [precision, h1, h0, w1, w0, count, rest @ ..] = body else { return Err(Fallback("a cut frame header")) };
        let count = usize::from(*count);
        let (list, []) = rest.as_chunks::<3>() else { return Err(Fallback("a frame header of a wrong length")) };
        if *precision != 8 || list.len() != count || !(count == 1 || count == 3) {
            return Err(Fallback("neither one nor three components of 8 bits"));
        }
        let [w, h] = [[*w1, *w0], [*h1, *h0]].map(|bytes| u32::from(u16::from_be_bytes(bytes)));
        if !(1..=SIDE_MAX).contains(&w) || !(1..=SIDE_MAX).contains(&h) {
            return Err(Fallback("a side of 0 or beyond the limit"));
        }
        let size = Size { w, h };
        let is_factor = |f: u8| (1..=4).contains(&f);
        if !list.iter().all(|[_, factors, _]| is_factor(factors >> 4) && is_factor(factors & 15)) {
            return Err(Fallback("sampling factors beyond 1 to 4"));
        }
        // The factors of a single component have no meaning.
        let factors = |i: usize| if count == 1 { (1, 1) } else { (list[i][1] >> 4, list[i][1] & 15) };
        let all = (0..count).map(factors);
        let (h_max, v_max) = all.fold((0, 0), |(h_max, v_max), (h, v)| (h_max.max(h), v_max.max(v)));
        let (h_max, v_max) = (u32::from(h_max), u32::from(v_max));
        let upsampling = Upsampling { across: 1, down: 1, is_smooth: false };
        let mut components = [Component { id: 0, h: 1, v: 1, quantisation: 0, block: BLOCK, size, upsampling }; 3];
        for (i, component) in components.iter_mut().enumerate().take(count) {
            let (h, v) = (u32::from(factors(i).0), u32::from(factors(i).1));
            if h_max % h != 0 || v_max % v != 0 {
                return Err(Fallback("sampling factors that do not divide the largest ones"));
            }
            let id = list[i][0];
            if list[..i].iter().any(|earlier| earlier[0] == id) {
                return Err(Fallback("two components of one name"));
            }
            *component = Component { id, h, v, quantisation: usize::from(list[i][2]), ..*component };
        }
        let (colours, is_progressive) = (Colours::Grey, false);
        let frame =
            Self { size, decoded: size, block: BLOCK, components, count, h_max, v_max, colours, is_progressive };
        Ok(frame.scaled(Scale::Full))
    }

    /// Returns the frame of the same picture at `scale`. As in libjpeg, a component with fewer samples than the rest is
    /// scaled down less if it then has as many of them.
    pub(super) fn scaled(mut self, scale: Scale) -> Self {
        self.decoded = scale.size(self.size);
        self.block = BLOCK / scale.divisor();
        let (across, down) = (self.h_max * self.block, self.v_max * self.block);
        for component in &mut self.components[..self.count] {
            let mut block = self.block;
            while block < BLOCK && across % (component.h * block * 2) == 0 && down % (component.v * block * 2) == 0 {
                block *= 2;
            }
            component.block = block;
            let (h, v) = (component.h * block, component.v * block);
            component.size = Size {
                w: (self.size.w * h).div_ceil(self.h_max * BLOCK),
                h: (self.size.h * v).div_ceil(self.v_max * BLOCK),
            };
            component.upsampling = Upsampling::of(across / h, down / v, component.size, self.block > 1);
        }
        self
    }

    pub(super) fn components(&self) -> &[Component] {
        &self.components[..self.count]
    }
}

impl Upsampling {
    /// Returns libjpeg's choice; at an eighth of the size it is never smooth.
    fn of(across: u32, down: u32, size: Size, may_smooth: bool) -> Self {
        let can_smooth = match (across, down) {
            (1, 2) => true,
            (2, 1 | 2) => size.w > 2,
            _ => false,
        };
        Self { across, down, is_smooth: may_smooth && can_smooth }
    }

    pub(super) fn is_smooth_across(self) -> bool {
        self.is_smooth && self.across == 2
    }

    pub(super) fn is_smooth_down(self) -> bool {
        self.is_smooth && self.down == 2
    }
}

impl Component {
    /// Returns the number of blocks that hold samples of the picture; an MCU at the edge may have more.
    pub(super) fn blocks(&self) -> Size {
        Size { w: self.size.w.div_ceil(self.block), h: self.size.h.div_ceil(self.block) }
    }

    /// Returns the blocks with the samples that the pixels of `region` are made from: columns and rows.
    pub(super) fn needed(&self, region: Region) -> (Range<u32>, Range<u32>) {
        let by = self.upsampling;
        let axis = |start: u32, length: u32, factor: u32, smooth: bool, samples: u32| {
            let reach = u32::from(smooth);
            let first = (start / factor).saturating_sub(reach);
            let last = ((start + length - 1) / factor + reach).min(samples - 1);
            first / self.block..last / self.block + 1
        };
        (
            axis(region.x, region.w, by.across, by.is_smooth_across(), self.size.w),
            axis(region.y, region.h, by.down, by.is_smooth_down(), self.size.h),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a frame header of three components with these factors.
    fn frame(w: u16, h: u16, factors: [u8; 3]) -> Result<Frame, Fallback> {
        let mut body = vec![8];
        body.extend(h.to_be_bytes());
        body.extend(w.to_be_bytes());
        body.push(3);
        (1..).zip(factors).for_each(|(id, f)| body.extend([id, f, 0]));
        Frame::parse(&body)
    }

    #[test]
    fn a_halved_component_of_an_odd_picture_keeps_its_last_sample() {
        let frame = frame(17, 33, [0x22, 0x11, 0x11]).unwrap();
        assert_eq!(frame.components()[1].size, Size { w: 9, h: 17 });
        assert_eq!(frame.components()[1].blocks(), Size { w: 2, h: 3 });
        assert_eq!(frame.components()[1].upsampling, Upsampling { across: 2, down: 2, is_smooth: true });
    }

    #[test]
    fn a_narrow_picture_is_not_smoothed_across() {
        let frame = frame(4, 40, [0x22, 0x11, 0x11]).unwrap();
        assert_eq!(frame.components()[1].upsampling, Upsampling { across: 2, down: 2, is_smooth: false });
    }

    #[test]
    fn a_region_needs_the_neighbouring_block_only_where_smoothing_reaches_into_it() {
        let frame = frame(160, 160, [0x22, 0x11, 0x11]).unwrap();
        let chroma = &frame.components()[1];
        let at = |x, w| chroma.needed(Region { x, y: 40, w, h: 8 }).0;
        assert_eq!(at(18, 12), 1..2);
        assert_eq!(at(16, 12), 0..2);
        assert_eq!(at(18, 14), 1..3);
        assert_eq!(at(144, 16), 8..10);
        assert_eq!(frame.components()[0].needed(Region { x: 16, y: 40, w: 16, h: 9 }), (2..4, 5..7));
    }

    #[test]
    fn factors_that_do_not_divide_the_largest_ones_are_rejected() {
        assert!(frame(16, 16, [0x32, 0x21, 0x11]).is_err());
        assert!(frame(16, 16, [0x51, 0x11, 0x11]).is_err());
        assert!(frame(16, 16, [0x01, 0x11, 0x11]).is_err());
        assert!(frame(0, 16, [0x11, 0x11, 0x11]).is_err());
        // Even if they have no meaning.
        assert!(Frame::parse(&[8, 0, 16, 0, 16, 1, 1, 0x22, 0]).is_ok());
        assert!(Frame::parse(&[8, 0, 16, 0, 16, 1, 1, 0xf7, 0]).is_err());
    }
}
