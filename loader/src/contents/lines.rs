//! Lines of texts.

use super::ContentLimits;
use super::ahead::{Ahead, ItemSender};
use super::content::Content;
use super::pieces::FlightWindow;
use crate::objects::Objects;
use crate::sync::Arc;
use crate::{Error, Result};
use bytes::Bytes;
use memchr::{memchr, memchr_iter, memrchr};

/// Most bytes of a line. A file that is no text may have no line ends at all.
const LINE_BYTES_MAX: usize = 1 << 30;

/// Consecutive lines, with their ends: `\n`, or nothing after the last line of an object.
#[derive(Debug)]
pub struct LineBatch {
    /// Offset of the first line in the content of the object.
    pub start: u64,
    /// All of the lines.
    pub bytes: Bytes,
    /// Offset in `bytes` of the end of each line, exclusive, after its `\n`.
    pub ends: Vec<u32>,
}

/// Starts to read the lines of objects.
///
/// # Errors
///
/// When the system refuses a thread.
pub fn lines(objects: Arc<Objects>, limits: ContentLimits) -> Result<Ahead<LineBatch>> {
    Ahead::start(objects, FlightWindow::new(limits.bytes), limits.window_bytes, divide)
}

pub(super) fn divide(mut content: Content<'_>, mut at: u64, _: Option<u64>, out: &ItemSender<LineBatch>) -> Result<()> {
    // Front of a line that continues in the next piece.
    let mut front = Vec::new();
    while let Some(mut piece) = content.next()? {
        if !front.is_empty() {
            let end = memchr(b'\n', &piece).map(|at| at + 1);
            front.extend_from_slice(&piece.split_to(end.unwrap_or(piece.len())));
            if end.is_some() {
                at += send_line(&mut front, at, out)?;
            }
        }
        // A piece has less than 4 GiB, but for stores without ranges.
        while let Some(last) = memrchr(b'\n', &piece[..piece.len().min(LINE_BYTES_MAX)]) {
            let bytes = piece.split_to(last + 1);
            let ends = memchr_iter(b'\n', &bytes).map(|at| at as u32 + 1).collect();
            at += bytes.len() as u64;
            out.item(LineBatch { start: at - bytes.len() as u64, bytes, ends })?;
        }
        front.extend_from_slice(&piece);
        if front.len() > LINE_BYTES_MAX {
            return Err(too_long(at));
        }
    }
    if !front.is_empty() {
        send_line(&mut front, at, out)?;
    }
    Ok(())
}

fn too_long(offset: u64) -> Error {
    Error::format(format!("a line has more than {LINE_BYTES_MAX} bytes: the object is not text")).with("offset", offset)
}

/// Sends a line that was in several pieces, or is the last one, and returns its bytes.
fn send_line(line: &mut Vec<u8>, start: u64, out: &ItemSender<LineBatch>) -> Result<u64> {
    let bytes = Bytes::from(std::mem::take(line));
    let len = bytes.len() as u64;
    // At most two pieces more than the longest line.
    let end = u32::try_from(len).map_err(|_| too_long(start))?;
    out.item(LineBatch { start, bytes, ends: vec![end] })?;
    Ok(len)
}
