//! Layout of a batch of packs in its slot, and the copy of documents into it.
//!
//! ```text
//!  rows: ids of each document --fragments--> sequences: where the tokens of each begin in the outputs
//!                                              `--> outputs of the form (pack_forms), each filled by its kind
//! ```

use super::pack_forms::{self, BatchShape, ElementKind, Form, FormOutput};
use crate::config::{PackConfig, TokenBatch};
use crate::decode::ragged::{elements, read_ragged};
use crate::decode::{DType, LABELS, NO_LABEL, Output, RowShape, numeric};
use crate::error::{Error, Result};
use crate::pipeline::plan::PackedRows;

/// Alignment of outputs, as of all batches.
const ALIGN_BYTES: usize = 256;

/// Output of a batch of packs.
#[derive(Clone, Debug)]
struct PackOutput {
    name: String,
    kind: ElementKind,
    dtype: DType,
    /// Offset in the slot.
    offset: usize,
}

/// Output of one batch: its name, type, offset in the slot and shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackTensor<'a> {
    pub(super) name: &'a str,
    pub(super) dtype: DType,
    pub(super) offset: usize,
    pub(super) shape: Vec<i64>,
}

/// Contents of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PackContents<'a> {
    pub(super) rows: usize,
    pub(super) tensors: Vec<PackTensor<'a>>,
    /// Numbers of the batch as a whole.
    pub(super) numbers: Vec<(&'static str, i64)>,
}

/// Row of a document with other tokens than the plan has.
#[derive(Debug)]
pub(super) struct LengthMismatch {
    pub(super) row: usize,
    pub(super) planned: u32,
    pub(super) found: usize,
}

/// Sequence of a batch: a fragment of a document.
struct Sequence<'r> {
    /// First element of its tokens in the outputs.
    start: usize,
    /// Number of the sequence in its pack.
    number: i64,
    tokens: usize,
    ids: &'r [u8],
    /// Labels that come with the ids.
    labels: Option<&'r [u8]>,
}

/// Layout of batches of packs.
#[derive(Debug)]
pub(crate) struct PackLayout {
    form: &'static Form,
    /// True if labels that come with the ids are ids that the token before predicts.
    are_next: bool,
    /// Tokens of a pack, or of a row of sequences the multiple that it is padded to.
    length: usize,
    /// Most sequences of a pack, if there is a limit.
    sequences_max: Option<usize>,
    /// An element of padding.
    pad: Vec<u8>,
    /// An element of a label that does not count; `None` for a type that does not hold it.
    no_label: Option<Vec<u8>>,
    dtype: DType,
    outputs: Vec<PackOutput>,
    bytes: usize,
}

impl PackLayout {
    /// Layout of batches of `packs` packs as `config` has them, with the outputs `of_rows` of documents: token ids, and
    /// labels if they come with the ids. `are_next` is true for labels that the token before each predicts.
    ///
    /// # Errors
    ///
    /// `Config` for labels that a form shifts, for ids of a type without room for the padding or for the label of
    /// positions that do not count, and for batches that do not fit into memory addresses.
    pub(crate) fn new(config: &PackConfig, of_rows: &[Output], are_next: bool, packs: usize) -> Result<Self> {
        let length = config.length as usize;
        let sequences_max = config.max_sequences.map(|sequences| length.min(sequences as usize));
        let form = pack_forms::of(config.form);
        Ok(Self { sequences_max, ..Self::of_form(form, of_rows, are_next, (length, config.pad), &[packs, length])? })
    }

    /// Layout of batches of a row for each sequence as `config` has them; the remaining arguments and the errors are as
    /// for [`new`](Self::new).
    pub(crate) fn of_rows(config: &TokenBatch, of_rows: &[Output], are_next: bool) -> Result<Self> {
        let sizes = [1, config.max_tokens as usize];
        Self::of_form(&pack_forms::ROWS, of_rows, are_next, (config.pad_to_multiple_of as usize, config.pad), &sizes)
    }

