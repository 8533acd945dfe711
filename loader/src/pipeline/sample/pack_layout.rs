//! Layout of a batch of packs in its slot, and the copy of documents into it.
//!
//! ```text
//!  rows: ids of each document --fragments--> padding_free: one row of all sequences, and where each begins
//!                                       `--> the remaining forms: a row for each pack, padded at its end
//! ```
//!
//! A form is a table of outputs. Each output has a kind, which is how the tokens of a sequence become its elements.

use crate::config::{PackConfig, PackForm};
use crate::decode::ragged::{elements, read_ragged};
use crate::decode::{DType, Output, RowShape, numeric};
use crate::error::{Error, Result};
use crate::pipeline::plan::{PackedRows, RowFragment};

/// Alignment of outputs, as of all batches.
const ALIGN_BYTES: usize = 256;

/// Label of a token that no loss counts.
const NO_LABEL: i64 = -100;

/// Meaning of the elements of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementKind {
    /// Token ids.
    Ids,
    /// Token ids, except the first of each sequence: no token of its sequence predicts it.
    Labels,
    /// Number of the token in its sequence, from 0.
    Positions,
    /// Number of the sequence in its pack, from this one; the padding has one less.
    Sequences(i64),
    /// 1 for tokens, 0 for padding.
    Mask,
    /// First token of each sequence, and the number of all tokens.
    Starts,
}

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

/// Layout of batches of packs.
#[derive(Debug)]
pub(crate) struct PackLayout {
    is_flat: bool,
    /// Tokens of a pack.
    length: usize,
    /// An element of padding.
    pad: Vec<u8>,
    dtype: DType,
    outputs: Vec<PackOutput>,
    bytes: usize,
}

impl PackLayout {
    /// Layout of batches of `packs` packs as `config` has them, with token ids as the output `ids`.
    ///
    /// # Errors
    ///
    /// `Config` for ids of a type that has no room for a label that does not count or for the padding, and for batches
    /// that do not fit into memory addresses.
    pub(crate) fn new(config: &PackConfig, ids: &Output, packs: usize) -> Result<Self> {
        let (name, dtype) = (&*ids.name, ids.dtype);
        let table: &[(&str, ElementKind, DType)] = match config.form {
            PackForm::PaddingFree => &[
                (name, ElementKind::Ids, dtype),
                ("labels", ElementKind::Labels, dtype),
                ("position_ids", ElementKind::Positions, DType::Int64),
                ("cu_seq_lens_q", ElementKind::Starts, DType::Int32),
                ("cu_seq_lens_k", ElementKind::Starts, DType::Int32),
            ],
            PackForm::Segments => &[
                (name, ElementKind::Ids, dtype),
                ("segment_ids", ElementKind::Sequences(1), DType::Int32),
                ("positions", ElementKind::Positions, DType::Int32),
            ],
            PackForm::IndexedMask => &[
                (name, ElementKind::Ids, dtype),
                ("labels", ElementKind::Labels, dtype),
                ("attention_mask", ElementKind::Sequences(1), DType::Int64),
                ("position_ids", ElementKind::Positions, DType::Int64),
            ],
            PackForm::SequenceId => &[
                (name, ElementKind::Ids, dtype),
                ("labels", ElementKind::Labels, dtype),
                ("attention_mask", ElementKind::Mask, DType::Int64),
                ("sequence_id", ElementKind::Sequences(0), DType::Int64),
            ],
        };
        let element = |value: i64| {
            let mut bytes = vec![0; dtype.size()];
            numeric::fill(value, &mut bytes, dtype).map(|()| bytes)
        };
        if table.iter().any(|(_, kind, _)| *kind == ElementKind::Labels) {
            let small = |_| {
                let message = "labels that no loss counts are -100: pass a signed `dtype` to the field of the ids";
                Error::config(message).with("field", name).with("dtype", dtype)
            };
            element(NO_LABEL).map_err(small)?;
        }
        let unfit = |_| Error::config("window.pad does not fit the type of the ids").with("dtype", dtype);
        let pad = element(config.pad).map_err(unfit)?;
        let length = config.length as usize;
        let too_large = || Error::config("a batch of packs is too large: lower batch_size or window.length");
        let mut outputs: Vec<PackOutput> = Vec::new();
        let mut bytes = 0_usize;
        for &(name, kind, dtype) in table {
            if outputs.iter().any(|output| output.name == name) {
                let message = "packs have an output of this name: rename the field of the ids";
                return Err(Error::config(message).with("field", name));
            }
            let offset = bytes.next_multiple_of(ALIGN_BYTES);
            // A sequence has at least one token.
            let count =
                elements(&[packs, length]).and_then(|n| n.checked_add(usize::from(kind == ElementKind::Starts)));
            let all = count.and_then(|n| n.checked_mul(dtype.size())).filter(|all| *all < isize::MAX as usize / 2);
            bytes = offset.checked_add(all.ok_or_else(too_large)?).ok_or_else(too_large)?;
            outputs.push(PackOutput { name: name.to_owned(), kind, dtype, offset });
        }
        Ok(Self { is_flat: config.form == PackForm::PaddingFree, length, pad, dtype, outputs, bytes })
    }

