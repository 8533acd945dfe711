use super::*;
use crate::ErrorKind;
use crate::encoding::DType;
use crate::{OffsetTable, Scratch};

/// Builder of an `.idx` and a `.bin` file of `u16` ids that count from 0.
#[derive(Clone)]
struct Files {
    magic: Vec<u8>,
    version: u64,
    code: u8,
    lengths: Vec<i32>,
    pointers: Vec<i64>,
    bounds: Option<Vec<i64>>,
    modes: bool,
}

impl Files {
    fn new(lengths: &[i32]) -> Self {
        let pointers =
            lengths.iter().scan(0, |end, length| Some(std::mem::replace(end, *end + 2 * i64::from(*length))));
        Self {
            magic: b"MMIDIDX\0\0".to_vec(),
            version: 1,
            code: 8,
            lengths: lengths.to_vec(),
            pointers: pointers.collect(),
            bounds: Some((0..=lengths.len() as i64).collect()),
            modes: false,
        }
    }

    fn idx(&self) -> Vec<u8> {
        let mut file = self.magic.clone();
        file.extend(self.version.to_le_bytes());
        file.push(self.code);
        file.extend((self.lengths.len() as u64).to_le_bytes());
        file.extend(self.bounds.iter().flat_map(|bounds| (bounds.len() as u64).to_le_bytes()));
        file.extend(self.lengths.iter().flat_map(|length| length.to_le_bytes()));
        file.extend(self.pointers.iter().flat_map(|pointer| pointer.to_le_bytes()));
        file.extend(self.bounds.iter().flatten().flat_map(|bound| bound.to_le_bytes()));
        file.extend(vec![0; if self.modes { self.lengths.len() } else { 0 }]);
        file
    }

    fn bin(&self) -> Vec<u8> {
        let tokens = self.lengths.iter().map(|length| *length as u16).sum::<u16>();
        (0..tokens).flat_map(u16::to_le_bytes).collect()
    }

    /// Cuts of shards of 16 bytes.
    fn cuts(&self) -> crate::Result<Vec<Cut>> {
        let (idx, bin) = (self.idx(), self.bin());
        Header::read(&*idx)?.cuts(&*idx, bin.len() as u64, 16)
    }
}

/// Samples of `part`, read where they are and from the shard's own file.
fn samples(files: &Files, part: &TokenPart) -> Vec<Vec<u16>> {
    let (idx, bin) = (files.idx(), files.bin());
    let cut = |(at, bytes): &(u64, u64)| idx[*at as usize..][..*bytes as usize].to_vec();
    let tables: Vec<_> = part.index_ranges().iter().map(cut).collect();
    let own = part.assembled(&tables, &bin[part.start as usize..][..part.bytes as usize]).unwrap();
    assert_eq!(own.len() as u64, part.assembled_bytes());
    let in_place = part.offsets_in_file(&*idx, bin.len() as u64).unwrap();
    let parsed = || OffsetTable::parse(&own, part.len(), OffsetTable::bytes(part.len()), own.len() as u64, false);
    let own_places = part.offsets_assembled().unwrap_or_else(parsed).unwrap();
    assert_eq!([in_place.len(), own_places.len()], [part.len() as usize; 2]);
    let sample = |file: &[u8], table: &OffsetTable, i| {
        let (start, bytes) = table.range(i).unwrap();
        file[start as usize..][..bytes as usize].chunks_exact(2).map(|id| u16::from_le_bytes([id[0], id[1]])).collect()
    };
    let found: Vec<Vec<u16>> = (0..in_place.len()).map(|i| sample(&bin, &in_place, i)).collect();
    assert_eq!(found, (0..own_places.len()).map(|i| sample(&own, &own_places, i)).collect::<Vec<_>>());
    found
}

fn documents(files: &Files) -> Vec<Vec<u16>> {
    let cuts = files.cuts().unwrap();
    let header = Header::read(&*files.idx()).unwrap();
    let part = |pair: &[Cut]| TokenPart {
        dtype: header.dtype,
        start: 2 * pair[0].token,
        bytes: 2 * (pair[1].token - pair[0].token),
        samples: Samples::Documents { header, from: pair[0], to: pair[1] },
    };
    cuts.windows(2).flat_map(|pair| samples(files, &part(pair))).collect()
}

