//! Fields of classes as probabilities.

use serde::{Deserialize, Serialize};

use super::column::{Columns, unsuitable};
use super::kind::{Compiled, FieldKind};
use super::number_source::NumberSource;
use crate::decode::augment::check_within;
use crate::decode::draw::FieldDraws;
use crate::decode::numeric;
use crate::decode::plan::RowShape;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored};
use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// Upper bound of the classes of a OneHot field: more are a mistake, and would take the memory of the batches.
const CLASSES_MAX: usize = 1 << 24;

/// A class as a row of probabilities: 1 for the class, 0 for the rest, or with smoothing a little less and more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneHot {
    /// Column with the number of the class, from 0.
    pub column: String,
    /// Number of classes.
    pub classes: usize,
    /// A float type.
    #[serde(default = "float32")]
    pub dtype: DType,
    /// Share that is taken from the class and spread evenly over all classes.
    #[serde(default)]
    pub smoothing: f64,
}

pub(super) fn float32() -> DType {
    DType::Float32
}

impl FieldKind for OneHot {
    fn column(&self) -> &str {
        &self.column
    }

    fn compile(&self, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        let Self { classes, dtype, smoothing, .. } = *self;
        let (index, column) = columns.find(&self.column)?;
        let source =
            NumberSource::of(column).ok_or_else(|| unsuitable(column, "a OneHot field needs a column of numbers"))?;
        check_classes("OneHot", classes, dtype)?;
        check_within("OneHot", "smoothing", smoothing, 0.0, 1.0)?;
        let others = smoothing / classes as f64;
        let [class, others] = [1.0 - smoothing + others, others].map(|probability| element(probability, dtype));
        let decoder = OneHotDecoder { source, classes, dtype, class: class?, others: others? };
        Ok(Compiled::new(index, decoder, dtype, RowShape::Fixed(vec![classes])))
    }

    fn is_mixable(&self) -> bool {
        true
    }
}

/// Checks the number of classes, and the type of their probabilities.
pub(super) fn check_classes(kind: &str, classes: usize, dtype: DType) -> Result<()> {
    if !(1..=CLASSES_MAX).contains(&classes) || !dtype.is_float() || dtype.size() > 4 {
        let message = format!("a {kind} field needs at least one class, and a type that pictures can have");
        return Err(Error::config(message).with("classes", classes).with("dtype", dtype));
    }
    Ok(())
}

/// Returns the error for a class that a field does not have.
pub(super) fn outside(kind: &str, class: i64, classes: usize) -> Error {
    let message = format!("the class is not below `classes` of the {kind} field: raise `classes`");
    Error::decode(message).with("class", class).with("classes", classes)
}

/// Returns the bytes of an element.
pub(super) fn element(probability: f64, dtype: DType) -> Result<Vec<u8>> {
    let mut bytes = vec![0; dtype.size()];
    numeric::convert(&probability.to_le_bytes(), DType::Float64, &mut bytes, dtype)?;
    Ok(bytes)
}

#[derive(Debug)]
struct OneHotDecoder {
    source: NumberSource,
    classes: usize,
    dtype: DType,
    /// Element of the class, and of each remaining class.
    class: Vec<u8>,
    others: Vec<u8>,
}

impl Decode for OneHotDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, _memory: &mut Memory) -> Result<()> {
        let Self { source, classes, dtype, class: of_class, others } = self;
        let (classes, bytes) = (*classes, dtype.size());
        let mut number = [0; 8];
        source.read(stored.bytes, &mut number, DType::Int64)?;
        let class = i64::from_ne_bytes(number);
        let out = row.fixed(classes * bytes)?;
        let place = usize::try_from(class).ok().filter(|class| *class < classes);
        let place = place.ok_or_else(|| outside("OneHot", class, classes))?;
        if others.iter().all(|byte| *byte == 0) {
            out.fill(0);
        } else {
            out.chunks_exact_mut(bytes).for_each(|element| element.copy_from_slice(others));
        }
        out[place * bytes..][..bytes].copy_from_slice(of_class);
        Ok(())
    }
}