    /// Bytes of a slot.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Names of the outputs.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = Output> + '_ {
        let shape = || RowShape::Fixed(if self.is_flat { Vec::new() } else { vec![self.length] });
        self.outputs.iter().map(move |output| Output { name: output.name.clone(), dtype: output.dtype, shape: shape() })
    }

    /// Copies the fragments of `packs` from `rows`, which are ragged arrays of ids, into `slot`. Rows that were skipped
    /// are `None`; their tokens become padding.
    ///
    /// # Errors
    ///
    /// The row of a document with other tokens than planned; `Internal` for a row that is no list of ids.
    pub(super) fn assemble(
        &self,
        packs: &PackedRows,
        rows: &[Option<&[u8]>],
        slot: &mut [u8],
    ) -> Result<std::result::Result<PackContents<'_>, LengthMismatch>> {
        let mut ids: Vec<Option<&[u8]>> = Vec::with_capacity(rows.len());
        for row in rows {
            ids.push(match row {
                None => None,
                Some(row) => Some(self.ids_of(row)?),
            });
        }
        let size = self.dtype.size();
        for fragment in &packs.fragments {
            let row = fragment.row as usize;
            let found = ids.get(row).copied().flatten().map(|ids| ids.len() / size);
            let planned = fragment.document_tokens;
            if let Some(found) = found.filter(|found| *found != planned as usize) {
                return Ok(Err(LengthMismatch { row, planned, found }));
            }
        }
        let sequences = self.sequences(packs, &ids);
        Ok(Ok(if self.is_flat { self.fill_flat(&sequences, slot) } else { self.fill_rows(packs, &sequences, slot) }))
    }

    fn ids_of<'r>(&self, row: &'r [u8]) -> Result<&'r [u8]> {
        let (dtype, _, ids) = read_ragged(row)?;
        if dtype != self.dtype {
            return Err(Error::internal("a row of ids has a different type"));
        }
        Ok(ids)
    }

    /// The fragments with their ids, without the fragments of skipped rows.
    fn sequences<'r>(&self, packs: &PackedRows, ids: &[Option<&'r [u8]>]) -> Vec<(RowFragment, &'r [u8])> {
        let size = self.dtype.size();
        let of = |fragment: &RowFragment| {
            let ids = ids.get(fragment.row as usize).copied().flatten()?;
            let first = fragment.first as usize * size;
            Some((*fragment, &ids[first..first + fragment.tokens as usize * size]))
        };
        packs.fragments.iter().filter_map(of).collect()
    }

    fn fill_flat(&self, sequences: &[(RowFragment, &[u8])], slot: &mut [u8]) -> PackContents<'_> {
        let total: usize = sequences.iter().map(|(fragment, _)| fragment.tokens as usize).sum();
        let longest = sequences.iter().map(|(fragment, _)| fragment.tokens).max().unwrap_or(0);
        let mut tensors = Vec::new();
        for output in &self.outputs {
            let size = output.dtype.size();
            let room = &mut slot[output.offset..];
            let shape = if output.kind == ElementKind::Starts {
                let mut start = 0;
                for (at, tokens) in sequences.iter().map(|(fragment, _)| fragment.tokens).chain([0]).enumerate() {
                    write_run(&mut room[at * size..][..size], output.dtype, start, 0);
                    start += i64::from(tokens);
                }
                vec![sequences.len() as i64 + 1]
            } else {
                let mut at = 0;
                for (fragment, ids) in sequences {
                    let tokens = fragment.tokens as usize;
                    self.write(output, ids, 0, &mut room[at * size..(at + tokens) * size]);
                    at += tokens;
                }
                vec![1, total as i64]
            };
            tensors.push(PackTensor { name: &output.name, dtype: output.dtype, offset: output.offset, shape });
        }
        let longest = i64::from(longest);
        PackContents { tensors, numbers: vec![("max_length_q", longest), ("max_length_k", longest)] }
    }

    fn fill_rows(&self, packs: &PackedRows, sequences: &[(RowFragment, &[u8])], slot: &mut [u8]) -> PackContents<'_> {
        for output in &self.outputs {
            let size = output.dtype.size();
            let mut rest = sequences;
            for pack in 0..packs.packs {
                let count = rest.iter().take_while(|(fragment, _)| fragment.pack as usize == pack).count();
                let (of_pack, others) = rest.split_at(count);
                rest = others;
                let row = &mut slot[output.offset + pack * self.length * size..][..self.length * size];
                let mut end = 0;
                for (number, (fragment, ids)) in of_pack.iter().enumerate() {
                    let start = fragment.offset as usize;
                    self.write_padding(output, &mut row[end * size..start * size]);
                    end = start + fragment.tokens as usize;
                    self.write(output, ids, number as i64, &mut row[start * size..end * size]);
                }
                self.write_padding(output, &mut row[end * size..]);
            }
        }
        let shape = vec![packs.packs as i64, self.length as i64];
        let tensors = self.outputs.iter().map(|output| {
            let &PackOutput { dtype, offset, .. } = output;
            PackTensor { name: &output.name, dtype, offset, shape: shape.clone() }
        });
        PackContents { tensors: tensors.collect(), numbers: Vec::new() }
    }

    /// Writes the elements of a sequence, which has this `number` in its pack.
    fn write(&self, output: &PackOutput, ids: &[u8], number: i64, room: &mut [u8]) {
        let dtype = output.dtype;
        match output.kind {
            ElementKind::Ids => room.copy_from_slice(ids),
            ElementKind::Labels => {
                room.copy_from_slice(ids);
                write_run(&mut room[..dtype.size()], dtype, NO_LABEL, 0);
            }
            ElementKind::Positions => write_run(room, dtype, 0, 1),
            ElementKind::Sequences(first) => write_run(room, dtype, first + number, 0),
            ElementKind::Mask => write_run(room, dtype, 1, 0),
            ElementKind::Starts => {}
        }
    }

    fn write_padding(&self, output: &PackOutput, room: &mut [u8]) {
        let value = match output.kind {
            ElementKind::Ids => {
                return room.chunks_exact_mut(self.pad.len()).for_each(|id| id.copy_from_slice(&self.pad));
            }
            ElementKind::Labels => NO_LABEL,
            ElementKind::Sequences(first) => first - 1,
            ElementKind::Positions | ElementKind::Mask | ElementKind::Starts => 0,
        };
        write_run(room, output.dtype, value, 0);
    }
}