#[test]
fn documents_are_the_samples_of_shards_that_are_cut_between_them() {
    let files = Files::new(&[3, 4, 0, 5, 20, 1]);
    let starts = files.cuts().unwrap().iter().map(|cut| cut.token).collect::<Vec<_>>();
    assert_eq!(starts, [0, 7, 12, 32, 33]);
    let ids = |range: std::ops::Range<u16>| range.collect::<Vec<_>>();
    assert_eq!(documents(&files), [ids(0..3), ids(3..7), ids(7..7), ids(7..12), ids(12..32), ids(32..33)]);
}

#[test]
fn documents_of_several_sequences_are_whole() {
    let files = Files { bounds: Some(vec![0, 2, 2, 3, 6]), ..Files::new(&[3, 4, 0, 5, 20, 1]) };
    assert_eq!(documents(&files), [(0..7).collect::<Vec<_>>(), vec![], vec![], (7..33).collect()]);
}

#[test]
fn a_file_without_bounds_has_a_document_for_each_sequence() {
    let with = documents(&Files::new(&[3, 4, 5]));
    // fairseq's, and Megatron's if no document was ended.
    for bounds in [None, Some(vec![]), Some(vec![0])] {
        assert_eq!(documents(&Files { bounds, ..Files::new(&[3, 4, 5]) }), with);
    }
    assert_eq!(documents(&Files { modes: true, ..Files::new(&[3, 4, 5]) }), with);
}

#[test]
fn windows_are_over_all_documents_and_the_last_tokens_are_left_out() {
    let files = Files::new(&[3, 4, 0, 5]);
    let idx = files.idx();
    let tokens = Header::read(&*idx).unwrap().tokens(&*idx, files.bin().len() as u64).unwrap();
    assert_eq!(tokens, 12);
    let windows = |tokens, stride, count| {
        let window = TokenWindow { tokens, stride };
        let part = TokenPart { dtype: DType::UInt16, start: 2, bytes: 22, samples: Samples::Windows(window) };
        assert_eq!((window.count(11), part.len()), (count, count));
        samples(&files, &part)
    };
    assert_eq!(windows(5, 4, 2), [[1, 2, 3, 4, 5], [5, 6, 7, 8, 9]]);
    assert_eq!(windows(5, 5, 2), [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]);
    assert_eq!(windows(2, 7, 2), [[1, 2], [8, 9]]);
    assert_eq!(windows(11, 1, 1).len(), 1);
    assert_eq!(windows(12, 1, 0).len(), 0);
}

#[test]
fn spans_and_counts_of_windows_agree() {
    for (tokens, stride) in [(5, 4), (5, 5), (5, 9), (1, 1)] {
        let window = TokenWindow { tokens, stride };
        for count in 0..20 {
            assert_eq!(window.count(window.span(count)), count);
            assert!(count == 0 || window.count(window.span(count) - 1) == count - 1);
        }
    }
}

#[test]
fn hostile_indexes_are_rejected_with_the_reason() {
    type Spoil = fn(&mut Files);
    let cases: [(Spoil, &str); 17] = [
        (|f| f.magic = b"MMIDIDX\0".to_vec(), "must start with MMIDIDX"),
        (|f| f.magic = b"TNTIDX\0\0\0".to_vec(), "must start with MMIDIDX"),
        (|f| f.version = 2, "version 2"),
        (|f| f.code = 0, "type of the ids is not known (code 0)"),
        (|f| f.code = 7, "floating-point numbers"),
        (|f| f.lengths[1] = -4, "a sequence has a negative length (sequence 1, length -4)"),
        (|f| f.lengths[1] = 3, "(sequence 2, pointer 14, expected 12)"),
        (|f| f.lengths[3] = i32::MAX, "(bin_bytes 24, needed 4294967308, sequence 3)"),
        (|f| f.pointers[0] = 2, "(sequence 0, pointer 2, expected 0)"),
        (|f| f.pointers[2] = -1, "(sequence 2, pointer -1, expected 14)"),
        (|f| f.pointers[2] = i64::MAX, "(sequence 2,"),
        (|f| f.bounds = Some(vec![1, 4]), "does not start at the first sequence"),
        (|f| f.bounds = Some(vec![0, 3]), "sequences after the last document (end 3, sequences 4)"),
        (|f| f.bounds = Some(vec![0, 5]), "(document 0, start 0, end 5)"),
        (|f| f.bounds = Some(vec![0, 3, 2, 4]), "(document 1, start 3, end 2)"),
        (|f| f.bounds = Some(vec![0, -1, 4]), "(document 0, end -1)"),
        (|f| f.bounds = Some(vec![0, i64::MAX, 4]), "a document ends before it starts"),
    ];
    for (spoil, says) in cases {
        let bin_bytes = 24;
        let mut files = Files::new(&[3, 4, 0, 5]);
        spoil(&mut files);
        let idx = files.idx();
        let error = Header::read(&*idx).and_then(|header| header.cuts(&*idx, bin_bytes, 16)).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(matches!(error.kind(), ErrorKind::Format | ErrorKind::Unsupported), "{error}");
    }
}

