//! Items of a chunk: their offsets, and one item's bytes to its columns.

use super::leaf::JSON;
use super::nested::{to_array, to_json};
use super::table_bytes;
use crate::columns::{Column, Scratch, Span};
use crate::compression::check_expansion;
use crate::encoding::Encoding;
use crate::read_at::ReadAt;
use crate::table::OffsetTable;
use forebay_core::error::{Context, Error, ErrorKind, Result};
use std::cell::RefCell;
use std::ops::Range;

/// Bytes of a leaf's size.
const SIZE_BYTES: usize = 4;

/// Most bytes of an item that is compressed alone.
const ITEM_BYTES_MAX: u64 = 1 << 30;

/// End of a chunk with an Arrow file of rows instead of the items.
const ARROW_END: [u8; 8] = *b"LDARW01\0";

/// Form of the samples of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemForm {
    /// The leaves of an item, after their sizes.
    Leaves,
    /// The same, each compressed alone by zstd.
    PackedLeaves,
    /// An item, which is an array of tokens.
    Tokens,
    /// As many tokens as the column's arrays have, of one item or several.
    Windows {
        /// Tokens from the start of a window to the start of the next one.
        stride: u32,
    },
}

impl ItemForm {
    /// Name in the index; `None` for windows, which are no part of a data set.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::Leaves => Some("leaves"),
            Self::PackedLeaves => Some("packed_leaves"),
            Self::Tokens => Some("tokens"),
            Self::Windows { .. } => None,
        }
    }

    /// Returns the form of this [`name`](Self::name).
    pub(super) fn from_name(name: &str) -> Option<Self> {
        [Self::Leaves, Self::PackedLeaves, Self::Tokens].into_iter().find(|form| form.name() == Some(name))
    }
}

/// Bytes of a window, and from the start of one to the start of the next, in a chunk with this column.
pub(super) fn window_bytes(columns: &[Column], form: ItemForm) -> (u64, u64) {
    let (window, stride, dtype) = match (form, columns) {
        (ItemForm::Windows { stride }, [Column { encoding: Encoding::Array(kind), size: Some(size), .. }]) => {
            (*size, stride, kind.dtype())
        }
        // There is no such window in a chunk.
        _ => (u32::MAX, 1, None),
    };
    (window.into(), u64::from(stride) * dtype.map_or(1, |dtype| dtype.size() as u64))
}

