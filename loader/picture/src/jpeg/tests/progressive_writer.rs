//! Writer of progressive files from any coefficients, with scans in any order.

use super::super::order::BLOCK;
use super::writer::{BitWriter, Blocks, huffman};

/// Picture to write.
pub(super) struct ProgressivePicture<'a> {
    pub w: u16,
    pub h: u16,
    /// Sampling factors (`0xHV`) per component.
    pub factors: &'a [u8],
    /// Components of each scan, its first and last coefficient, and its bits as in a scan's header.
    pub scans: &'a [(&'a [usize], [u8; 4])],
    pub restart_interval: u16,
    pub quantisation: u8,
}

/// Blocks of a component: the blocks of whole MCUs, and the number that contain samples of the picture.
struct Component {
    blocks: Vec<[i16; BLOCK]>,
    stride: usize,
    used: (usize, usize),
    factors: (usize, usize),
}

/// Bits of a scan, and the number of ended blocks that are not written yet.
#[derive(Default)]
struct Scan {
    bits: BitWriter,
    ended: u32,
    /// Bits of coefficients in these blocks.
    corrections: Vec<bool>,
    predictors: [i32; 3],
}

impl ProgressivePicture<'_> {
    pub(super) fn write(&self, blocks: Blocks<'_>) -> Vec<u8> {
        let mut out = vec![0xff, 0xd8, 0xff, 0xdb, 0, 67, 0];
        out.extend([self.quantisation; BLOCK]);
        out.extend([0xff, 0xc2, 0, 8 + 3 * self.factors.len() as u8, 8]);
        out.extend(self.h.to_be_bytes());
        out.extend(self.w.to_be_bytes());
        out.push(self.factors.len() as u8);
        (1..).zip(self.factors).for_each(|(id, factors)| out.extend([id, *factors, 0]));
        huffman(&mut out);
        out.extend([0xff, 0xdd, 0, 4]);
        out.extend(self.restart_interval.to_be_bytes());
        let (components, mcus) = self.components(blocks);
        for (parts, [first, last, high, low]) in self.scans {
            out.extend([0xff, 0xda, 0, 6 + 2 * parts.len() as u8, parts.len() as u8]);
            parts.iter().for_each(|c| out.extend([*c as u8 + 1, 0]));
            out.extend([*first, *last, high << 4 | low]);
            let (across, down) = match **parts {
                [only] => components[only].used,
                _ => mcus,
            };
            let mut scan = Scan::default();
            for mcu in 0..across * down {
                let interval = usize::from(self.restart_interval);
                if interval > 0 && mcu > 0 && mcu.is_multiple_of(interval) {
                    out.extend(scan.finish());
                    out.extend([0xff, 0xd0 + ((mcu / interval - 1) % 8) as u8]);
                }
                for c in *parts {
                    let component = &components[*c];
                    let (h, v) = if parts.len() == 1 { (1, 1) } else { component.factors };
                    for block in 0..h * v {
                        let (x, y) = (mcu % across * h + block % h, mcu / across * v + block / h);
                        let block = &component.blocks[y * component.stride + x];
                        match (first, high) {
                            (0, 0) => scan.dc_first(block, *c, *low),
                            (0, _) => scan.bits.put(block[0] as u32 >> low & 1, 1),
                            (_, 0) => scan.ac_first(&block[usize::from(*first)..=usize::from(*last)], *low),
                            _ => scan.ac_refine(&block[usize::from(*first)..=usize::from(*last)], *low),
                        }
                    }
                }
            }
            out.extend(scan.finish());
        }
        out.extend([0xff, 0xd9]);
        out
    }

    fn components(&self, blocks: Blocks<'_>) -> (Vec<Component>, (usize, usize)) {
        let factors =
            |f: &u8| if self.factors.len() == 1 { (1, 1) } else { (usize::from(f >> 4), usize::from(f & 15)) };
        let (h_max, v_max) = self.factors.iter().map(factors).fold((1, 1), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        let (w, h) = (usize::from(self.w), usize::from(self.h));
        let mcus = (w.div_ceil(8 * h_max), h.div_ceil(8 * v_max));
        let component = |(c, f): (usize, &u8)| {
            let (fh, fv) = factors(f);
            let used = ((w * fh).div_ceil(h_max).div_ceil(8), (h * fv).div_ceil(v_max).div_ceil(8));
            let (stride, rows) = (mcus.0 * fh, mcus.1 * fv);
            Component { blocks: (0..stride * rows).map(|_| blocks(c)).collect(), stride, used, factors: (fh, fv) }
        };
        (self.factors.iter().enumerate().map(component).collect(), mcus)
    }
}

/// Returns the number of bits of a number.
fn size(value: i32) -> u32 {
    32 - value.unsigned_abs().leading_zeros()
}

impl Scan {
    fn dc_first(&mut self, block: &[i16; BLOCK], component: usize, low: u8) {
        let value = i32::from(block[0] >> low);
        let difference = value - std::mem::replace(&mut self.predictors[component], value);
        self.bits.put(size(difference), 8);
        self.bits.value(difference, size(difference));
    }

    fn ac_first(&mut self, band: &[i16], low: u8) {
        let mut run = 0;
        for value in band {
            // Towards zero.
            let value = i32::from(*value) / (1 << low);
            if value == 0 {
                run += 1;
                continue;
            }
            self.end_blocks();
            while run > 15 {
                self.bits.symbol(0xf0);
                run -= 16;
            }
            self.bits.symbol(run << 4 | size(value));
            self.bits.value(value, size(value));
            run = 0;
        }
        self.end_block(run > 0);
    }

    fn ac_refine(&mut self, band: &[i16], low: u8) {
        let magnitude = |value: &i16| u32::from(value.unsigned_abs()) >> low;
        let last_new = band.iter().rposition(|value| magnitude(value) == 1);
        let mut run = 0;
        let mut corrections = Vec::new();
        for (k, value) in band.iter().enumerate() {
            if magnitude(value) == 0 {
                run += 1;
                continue;
            }
            while run > 15 && last_new.is_some_and(|last| k <= last) {
                self.end_blocks();
                self.bits.symbol(0xf0);
                self.correct(&mut corrections);
                run -= 16;
            }
            if magnitude(value) > 1 {
                corrections.push(magnitude(value) & 1 == 1);
                continue;
            }
            self.end_blocks();
            self.bits.symbol(run << 4 | 1);
            self.bits.put(u32::from(*value > 0), 1);
            self.correct(&mut corrections);
            run = 0;
        }
        let is_ended = run > 0 || !corrections.is_empty();
        self.corrections.append(&mut corrections);
        self.end_block(is_ended);
    }

    fn correct(&mut self, corrections: &mut Vec<bool>) {
        corrections.drain(..).for_each(|bit| self.bits.put(u32::from(bit), 1));
    }

    fn end_block(&mut self, is_ended: bool) {
        self.ended += u32::from(is_ended);
        if self.ended == 0x7fff {
            self.end_blocks();
        }
    }

    /// Writes the number of ended blocks.
    fn end_blocks(&mut self) {
        if self.ended == 0 {
            return;
        }
        let size = 31 - self.ended.leading_zeros();
        self.bits.symbol(size << 4);
        self.bits.put(self.ended & ((1 << size) - 1), size);
        self.ended = 0;
        let mut corrections = std::mem::take(&mut self.corrections);
        self.correct(&mut corrections);
    }

    fn finish(&mut self) -> Vec<u8> {
        self.end_blocks();
        self.predictors = [0; 3];
        self.bits.finish()
    }
}
