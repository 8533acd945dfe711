//! Row decoder: from a sample's bytes to its rows.

use super::batch_layout::BatchLayout;
use super::offload::Offload;
use super::page_cache::SampleBytes;
use crate::batch::RowBytes;
use crate::decode::jpeg::RowIndexCounts;
use crate::decode::{EncodedPicture, FieldPlan, Output, PictureTaker, Row, SampleDecoder};
use crate::error::Result;
use crate::format::Scratch;
use crate::memory::RowMut;
use crate::pipeline::schedule::SampleRow;
use crate::pipeline::shard::open_shard::OpenShard;
use crate::stats::{Counter, Stats};
use crate::sync::Arc;
use std::cell::Cell;

/// Destination of one output's row, by layout. A row that gets there without the decoder is not written.
#[derive(Clone, Copy)]
enum RowSink {
    /// Its position in the batch slot.
    Slot,
    /// As `Slot`, for a picture that may stay encoded there. The number counts fixed outputs.
    Encoded(usize),
    /// A vector that the batch stores.
    List,
    /// Memory that comes with the sample, such as the consumer's; a vector where there is none.
    Consumer,
}

/// Memory that comes with a sample, for its rows without a fixed size.
pub(super) struct RowSources {
    /// The consumer's, for the output that is read directly into it.
    pub(super) consumer: Option<RowBytes>,
    /// Row that was read.
    pub(super) large: Option<LargeRowSource>,
}

/// Row without a fixed size that a value was read into.
pub(super) struct LargeRowSource {
    pub(super) output: usize,
    pub(super) memory: RowBytes,
    /// The row has yet to be made of the stored value in it.
    pub(super) is_stored: bool,
}

/// Decodes samples of all layouts, for one thread.
pub(super) struct RowDecoder {
    epoch: u64,
    /// By layout.
    decoders: Vec<SampleDecoder>,
    /// By layout and output.
    sinks: Vec<Vec<RowSink>>,
    columns: Scratch,
    offload: Option<Arc<dyn Offload>>,
    /// Pictures of a sample that may stay encoded.
    pictures: usize,
    /// Pictures stay encoded at the moment.
    keeps_encoded: bool,
    row_indexes_used: Arc<Counter>,
    row_indexes_refused: Arc<Counter>,
    /// Counts incomplete pictures, in fields that accept them.
    damaged: Arc<Counter>,
    scaled: Arc<Counter>,
    decodes_shared: Arc<Counter>,
    pixels: Arc<Counter>,
    pixels_delivered: Arc<Counter>,
}

impl RowDecoder {
    /// Decoder of samples of `epoch`. `fields` has the plan for each layout, `stored_list` returns the output of a
    /// layout that can be read directly into its row.
    pub(super) fn new(
        epoch: u64,
        fields: &[Arc<FieldPlan>],
        layout: &BatchLayout,
        stored_list: impl Fn(usize) -> Option<usize>,
        offload: Option<Arc<dyn Offload>>,
        stats: &Stats,
    ) -> Self {
        let sinks = |(layout_number, fields): (usize, &Arc<FieldPlan>)| {
            let mut fixed = layout.has_pictures().enumerate();
            let sink = |(number, output): (usize, &Output)| match output.row_bytes() {
                Some(_) => match fixed.next() {
                    Some((fixed, true)) if offload.is_some() => RowSink::Encoded(fixed),
                    _ => RowSink::Slot,
                },
                None if stored_list(layout_number) == Some(number) => RowSink::Consumer,
                None => RowSink::List,
            };
            fields.outputs().iter().enumerate().map(sink).collect()
        };
        Self {
            epoch,
            decoders: fields.iter().map(|fields| fields.decoder()).collect(),
            sinks: fields.iter().enumerate().map(sinks).collect(),
            columns: Scratch::default(),
            offload,
            pictures: layout.has_pictures().filter(|has| *has).count(),
            keeps_encoded: false,
            row_indexes_used: stats.counter("row_indexes_used"),
            row_indexes_refused: stats.counter("row_indexes_refused"),
            damaged: stats.counter("pictures_damaged"),
            scaled: stats.counter("pictures_scaled"),
            decodes_shared: stats.counter("decodes_shared"),
            pixels: stats.counter("picture_pixels"),
            pixels_delivered: stats.counter("picture_pixels_delivered"),
        }
    }

    /// Prepares for a chunk, or for a sample that a different thread has read.
    pub(super) fn begin(&mut self) {
        self.keeps_encoded = self.offload.as_ref().is_some_and(|offload| offload.decodes_pictures());
    }