/// Reads the offsets of the samples of `chunk`; the index declares `samples` of them.
pub(super) fn offsets<R: ReadAt + ?Sized>(
    chunk: &R,
    samples: u64,
    columns: &[Column],
    form: ItemForm,
) -> Result<OffsetTable> {
    let bytes = chunk.bytes();
    if matches!(form, ItemForm::Windows { .. }) {
        let mut count = [0; 4];
        chunk.read_at(&mut count, 0)?;
        let start = table_bytes(u32::from_le_bytes(count).into());
        let (size, step) = window_bytes(columns, form);
        let windows = OffsetTable::of_windows(samples, size, step, bytes.saturating_sub(start))?;
        return Ok(windows.shifted(start, bytes));
    }
    let table_bytes = table_bytes(samples);
    let mut front = vec![0; usize::try_from(table_bytes.min(bytes)).unwrap_or(usize::MAX)];
    chunk.read_at(&mut front, 0)?;
    let table = OffsetTable::parse(&front, samples, table_bytes, bytes, true)?;
    if table.sample_bytes_max() == 0 && !table.is_empty() && ends_with_arrow(chunk)? {
        let message = "the samples of this chunk are rows of an Arrow file, unlike the first chunk of the data set: \
                       write the data set again in one run, or as Parquet";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(table)
}

fn ends_with_arrow<R: ReadAt + ?Sized>(chunk: &R) -> Result<bool> {
    let mut end = [0; ARROW_END.len()];
    let Some(start) = chunk.bytes().checked_sub(end.len() as u64) else { return Ok(false) };
    chunk.read_at(&mut end, start)?;
    Ok(end == ARROW_END)
}

/// Splits an item into its leaves, which must cover it exactly.
pub(super) fn split(
    columns: &[Column],
    serializers: &[String],
    form: ItemForm,
    item: &[u8],
    scratch: &mut Scratch,
) -> Result<()> {
    let Scratch { spans, side, .. } = scratch;
    match form {
        ItemForm::Leaves => split_leaves(columns, item, spans, Span::Sample)?,
        ItemForm::PackedLeaves => {
            unpack(item, side)?;
            split_leaves(columns, side, spans, Span::Side)?;
        }
        ItemForm::Tokens | ItemForm::Windows { .. } => return Err(Error::internal("tokens have no leaves")),
    }
    for ((column, serializer), span) in columns.iter().zip(serializers).zip(spans) {
        if serializer == JSON {
            *span = convert(column, span, item, side).context("column", || &column.name)?;
        }
    }
    Ok(())
}

/// Converts a leaf that is a list or a dictionary to the encoding of its column.
fn convert(column: &Column, span: &Span, item: &[u8], side: &mut Vec<u8>) -> Result<Span> {
    let Some(leaf) = span.bytes(item, side) else { return Ok(Span::Absent) };
    let start = side.len();
    match column.encoding {
        Encoding::Array(_) => to_array(&leaf, side)?,
        _ => to_json(&leaf, side)?,
    }
    Ok(Span::Side(start..side.len()))
}

/// Splits `item` into its leaves; their offsets become `spans`.
fn split_leaves(columns: &[Column], item: &[u8], spans: &mut Vec<Span>, span: fn(Range<usize>) -> Span) -> Result<()> {
    let mut start = SIZE_BYTES * columns.len();
    let sizes = item.get(..start).unwrap_or_default().chunks_exact(SIZE_BYTES);
    if sizes.len() < columns.len() {
        return Err(Error::format(format!("an item of {} bytes ends before its sizes", item.len())));
    }
    for (column, size) in columns.iter().zip(sizes) {
        let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]);
        if let Some(fixed) = column.size.filter(|fixed| *fixed != size) {
            let message = format!("a leaf of {size} bytes, where `{}` has {fixed}", column.encoding);
            return Err(Error::format(message).with("column", &column.name));
        }
        let end = start.checked_add(size as usize).filter(|end| *end <= item.len()).ok_or_else(|| {
            let rest = item.len().saturating_sub(start);
            Error::format(format!("{size} bytes are declared and {rest} remain")).with("column", &column.name)
        })?;
        spans.push(span(start..end));
        start = end;
    }
    if start != item.len() {
        return Err(Error::format(format!("{} bytes follow the last leaf", item.len() - start)));
    }
    Ok(())
}

thread_local! {
    /// Decompressor of this thread's items: its memory is far larger than most of them.
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Unpacks an item into `out`, which is empty.
fn unpack(item: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let damaged = || Error::format("the item is damaged, or not compressed");
    let bytes = zstd::zstd_safe::get_frame_content_size(item).ok().flatten().ok_or_else(damaged)?;
    // A block of 128 KiB takes at least four bytes.
    if bytes > ITEM_BYTES_MAX || bytes > (item.len() as u64) << 15 {
        return Err(damaged().with("unpacked_bytes", bytes));
    }
    check_expansion(item.len() as u64, bytes)?;
    let full = |_| Error::new(ErrorKind::Full, format!("no memory for an item of {bytes} unpacked bytes"));
    out.try_reserve(bytes as usize).map_err(full)?;
    let failed = |e: std::io::Error| damaged().caused_by(e);
    ZSTD.with_borrow_mut(|zstd| {
        let zstd = match zstd {
            Some(zstd) => zstd,
            None => zstd.insert(zstd::bulk::Decompressor::new().map_err(failed)?),
        };
        zstd.decompress_to_buffer(item, out).map(drop).map_err(failed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_that_is_a_bomb_is_refused() {
        let item = zstd::bulk::compress(&vec![0; 257 << 20], 1).unwrap();
        let mut out = Vec::new();
        let e = unpack(&item, &mut out).unwrap_err();
        assert!(e.to_string().contains("decompression bomb") && out.capacity() == 0, "{e}");
    }
}
