//! Fields of classes as probabilities.

use serde::{Deserialize, Serialize};

use super::column::{Columns, unsuitable};
use super::kind::{Compiled, FieldKind};
use super::number_source::NumberSource;
use crate::decode::draw::FieldDraws;
use crate::decode::numeric;
use crate::decode::plan::RowShape;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored};
use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// Upper bound of the classes of a OneHot field: more are a mistake, and would take the memory of the batches.
const CLASSES_MAX: usize = 1 << 24;

/// A class as a row of probabilities: 1 for the class, 0 for the others.
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
}

fn float32() -> DType {
    DType::Float32
}

impl FieldKind for OneHot {
    fn column(&self) -> &str {
        &self.column
    }

    fn compile(&self, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        let Self { classes, dtype, .. } = *self;
        let (index, column) = columns.find(&self.column)?;
        let source =
            NumberSource::of(column).ok_or_else(|| unsuitable(column, "a OneHot field needs a column of numbers"))?;
        if !(1..=CLASSES_MAX).contains(&classes) || !dtype.is_float() || dtype.size() > 4 {
            return Err(Error::config("a OneHot field needs at least one class, and a type that pictures can have")
                .with("classes", classes)
                .with("dtype", dtype));
        }
        Ok(Compiled::new(index, OneHotDecoder { source, classes, dtype }, dtype, RowShape::Fixed(vec![classes])))
    }

    fn is_mixable(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct OneHotDecoder {
    source: NumberSource,
    classes: usize,
    dtype: DType,
}

impl Decode for OneHotDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, _memory: &mut Memory) -> Result<()> {
        let Self { source, classes, dtype } = *self;
        let mut number = [0; 8];
        source.read(stored.bytes, &mut number, DType::Int64)?;
        let class = i64::from_ne_bytes(number);
        let out = row.fixed(classes * dtype.size())?;
        let place = usize::try_from(class).ok().filter(|class| *class < classes).ok_or_else(|| {
            Error::decode("the class is not among those of the OneHot field: raise its `classes`")
                .with("class", class)
                .with("classes", classes)
        })?;
        out.fill(0);
        numeric::fill(1, &mut out[place * dtype.size()..][..dtype.size()], dtype)
    }
}
