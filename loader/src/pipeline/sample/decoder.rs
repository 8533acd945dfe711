//! From a sample's bytes to its rows.

use super::batch_builder::BatchBuilder;
use super::page_cache::{DirectOutput, SampleRows};
use super::sample_bytes::SampleBytes;
use crate::decode::jpeg::RowIndexCounts;
use crate::decode::{FieldPlan, PictureCounts, Row, SampleDecoder};
use crate::error::Result;
use crate::format::Scratch;
use crate::pipeline::device::encoded::PictureRouter;
use crate::pipeline::shard::open_shard::OpenShard;
use crate::pipeline::task::Task;
use crate::stats::{Counter, Stats};
use crate::sync::Arc;

/// Destination of one output's row, by layout. A row that [`SampleBytes`] has already placed is not written.
#[derive(Clone, Copy)]
enum RowSink {
    /// Its place in the batch slot. A picture may stay encoded there for the device's decoder.
    Slot,
    /// A vector that the batch stores.
    List,
    /// The consumer's memory; a vector where there is none.
    Consumer,
}

/// Decodes samples of all layouts, for one thread.
pub(crate) struct RowDecoder {
    epoch: u64,
    /// By layout.
    decoders: Vec<SampleDecoder>,
    /// By layout and output.
    sinks: Vec<Vec<RowSink>>,
    columns: Scratch,
    /// Decides which pictures stay encoded for the device; none in host memory.
    pictures: Option<PictureRouter>,
    row_indexes_used: Arc<Counter>,
    row_indexes_refused: Arc<Counter>,
    /// Counts incomplete pictures, in fields that accept them.
    damaged: Arc<Counter>,
    scaled: Arc<Counter>,
}

impl RowDecoder {
    /// Decoder of samples of `epoch`. `fields` has the plan for each layout, `direct` the output that it is read
    /// directly into.
    pub(crate) fn new(
        epoch: u64,
        fields: &[Arc<FieldPlan>],
        direct: impl Fn(usize) -> Option<DirectOutput>,
        pictures: Option<PictureRouter>,
        stats: &Stats,
    ) -> Self {
        let sinks = |(layout, fields): (usize, &Arc<FieldPlan>)| {
            let list = direct(layout).filter(|direct| direct.is_list).map(|direct| direct.column.output);
            let sink = |(number, output): (usize, &crate::decode::Output)| match output.row_bytes() {
                Some(_) => RowSink::Slot,
                None if list == Some(number) => RowSink::Consumer,
                None => RowSink::List,
            };
            fields.outputs().iter().enumerate().map(sink).collect()
        };
        Self {
            epoch,
            decoders: fields.iter().map(|fields| fields.decoder()).collect(),
            sinks: fields.iter().enumerate().map(sinks).collect(),
            columns: Scratch::default(),
            pictures,
            row_indexes_used: stats.counter("row_indexes_used"),
            row_indexes_refused: stats.counter("row_indexes_refused"),
            damaged: stats.counter("pictures_damaged"),
            scaled: stats.counter("pictures_scaled"),
        }
    }

    /// Prepares for a chunk, or for a sample that another thread has read.
    pub(crate) fn begin(&mut self) {
        if let Some(pictures) = &mut self.pictures {
            pictures.refresh();
        }
    }

    /// Decodes a sample of `open` into `rows`. Returns the rows of the outputs without fixed shape; the one in the
    /// consumer's memory is empty there.
    ///
    /// # Errors
    ///
    /// Errors of the sample.
    pub(crate) fn decode(
        &mut self,
        (batch, row): (&BatchBuilder, usize),
        task: &Task,
        open: &OpenShard,
        sample: SampleBytes<'_>,
        mut rows: SampleRows<'_>,
    ) -> Result<Vec<Vec<u8>>> {
        let layout = open.layout_number();
        let columns = sample.split(open, &mut self.columns)?;
        let sinks = &self.sinks[layout];
        let mut lists: Vec<Vec<u8>> =
            sinks.iter().filter(|sink| !matches!(sink, RowSink::Slot)).map(|_| Vec::new()).collect();
        let mut encoded = self.pictures.as_ref().map_or_else(Vec::new, |pictures| pictures.sinks(batch, task));
        let mut consumer = rows.consumer.take().map(|row| row.bytes_mut());
        let (mut fixed, mut list, mut pictures) = (rows.fixed(), lists.iter_mut(), encoded.iter_mut());
        let rows = sinks.iter().enumerate().filter_map(|(output, sink)| {
            let row = match sink {
                RowSink::Slot => match (fixed.next()?, pictures.next()) {
                    (place, Some(Some(picture))) => Row::Encodable(place, picture),
                    (place, _) => Row::Fixed(place),
                },
                RowSink::List => Row::Var(list.next()?),
                RowSink::Consumer => match (list.next()?, consumer.take()) {
                    (_, Some(memory)) => Row::Sized(memory),
                    (list, None) => Row::Var(list),
                },
            };
            Some(if sample.has_placed(output) { Row::Filled } else { row })
        });
        let decoder = &mut self.decoders[layout];
        let column = |column| (column < columns.len()).then(|| columns.get(column));
        let index = |column| open.index_entry(task.index, column);
        let decoded = decoder.decode(column, index, task.draw_key(self.epoch), rows);
        let counts = decoder.take_picture_counts();
        if counts.row_indexes != RowIndexCounts::default() {
            self.row_indexes_used.add(counts.row_indexes.used);
            self.row_indexes_refused.add(counts.row_indexes.rejected);
        }
        decoded?;
        if counts != PictureCounts::default() {
            self.damaged.add(counts.damaged);
            self.scaled.add(counts.scaled);
        }
        if let Some(pictures) = &self.pictures {
            pictures.finish((batch, row), task, layout, &encoded);
        }
        Ok(lists)
    }
}