    /// Layout of batches of `form`, with at most the product of `sizes` elements.
    fn of_form(
        form: &'static Form,
        of_rows: &[Output],
        are_next: bool,
        (length, pad): (usize, i64),
        sizes: &[usize; 2],
    ) -> Result<Self> {
        let ids = of_rows.first().ok_or_else(|| Error::internal("packs have no ids"))?;
        let mut table = form.outputs.to_vec();
        if of_rows.get(1).is_some_and(|output| output.name == LABELS) {
            if !are_next && table.iter().any(|output| output.kind == ElementKind::NextIds) {
                let message = "labels of masked tokens belong to the tokens themselves, and window.form shifts labels: \
                               pass a different form";
                return Err(Error::config(message));
            }
            if !table.iter().any(|output| output.kind.has_unlabelled()) {
                table.push(pack_forms::LABELS);
            }
        }
        let element = |value: i64| {
            let mut bytes = vec![0; ids.dtype.size()];
            numeric::fill(value, &mut bytes, ids.dtype).map(|()| bytes)
        };
        if table.iter().any(|output| output.kind.has_unlabelled()) {
            let small = |_| {
                let message = "labels that no loss counts are -100: pass a signed `dtype` to the field of the ids";
                Error::config(message).with("field", &ids.name).with("dtype", ids.dtype)
            };
            element(NO_LABEL).map_err(small)?;
        }
        let unfit = |_| Error::config("window.pad does not fit the type of the ids").with("dtype", ids.dtype);
        let pad = element(pad).map_err(unfit)?;
        let (outputs, bytes) = places(&table, ids, sizes)?;
        let no_label = element(NO_LABEL).ok();
        Ok(Self { form, are_next, length, sequences_max: None, pad, no_label, dtype: ids.dtype, outputs, bytes })
    }

