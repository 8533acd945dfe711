//! Interface of the operations: each draws the actions of one picture.

use super::action::Action;
use crate::decode::draw::OpDraws;
use crate::error::{Error, Result};
use forebay_picture::geometry::{PIXELS_MAX, Size};

/// Operation on the pixels of a picture.
pub trait Operation {
    /// Checks the arguments, before any picture is decoded.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`] for an argument outside of its range.
    fn check(&self) -> Result<()>;

    /// Draws the numbers for one picture, and adds the actions that they select.
    fn draw(&self, draws: OpDraws, script: &mut Script);

    /// Returns true if it may move pixels, so that labels must move with them.
    fn moves(&self) -> bool {
        false
    }

    /// Returns true if every picture keeps its size.
    fn keeps_size(&self) -> bool {
        true
    }

    /// Returns an error if labels cannot follow it.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Config`] for an operation that blends pictures.
    fn check_labels(&self) -> Result<()> {
        Ok(())
    }
}

/// Actions of one picture in order, and the size that it has after them.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The actions.
    pub actions: Vec<Action>,
    /// Size after the last action.
    pub size: Size,
}

impl Default for Script {
    fn default() -> Self {
        Self { actions: Vec::new(), size: Size { w: 1, h: 1 } }
    }
}

impl Script {
    /// Adds an action. A size above [`PIXELS_MAX`] stays, so that the end of the operation finds it.
    pub(super) fn push(&mut self, action: Action) {
        if self.size.pixels() <= PIXELS_MAX {
            self.size = action.output(self.size);
        }
        self.actions.push(action);
    }
}

/// Smallest `alpha` of a share. Of smaller ones both numbers that a share is made of may be too small for a double.
pub(in crate::decode) const ALPHA_MIN: f64 = 0.01;

/// Checks that `value` of the argument `name` is within `least` and `most`.
pub(in crate::decode) fn check_within(
    operation: &str,
    name: &'static str,
    value: f64,
    least: f64,
    most: f64,
) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(outside(operation, name, least, most).with(name, value))
}

/// Checks a range of numbers: both ends within `least` and `most`, and in order.
pub(in crate::decode) fn check_range(
    operation: &str,
    name: &'static str,
    range: [f64; 2],
    least: f64,
    most: f64,
) -> Result<()> {
    if !range.iter().all(|value| (least..=most).contains(value)) {
        return Err(outside(operation, name, least, most).with(name, format!("{range:?}")));
    }
    if range[0] > range[1] {
        let message = format!("{operation} needs `{name}` as the smallest and the largest value");
        return Err(Error::config(message).with(name, format!("{range:?}")));
    }
    Ok(())
}

fn outside(operation: &str, name: &str, least: f64, most: f64) -> Error {
    let range = match (least, most) {
        (f64::MIN_POSITIVE, f64::MAX) => "above 0".to_owned(),
        (_, f64::MAX) => format!("at least {least}"),
        _ => format!("from {least} to {most}"),
    };
    Error::config(format!("{operation} needs `{name}` {range}"))
}
