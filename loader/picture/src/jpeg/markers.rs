//! Marker segments of a JPEG file: its parts before, between and after the entropy-coded scans.
//!
//! [`Headers`] reads them up to a scan and keeps the values in force there: frame, quantisation and Huffman tables,
//! restart interval. Everything that a usual encoder does not write is a [`Fallback`], also if libjpeg-turbo ignores
//! it, so that libjpeg-turbo decides about the file.

use super::fallback::Fallback;
use super::frame::{Colours, Frame};
use super::order::{BLOCK, POSITIONS};
use crate::geometry::Size;

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;

/// Quantisation table in zigzag order, as it is in the file.
type Quantisation = [u16; BLOCK];

/// Huffman table as it is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HuffmanSegment<'a> {
    /// Number of codes of 1, 2 .. 16 bits.
    pub counts: &'a [u8; 16],
    /// Symbols, shortest code first; as many as the sum of the counts, at most 256.
    pub values: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScanComponent {
    /// Index among the frame's components.
    pub component: usize,
    /// Slots of the DC and AC tables, 0 to 3.
    pub dc: usize,
    pub ac: usize,
}

/// Coefficients of a scan, and their bits in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spectrum {
    /// The first and the last coefficient, in zigzag order.
    pub first: u8,
    pub last: u8,
    /// The lowest bit of earlier scans, 0 if there were none.
    pub high: u8,
    /// The lowest bit after this scan.
    pub low: u8,
}

impl Spectrum {
    /// The spectrum of a sequential scan.
    pub(super) const ALL: Self = Self { first: 0, last: 63, high: 0, low: 0 };
}

/// Scan of one to three components.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    components: [ScanComponent; 3],
    count: usize,
    /// As the header has it in a progressive picture; everything in a sequential one.
    pub spectrum: Spectrum,
    /// Offset of its entropy-coded data in the file.
    pub data: usize,
}

impl Scan {
    pub(super) fn components(&self) -> &[ScanComponent] {
        &self.components[..self.count]
    }

    /// Returns the MCUs in a row, and the rows of MCUs.
    pub(super) fn mcus(&self, frame: &Frame) -> Size {
        match self.components() {
            [only] => frame.components()[only.component].blocks(),
            _ => Size { w: frame.size.w.div_ceil(8 * frame.h_max), h: frame.size.h.div_ceil(8 * frame.v_max) },
        }
    }
}

