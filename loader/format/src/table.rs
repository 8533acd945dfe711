//! Offset table at the front of an MDS shard or of a `.meta` file: `u32 n | u32 offset[0..=n]`, little-endian.

use forebay_core::error::{Error, Result};

/// Offsets of a shard's samples in its data file: checked, so that ranges neither overlap nor leave the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetTable {
    offsets: Offsets,
    /// Bytes of the unit of all offsets.
    unit: u32,
    /// Byte of the data file from which they count.
    base: u64,
    /// Bytes of the data file. Its last unit may be incomplete.
    data_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Offsets {
    Listed {
        /// One more than there are samples; never decreasing; the last is the end of the samples.
        offsets: Box<[u32]>,
        /// Ends of the samples, if there are data between them.
        ends: Option<Box<[u32]>>,
    },
    /// Samples of one size at regular distances, which may overlap. All of them are in the data file.
    Regular { samples: usize, size: u32, stride: u32 },
}

/// Encodes the table of a shard with samples that have these sizes in bytes and start at offset `first` of the data
/// file. `config` follows the table.
///
/// # Errors
///
/// [`crate::ErrorKind::Config`] if the data file is larger than 4 GiB, which its offsets cannot express.
pub fn offset_table(sizes: &[u32], first: u64, config: &[u8]) -> Result<Vec<u8>> {
    let end = sizes.iter().fold(first, |end, &size| end.saturating_add(size.into()));
    let (Ok(_), Ok(count)) = (u32::try_from(end), u32::try_from(sizes.len())) else {
        return Err(too_large(end));
    };
    let mut table = Vec::with_capacity(8 + 4 * sizes.len() + config.len());
    table.extend(count.to_le_bytes());
    // All offsets are at most `end`, which fits.
    let mut offset = first as u32;
    table.extend(offset.to_le_bytes());
    for size in sizes {
        offset += size;
        table.extend(offset.to_le_bytes());
    }
    table.extend_from_slice(config);
    Ok(table)
}

pub(super) fn too_large(bytes: u64) -> Error {
    Error::config(format!(
        "a shard of {bytes} bytes is larger than the 4 GiB that its offsets can express; set a size limit"
    ))
}

impl OffsetTable {
    /// Bytes of the table of a shard of `samples` samples.
    pub fn bytes(samples: u64) -> u64 {
        samples.saturating_add(2).saturating_mul(4)
    }

    /// Parses the table at the start of `front`. The index declares `samples` samples and a data file of `data_bytes`.
    /// Samples start at `first_min` or later, and end with the file, unless it `may_have_trailer`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] with the field, if `front` is too short or the table contradicts the index.
    pub fn parse(front: &[u8], samples: u64, first_min: u64, data_bytes: u64, may_have_trailer: bool) -> Result<Self> {
        let (count, rest) = front
            .split_first_chunk::<4>()
            .ok_or_else(|| Error::format("the file ends before its number of samples").with("field", "samples"))?;
        let count = u32::from_le_bytes(*count);
        if u64::from(count) != samples {
            return Err(Error::format(format!("the file counts {count} samples where the index declares {samples}"))
                .with("field", "samples"));
        }
        // `front` bounds the allocation: it is known to hold all offsets before any is stored.
        let offsets = (count as usize)
            .checked_add(1)
            .and_then(|n| n.checked_mul(4))
            .and_then(|bytes| rest.get(..bytes))
            .ok_or_else(|| Error::format(format!("the file ends before the offsets of its {count} samples")))
            .map_err(|e| e.with("field", "offsets"))?;
        let offsets: Box<[u32]> =
            offsets.chunks_exact(4).map(|o| u32::from_le_bytes([o[0], o[1], o[2], o[3]])).collect();
        let wrong = |i: usize, what: String| Err(Error::format(what).with("field", format!("offsets[{i}]")));
        if u64::from(offsets[0]) < first_min {
            return wrong(
                0,
                format!("the first sample starts at {}, inside the header of {first_min} bytes", offsets[0]),
            );
        }
        if let Some(i) = offsets.windows(2).position(|pair| pair[1] < pair[0]) {
            return wrong(i + 1, format!("sample {i} ends at {} before it starts at {}", offsets[i + 1], offsets[i]));
        }
        let end = u64::from(offsets[offsets.len() - 1]);
        if end > data_bytes || (end < data_bytes && !may_have_trailer) {
            return wrong(offsets.len() - 1, format!("the samples end at {end} in a file of {data_bytes} bytes"));
        }
        Ok(Self::listed(offsets, None, 1, data_bytes))
    }

    fn listed(offsets: Box<[u32]>, ends: Option<Box<[u32]>>, unit: u32, data_bytes: u64) -> Self {
        Self { offsets: Offsets::Listed { offsets, ends }, unit, base: 0, data_bytes }
    }

