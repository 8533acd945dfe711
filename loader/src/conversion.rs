//! Conversion of data sets to MDS: ranges of a loader's steps, each written as a separate data set.

use crate::batch::{Batch, Output, RowBytes};
use crate::config::{LoaderConfig, WriterConfig};
use crate::decode::ragged::read_ragged;
use crate::delivery::HostDelivery;
use crate::error::{Error, ErrorKind, Result};
use crate::format::encoding::Array;
use crate::format::{FIELDS, Value};
use crate::indexing::JpegRows;
use crate::loader::{Loader, Next};
use crate::state::LoaderState;
use crate::store::LibraryStores;
use crate::sync::{Arc, Mutex};

/// Column that has the key of a sample, for messages.
const KEY: &str = "__key__";

/// Column that is written.
#[derive(Clone, Debug)]
pub struct ConvertedColumn {
    /// Its name, and the name of the output with the stored bytes.
    pub name: String,
    /// Output with its arrays, which are stored again; `None` if its bytes are written as they are.
    pub array: Option<String>,
    /// Bytes of the value of a sample without the column; `None` if every sample has it.
    pub absent_bytes: Option<usize>,
}

/// Columns of a conversion.
#[derive(Clone, Debug)]
pub struct ConvertedColumns {
    /// In the order of the writer. If some samples lack one, the list of the columns of a sample is written too.
    pub columns: Vec<ConvertedColumn>,
    /// Bytes in the output of a column that a sample does not have.
    pub absent: Vec<u8>,
    /// A sample with a different column is an error: the output [`FIELDS`] has the names of the columns of each.
    pub are_all: bool,
}

/// Loader of a conversion.
pub struct Conversion {
    loader: Loader,
    columns: ConvertedColumns,
    library: Option<LibraryStores>,
    /// Step of the next batch, while an epoch runs.
    next: Mutex<Option<u64>>,
}

impl Conversion {
    /// Opens the data set of `config`, which has the outputs of `columns`.
    ///
    /// # Errors
    ///
    /// As [`Loader::new`].
    pub fn new(config: LoaderConfig, columns: ConvertedColumns, library: Option<LibraryStores>) -> Result<Self> {
        let loader = Loader::with_library(config, Arc::new(HostDelivery), library.clone())?;
        Ok(Self { loader, columns, library, next: Mutex::new(None) })
    }

    /// Writes `samples` samples from the start of `step` on, with a separate index.
    ///
    /// # Errors
    ///
    /// `Config` for a sample that cannot be stored, which the error names; `Format` for one with a column that is not
    /// written; `State` if the data set has fewer samples; errors of the loader and of the writer.
    pub fn write(&self, writer: &WriterConfig, step: u64, samples: u64) -> Result<()> {
        let mut next = self.next.lock();
        if next.take() != Some(step) {
            let state = self.loader.state()?;
            let sample_in_epoch = step * u64::from(self.loader.config().batch_size);
            self.loader.load_state(&LoaderState { epoch: 0, sample_in_epoch, ..state }, true)?;
            self.loader.start_epoch()?;
        }
        let mut writer = writer.open(Arc::new(JpegRows), self.library.clone())?;
        let (mut left, mut step) = (samples, step);
        while left > 0 {
            let Next::Batch(batch) = self.loader.next()? else {
                let message = "the data set has fewer samples than before: it has changed";
                return Err(Error::new(ErrorKind::State, message));
            };
            let rows = batch.rows.min(usize::try_from(left).unwrap_or(usize::MAX));
            for row in 0..rows {
                let values = self.values(&batch, row)?;
                writer.write(&values).map_err(|e| self.named(e, step, row))?;
            }
            left -= rows as u64;
            step += 1;
        }
        writer.finish()?;
        *next = Some(step);
        Ok(())
    }

    /// Ends a write in progress with an error.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child.
    pub fn close(&self) -> Result<()> {
        self.loader.close()
    }