/// Reader of the segments, with the values in force.
#[derive(Default)]
pub(super) struct Headers<'a> {
    /// The file.
    pub bytes: &'a [u8],
    /// Offset of the next marker; to be set to the end of a scan's data before the next header is read.
    pub at: usize,
    frame: Option<Frame>,
    quantisation: [Option<Quantisation>; 4],
    dc: [Option<HuffmanSegment<'a>>; 4],
    ac: [Option<HuffmanSegment<'a>>; 4],
    /// MCUs between restart markers; 0 means none.
    pub restart_interval: u32,
    is_jfif: bool,
    /// The colour transform of an Adobe marker.
    adobe: Option<u8>,
}

impl<'a> Headers<'a> {
    /// Returns a reader at the first byte of a file.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Fallback> {
        if !bytes.starts_with(&[0xff, SOI]) {
            return Err(Fallback("no start of image"));
        }
        Ok(Self { bytes, at: 2, ..Self::default() })
    }

    /// Reads up to the next scan. Returns `None` at the end of the image, with or without its marker.
    pub(super) fn next_scan(&mut self) -> Result<Option<(Frame, Scan)>, Fallback> {
        loop {
            match self.marker()? {
                code @ 0xc0..=0xc2 => {
                    let body = self.body()?;
                    if self.frame.is_some() {
                        return Err(Fallback("a second frame"));
                    }
                    let mut frame = Frame::parse(body)?;
                    frame.is_progressive = code == 0xc2;
                    self.frame = Some(frame);
                }
                0xc4 => self.huffman()?,
                0xdb => self.quantisation()?,
                0xdd => match *self.body()? {
                    [high, low] => self.restart_interval = u32::from(u16::from_be_bytes([high, low])),
                    _ => return Err(Fallback("a restart interval of a wrong length")),
                },
                0xda => return self.scan().map(Some),
                EOI => return Ok(None),
                0xe0 => {
                    let body = self.body()?;
                    self.is_jfif |= body.starts_with(b"JFIF\0") && body.len() >= 14;
                }
                0xee => {
                    let body = self.body()?;
                    if body.starts_with(b"Adobe") && body.len() >= 12 {
                        self.adobe = Some(body[11]);
                    }
                }
                0xe1..=0xef | 0xfe => drop(self.body()?),
                _ => return Err(Fallback("a marker of a different kind of JPEG")),
            }
        }
    }

    /// Returns true if the image ends here, with or without its marker.
    pub(super) fn is_at_end(&self) -> bool {
        self.bytes.get(self.at..).is_none_or(|rest| rest.is_empty() || rest.starts_with(&[0xff, EOI]))
    }

    /// Returns a quantisation table by pairs, see [`order`](super::order). The transform multiplies modulo 2^16, as
    /// libjpeg-turbo's does.
    pub(super) fn quantisation_by_pairs(&self, slot: usize) -> Result<[i16; BLOCK], Fallback> {
        let table = self.quantisation.get(slot).copied().flatten().ok_or(Fallback("no quantisation table"))?;
        let mut pairs = [0; BLOCK];
        for (value, position) in table.iter().zip(POSITIONS) {
            pairs[usize::from(position)] = *value as i16;
        }
        Ok(pairs)
    }

    /// Returns the DC table that a component of a scan uses.
    pub(super) fn dc_table(&self, component: &ScanComponent) -> Result<HuffmanSegment<'a>, Fallback> {
        self.dc.get(component.dc).copied().flatten().ok_or(Fallback("no DC table"))
    }

    /// Returns the AC table that a component of a scan uses.
    pub(super) fn ac_table(&self, component: &ScanComponent) -> Result<HuffmanSegment<'a>, Fallback> {
        self.ac.get(component.ac).copied().flatten().ok_or(Fallback("no AC table"))
    }

    fn marker(&mut self) -> Result<u8, Fallback> {
        let mut rest = self.bytes[self.at.min(self.bytes.len())..].iter();
        if rest.next().is_some_and(|byte| *byte != 0xff) {
            return Err(Fallback("no marker where one should be"));
        }
        // Any number of FF may precede a marker's code.
        let code = rest.find(|byte| **byte != 0xff).copied();
        self.at = self.bytes.len() - rest.len();
        // Some files lack the last marker, or half of it.
        Ok(code.unwrap_or(EOI))
    }

    /// Reads a segment, without its length.
    fn body(&mut self) -> Result<&'a [u8], Fallback> {
        let rest = &self.bytes[self.at..];
        let Some((length, rest)) = rest.split_first_chunk::<2>() else { return Err(Fallback("a cut segment")) };
        let length = usize::from(u16::from_be_bytes(*length)).checked_sub(2).ok_or(Fallback("a length below 2"))?;
        self.at += 2 + length;
        rest.get(..length).ok_or(Fallback("a cut segment"))
    }

    fn huffman(&mut self) -> Result<(), Fallback> {
        let mut body = self.body()?;
        while !body.is_empty() {
            let Some((head, rest)) = body.split_first_chunk::<17>() else { return Err(Fallback("a cut table")) };
            let [class_and_slot, ref counts @ ..] = *head;
            let total: usize = counts.iter().map(|n| usize::from(*n)).sum();
            if total > 256 || total > rest.len() {
                return Err(Fallback("a Huffman table with more symbols than bytes"));
            }
            let counts = body[1..].first_chunk::<16>().expect("the head was 17 bytes");
            let (values, rest) = rest.split_at(total);
            let slot = usize::from(class_and_slot & 15);
            let tables = match class_and_slot >> 4 {
                0 => &mut self.dc,
                1 => &mut self.ac,
                _ => return Err(Fallback("a Huffman table of no class")),
            };
            *tables.get_mut(slot).ok_or(Fallback("a Huffman table beyond the fourth"))? =
                Some(HuffmanSegment { counts, values });
            body = rest;
        }
        Ok(())
    }

    fn quantisation(&mut self) -> Result<(), Fallback> {
        let mut body = self.body()?;
        while let Some((precision_and_slot, rest)) = body.split_first() {
            let bytes = match precision_and_slot >> 4 {
                0 => 1,
                1 => 2,
                _ => return Err(Fallback("a quantisation table of no precision")),
            };
            let Some((values, rest)) = rest.split_at_checked(64 * bytes) else { return Err(Fallback("a cut table")) };
            let mut table = [0; 64];
            for (out, value) in table.iter_mut().zip(values.chunks_exact(bytes)) {
                *out = value.iter().fold(0, |sum, b| sum << 8 | u16::from(*b));
            }
            let slot = usize::from(precision_and_slot & 15);
            *self.quantisation.get_mut(slot).ok_or(Fallback("a quantisation table beyond the fourth"))? = Some(table);
            body = rest;
        }
        Ok(())
    }

    fn scan(&mut self) -> Result<(Frame, Scan), Fallback> {
        let body = self.body()?;
        let mut frame = self.frame.ok_or(Fallback("a scan before its frame"))?;
        let Some((count, rest)) = body.split_first() else { return Err(Fallback("an empty scan header")) };
        let count = usize::from(*count);
        let Some((list, spectrum)) = rest.split_at_checked(2 * count) else {
            return Err(Fallback("a cut scan header"));
        };
        let [first, last, bits] = *spectrum else { return Err(Fallback("a scan header of a wrong length")) };
        let spectrum = Spectrum { first, last, high: bits >> 4, low: bits & 15 };
        if frame.is_progressive == (spectrum == Spectrum::ALL) {
            return Err(Fallback("a scan of a different kind than its frame"));
        }
        if !(1..=frame.components().len()).contains(&count) {
            return Err(Fallback("a scan of no components, or of more than the frame has"));
        }
        let mut components = [ScanComponent { component: 0, dc: 0, ac: 0 }; 3];
        let mut previous = 0;
        for (i, (out, entry)) in components.iter_mut().zip(list.as_chunks::<2>().0).enumerate() {
            let component = frame.components().iter().position(|c| c.id == entry[0]);
            let component = component.ok_or(Fallback("a scan of a component that the frame lacks"))?;
            // In the frame's order, each once; libjpeg rejects most different orders.
            if i > 0 && component <= previous {
                return Err(Fallback("a scan's components out of order"));
            }
            previous = component;
            *out = ScanComponent { component, dc: usize::from(entry[1] >> 4), ac: usize::from(entry[1] & 15) };
        }
        let scan = Scan { components, count, spectrum, data: self.at };
        frame.colours = self.colours(&frame);
        Ok((frame, scan))
    }

    /// Returns the colours that libjpeg assumes for three components.
    fn colours(&self, frame: &Frame) -> Colours {
        let [a, b, c] = frame.components() else { return Colours::Grey };
        match self.adobe {
            _ if self.is_jfif => Colours::YCbCr,
            Some(0) => Colours::Rgb,
            Some(_) => Colours::YCbCr,
            None if [a.id, b.id, c.id] == *b"RGB" => Colours::Rgb,
            None => Colours::YCbCr,
        }
    }
}