/// Writes `first` and the numbers that follow it in steps of `step`. All fit into the type.
fn write_run(room: &mut [u8], dtype: DType, first: i64, step: i64) {
    let values = (0..).map(|at: i64| first + at * step);
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
    use crate::decode::ragged::tests::ragged_of;
    use crate::order::SampleId;

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
        PackLayout::new(&config, &ids, 2).expect("a layout")
    }

    /// Values of an output, with its shape.
    fn values(contents: &PackContents<'_>, slot: &[u8], name: &str) -> (Vec<i64>, Vec<i64>) {
        let tensor = contents.tensors.iter().find(|tensor| tensor.name == name).expect(name);
        let count = tensor.shape.iter().product::<i64>() as usize;
        let bytes = &slot[tensor.offset..][..count * tensor.dtype.size()];
        let values = match tensor.dtype {
            DType::Int64 => bytes.as_chunks().0.iter().map(|bytes| i64::from_ne_bytes(*bytes)).collect(),
            _ => bytes.as_chunks().0.iter().map(|bytes| i32::from_ne_bytes(*bytes).into()).collect(),
        };
        (tensor.shape.clone(), values)
    }

    fn assembled(form: PackForm, skipped: Option<usize>, check: impl Fn(&PackContents<'_>, &[u8])) {
        let ((packs, rows), layout) = (packed(), layout(form));
        let rows: Vec<_> = rows.iter().enumerate().map(|(at, row)| (Some(at) != skipped).then_some(&**row)).collect();
        // A slot has the bytes of an earlier batch.
        let mut slot = vec![0xa5; layout.bytes()];
        let contents = layout.assemble(&packs, &rows, &mut slot).expect("rows of ids").expect("as planned");
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
        let found = layout.assemble(&packs, &rows, &mut slot).expect("rows of ids").expect_err("six tokens");
        assert_eq!((found.row, found.planned, found.found), (1, 5, 6));
    }

    #[test]
    fn types_without_room_for_labels_and_padding_are_rejected() {
        let error = |form, dtype, pad, name: &str| {
            let config = PackConfig { length: 5, form, pad, ..PackConfig::default() };
            let ids = Output { name: name.to_owned(), dtype, shape: RowShape::RaggedArray };
            PackLayout::new(&config, &ids, 2).expect_err("rejected").to_string()
        };
        assert!(error(PackForm::PaddingFree, DType::UInt16, 0, "ids").contains("signed `dtype`"));
        assert!(error(PackForm::Segments, DType::UInt16, 70_000, "ids").contains("window.pad"));
        assert!(error(PackForm::PaddingFree, DType::Int64, 0, "labels").contains("rename the field"));
    }
}
