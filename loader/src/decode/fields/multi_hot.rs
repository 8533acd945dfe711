//! Fields of several classes as probabilities.

use serde::{Deserialize, Serialize};

use super::column::Columns;
use super::json_path::JsonPath;
use super::kind::{Compiled, FieldKind};
use super::list_source::ListSource;
use super::one_hot::{check_classes, element, float32, outside};
use crate::decode::augment::check_within;
use crate::decode::draw::FieldDraws;
use crate::decode::json_value::JsonForm;
use crate::decode::numeric;
use crate::decode::plan::RowShape;
use crate::decode::row::Row;
use crate::decode::step::{Decode, Memory, Stored};
use crate::error::{Error, Result};
use crate::format::encoding::DType;

/// The classes of a sample as a row of probabilities: 1 for each of them, 0 for the rest, or with smoothing a little
/// less and more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultiHot {
    /// The column: an array of numbers of classes, from 0, or JSON documents.
    pub column: String,
    /// Path to a list of numbers inside a JSON document. Default: the document.
    #[serde(default)]
    pub path: Option<JsonPath>,
    /// Number of classes.
    pub classes: usize,
    /// A float type.
    #[serde(default = "float32")]
    pub dtype: DType,
    /// Share by which each probability moves to a half.
    #[serde(default)]
    pub smoothing: f64,
}

impl FieldKind for MultiHot {
    fn column(&self) -> &str {
        &self.column
    }

    fn compile(&self, columns: Columns<'_>, _draws: FieldDraws) -> Result<Compiled> {
        let Self { classes, dtype, smoothing, .. } = *self;
        check_classes("MultiHot", classes, dtype)?;
        check_within("MultiHot", "smoothing", smoothing, 0.0, 1.0)?;
        let form = JsonForm::Array(DType::Int64, vec![None]);
        let (index, source) = ListSource::of(columns, &self.column, self.path.as_ref(), form)?;
        let [class, others] = [1.0 - 0.5 * smoothing, 0.5 * smoothing].map(|probability| element(probability, dtype));
        let decoder = MultiHotDecoder { source, classes, class: class?, others: others? };
        Ok(Compiled::new(index, decoder, dtype, RowShape::Fixed(vec![classes])))
    }

    fn is_mixable(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct MultiHotDecoder {
    source: ListSource,
    classes: usize,
    /// Element of a class of the sample, and of each remaining class.
    class: Vec<u8>,
    others: Vec<u8>,
}

impl Decode for MultiHotDecoder {
    fn decode(&self, stored: &Stored<'_, '_>, row: &mut Row<'_>, memory: &mut Memory) -> Result<()> {
        let (from, values) = self.source.read(stored.bytes, memory)?;
        if memory.shape.len() > 1 {
            return Err(Error::decode("a MultiHot field needs a list of classes, of one dimension")
                .with("shape", format!("{:?}", memory.shape)));
        }
        let mut numbers = vec![0; values.len() / from.size() * size_of::<i64>()];
        numeric::convert(&values, from, &mut numbers, DType::Int64)?;
        let bytes = self.class.len();
        let out = row.fixed(self.classes * bytes)?;
        out.chunks_exact_mut(bytes).for_each(|element| element.copy_from_slice(&self.others));
        for number in numbers.as_chunks::<8>().0 {
            let class = i64::from_ne_bytes(*number);
            let place = usize::try_from(class).ok().filter(|class| *class < self.classes);
            let place = place.ok_or_else(|| outside("MultiHot", class, self.classes))?;
            out[place * bytes..][..bytes].copy_from_slice(&self.class);
        }
        Ok(())
    }
}
