//! Features of a file's records, and the columns that they become.

use std::collections::BTreeMap;

use super::example::{FeatureKind, Numbers, damaged, features, numbers, texts};
use super::parts::RecordPart;
use crate::columns::{Column, FIELDS};
use crate::encoding::{ArrayType, DType, Encoding};
use crate::wire::Fields;
use forebay_core::error::{Error, ErrorKind, Result};

/// Most features of the records of a file.
const FEATURES_MAX: usize = 10_000;

/// Features of the records of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureCounts {
    /// Number of records, without damaged ones.
    pub samples: u64,
    /// Records that do not match their CRC.
    pub damaged: u64,
    /// Features by name; `None` if the records are no Examples.
    pub(super) features: Option<BTreeMap<String, Counts>>,
    /// The features are from some records: the rest may lack any of them.
    pub(super) is_sampled: bool,
}

/// Values of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    kind: FeatureKind,
    /// Records that have a value.
    pub(super) samples: u64,
    /// Fewest and most values of a record that has a list, which may be empty.
    pub(super) values: (u64, u64),
    /// True if all values are UTF-8.
    is_text: bool,
}

impl FeatureCounts {
    /// Adds a record.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] for a record that is no Example where the rest are, or that has values of a different
    /// type; [`ErrorKind::Unsupported`] for a SequenceExample there.
    pub fn add(&mut self, data: &[u8]) -> Result<()> {
        if self.samples == 0 {
            self.features = Some(BTreeMap::new());
        }
        self.samples += 1;
        let Some(known) = &mut self.features else { return Ok(()) };
        let mut found: BTreeMap<&str, Option<Counts>> = BTreeMap::new();
        let parsed = features(data, 0..data.len(), |feature| {
            let name = std::str::from_utf8(feature.name).map_err(|_| damaged())?;
            let counts = match feature.kind {
                None => None,
                Some(kind) => {
                    let (values, is_text) = count_values(data, kind, feature.list)?;
                    Some(Counts { kind, samples: u64::from(values > 0), values: (values, values), is_text })
                }
            };
            found.insert(name, counts);
            Ok(())
        });
        // Records without bytes are Examples and anything else.
        if parsed.is_err() && known.is_empty() {
            self.features = None;
            return Ok(());
        }
        parsed.map_err(|e| match e.kind() {
            ErrorKind::Format => {
                Error::format("the record is not a tf.train.Example, but the records before it are").caused_by(e)
            }
            _ => e,
        })?;
        for (name, counts) in found {
            if let Some(counts) = counts {
                merge(known, name, counts)?;
            }
        }
        Ok(())
    }

    /// Adds the records of a different file.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Format`] if one of them has Examples and the remaining has not, and for values of different types.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        let damaged = self.damaged + other.damaged;
        if self.samples == 0 && other.samples > 0 {
            *self = Self { damaged, ..other.clone() };
            return Ok(());
        }
        self.damaged = damaged;
        if other.samples == 0 {
            return Ok(());
        }
        self.samples += other.samples;
        self.is_sampled |= other.is_sampled;
        match (self.features.take(), &other.features) {
            (None, None) => {}
            (Some(mut known), Some(features)) => {
                features.iter().try_for_each(|(name, counts)| merge(&mut known, name, *counts))?;
                self.features = Some(known);
            }
            (Some(known), None) if known.is_empty() => {}
            (None, Some(features)) if features.is_empty() => {}
            _ => {
                return Err(Error::format(
                    "the records of one file are tf.train.Examples, but the records of a second file are not",
                ));
            }
        }
        Ok(())
    }

    /// Returns true if a layout does not show all that counts of further records change: a feature has only empty
    /// lists, or there are no features.
    pub fn is_partial(&self) -> bool {
        self.features.as_ref().is_some_and(|all| all.is_empty() || all.values().any(|feature| feature.values.1 == 0))
    }

    /// Returns the counts of `samples` records like these. Lists have any length then.
    pub fn of_samples(&self, samples: u64) -> Self {
        let values = |values: (u64, u64)| if values.1 > 1 { (values.0, values.1 + 1) } else { values };
        let count = |n: u64| if n == self.samples { samples } else { n.min(samples.saturating_sub(1)) };
        let all = |features: &BTreeMap<String, Counts>| {
            let of = |(name, counts): (&String, &Counts)| {
                (name.clone(), Counts { samples: count(counts.samples), values: values(counts.values), ..*counts })
            };
            features.iter().map(of).collect()
        };
        Self { samples, damaged: 0, features: self.features.as_ref().map(all), is_sampled: true }
    }
}