    /// Bytes of a slot.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Names of the outputs.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = Output> + '_ {
        let shape = || match self.form.shape {
            BatchShape::Rows => RowShape::Fixed(vec![self.length]),
            BatchShape::Row | BatchShape::Tokens | BatchShape::Sequences => RowShape::Fixed(Vec::new()),
        };
        self.outputs.iter().map(move |output| Output { name: output.name.clone(), dtype: output.dtype, shape: shape() })
    }

    /// Copies the fragments of `packs` from `rows`, which are ragged arrays of ids, into `slot`, with the `labels` that
    /// come with the ids. Rows that were skipped are `None`; their tokens become padding, or are in no row.
    ///
    /// # Errors
    ///
    /// The row of a document with other tokens than planned; `Internal` for a row that is no list of ids.
    pub(super) fn assemble<'r>(
        &self,
        packs: &PackedRows,
        rows: &[Option<&'r [u8]>],
        labels: Option<&[Option<&'r [u8]>]>,
        slot: &mut [u8],
    ) -> Result<std::result::Result<PackContents<'_>, LengthMismatch>> {
        let lists = |rows: &[Option<&'r [u8]>]| -> Result<Vec<Option<&'r [u8]>>> {
            rows.iter().map(|row| row.map(|row| self.ids_of(row)).transpose()).collect()
        };
        let ids = lists(rows)?;
        let labels = labels.map(lists).transpose()?;
        let size = self.dtype.size();
        for fragment in &packs.fragments {
            let row = fragment.row as usize;
            let found = ids.get(row).copied().flatten().map(|ids| ids.len() / size);
            let planned = fragment.document_tokens;
            if let Some(found) = found.filter(|found| *found != planned as usize) {
                return Ok(Err(LengthMismatch { row, planned, found }));
            }
        }
        let columns = self.columns(packs, &ids);
        let sequences = self.sequences(packs, (&ids, columns), labels.as_deref());
        let (rows, all) = match self.form.shape {
            BatchShape::Tokens => (packs.packs, sequences.iter().map(|sequence| sequence.tokens).sum()),
            BatchShape::Rows | BatchShape::Row => (packs.packs, packs.packs * columns),
            BatchShape::Sequences => (sequences.len(), sequences.len() * columns),
        };
        let tensor = |output| self.fill(output, (packs.packs, columns), &sequences, all, slot);
        let tensors = self.outputs.iter().map(tensor).collect();
        let longest = sequences.iter().map(|sequence| sequence.tokens as i64).max().unwrap_or(0);
        let numbers = self.form.longest.iter().map(|name| (*name, longest)).collect();
        Ok(Ok(PackContents { rows, tensors, numbers }))
    }

    fn ids_of<'r>(&self, row: &'r [u8]) -> Result<&'r [u8]> {
        let (dtype, _, ids) = read_ragged(row)?;
        if dtype != self.dtype {
            return Err(Error::internal("a row of ids has a different type"));
        }
        Ok(ids)
    }

    /// Elements of a row of the batch.
    fn columns(&self, packs: &PackedRows, ids: &[Option<&[u8]>]) -> usize {
        if self.form.shape != BatchShape::Sequences {
            return self.length;
        }
        let is_there = |row: u32| ids.get(row as usize).copied().flatten().is_some();
        let there = packs.fragments.iter().filter(|fragment| is_there(fragment.row));
        there.map(|fragment| fragment.tokens as usize).max().unwrap_or(0).next_multiple_of(self.length)
    }

    /// The sequences in the order of their tokens. Skipped rows have no tokens.
    fn sequences<'r>(
        &self,
        packs: &PackedRows,
        (ids, columns): (&[Option<&'r [u8]>], usize),
        labels: Option<&[Option<&'r [u8]>]>,
    ) -> Vec<Sequence<'r>> {
        let size = self.dtype.size();
        let (mut sequences, mut pack, mut number, mut all) = (Vec::new(), 0, 0, 0);
        for fragment in &packs.fragments {
            if fragment.pack != pack {
                (pack, number) = (fragment.pack, 0);
            }
            let of_row = ids.get(fragment.row as usize).copied().flatten();
            let first = fragment.first as usize * size;
            let range = first..first + fragment.tokens as usize * size;
            let labels = labels.and_then(|labels| labels.get(fragment.row as usize).copied().flatten());
            let labels = labels.map(|labels| &labels[range.clone()]);
            let ids = of_row.map_or(&[][..], |ids| &ids[range]);
            let tokens = ids.len() / size;
            let start = match self.form.shape {
                BatchShape::Tokens => all,
                BatchShape::Rows | BatchShape::Row => pack as usize * columns + fragment.offset as usize,
                BatchShape::Sequences => sequences.len() * columns,
            };
            if of_row.is_some() || self.form.shape == BatchShape::Row {
                sequences.push(Sequence { start, number, tokens, ids, labels });
            }
            number += i64::from(of_row.is_some());
            all += tokens;
        }
        sequences
    }

    /// Fills an output of a batch of `packs` packs, or of rows of `columns` elements, with `all` elements of tokens and
    /// padding.
    fn fill<'l>(
        &self,
        output: &'l PackOutput,
        (packs, columns): (usize, usize),
        sequences: &[Sequence<'_>],
        all: usize,
        slot: &mut [u8],
    ) -> PackTensor<'l> {
        let &PackOutput { ref name, kind, dtype, offset } = output;
        let (size, room) = (dtype.size(), &mut slot[offset..]);
        let shape = if kind.is_of_tokens() {
            let mut end = 0;
            for sequence in sequences {
                let start = sequence.start;
                self.write_padding(output, &mut room[end * size..start * size]);
                end = start + sequence.tokens;
                self.write(output, sequence, &mut room[start * size..end * size]);
            }
            self.write_padding(output, &mut room[end * size..all * size]);
            match self.form.shape {
                BatchShape::Rows => vec![packs as i64, columns as i64],
                BatchShape::Sequences => vec![sequences.len() as i64, columns as i64],
                BatchShape::Row | BatchShape::Tokens => vec![1, all as i64],
            }
        } else {
            let numbers = self.numbers_of(kind, packs, sequences, all);
            for (to, number) in room.chunks_exact_mut(size).zip(&numbers) {
                write_run(to, dtype, *number as i64, 0);
            }
            vec![numbers.len() as i64]
        };
        PackTensor { name, dtype, offset, shape }
    }

    /// The elements of an output that belong to the sequences or the batch.
    fn numbers_of(&self, kind: ElementKind, packs: usize, sequences: &[Sequence<'_>], all: usize) -> Vec<usize> {
        let starts = || sequences.iter().map(|sequence| sequence.start).chain([all]).collect::<Vec<_>>();
        let mut numbers = match kind {
            ElementKind::Starts => starts(),
            ElementKind::Longest => {
                return vec![starts().windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)];
            }
            _ => {
                let ends = sequences.iter().scan(0, |end, sequence| {
                    *end += sequence.tokens;
                    Some(*end)
                });
                std::iter::once(0).chain(ends).collect()
            }
        };
        // A limit makes the number of elements the same in all batches, as graphs of a device need it.
        if let (BatchShape::Row, Some(most)) = (self.form.shape, self.sequences_max) {
            let last = numbers.last().copied().unwrap_or(0);
            numbers.resize(packs * most + 1, last);
        }
        numbers
    }

    /// Writes the elements of a sequence. The sequence of a skipped document has no tokens.
    fn write(&self, output: &PackOutput, sequence: &Sequence<'_>, room: &mut [u8]) {
        let (dtype, size) = (output.dtype, output.dtype.size());
        match output.kind {
            ElementKind::Ids => room.copy_from_slice(sequence.ids),
            ElementKind::Labels => {
                room.copy_from_slice(sequence.labels.unwrap_or(sequence.ids));
                if self.are_next || sequence.labels.is_none() {
                    room.chunks_exact_mut(size).take(1).for_each(|first| write_run(first, dtype, NO_LABEL, 0));
                }
            }
            ElementKind::AllLabels => room.copy_from_slice(sequence.labels.unwrap_or(sequence.ids)),
            ElementKind::NextIds => {
                let next = sequence.labels.unwrap_or(sequence.ids).get(size..).unwrap_or_default();
                let (head, last) = room.split_at_mut(next.len());
                head.copy_from_slice(next);
                write_run(last, dtype, NO_LABEL, 0);
            }
            ElementKind::LossMask => {
                let (head, last) = room.split_at_mut(room.len().saturating_sub(size));
                write_run(head, dtype, 1, 0);
                write_run(last, dtype, 0, 0);
                let next = sequence.labels.unwrap_or_default().chunks_exact(self.dtype.size()).skip(1);
                let is_ignored = |label: &[u8]| self.no_label.as_deref() == Some(label);
                for (to, _) in head.chunks_exact_mut(size).zip(next).filter(|(_, label)| is_ignored(label)) {
                    write_run(to, dtype, 0, 0);
                }
            }
            ElementKind::Positions => write_run(room, dtype, 0, 1),
            ElementKind::Sequences(first) => write_run(room, dtype, first + sequence.number, 0),
            ElementKind::Mask => write_run(room, dtype, 1, 0),
            ElementKind::TokenStarts | ElementKind::Starts | ElementKind::Longest => {}
        }
    }

    fn write_padding(&self, output: &PackOutput, room: &mut [u8]) {
        let value = match output.kind {
            ElementKind::Ids => {
                return room.chunks_exact_mut(self.pad.len()).for_each(|id| id.copy_from_slice(&self.pad));
            }
            ElementKind::Sequences(first) => first - 1,
            kind if kind.has_unlabelled() => NO_LABEL,
            _ => 0,
        };
        write_run(room, output.dtype, value, 0);
    }
}