    /// Makes a table of samples of `sizes` units of `unit` bytes, in sequence from the start of the data file.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for more units than can be counted.
    pub(super) fn of_units(sizes: &[u32], unit: u32) -> Result<Self> {
        let mut end = 0_u32;
        let mut add = |size: &u32| {
            end = end.checked_add(*size).ok_or_else(|| Error::format("a shard has more than 2^32 tokens"))?;
            Ok(end)
        };
        let offsets: Box<_> = std::iter::once(Ok(0)).chain(sizes.iter().map(&mut add)).collect::<Result<_>>()?;
        Ok(Self::listed(offsets, None, unit, u64::from(end) * u64::from(unit)))
    }

    /// Makes a table of `samples` samples of `size` bytes, each `stride` bytes after the one before, in a data file of
    /// `data_bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for samples that are not in the file, or of more than 4 GiB.
    pub(super) fn of_windows(samples: u64, size: u64, stride: u64, data_bytes: u64) -> Result<Self> {
        let last = samples.saturating_sub(1).checked_mul(stride).and_then(|last| last.checked_add(size));
        let is_inside = samples == 0 || last.is_some_and(|last| last <= data_bytes);
        let (Ok(size), Ok(count), true) = (u32::try_from(size), usize::try_from(samples), is_inside) else {
            let error = Error::format("the windows are larger than the file that they are in");
            return Err(error.with("samples", samples).with("bytes", data_bytes));
        };
        // The distance of a single sample has no meaning.
        let stride = if samples > 1 { u32::try_from(stride) } else { Ok(0) };
        let stride = stride.map_err(|_| Error::format("the windows have a distance of more than 4 GiB"))?;
        Ok(Self { offsets: Offsets::Regular { samples: count, size, stride }, unit: 1, base: 0, data_bytes })
    }

    /// Returns the table for a data file of `data_bytes` bytes, in which the samples are `base` bytes later.
    pub(super) fn shifted(self, base: u64, data_bytes: u64) -> Self {
        Self { base: self.base.saturating_add(base), data_bytes, ..self }
    }

    /// Makes a table of samples at `ranges`, in blocks of `block` bytes of a data file of `data_bytes` bytes. The
    /// ranges are in the file, and each begins at or after the end of the one before.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for a file of more blocks than can be counted.
    pub(super) fn of_blocks(ranges: &[(u64, u64)], block: u32, data_bytes: u64) -> Result<Self> {
        let number = |block| {
            u32::try_from(block)
                .map_err(|_| Error::format(format!("a file of {data_bytes} bytes is too large for a shard")))
        };
        let end = ranges.last().map_or(0, |range| range.1);
        let offsets = ranges.iter().map(|range| range.0).chain([end]).map(number).collect::<Result<Box<_>>>()?;
        let has_gaps = ranges.windows(2).any(|pair| pair[0].1 < pair[1].0);
        let ends = ranges.iter().map(|range| number(range.1));
        let ends = if has_gaps { Some(ends.collect::<Result<Box<_>>>()?) } else { None };
        Ok(Self::listed(offsets, ends, block, data_bytes))
    }

    /// End of the last sample in the data file.
    #[inline]
    pub fn end(&self) -> u64 {
        self.byte(match &self.offsets {
            Offsets::Listed { offsets, .. } => offsets[offsets.len() - 1].into(),
            Offsets::Regular { samples: 0, .. } => 0,
            Offsets::Regular { samples, size, stride } => (*samples as u64 - 1) * u64::from(*stride) + u64::from(*size),
        })
    }

    #[inline]
    fn byte(&self, units: u64) -> u64 {
        units.saturating_mul(self.unit.into()).saturating_add(self.base).min(self.data_bytes)
    }

    /// Returns the first unit of sample `i`, which exists, and the one after its last.
    #[inline]
    fn units(&self, i: usize) -> (u64, u64) {
        match &self.offsets {
            Offsets::Listed { offsets, ends } => {
                let end = ends.as_ref().map_or_else(|| offsets[i + 1], |ends| ends[i]);
                (offsets[i].into(), end.into())
            }
            Offsets::Regular { size, stride, .. } => {
                let start = i as u64 * u64::from(*stride);
                (start, start + u64::from(*size))
            }
        }
    }