fn merge(known: &mut BTreeMap<String, Counts>, name: &str, counts: Counts) -> Result<()> {
    let is_full = known.len() == FEATURES_MAX;
    match known.get_mut(name) {
        None if name == FIELDS => {
            let message = "forebay keeps the names of a sample's fields in a column of this name: rename the feature \
                           in the files";
            Err(Error::new(ErrorKind::Unsupported, message).with("feature", name))
        }
        None if is_full => Err(Error::format(format!("the records have more than {FEATURES_MAX} features"))),
        None => {
            known.insert(name.to_owned(), counts);
            Ok(())
        }
        // An empty list may be of any type.
        Some(known) if known.values.1 == 0 || counts.values.1 == 0 => {
            known.kind = if known.values.1 == 0 { counts.kind } else { known.kind };
            known.add(counts);
            Ok(())
        }
        Some(known) if known.kind != counts.kind => {
            let (a, b) = (known.kind.name(), counts.kind.name());
            let message = format!("the type of the feature differs between records: {a} and {b}");
            Err(Error::format(message).with("feature", name))
        }
        Some(known) => {
            known.add(counts);
            Ok(())
        }
    }
}

/// Returns the number of values of a list, and true if all are UTF-8.
pub(super) fn count_values(data: &[u8], kind: FeatureKind, list: std::ops::Range<usize>) -> Result<(u64, bool)> {
    if kind == FeatureKind::Bytes {
        let (mut values, mut is_text) = (0, true);
        for text in texts(data, list) {
            let text = text?;
            values += 1;
            is_text = is_text && std::str::from_utf8(&data[text]).is_ok();
        }
        return Ok((values, is_text));
    }
    let mut values = 0;
    for part in numbers(data, kind, list) {
        values += match part? {
            Numbers::Packed(range) if kind == FeatureKind::Float => range.len() as u64 / 4,
            Numbers::Packed(range) => {
                let (mut ints, mut values) = (Fields::new(data, range), 0);
                while !ints.is_at_end() {
                    ints.varint()?;
                    values += 1;
                }
                values
            }
            Numbers::Word(_) | Numbers::Int(_) => 1,
        };
    }
    Ok((values, false))
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.is_text = (self.is_text || self.values.1 == 0) && (other.is_text || other.values.1 == 0);
        self.values = (self.values.0.min(other.values.0), self.values.1.max(other.values.1));
    }

    /// Counts with this [`encoding`](Self::encoding).
    pub(super) fn of_encoding(encoding: &Encoding, part: RecordPart, samples: u64) -> Self {
        let array = |kind: &ArrayType| match kind.shape().and_then(|shape| u64::try_from(*shape.first()?).ok()) {
            Some(count) => (count, count),
            None => (0, u64::MAX),
        };
        let (kind, values) = match encoding {
            _ if part == RecordPart::BytesList => (FeatureKind::Bytes, (0, u64::MAX)),
            Encoding::Int => (FeatureKind::Int64, (1, 1)),
            Encoding::Scalar(_) => (FeatureKind::Float, (1, 1)),
            Encoding::Array(of) if of.dtype() == Some(DType::Int64) => (FeatureKind::Int64, array(of)),
            Encoding::Array(of) => (FeatureKind::Float, array(of)),
            _ => (FeatureKind::Bytes, (1, 1)),
        };
        Self { kind, samples, values, is_text: *encoding == Encoding::Str }
    }

    fn encoding(&self) -> Encoding {
        let array = |dtype| match self.values {
            (least, most) if least == most => {
                // A list of more than 4 GiB is in no record.
                let fixed = ArrayType::fixed(dtype, vec![usize::try_from(most).unwrap_or(usize::MAX)]);
                Encoding::Array(fixed.unwrap_or_else(|| ArrayType::flat(dtype)))
            }
            _ => Encoding::Array(ArrayType::flat(dtype)),
        };
        match (self.kind, self.values) {
            (FeatureKind::Bytes, (_, 1)) => {
                if self.is_text {
                    Encoding::Str
                } else {
                    Encoding::Bytes
                }
            }
            (FeatureKind::Bytes, _) => Encoding::Bytes,
            (FeatureKind::Int64, (_, 1)) => Encoding::Int,
            (FeatureKind::Float, (_, 1)) => Encoding::Scalar(DType::Float32),
            (FeatureKind::Int64, _) => array(DType::Int64),
            (FeatureKind::Float, _) => array(DType::Float32),
        }
    }
}

impl Counts {
    pub(super) fn column(&self, name: &str) -> (Column, RecordPart) {
        let is_list = self.kind == FeatureKind::Bytes && self.values.1 > 1;
        (Column::new(name, self.encoding()), if is_list { RecordPart::BytesList } else { RecordPart::Values })
    }
}