    /// Returns the values of a row in the order of the writer's columns.
    fn values<'a>(&self, batch: &'a Batch, row: usize) -> Result<Vec<Value<'a>>> {
        if self.columns.are_all {
            self.check(batch, row)?;
        }
        let mut present: Vec<&str> = Vec::with_capacity(self.columns.columns.len());
        let mut list = None;
        let mut values = Vec::with_capacity(self.columns.columns.len() + 1);
        for column in &self.columns.columns {
            if column.name == FIELDS {
                list = Some(values.len());
                values.push(Value::Bytes((&[]).into()));
                continue;
            }
            match column.absent_bytes {
                Some(bytes) if stored(batch, &column.name, row)? == self.columns.absent => {
                    values.push(Value::Bytes(vec![0; bytes].into()));
                    continue;
                }
                _ => present.push(&column.name),
            }
            values.push(match &column.array {
                Some(output) => Value::Array(array(batch, output, row)?),
                None => Value::Bytes(stored(batch, &column.name, row)?.into()),
            });
        }
        if let Some(list) = list {
            values[list] = Value::Bytes(present.join("\n").into_bytes().into());
        }
        Ok(values)
    }

    /// Checks that all columns of a sample are written.
    fn check(&self, batch: &Batch, row: usize) -> Result<()> {
        let fields = String::from_utf8_lossy(stored(batch, FIELDS, row)?);
        let is_written = |name: &&str| self.columns.columns.iter().any(|column| column.name == **name);
        let Some(unknown) = fields.split('\n').find(|name| !is_written(name)) else { return Ok(()) };
        let key =
            stored(batch, KEY, row).map(String::from_utf8_lossy).map_or(String::new(), |key| format!(" (key {key})"));
        let names = self.columns.columns.iter().map(|column| &*column.name).filter(|name| *name != FIELDS);
        let all: Vec<&str> = names.chain([unknown]).collect();
        Err(Error::format(format!(
            "a sample has the field '{unknown}'{key}, and the first samples, from which the fields are known, do not: \
             choose all fields with `columns`, such as {}",
            all.join(",")
        )))
    }

    /// Names the sample that cannot be stored.
    fn named(&self, error: Error, step: u64, row: usize) -> Error {
        let samples = if error.kind() == ErrorKind::Config { self.loader.samples_of(0, step, 0).ok() } else { None };
        let Some(sample) = samples.as_ref().and_then(|samples| samples.get(row)) else { return error };
        let facts = [
            ("sample", Some(sample.number.to_string())),
            ("file", Some(sample.file.clone())),
            ("key", sample.key.clone()),
            ("sample in shard", Some(sample.index.to_string())),
            ("row_group", sample.row_group.map(|number| number.to_string())),
            ("row_in_group", sample.row_in_group.map(|number| number.to_string())),
        ];
        let add = |error: Error, (name, fact): (&'static str, Option<String>)| match fact {
            Some(fact) => error.with(name, fact),
            None => error,
        };
        facts.into_iter().fold(error, add).hinting("columns that MDS cannot store can be left out with `columns`")
    }
}

/// Returns the output `name` of a batch.
fn output<'a>(batch: &'a Batch, name: &str) -> Result<&'a Output> {
    batch.get(name).ok_or_else(|| Error::internal(format!("a conversion has no output {name}")))
}

/// Returns the bytes of a row.
fn stored<'a>(batch: &'a Batch, name: &str, row: usize) -> Result<&'a [u8]> {
    let Output::Bytes(rows) = output(batch, name)? else {
        return Err(Error::internal(format!("the output {name} of a conversion has no bytes")));
    };
    rows.get(row).and_then(RowBytes::host).ok_or_else(|| Error::internal("a row of a conversion is missing"))
}

/// Returns the array of a row.
fn array<'a>(batch: &'a Batch, name: &str, row: usize) -> Result<Array<'a>> {
    let missing = || Error::internal("an array of a conversion is missing");
    match output(batch, name)? {
        Output::Ragged(rows) => {
            let (dtype, shape, data) = read_ragged(rows.get(row).ok_or_else(missing)?)?;
            Ok(Array { dtype, shape, data: data.into() })
        }
        Output::Tensor(tensor) => {
            let shape: Vec<usize> = tensor.shape().iter().skip(1).map(|side| *side as usize).collect();
            let bytes = shape.iter().product::<usize>() * tensor.dtype().size();
            let data = tensor.host().and_then(|all| all.get(row * bytes..(row + 1) * bytes)).ok_or_else(missing)?;
            Ok(Array { dtype: tensor.dtype(), shape, data: data.into() })
        }
        Output::Text(_) | Output::Bytes(_) => Err(missing()),
    }
}
