//! Bytes of objects as they are stored.

use super::ContentLimits;
use super::ahead::{Ahead, ItemSender};
use super::content::Content;
use super::pieces::FlightWindow;
use crate::Result;
use crate::objects::Objects;
use crate::sync::Arc;
use bytes::Bytes;

/// Starts to read objects in pieces, which follow each other without gaps. An object that is wanted with the packing
/// [`Plain`](super::Packing::Plain) has the bytes that its store has.
///
/// # Errors
///
/// When the system refuses a thread.
pub fn stored(objects: Arc<Objects>, limits: ContentLimits) -> Result<Ahead<Bytes>> {
    Ahead::start(objects, FlightWindow::new(limits.bytes), limits.window_bytes, divide)
}

fn divide(mut content: Content<'_>, _: u64, _: Option<u64>, out: &ItemSender<Bytes>) -> Result<()> {
    while let Some(piece) = content.next()? {
        out.item(piece)?;
    }
    Ok(())
}