#[test]
fn an_index_of_any_wrong_length_is_rejected() {
    let files = Files::new(&[3, 4, 0, 5]);
    let idx = files.idx();
    for len in 0..idx.len() {
        // fairseq's file of the same sequences would have these bytes, and then its tables are wrong.
        let cuts = |idx: &[u8]| Header::read(idx)?.cuts(idx, 24, 16);
        assert_eq!(cuts(&idx[..len]).unwrap_err().kind(), ErrorKind::Format, "{len}");
    }
    for counts in [u64::MAX, u64::MAX / 12, 1 << 40] {
        for at in [18, 26] {
            let mut idx = idx.clone();
            idx[at..at + 8].copy_from_slice(&counts.to_le_bytes());
            assert_eq!(Header::read(&*idx).unwrap_err().kind(), ErrorKind::Format);
        }
    }
}

#[test]
fn the_number_of_tokens_is_checked_against_the_ids() {
    let tokens = |spoil: fn(&mut Files)| {
        let mut files = Files::new(&[3, 4, 0, 5]);
        spoil(&mut files);
        let idx = files.idx();
        Header::read(&*idx)?.tokens(&*idx, 24)
    };
    assert_eq!(tokens(|_| ()).unwrap(), 12);
    let spoils: [fn(&mut Files); 6] = [
        |f| f.lengths[3] = 6,
        |f| f.lengths[3] = -1,
        |f| f.pointers[3] = 15,
        |f| f.pointers[3] = i64::MIN,
        |f| f.pointers[3] = i64::MAX - 1,
        |f| f.pointers[0] = 2,
    ];
    for spoil in spoils {
        assert_eq!(tokens(spoil).unwrap_err().kind(), ErrorKind::Format);
    }
    assert_eq!(tokens(|f| (f.lengths, f.pointers, f.bounds) = (vec![], vec![], Some(vec![0]))).unwrap(), 0);
}

#[test]
fn an_index_that_has_changed_is_noticed() {
    let files = Files::new(&[3, 4, 5]);
    let cuts = files.cuts().unwrap();
    let header = Header::read(&*files.idx()).unwrap();
    let samples = Samples::Documents { header, from: cuts[0], to: cuts[1] };
    let part = TokenPart { dtype: header.dtype, start: 0, bytes: 2 * cuts[1].token, samples };
    let changed = Files::new(&[3, 9, 0]);
    let error = part.offsets_in_file(&*changed.idx(), 24).unwrap_err();
    assert!(error.to_string().contains("has changed"), "{error}");
}

#[test]
fn a_sample_is_the_bytes_of_its_column() {
    let ids = [1_u16, 2, 3].map(u16::to_le_bytes).concat();
    let mut scratch = Scratch::default();
    for (window, fits) in [(None, true), (Some(3), true), (Some(4), false)] {
        let window = window.map(|tokens| TokenWindow { tokens, stride: 1 });
        let layout = TokenPart::layout(DType::UInt16, window).unwrap();
        assert_eq!(layout.around(0), Some((0, 0)));
        assert_eq!(layout.sample_bytes(), window.map(|window| 2 * window.tokens as usize));
        let split = layout.split(&ids, &mut scratch);
        assert_eq!(split.is_ok(), fits);
        if let Ok(columns) = split {
            let crate::Value::Array(array) = layout.columns[0].encoding.decode(columns.get(0)).unwrap() else {
                panic!("no array");
            };
            assert_eq!((&*array.shape, &*array.data), (&[3][..], &*ids));
        }
    }
    let odd = TokenPart::layout(DType::UInt16, None).unwrap();
    assert!(odd.columns[0].encoding.decode(&ids[..5]).is_err());
}
