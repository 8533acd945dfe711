//! A bound on how deep the values of a template are.
//!
//! A list in a list in a list is dropped with a stack frame for each level, and a template that puts a value into
//! itself in a loop would overflow the stack. Only a part of a namespace outlives a turn of a loop, so each value that
//! is assigned to one passes this filter. Depth within one expression is bounded by the parser.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Name of the filter.
pub(super) const FILTER: &str = "bounded_depth";

/// Most levels of a value.
const DEPTH_MAX: usize = 100;

/// Most values that the filter visits while a text is made. Its visits cost no fuel.
const VISITS_MAX: u64 = 50_000_000;

/// Name of the number of visits in the state.
const VISITS: &str = "visits of bounded_depth";

/// Returns `value`.
///
/// # Errors
/// A value that is too deep, and too many values.
pub(super) fn bounded(state: &mut State<'_, '_>, value: Value) -> Result<Value, Error> {
    let mut visits = state.get_temp(VISITS).and_then(|visits| u64::try_from(visits).ok()).unwrap_or(0);
    visit(&value, DEPTH_MAX, &mut visits)?;
    state.set_temp(VISITS, Value::from(visits));
    Ok(value)
}

fn visit(value: &Value, depth_left: usize, visits: &mut u64) -> Result<(), Error> {
    let is_map = match value.kind() {
        ValueKind::Seq => false,
        ValueKind::Map => true,
        _ => return Ok(()),
    };
    let refused = |message: &'static str| Error::new(ErrorKind::InvalidOperation, message);
    let depth_left = depth_left.checked_sub(1);
    let depth_left = depth_left.ok_or_else(|| refused("it puts lists or mappings into each other too deeply"))?;
    for item in value.try_iter()? {
        *visits += 1;
        if *visits > VISITS_MAX {
            return Err(refused("it copies lists too often"));
        }
        if is_map {
            visit(&value.get_item(&item)?, depth_left, visits)?;
        } else {
            visit(&item, depth_left, visits)?;
        }
    }
    Ok(())
}
