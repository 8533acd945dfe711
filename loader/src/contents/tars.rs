//! Files of tars.

use super::ContentLimits;
use super::ahead::{Ahead, ItemSender};
use super::archive::ForwardArchive;
use super::content::Content;
use super::pieces::FlightWindow;
use crate::Result;
use crate::format::ended;
use crate::format::tar::Members;
use crate::objects::Objects;
use crate::sync::Arc;
use bytes::Bytes;

/// Bytes of files after which they are passed on, and most bytes of a file in one part.
const PARTS_BYTES: u64 = 1 << 20;

/// Files after which they are passed on.
const PARTS_MAX: usize = 256;

/// Zeros of files that are stored without them.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Regular file of a tar, or further bytes of it.
#[derive(Debug)]
pub enum TarPart {
    /// File, with its first bytes.
    File {
        /// Path as it is stored.
        name: Vec<u8>,
        /// Bytes of the whole file.
        bytes: u64,
        /// Offset in the tar of the bytes after the file.
        end: u64,
        /// Its first bytes, in sequence.
        content: Vec<Bytes>,
    },
    /// Further bytes of the last file.
    More(Bytes),
}

/// Starts to read the regular files of tars.
///
/// # Errors
///
/// When the system refuses a thread.
pub fn tar_files(objects: Arc<Objects>, limits: ContentLimits) -> Result<Ahead<Vec<TarPart>>> {
    Ahead::start(objects, FlightWindow::new(limits.bytes), limits.window_bytes, divide)
}

pub(super) fn divide(content: Content<'_>, start: u64, len: Option<u64>, out: &ItemSender<Vec<TarPart>>) -> Result<()> {
    let archive = ForwardArchive::new(content, start, len);
    let mut parts = Parts { out, ready: Vec::new(), bytes: 0 };
    let outcome = add_files(&archive, start, &mut parts);
    // Also those before an error.
    parts.pass_on()?;
    outcome
}

fn add_files(archive: &ForwardArchive<'_>, start: u64, parts: &mut Parts<'_>) -> Result<()> {
    let mut members = Members::of_rest(archive, start);
    while let Some(member) = members.next_member()? {
        if member.is_file {
            let (name, end, (offset, bytes)) = (member.name.clone(), member.end, member.content);
            archive.move_to(offset)?;
            if let Some(map) = &member.sparse {
                parts.add(TarPart::File { name, bytes: map.bytes(), end, content: Vec::new() })?;
                let mut at = 0;
                for &(offset, bytes) in map.pieces() {
                    parts.add_zeros(offset - at)?;
                    take(archive, bytes, |piece| parts.add(TarPart::More(piece)))?;
                    at = offset + bytes;
                }
                parts.add_zeros(map.bytes() - at)?;
            } else {
                let mut content = Vec::new();
                take(archive, bytes.min(PARTS_BYTES), |piece| {
                    content.push(piece);
                    Ok(())
                })?;
                parts.add(TarPart::File { name, bytes, end, content })?;
                take(archive, bytes.saturating_sub(PARTS_BYTES), |piece| parts.add(TarPart::More(piece)))?;
            }
        }
        archive.move_to(member.end)?;
    }
    Ok(())
}

/// Calls `use_piece` for the next `bytes` bytes.
fn take(archive: &ForwardArchive<'_>, mut bytes: u64, mut use_piece: impl FnMut(Bytes) -> Result<()>) -> Result<()> {
    while bytes > 0 {
        let piece = archive.take(bytes.min(PARTS_BYTES))?;
        if piece.is_empty() {
            return Err(ended(archive.end()));
        }
        bytes -= piece.len() as u64;
        use_piece(piece)?;
    }
    Ok(())
}

/// Parts that are not passed on yet: one at a time would cost more than small files.
struct Parts<'a> {
    out: &'a ItemSender<Vec<TarPart>>,
    ready: Vec<TarPart>,
    bytes: u64,
}

impl Parts<'_> {
    fn add_zeros(&mut self, mut bytes: u64) -> Result<()> {
        while bytes > 0 {
            let len = bytes.min(ZEROS.len() as u64);
            self.add(TarPart::More(Bytes::from_static(&ZEROS[..len as usize])))?;
            bytes -= len;
        }
        Ok(())
    }

    fn add(&mut self, part: TarPart) -> Result<()> {
        self.bytes += match &part {
            TarPart::File { content, .. } => content.iter().map(|piece| piece.len() as u64).sum(),
            TarPart::More(piece) => piece.len() as u64,
        };
        self.ready.push(part);
        if self.bytes < PARTS_BYTES && self.ready.len() < PARTS_MAX { Ok(()) } else { self.pass_on() }
    }

    fn pass_on(&mut self) -> Result<()> {
        self.bytes = 0;
        match std::mem::take(&mut self.ready) {
            none if none.is_empty() => Ok(()),
            ready => self.out.item(ready),
        }
    }
}
