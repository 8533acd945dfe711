//! Writer of JPEG files that no usual encoder writes: any coefficients, sampling factors, scans and restart intervals.

use super::super::order::BLOCK;

/// Picture to write. The Huffman tables give every symbol a code of 8 or 16 bits, so any coefficients can be written.
pub(super) struct Picture<'a> {
    pub w: u16,
    pub h: u16,
    /// Name and sampling factors (`0xHV`) per component.
    pub components: &'a [(u8, u8)],
    /// Components of each scan.
    pub scans: &'a [&'a [usize]],
    pub restart_interval: u16,
    /// Segments before the frame.
    pub extra: &'a [u8],
    pub quantisation: u8,
}

/// Source of coefficient blocks: takes a component and returns its next block in zigzag order, with a DC coefficient
/// between -1023 and 1023.
pub(super) type Blocks<'a> = &'a mut dyn FnMut(usize) -> [i16; BLOCK];

impl Picture<'_> {
    pub(super) fn write(&self, blocks: Blocks<'_>) -> Vec<u8> {
        let mut out = vec![0xff, 0xd8];
        out.extend(self.extra);
        out.extend([0xff, 0xdb, 0, 67, 0]);
        out.extend([self.quantisation; BLOCK]);
        out.extend([0xff, 0xc0, 0, 8 + 3 * self.components.len() as u8, 8]);
        out.extend(self.h.to_be_bytes());
        out.extend(self.w.to_be_bytes());
        out.push(self.components.len() as u8);
        self.components.iter().for_each(|(id, factors)| out.extend([*id, *factors, 0]));
        huffman(&mut out);
        out.extend([0xff, 0xdd, 0, 4]);
        out.extend(self.restart_interval.to_be_bytes());
        for scan in self.scans {
            out.extend([0xff, 0xda, 0, 6 + 2 * scan.len() as u8, scan.len() as u8]);
            scan.iter().for_each(|c| out.extend([self.components[*c].0, 0]));
            out.extend([0, 63, 0]);
            self.scan(scan, blocks, &mut out);
        }
        out.extend([0xff, 0xd9]);
        out
    }

    fn scan(&self, scan: &[usize], blocks: Blocks<'_>, out: &mut Vec<u8>) {
        let factors = |c: usize| match self.components.len() {
            1 => (1, 1),
            _ => (u32::from(self.components[c].1 >> 4), u32::from(self.components[c].1 & 15)),
        };
        let all = (0..self.components.len()).map(factors);
        let (h_max, v_max) = all.fold((1, 1), |(a, b), (h, v)| (a.max(h), b.max(v)));
        let (w, h) = (u32::from(self.w), u32::from(self.h));
        let (across, down, is_single) = match *scan {
            [only] => {
                let (fh, fv) = factors(only);
                ((w * fh).div_ceil(h_max).div_ceil(8), (h * fv).div_ceil(v_max).div_ceil(8), true)
            }
            _ => (w.div_ceil(8 * h_max), h.div_ceil(8 * v_max), false),
        };
        let mut bits = BitWriter::default();
        let mut predictors = [0_i16; 3];
        for mcu in 0..across * down {
            let interval = u32::from(self.restart_interval);
            if interval > 0 && mcu > 0 && mcu % interval == 0 {
                out.extend(bits.finish());
                out.extend([0xff, 0xd0 + ((mcu / interval - 1) % 8) as u8]);
                predictors = [0; 3];
            }
            for c in scan {
                let (fh, fv) = if is_single { (1, 1) } else { factors(*c) };
                for _ in 0..fh * fv {
                    bits.block(&blocks(*c), &mut predictors[*c]);
                }
            }
        }
        out.extend(bits.finish());
    }
}

/// DC: sizes 0 to 15 as 8-bit codes. AC: symbols 0 to 199 have codes of 8 bits, their own numbers; the rest 16.
pub(super) fn huffman(out: &mut Vec<u8>) {
    out.extend([0xff, 0xc4, 0, 19 + 16, 0]);
    out.extend((1..=16).map(|length| if length == 8 { 16 } else { 0 }));
    out.extend(0..16);
    out.extend([0xff, 0xc4]);
    out.extend((19_u16 + 256).to_be_bytes());
    out.push(0x10);
    out.extend((1..=16).map(|length| match length {
        8 => 200,
        16 => 56,
        _ => 0,
    }));
    out.extend(0..=255);
}

#[derive(Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    word: u64,
    count: u32,
}

impl BitWriter {
    pub(super) fn put(&mut self, value: u32, bits: u32) {
        self.word = self.word << bits | u64::from(value) & ((1 << bits) - 1);
        self.count += bits;
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.word >> self.count) as u8;
            self.bytes.push(byte);
            if byte == 0xff {
                self.bytes.push(0);
            }
        }
    }

    pub(super) fn value(&mut self, value: i32, size: u32) {
        self.put((if value < 0 { value + (1 << size) - 1 } else { value }) as u32, size);
    }

    fn block(&mut self, block: &[i16; BLOCK], predictor: &mut i16) {
        let size = |v: i32| 32 - v.unsigned_abs().leading_zeros();
        let difference = i32::from(block[0]) - i32::from(*predictor);
        *predictor = block[0];
        self.put(size(difference), 8);
        self.value(difference, size(difference));
        let mut run = 0;
        for value in &block[1..] {
            if *value == 0 {
                run += 1;
                continue;
            }
            while run > 15 {
                self.symbol(0xf0);
                run -= 16;
            }
            let value = i32::from(*value);
            self.symbol(run << 4 | size(value));
            self.value(value, size(value));
            run = 0;
        }
        if run > 0 {
            self.symbol(0);
        }
    }

    pub(super) fn symbol(&mut self, symbol: u32) {
        match symbol {
            0..200 => self.put(symbol, 8),
            _ => self.put((200 << 8) + symbol - 200, 16),
        }
    }

    /// Returns the bytes so far, filled up with ones.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        self.put(0x7f, (8 - self.count) % 8);
        std::mem::take(&mut self.bytes)
    }
}