    /// Number of samples.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.offsets {
            Offsets::Listed { offsets, .. } => offsets.len() - 1,
            Offsets::Regular { samples, .. } => *samples,
        }
    }

    /// Returns true if the shard has no sample.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the offset in the data file and the length of sample `i`, both in bytes.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::NotFound`] if there is no such sample.
    #[inline]
    pub fn range(&self, i: usize) -> Result<(u64, u32)> {
        if i < self.len() {
            let (start, end) = self.units(i);
            let (start, end) = (self.byte(start), self.byte(end));
            // Readers of all formats reject longer samples.
            return Ok((start, u32::try_from(end - start).unwrap_or(u32::MAX)));
        }
        Err(Error::new(
            crate::ErrorKind::NotFound,
            format!("sample {i} does not exist in a shard of {} samples", self.len()),
        ))
    }

    /// Returns the sample that starts at byte `offset` of the data file; `None` if none does. Samples are not empty.
    pub fn sample_at(&self, offset: u64) -> Option<usize> {
        let start = |i: usize| self.range(i).map_or(u64::MAX, |(start, _)| start);
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if start(middle) < offset { low = middle + 1 } else { high = middle }
        }
        (low < self.len() && start(low) == offset).then_some(low)
    }

    /// Bytes of memory that the table takes.
    pub fn memory_bytes(&self) -> usize {
        match &self.offsets {
            Offsets::Listed { offsets, ends } => (offsets.len() + ends.as_ref().map_or(0, |ends| ends.len())) * 4,
            Offsets::Regular { .. } => 0,
        }
    }

    /// Bytes of the longest sample.
    pub fn sample_bytes_max(&self) -> u32 {
        if let Offsets::Regular { size, .. } = self.offsets {
            return if self.is_empty() { 0 } else { size };
        }
        let units = (0..self.len()).map(|i| self.units(i)).map(|(start, end)| end - start).max().unwrap_or(0);
        u32::try_from(units.saturating_mul(self.unit.into())).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    #[test]
    fn ranges_are_returned_and_the_end_is_checked() {
        let table = OffsetTable::parse(&table(&[2, 16, 20, 20, 99]), 2, 16, 20, false).unwrap();
        assert_eq!((table.len(), table.is_empty(), table.sample_bytes_max()), (2, false, 4));
        assert_eq!(table.range(0).unwrap(), (16, 4));
        assert_eq!(table.range(1).unwrap(), (20, 0));
        assert_eq!(table.range(2).unwrap_err().kind(), crate::ErrorKind::NotFound);
        assert!(table.range(usize::MAX).is_err());
        assert_eq!([0, 16, 18, 20].map(|offset| table.sample_at(offset)), [None, Some(0), None, Some(1)]);
    }

    #[test]
    fn an_invalid_table_is_rejected_with_the_field() {
        for (words, samples, field) in [
            (&[][..], 1, "samples"),
            (&[2, 16, 20, 24], 1, "samples"),
            (&[1, 16], 1, "offsets"),
            (&[u32::MAX, 16, 24], u64::from(u32::MAX), "offsets"),
            (&[1, 8, 24], 1, "offsets[0]"),
            (&[2, 16, 12, 24], 2, "offsets[1]"),
            (&[1, 16, 23], 1, "offsets[1]"),
            (&[1, 16, 25], 1, "offsets[1]"),
        ] {
            let e = OffsetTable::parse(&table(words), samples, 16, 24, false).unwrap_err();
            assert_eq!(e.context().last().unwrap().1, field, "{words:?} {e}");
            assert_eq!(e.kind(), crate::ErrorKind::Format);
        }
    }

    #[test]
    fn windows_overlap_and_stay_in_the_file() {
        let table = OffsetTable::of_windows(3, 10, 8, 26).unwrap().shifted(100, 1000);
        assert_eq!([0, 1, 2].map(|i| table.range(i).unwrap()), [(100, 10), (108, 10), (116, 10)]);
        assert_eq!((table.len(), table.end(), table.sample_bytes_max(), table.memory_bytes()), (3, 126, 10, 0));
        assert!(table.range(3).is_err());
        assert!(OffsetTable::of_windows(3, 10, 8, 25).is_err());
        assert!(OffsetTable::of_windows(u64::MAX, 10, u64::MAX, u64::MAX).is_err());
        assert_eq!(OffsetTable::of_windows(0, 10, 8, 0).unwrap().end(), 0);
    }

    #[test]
    fn samples_are_counted_in_units_from_an_offset_in_a_large_file() {
        let base = 5 << 40;
        let table = OffsetTable::of_units(&[3, 0, 2], 4).unwrap().shifted(base, base + 100);
        let ranges = [0, 1, 2].map(|i| table.range(i).unwrap());
        assert_eq!(ranges, [(base, 12), (base + 12, 0), (base + 12, 8)]);
        assert_eq!((table.end(), table.sample_bytes_max()), (base + 20, 12));
        assert!(OffsetTable::of_units(&[u32::MAX, 1], 2).is_err());
    }

    #[test]
    fn a_trailer_may_follow_the_samples_but_samples_may_not_pass_the_end_of_the_file() {
        let parse = |end| OffsetTable::parse(&table(&[1, 16, end]), 1, 16, 24, true);
        assert_eq!((parse(20).unwrap().end(), parse(24).unwrap().end()), (20, 24));
        assert!(parse(25).is_err());
    }
}