    /// Decodes a sample of `open` into its row: the fixed outputs into the start of `rows`, the rest into `memory` or
    /// vectors.
    ///
    /// # Errors
    ///
    /// Errors of the sample.
    pub(super) fn decode(
        &mut self,
        at: SampleRow<'_>,
        open: &OpenShard,
        sample: SampleBytes<'_>,
        rows: &mut [RowMut],
        memory: RowSources,
    ) -> Result<()> {
        let whole = sample.bytes;
        let key = || if sample.is_whole { open.layout.format.key_of(whole) } else { None };
        self.decode_columns(at, open, sample, rows, memory).map_err(|e| match key() {
            Some(key) if e.context().iter().all(|(name, _)| *name != "key") => e.with("key", key),
            _ => e,
        })
    }

    fn decode_columns(
        &mut self,
        at: SampleRow<'_>,
        open: &OpenShard,
        sample: SampleBytes<'_>,
        rows: &mut [RowMut],
        RowSources { mut consumer, mut large }: RowSources,
    ) -> Result<()> {
        let SampleRow { batch, task, layout_number, .. } = at;
        let columns = sample.split(open, &mut self.columns)?;
        let sinks = &self.sinks[layout_number];
        let stored_row = large.as_ref().filter(|large| large.is_stored).map(|large| large.output);
        let list = |(output, sink): (usize, &RowSink)| match sink {
            RowSink::Slot | RowSink::Encoded(_) => None,
            _ if large.as_ref().is_some_and(|large| large.output == output) => large.take().map(|large| large.memory),
            RowSink::List => Some(RowBytes::Engine(Vec::new())),
            RowSink::Consumer => Some(consumer.take().unwrap_or(RowBytes::Engine(Vec::new()))),
        };
        let mut lists: Vec<RowBytes> = sinks.iter().enumerate().filter_map(list).collect();
        let offload = self.offload.as_deref().filter(|_| self.keeps_encoded);
        let offload = offload.filter(|offload| offload.takes_pictures_of(task, self.pictures));
        let taker = offload.map(|offload| EncodedPictures { offload, at, taken: Cell::new(0) });
        // Of a partner, only the composition has rows.
        let composition = batch.layout.composed.as_ref().map(|composed| &composed.composition);
        let of_partner = composition.filter(|_| batch.is_partner(at.row));
        let is_unused = |output| of_partner.is_some_and(|composition| !composition.has(output));
        let (mut fixed, mut list) = (batch.first_rows(rows), lists.iter_mut());
        let rows = sinks.iter().enumerate().filter_map(|(output, sink)| {
            let row = match (sink, &taker) {
                (RowSink::Encoded(number), Some(taker)) => Row::Encodable(fixed.next()?, taker, *number),
                (RowSink::Slot | RowSink::Encoded(_), _) => Row::Fixed(fixed.next()?),
                (RowSink::List | RowSink::Consumer, _) => match list.next()? {
                    RowBytes::Engine(list) => {
                        if stored_row == Some(output) {
                            Row::Stored(list)
                        } else {
                            Row::Var(list)
                        }
                    }
                    RowBytes::Consumer(memory) => Row::Sized(memory.bytes_mut()),
                },
            };
            Some(if sample.has_stored(output) || is_unused(output) { Row::Filled } else { row })
        });
        let decoder = &mut self.decoders[layout_number];
        let index = |column| open.index_entry(task.index, column);
        let decoded = decoder.decode(|column| columns.find(column), index, task.draw_key(self.epoch), rows);
        let counts = decoder.take_picture_counts();
        if counts.row_indexes != RowIndexCounts::default() {
            self.row_indexes_used.add(counts.row_indexes.used);
            self.row_indexes_refused.add(counts.row_indexes.rejected);
        }
        decoded?;
        for (counter, count) in [
            (&self.damaged, counts.damaged),
            (&self.scaled, counts.scaled),
            (&self.decodes_shared, counts.shared),
            (&self.pixels, counts.pixels),
            (&self.pixels_delivered, counts.pixels_delivered),
        ] {
            // Threads share the counters.
            if count > 0 {
                counter.add(count);
            }
        }
        if let Some(taker) = taker.filter(|taker| taker.taken.get() < self.pictures) {
            taker.offload.count_not_taken(self.pictures - taker.taken.get());
        }
        if let Some(composition) = composition {
            composition.check(|output| match lists.get(batch.layout.list_of(output)) {
                Some(RowBytes::Engine(row)) => row,
                _ => &[],
            })?;
        }
        if !lists.is_empty() {
            batch.put_lists(at.row, lists);
        }
        Ok(())
    }
}

/// Passes encoded pictures of one sample to a device.
struct EncodedPictures<'a> {
    offload: &'a dyn Offload,
    at: SampleRow<'a>,
    taken: Cell<usize>,
}

impl PictureTaker for EncodedPictures<'_> {
    fn take(&self, output: usize, picture: EncodedPicture, file: &[u8], row: &mut [u8]) -> bool {
        let is_taken = self.offload.take_picture(self.at, output, picture, file, row);
        self.taken.set(self.taken.get() + usize::from(is_taken));
        is_taken
    }
}