/// Returns the places of the outputs of `table` in a slot, for batches of the number of packs and the length in
/// `sizes`, and the bytes of the slot.
fn places(table: &[FormOutput], ids: &Output, sizes: &[usize; 2]) -> Result<(Vec<PackOutput>, usize)> {
    let too_large = || Error::config("a batch of packs is too large: lower batch_size or window.length");
    let mut outputs: Vec<PackOutput> = Vec::new();
    let mut bytes = 0_usize;
    for &FormOutput { name, kind, dtype } in table {
        let (name, dtype) = (name.unwrap_or(&ids.name), dtype.unwrap_or(ids.dtype));
        if outputs.iter().any(|output| output.name == name) {
            let message = "packs have an output of this name: rename the field of the ids";
            return Err(Error::config(message).with("field", name));
        }
        let offset = bytes.next_multiple_of(ALIGN_BYTES);
        // A sequence has at least one token.
        let count = elements(sizes).and_then(|n| n.checked_add(usize::from(!kind.is_of_tokens())));
        let all = count.and_then(|n| n.checked_mul(dtype.size())).filter(|all| *all < isize::MAX as usize / 2);
        bytes = offset.checked_add(all.ok_or_else(too_large)?).ok_or_else(too_large)?;
        outputs.push(PackOutput { name: name.to_owned(), kind, dtype, offset });
    }
    Ok((outputs, bytes))
}

