//! Inline images of iTerm2: a file as base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use forebay_loader::decode::geometry::Size;

/// Returns the sequence that draws a file in `cells`.
pub(super) fn sequence(file: &[u8], cells: Size) -> String {
    let (bytes, Size { w, h }) = (file.len(), cells);
    let keys = format!("inline=1;size={bytes};width={w};height={h};preserveAspectRatio=1");
    format!("\x1b]1337;File={keys}:{}\x07", STANDARD.encode(file))
}
