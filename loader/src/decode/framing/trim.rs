//! A picture without its border.

use serde::{Deserialize, Serialize};

use super::operation::{Cut, Framed, Reframe, border};
use crate::decode::draw::OpDraws;
use crate::error::{Error, Result};
use forebay_picture::geometry::{PixelWindow, Size};

/// Cuts off a border of a number of pixels, as timm's `TrimBorder`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrimBorder {
    /// Pixels of each side.
    pub border_size: u32,
}

impl Reframe for TrimBorder {
    fn check(&self, size: Option<Size>) -> Result<Option<Size>> {
        let after = size.map(|size| self.inside(size));
        if after.is_some_and(|after| after.pixels() == 0) {
            let message = "TrimBorder leaves nothing of a picture of this size: lower its `border_size`";
            return Err(Error::config(message).with("border_size", self.border_size));
        }
        Ok(after)
    }

    fn draw(&self, _draws: OpDraws, Framed { size, .. }: Framed<'_>) -> Cut {
        let first = i64::from(self.border_size);
        Cut::Window { window: PixelWindow { x: first, y: first, size: self.inside(size) }, border: border([0; 3]) }
    }

    fn is_random(&self) -> bool {
        false
    }
}

impl TrimBorder {
    /// Returns the size without the border.
    fn inside(&self, size: Size) -> Size {
        let [w, h] = [size.w, size.h].map(|side| side.saturating_sub(self.border_size.saturating_mul(2)));
        Size { w, h }
    }
}