/// Writes `first` and the numbers that follow it in steps of `step`. All fit into the type.
fn write_run(room: &mut [u8], dtype: DType, first: i64, step: i64) {
    let values = (0..).map(|at: i64| first + at * step);
    if dtype == DType::Float32 {
        let values = values.map(|value| value as f32);
        return room.as_chunks_mut().0.iter_mut().zip(values).for_each(|(to, value)| *to = value.to_ne_bytes());
    }
    match dtype.size() {
        8 => room.as_chunks_mut().0.iter_mut().zip(values).for_each(|(to, value)| *to = value.to_ne_bytes()),
        4 => room.as_chunks_mut().0.iter_mut().zip(values).for_each(|(to, value)| *to = (value as i32).to_ne_bytes()),
        2 => room.as_chunks_mut().0.iter_mut().zip(values).for_each(|(to, value)| *to = (value as i16).to_ne_bytes()),
        _ => room.iter_mut().zip(values).for_each(|(to, value)| *to = value as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PackForm;
    use crate::decode::ragged::tests::ragged_of;
    use crate::order::SampleId;
    use crate::pipeline::plan::RowFragment;

    /// Rows of two and five ids: the first pack has both, with the first two ids of the second row, and the second pack
    /// the rest.
    fn packed() -> (PackedRows, Vec<Vec<u8>>) {
        let fragment = |row, pack, offset, first, tokens, document_tokens| RowFragment {
            row,
            pack,
            offset,
            first,
            tokens,
            document_tokens,
            repeat: false,
        };
        let fragments = vec![fragment(0, 0, 0, 0, 2, 2), fragment(1, 0, 2, 0, 2, 5), fragment(1, 1, 0, 2, 3, 5)];
        let rows = vec![ragged_of(DType::Int64, &[10, 11]), ragged_of(DType::Int64, &[20, 21, 22, 23, 24])];
        (PackedRows { packs: 2, documents: vec![SampleId(0), SampleId(1)], fragments }, rows)
    }

    fn layout(form: PackForm) -> PackLayout {
        let config = PackConfig { length: 5, form, pad: 9, ..PackConfig::default() };
        let ids = Output { name: "input_ids".to_owned(), dtype: DType::Int64, shape: RowShape::RaggedArray };
        PackLayout::new(&config, &[ids], false, 2).expect("a layout")
    }

    /// Values of an output, with its shape.
    fn values(contents: &PackContents<'_>, slot: &[u8], name: &str) -> (Vec<i64>, Vec<i64>) {
        let tensor = contents.tensors.iter().find(|tensor| tensor.name == name).expect(name);
        let count = tensor.shape.iter().product::<i64>() as usize;
        let bytes = &slot[tensor.offset..][..count * tensor.dtype.size()];
        let values = match tensor.dtype {
            DType::Int64 => bytes.as_chunks().0.iter().map(|bytes| i64::from_ne_bytes(*bytes)).collect(),
            DType::Float32 => bytes.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes) as i64).collect(),
            _ => bytes.as_chunks().0.iter().map(|bytes| i32::from_ne_bytes(*bytes).into()).collect(),
        };
        (tensor.shape.clone(), values)
    }

    fn assembled(form: PackForm, skipped: Option<usize>, check: impl Fn(&PackContents<'_>, &[u8])) {
        let ((packs, rows), layout) = (packed(), layout(form));
        let rows: Vec<_> = rows.iter().enumerate().map(|(at, row)| (Some(at) != skipped).then_some(&**row)).collect();
        // A slot has the bytes of an earlier batch.
        let mut slot = vec![0xa5; layout.bytes()];
        let contents = layout.assemble(&packs, &rows, None, &mut slot).expect("rows of ids").expect("as planned");
        check(&contents, &slot);
    }

    #[test]
    fn a_batch_without_padding_is_one_row_with_the_starts_of_its_sequences() {
        assembled(PackForm::PaddingFree, None, |contents, slot| {
            let of = |name| values(contents, slot, name);
            assert_eq!(of("input_ids"), (vec![1, 7], vec![10, 11, 20, 21, 22, 23, 24]));
            assert_eq!(of("labels"), (vec![1, 7], vec![-100, 11, -100, 21, -100, 23, 24]));
            assert_eq!(of("position_ids"), (vec![1, 7], vec![0, 1, 0, 1, 0, 1, 2]));
            assert_eq!(of("cu_seq_lens_q"), (vec![4], vec![0, 2, 4, 7]));
            assert_eq!(of("cu_seq_lens_k"), of("cu_seq_lens_q"));
            assert_eq!(contents.numbers, [("max_length_q", 3), ("max_length_k", 3)]);
        });
    }

    #[test]
    fn rows_are_padded_at_their_ends_in_every_form() {
        let ids = (vec![2, 5], vec![10, 11, 20, 21, 9, 22, 23, 24, 9, 9]);
        let labels = (vec![2, 5], vec![-100, 11, -100, 21, -100, -100, 23, 24, -100, -100]);
        assembled(PackForm::Segments, None, |contents, slot| {
            let of = |name| values(contents, slot, name);
            assert_eq!(of("input_ids"), ids);
            assert_eq!(of("segment_ids").1, [1, 1, 2, 2, 0, 1, 1, 1, 0, 0]);
            assert_eq!(of("positions").1, [0, 1, 0, 1, 0, 0, 1, 2, 0, 0]);
        });
        assembled(PackForm::IndexedMask, None, |contents, slot| {
            let of = |name| values(contents, slot, name);
            assert_eq!((of("input_ids"), of("labels")), (ids.clone(), labels.clone()));
            assert_eq!(of("attention_mask").1, [1, 1, 2, 2, 0, 1, 1, 1, 0, 0]);
        });
        assembled(PackForm::SequenceId, None, |contents, slot| {
            let of = |name| values(contents, slot, name);
            assert_eq!((of("input_ids"), of("labels")), (ids.clone(), labels.clone()));
            assert_eq!(of("attention_mask").1, [1, 1, 1, 1, 0, 1, 1, 1, 0, 0]);
            assert_eq!(of("sequence_id").1, [0, 0, 1, 1, -1, 0, 0, 0, -1, -1]);
        });
    }

    #[test]
    fn a_batch_of_rows_is_as_wide_as_its_longest_sequence_and_a_skipped_one_has_no_row() {
        let batch = TokenBatch { max_tokens: 64, pad_to_multiple_of: 4, pad: 9, ..TokenBatch::default() };
        let ids = Output { name: "input_ids".to_owned(), dtype: DType::Int64, shape: RowShape::RaggedArray };
        let layout = PackLayout::of_rows(&batch, &[ids], false).expect("a layout");
        let fragment = |row, first, tokens, document_tokens| RowFragment {
            row,
            pack: 0,
            offset: 0,
            first,
            tokens,
            document_tokens,
            repeat: false,
        };
        let (mut packs, rows) = packed();
        packs.packs = 1;
        packs.fragments = vec![fragment(0, 0, 2, 2), fragment(1, 0, 5, 5), fragment(1, 3, 2, 5)];
        for (skipped, shape, kept, labels) in [
            (None, vec![3, 8], vec![10, 11, 9, 9, 9, 9, 9, 9, 20, 21], vec![10, 11, -100]),
            (Some(0), vec![2, 8], vec![20, 21, 22, 23, 24, 9, 9, 9, 23, 24, 9], vec![20, 21, 22]),
            (Some(1), vec![1, 4], vec![10, 11, 9, 9], vec![10, 11, -100, -100]),
        ] {
            let rows = rows.iter().enumerate().map(|(at, row)| (Some(at) != skipped).then_some(&**row));
            let mut slot = vec![0xa5; layout.bytes()];
            let contents = layout.assemble(&packs, &rows.collect::<Vec<_>>(), None, &mut slot);
            let contents = contents.expect("rows of ids").expect("as planned");
            assert_eq!(contents.rows as i64, shape[0]);
            let of = |name| values(&contents, &slot, name);
            assert_eq!(of("input_ids").0, shape);
            assert_eq!(of("input_ids").1[..kept.len()], kept);
            assert_eq!(of("labels").1[..labels.len()], labels);
            let is_padding: Vec<i64> = of("input_ids").1.iter().map(|id| i64::from(*id != 9)).collect();
            assert_eq!(of("attention_mask"), (shape.clone(), is_padding));
            assert_eq!(of("position_ids").1[..2], [0, 1]);
        }
    }

    #[test]
    fn a_batch_of_thd_is_one_row_of_padded_sequences_with_the_labels_of_the_next_tokens() {
        assembled(PackForm::Thd, None, |contents, slot| {
            let of = |name| values(contents, slot, name);
            assert_eq!(of("input_ids"), (vec![1, 10], vec![10, 11, 20, 21, 9, 22, 23, 24, 9, 9]));
            assert_eq!(of("labels").1, [11, -100, 21, -100, -100, 23, 24, -100, -100, -100]);
            assert_eq!(of("loss_mask").1, [1, 0, 1, 0, 0, 1, 1, 0, 0, 0]);
            assert_eq!(of("position_ids").1, [0, 1, 0, 1, 0, 0, 1, 2, 0, 0]);
            assert_eq!(of("cu_seqlens"), (vec![4], vec![0, 2, 4, 7]));
            assert_eq!(of("cu_seqlens_padded"), (vec![4], vec![0, 2, 5, 10]));
            assert_eq!(of("max_seqlen"), (vec![1], vec![5]));
            assert_eq!(contents.numbers, []);
        });
        // A skipped document is a sequence without tokens.
        assembled(PackForm::Thd, Some(0), |contents, slot| {
            let of = |name| values(contents, slot, name);
            assert_eq!(of("labels").1, [-100, -100, 21, -100, -100, 23, 24, -100, -100, -100]);
            assert_eq!(of("cu_seqlens").1, [0, 0, 2, 5]);
            assert_eq!(of("cu_seqlens_padded").1, [0, 2, 5, 10]);
        });
    }

    #[test]
    fn rows_of_document_ids_have_the_labels_of_the_next_tokens() {
        assembled(PackForm::DocumentIds, None, |contents, slot| {
            let of = |name| values(contents, slot, name);
            assert_eq!(of("input_ids"), (vec![2, 5], vec![10, 11, 20, 21, 9, 22, 23, 24, 9, 9]));
            assert_eq!(of("labels").1, [11, -100, 21, -100, -100, 23, 24, -100, -100, -100]);
            assert_eq!(of("positions").1, [0, 1, 0, 1, 0, 0, 1, 2, 0, 0]);
            assert_eq!(of("document_ids").1, [0, 0, 1, 1, -1, 0, 0, 0, -1, -1]);
        });
    }

    #[test]
    fn a_limit_of_sequences_makes_the_starts_of_all_batches_as_many() {
        let config = PackConfig { length: 5, form: PackForm::Thd, max_sequences: Some(3), ..PackConfig::default() };
        let ids = Output { name: "tokens".to_owned(), dtype: DType::Int64, shape: RowShape::RaggedArray };
        let (layout, (packs, rows)) = (PackLayout::new(&config, &[ids], false, 2).expect("a layout"), packed());
        let rows: Vec<_> = rows.iter().map(|row| Some(&**row)).collect();
        let mut slot = vec![0xa5; layout.bytes()];
        let contents = layout.assemble(&packs, &rows, None, &mut slot).expect("rows of ids").expect("as planned");
        assert_eq!(values(&contents, &slot, "cu_seqlens"), (vec![7], vec![0, 2, 4, 7, 7, 7, 7]));
        assert_eq!(values(&contents, &slot, "cu_seqlens_padded"), (vec![7], vec![0, 2, 5, 10, 10, 10, 10]));
    }

    #[test]
    fn the_tokens_of_a_skipped_document_are_padding() {
        assembled(PackForm::Segments, Some(0), |contents, slot| {
            let of = |name| values(contents, slot, name);
            assert_eq!(of("input_ids").1, [9, 9, 20, 21, 9, 22, 23, 24, 9, 9]);
            assert_eq!(of("segment_ids").1, [0, 0, 1, 1, 0, 1, 1, 1, 0, 0]);
        });
        assembled(PackForm::PaddingFree, Some(1), |contents, slot| {
            assert_eq!(values(contents, slot, "cu_seq_lens_q"), (vec![2], vec![0, 2]));
        });
    }

    #[test]
    fn a_document_with_other_tokens_than_planned_is_found_and_never_cut() {
        let ((packs, mut rows), layout) = (packed(), layout(PackForm::Segments));
        rows[1] = ragged_of(DType::Int64, &[20, 21, 22, 23, 24, 25]);
        let rows: Vec<_> = rows.iter().map(|row| Some(&**row)).collect();
        let mut slot = vec![0; layout.bytes()];
        let found = layout.assemble(&packs, &rows, None, &mut slot).expect("rows of ids").expect_err("six tokens");
        assert_eq!((found.row, found.planned, found.found), (1, 5, 6));
    }

    #[test]
    fn labels_that_come_with_the_ids_are_the_labels_of_their_tokens() {
        let ids = Output { name: "ids".to_owned(), dtype: DType::Int64, shape: RowShape::RaggedArray };
        let outputs = [ids.clone(), Output { name: LABELS.to_owned(), ..ids }];
        let (packs, rows) = packed();
        let labels = [ragged_of(DType::Int64, &[-100, 7]), ragged_of(DType::Int64, &[1, -100, 3, -100, -100])];
        let (rows, labels) = (rows.iter().map(|row| Some(&**row)), labels.iter().map(|row| Some(&**row)));
        let (rows, labels): (Vec<_>, Vec<_>) = (rows.collect(), labels.collect());
        // A form without labels has them after its outputs.
        for form in [PackForm::IndexedMask, PackForm::Segments] {
            let config = PackConfig { length: 5, form, ..PackConfig::default() };
            let layout = PackLayout::new(&config, &outputs, false, 2).expect("a layout");
            let mut slot = vec![0xa5; layout.bytes()];
            let contents = layout.assemble(&packs, &rows, Some(&labels), &mut slot).expect("rows").expect("as planned");
            let expected = vec![-100, 7, 1, -100, -100, 3, -100, -100, -100, -100];
            assert_eq!(values(&contents, &slot, "labels"), (vec![2, 5], expected));
        }
        let config = PackConfig { length: 5, form: PackForm::Thd, ..PackConfig::default() };
        let e = PackLayout::new(&config, &outputs, false, 2).expect_err("shifted labels").to_string();
        assert!(e.contains("shifts labels"), "{e}");
    }

    #[test]
    fn labels_of_conversations_are_shifted_and_none_is_the_first_of_a_sequence() {
        let ids = Output { name: "input_ids".to_owned(), dtype: DType::Int64, shape: RowShape::RaggedArray };
        let outputs = [ids.clone(), Output { name: LABELS.to_owned(), ..ids }];
        let (packs, rows) = packed();
        let labels = [ragged_of(DType::Int64, &[10, 11]), ragged_of(DType::Int64, &[-100, -100, 22, -100, 24])];
        let (rows, labels) = (rows.iter().map(|row| Some(&**row)), labels.iter().map(|row| Some(&**row)));
        let (rows, labels): (Vec<_>, Vec<_>) = (rows.collect(), labels.collect());
        for (form, expected) in [
            (PackForm::IndexedMask, [-100, 11, -100, -100, -100, -100, -100, 24, -100, -100]),
            (PackForm::Segments, [-100, 11, -100, -100, -100, -100, -100, 24, -100, -100]),
            (PackForm::Thd, [11, -100, -100, -100, -100, -100, 24, -100, -100, -100]),
        ] {
            let config = PackConfig { length: 5, form, pad: 9, ..PackConfig::default() };
            let layout = PackLayout::new(&config, &outputs, true, 2).expect("a layout");
            let mut slot = vec![0xa5; layout.bytes()];
            let contents = layout.assemble(&packs, &rows, Some(&labels), &mut slot).expect("rows").expect("as planned");
            assert_eq!(values(&contents, &slot, "labels").1, expected, "{form:?}");
            if form == PackForm::Thd {
                assert_eq!(values(&contents, &slot, "loss_mask").1, [1, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
            }
        }
    }

    #[test]
    fn types_without_room_for_labels_and_padding_are_rejected() {
        let error = |form, dtype, pad, name: &str| {
            let config = PackConfig { length: 5, form, pad, ..PackConfig::default() };
            let ids = Output { name: name.to_owned(), dtype, shape: RowShape::RaggedArray };
            PackLayout::new(&config, &[ids], false, 2).expect_err("rejected").to_string()
        };
        assert!(error(PackForm::PaddingFree, DType::UInt16, 0, "ids").contains("signed `dtype`"));
        assert!(error(PackForm::Segments, DType::UInt16, 70_000, "ids").contains("window.pad"));
        assert!(error(PackForm::PaddingFree, DType::Int64, 0, "labels").contains("rename the field"));
    }
}
