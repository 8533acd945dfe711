//! Records that are made here byte by byte; `tests/data/tfrecord` has TensorFlow's.

use super::record::{front_features, masked_crc};
use super::{FeatureCounts, compression_of, count_features, count_whole_records};
use crate::columns::Scratch;
use crate::index::{FileInfo, Index, Shard};
use crate::layout::Layout;
use crate::{ColumnForm, ColumnUse, Compression, Digests, ReadAt};
use forebay_core::error::{ErrorKind, Result};
use std::sync::Arc;

fn record(data: &[u8]) -> Vec<u8> {
    let mut record = (data.len() as u64).to_le_bytes().to_vec();
    record.extend(masked_crc(&record).to_le_bytes());
    record.extend(data);
    record.extend(masked_crc(data).to_le_bytes());
    record
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number > 127 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

fn field(number: u64, content: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

enum List<'a> {
    Bytes(&'a [&'a [u8]]),
    Floats(&'a [f32]),
    Ints(&'a [i64]),
    /// As old writers have numbers: one by one.
    LooseFloats(&'a [f32]),
    LooseInts(&'a [i64]),
    None,
}

fn feature(list: &List<'_>) -> Vec<u8> {
    match list {
        List::Bytes(values) => field(1, &values.iter().flat_map(|value| field(1, value)).collect::<Vec<_>>()),
        List::Floats(values) => field(2, &field(1, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())),
        List::Ints(values) => field(3, &field(1, &values.iter().flat_map(|v| varint(*v as u64)).collect::<Vec<_>>())),
        List::LooseFloats(values) => {
            field(2, &values.iter().flat_map(|v| [vec![0x0d], v.to_le_bytes().to_vec()].concat()).collect::<Vec<_>>())
        }
        List::LooseInts(values) => {
            field(3, &values.iter().flat_map(|v| [vec![0x08], varint(*v as u64)].concat()).collect::<Vec<_>>())
        }
        List::None => Vec::new(),
    }
}

fn example(features: &[(&str, List<'_>)]) -> Vec<u8> {
    let entry =
        |(name, list): &(&str, List<'_>)| field(1, &[field(1, name.as_bytes()), field(2, &feature(list))].concat());
    field(1, &features.iter().flat_map(entry).collect::<Vec<_>>())
}

fn required(name: &str) -> ColumnUse<'_> {
    ColumnUse { name, has_default: false, form: ColumnForm::Value }
}

fn shard(file: &[u8], counts: &FeatureCounts) -> Shard {
    let raw_data = FileInfo { basename: "a.tfrecord".into(), bytes: file.len() as u64, hashes: Digests::default() };
    let index = Index { shards: vec![Shard::new(Arc::new(Layout::tfrecord(counts)), counts.samples, raw_data)] };
    // As it is kept.
    let again = Index::parse(index.to_json().as_bytes(), "index.json").unwrap();
    assert_eq!(again, index);
    again.shards.into_iter().next().unwrap()
}

/// Returns the values of record `number`, by column.
fn values(layout: &Layout, shard: &Shard, file: &[u8], number: usize) -> Result<Vec<String>> {
    let (start, len) = shard.offsets(file)?.range(number)?;
    let mut scratch = Scratch::default();
    let columns = layout.split(&file[start as usize..][..len as usize], &mut scratch)?;
    let shown = layout.columns.iter().zip(columns.iter()).map(|(column, bytes)| {
        let name = &column.name;
        Ok(match &column.encoding {
            crate::Encoding::Bytes => format!("{name} {bytes:?}"),
            encoding => format!("{name} {:?}", encoding.decode(bytes)?),
        })
    });
    shown.collect()
}

fn three() -> Vec<u8> {
    let first = example(&[
        ("int", List::Ints(&[-5])),
        ("float", List::Floats(&[0.5])),
        ("text", List::Bytes(&[b"hi"])),
        ("ids", List::Ints(&[1, 1 << 40])),
        ("box", List::Floats(&[1.0, 2.0])),
        ("some", List::Ints(&[1])),
    ]);
    let second = example(&[
        ("some", List::None),
        ("ids", List::LooseInts(&[7])),
        ("box", List::LooseFloats(&[3.0, 4.0])),
        ("int", List::LooseInts(&[6])),
        ("float", List::LooseFloats(&[1.5])),
        ("text", List::Bytes(&[b""])),
    ]);
    let third = example(&[
        ("text", List::Bytes(&[b"x"])),
        ("int", List::Ints(&[8])),
        ("int", List::Ints(&[9])),
        ("float", List::Floats(&[2.5])),
        ("ids", List::Ints(&[])),
        ("box", List::Floats(&[5.0, 6.0])),
    ]);
    [first, second, third].iter().flat_map(|data| record(data)).collect()
}

#[test]
fn features_are_the_columns_of_records() {
    let file = three();
    let counts = count_features(&file[..]).unwrap();
    assert_eq!((counts.samples, &front_features(&file[..file.len() - 1]).unwrap().samples), (3, &2));
    let shard = shard(&file, &counts);
    let layout = shard.layout.projected(Some(&["box", "float", "int", "text"].map(required))).unwrap();
    let found: Vec<_> = (0..3).map(|number| values(&layout, &shard, &file, number).unwrap().join(", ")).collect();
    let floats = |a: f32, b: f32| format!("{:?}", [a.to_le_bytes(), b.to_le_bytes()].concat());
    let row = |boxes: String, float: &str, int: i32, text: &str| {
        format!(
            "box Array(Array {{ dtype: Float32, shape: [2], data: {boxes} }}), float Scalar(F32({float})), int \
             Int({int}), text Str({text:?})"
        )
    };
    assert_eq!(
        found,
        [
            row(floats(1.0, 2.0), "0.5", -5, "hi"),
            row(floats(3.0, 4.0), "1.5", 6, ""),
            row(floats(5.0, 6.0), "2.5", 9, "x")
        ]
    );
    // Of lists of any length.
    let ids = shard.layout.projected(Some(&["ids"].map(required))).unwrap();
    let shapes: Vec<_> = (0..2).map(|number| values(&ids, &shard, &file, number).unwrap()[0].clone()).collect();
    assert!(shapes[0].contains("Int64, shape: [2]") && shapes[1].contains("Int64, shape: [1]"), "{shapes:?}");
}

#[test]
fn a_feature_that_some_records_lack_is_read_where_it_is_wanted() {
    let file = three();
    let shard = shard(&file, &count_features(&file[..]).unwrap());
    let all = shard.layout.projected(None).unwrap();
    assert!(all.column("some").is_none() && all.column("int").is_some());
    let some = shard.layout.projected(Some(&["some"].map(required))).unwrap();
    assert_eq!(values(&some, &shard, &file, 0).unwrap(), ["some Int(1)"]);
    for number in [1, 2] {
        let e = values(&some, &shard, &file, number).unwrap_err();
        assert!(e.to_string().contains("no value of this feature") && e.to_string().contains("column some"), "{e}");
    }
    // With a default it may be absent.
    let with_default = [ColumnUse { name: "some", has_default: true, form: ColumnForm::Value }];
    assert!(
        values(&shard.layout.projected(Some(&with_default)).unwrap(), &shard, &file, 1)
            .is_err_and(|e| e.to_string().contains("0 bytes"))
    );
    // A layout that lacks a wanted column stays as it is, so that an error can name those that there are.
    assert_eq!(shard.layout.projected(Some(&["absent"].map(required))), None);
}

#[test]
fn records_that_are_no_examples_are_bytes() {
    let file: Vec<u8> = [&b"no example"[..], b"", b"\xff\xff"].iter().flat_map(|data| record(data)).collect();
    let shard = shard(&file, &count_features(&file[..]).unwrap());
    assert_eq!(values(&shard.layout, &shard, &file, 2).unwrap(), ["record [255, 255]"]);
    let mixed: Vec<u8> =
        [example(&[("a", List::Ints(&[1]))]), b"\xff".to_vec()].iter().flat_map(|data| record(data)).collect();
    let e = count_features(&mixed[..]).unwrap_err();
    assert!(e.to_string().contains("not a tf.train.Example, but the records before it are"), "{e}");
    // An empty record is an Example without features, and anything else.
    for first in [&b""[..], &field(2, b"")] {
        let file: Vec<u8> = [first, b"\xff\xff", b""].iter().flat_map(|data| record(data)).collect();
        let counts = count_features(&file[..]).unwrap();
        let mut merged = count_features(&record(b"")[..]).unwrap();
        merged.merge(&counts).unwrap();
        assert_eq!(Layout::tfrecord(&counts), Layout::tfrecord(&merged));
        assert_eq!(Layout::tfrecord(&counts).columns[0].name, super::RECORD);
    }
}

#[test]
fn every_record_has_its_bytes_as_a_column() {
    let file = three();
    let shard = shard(&file, &count_features(&file[..]).unwrap());
    let layout = shard.layout.projected(Some(&["int", super::RECORD].map(required))).unwrap();
    let found = values(&layout, &shard, &file, 1).unwrap();
    let (start, len) = shard.offsets(&file[..]).unwrap().range(1).unwrap();
    let data = &file[start as usize + 12..(start + u64::from(len)) as usize - 4];
    assert_eq!(found, ["int Int(6)".to_owned(), format!("record {data:?}")]);
    // A feature of that name comes first.
    let named = record(&example(&[("record", List::Ints(&[3]))]));
    let shard = self::shard(&named, &count_features(&named[..]).unwrap());
    let layout = shard.layout.projected(Some(&[super::RECORD].map(required))).unwrap();
    assert_eq!(values(&layout, &shard, &named, 0).unwrap(), ["record Int(3)"]);
}

#[test]
fn counts_of_a_layout_merge_as_the_original_ones() {
    let file = three();
    let mut all = vec![FeatureCounts::default()];
    // Of one, two and three records, of further ones, and of records that are no Examples.
    let ends: Vec<usize> = {
        let shard = shard(&file, &count_features(&file[..]).unwrap());
        let table = shard.offsets(&file[..]).unwrap();
        (0..3).map(|n| table.range(n).unwrap()).map(|(start, len)| start as usize + len as usize).collect()
    };
    all.extend(ends.iter().map(|end| count_features(&file[..*end]).unwrap()));
    let other =
        example(&[("text", List::Bytes(&[b"\xff"])), ("ids", List::Ints(&[1])), ("new", List::Floats(&[1.0, 2.0]))]);
    all.push(count_features(&record(&other)[..]).unwrap());
    let others = example(&[("text", List::Bytes(&[b"a", b"b"])), ("box", List::Floats(&[1.0, 2.0]))]);
    all.push(count_features(&record(&others)[..]).unwrap());
    let again = |counts: &FeatureCounts| FeatureCounts::of_layout(&Layout::tfrecord(counts), counts.samples).unwrap();
    // An empty list of a different type.
    let empty = example(&[("text", List::Ints(&[])), ("float", List::Bytes(&[])), ("int", List::Ints(&[4]))]);
    all.push(count_features(&[record(&empty), file].concat()[..]).unwrap());
    assert!(!all[6].is_partial() && count_features(&record(&empty)[..]).unwrap().is_partial());
    for a in &all {
        assert_eq!(Layout::tfrecord(&again(a)), Layout::tfrecord(a));
        for b in &all {
            let (mut original, mut kept) = (a.clone(), again(a));
            original.merge(b).unwrap();
            kept.merge(&again(b)).unwrap();
            if a.samples + b.samples > 0 && !a.is_partial() && !b.is_partial() {
                assert_eq!(Layout::tfrecord(&kept), Layout::tfrecord(&original), "{a:?} {b:?}");
            }
        }
    }
}

#[test]
fn the_compression_of_a_file_is_known_by_its_first_bytes() {
    let file = three();
    assert_eq!(compression_of(&file), None);
    assert_eq!(compression_of(b""), None);
    assert_eq!(compression_of(&Compression::GZIP.compress(&file).unwrap()), Some(Compression::GZIP));
    for level in [0, 1, 6, 9] {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(level));
        std::io::Write::write_all(&mut zlib, &file).unwrap();
        let packed = zlib.finish().unwrap();
        assert_eq!(compression_of(&packed), Some(Compression::ZLIB), "{level}");
        assert_eq!(Compression::ZLIB.decompress_all(&packed, 1 << 20).unwrap(), file);
        let e = Compression::ZLIB.decompress_all(&packed[..packed.len() - 1], 1 << 20).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Format);
    }
    // A first record with a length that looks like the head of a compressed file.
    let long = record(&vec![7; 0x8b1f]);
    assert_eq!(long[..2], [0x1f, 0x8b]);
    assert_eq!(compression_of(&long[..12]), None);
}

#[test]
fn features_that_do_not_fit_together_are_errors() {
    let of = |lists: &[List<'_>]| -> Vec<u8> {
        lists
            .iter()
            .flat_map(|list| record(&field(1, &field(1, &[field(1, b"a"), field(2, &feature(list))].concat()))))
            .collect()
    };
    let e = count_features(&of(&[List::Ints(&[1]), List::Floats(&[1.0])])[..]).unwrap_err();
    assert!(e.to_string().contains("differs between records: int64 and float (feature a"), "{e}");
    // A file with counts of its first records.
    let file = of(&[List::Ints(&[1]), List::Ints(&[1, 2]), List::Floats(&[1.0])]);
    let counts = front_features(&file[..of(&[List::Ints(&[1])]).len()]).unwrap().of_samples(3);
    let shard = shard(&file, &counts);
    let layout = shard.layout.projected(None).unwrap();
    assert_eq!(values(&layout, &shard, &file, 0).unwrap(), ["a Int(1)"]);
    for (number, says) in [(1, "several values"), (2, "a float here, but the records that were counted have a int64")] {
        let e = values(&layout, &shard, &file, number).unwrap_err();
        assert!(e.to_string().contains(says) && e.to_string().contains("column a"), "{e}");
    }
    // A SequenceExample after Examples.
    let mixed = [of(&[List::Ints(&[1])]), record(&field(2, b""))].concat();
    assert_eq!(count_features(&mixed[..]).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_list_without_a_value_may_be_of_any_type() {
    let of = |list: &[u8]| record(&field(1, &field(1, &[field(1, b"a"), field(2, list)].concat())));
    // Empty lists; lists with an unknown field alone; and a number instead of a text.
    let unknown = field(9, b"x");
    let ints = [field(3, b""), field(3, &unknown)];
    let floats = [field(2, b""), field(2, &unknown)];
    let texts = [field(1, b""), field(1, &unknown), field(1, &[8, 7])];
    let without_value = [&ints[..], &floats, &texts].concat();
    for (first, shown) in [
        (List::Ints(&[1, 2]), Some("shape: [0]")),
        (List::Floats(&[1.0, 2.0]), Some("shape: [0]")),
        (List::Bytes(&[b"x", b"y"]), Some("a [")),
        (List::Ints(&[1]), None),
        (List::Floats(&[1.0]), None),
        (List::Bytes(&[b"x"]), None),
    ] {
        let file = [of(&feature(&first)), without_value.iter().flat_map(|list| of(list)).collect()].concat();
        let shard = shard(&file, &count_features(&file[..]).unwrap());
        let layout = shard.layout.projected(Some(&["a"].map(required))).unwrap();
        for number in 1..=without_value.len() {
            match (values(&layout, &shard, &file, number), shown) {
                (Ok(found), Some(shown)) => assert!(found[0].contains(shown), "{number}: {found:?}"),
                (Err(e), None) => assert!(e.to_string().contains("no value of this feature"), "{number}: {e}"),
                (found, _) => panic!("{number}: {found:?}"),
            }
        }
    }
}

#[test]
fn every_damage_is_an_error() {
    let file = three();
    let shard = shard(&file, &count_features(&file[..]).unwrap());
    let layout = shard.layout.projected(Some(&["int", "text", "ids", "box"].map(required))).unwrap();
    let read = |bytes: &[u8]| (0..3).try_for_each(|number| values(&layout, &shard, bytes, number).map(drop));
    read(&file).unwrap();
    for len in 0..file.len() {
        assert_eq!(read(&file[..len]).unwrap_err().kind(), ErrorKind::Format, "{len}");
        // A file may end after any record.
        assert!(count_features(&file[..len]).is_err() || front_features(&file[..len]).unwrap().samples < 3, "{len}");
    }
    for at in 0..file.len() {
        for bit in 0..8 {
            let mut bad = file.clone();
            bad[at] ^= 1 << bit;
            assert_eq!(read(&bad).unwrap_err().kind(), ErrorKind::Format, "{at}");
            assert_eq!(count_features(&bad[..]).unwrap_err().kind(), ErrorKind::Format, "{at}");
        }
    }
}

#[test]
fn damaged_features_under_a_right_crc_are_errors_or_different_values() {
    let file = three();
    let counts = count_features(&file[..]).unwrap();
    let shard = shard(&file, &counts);
    let (_, len) = shard.offsets(&file[..]).unwrap().range(0).unwrap();
    let data = file[12..len as usize - 4].to_vec();
    let layout = shard.layout.projected(Some(&["int", "text", "ids", "box"].map(required))).unwrap();
    let mut scratch = Scratch::default();
    let mut check = |bad: &[u8]| {
        if let Err(e) = layout.split(&record(bad), &mut scratch) {
            assert!(matches!(e.kind(), ErrorKind::Format | ErrorKind::Unsupported), "{e}");
        }
        let _ = FeatureCounts::default().add(bad);
    };
    (0..data.len()).for_each(|len| check(&data[..len]));
    for at in 0..data.len() {
        for value in 0..=255 {
            let mut bad = data.clone();
            bad[at] = value;
            check(&bad);
        }
    }
}

#[test]
fn a_huge_length_takes_no_memory() {
    let huge = |length: u64| {
        let mut head = length.to_le_bytes().to_vec();
        head.extend(masked_crc(&head).to_le_bytes());
        head.extend([0; 8]);
        head
    };
    for length in [5, u64::from(u32::MAX), u64::MAX, u64::MAX - 15] {
        assert_eq!(count_features(&huge(length)[..]).unwrap_err().kind(), ErrorKind::Format, "{length}");
        assert_eq!(front_features(&huge(length)).map_or(0, |counts| counts.samples), 0);
    }
}

/// File that counts its reads.
struct Counted<'a>(&'a [u8], std::cell::Cell<usize>);

impl ReadAt for Counted<'_> {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<()> {
        self.1.set(self.1.get() + 1);
        self.0.read_at(into, offset)
    }
}

#[test]
fn the_offsets_of_short_records_take_few_reads() {
    let file: Vec<u8> = (0..10_000).flat_map(|_| record(b"short")).collect();
    let counted = Counted(&file, std::cell::Cell::new(0));
    assert_eq!(super::record::offsets(&counted, 10_000).unwrap().len(), 10_000);
    assert!(counted.1.get() <= 1 + file.len() / (64 << 10), "{}", counted.1.get());
    let e = super::record::offsets(&counted, 9_999).unwrap_err();
    assert!(e.to_string().contains("more records than the 9999"), "{e}");
    assert!(super::record::offsets(&counted, 10_001).is_err());
}

#[test]
fn a_record_with_changed_data_is_found_in_a_whole_file() {
    let mut file = Vec::new();
    (0..9_u8).for_each(|number| super::append(&[number; 100], &mut file));
    let offsets = super::record::offsets(&file, 9).unwrap();
    super::record::check(&file, &offsets).unwrap();
    for at in [20, file.len() - 1] {
        let mut damaged = file.clone();
        damaged[at] ^= 4;
        assert!(super::record::check(&damaged, &offsets).unwrap_err().to_string().contains("CRC"), "{at}");
    }
}

#[test]
fn records_that_do_not_match_their_crc_are_counted_without_their_features() {
    let file = three();
    let whole = count_features(&file[..]).unwrap();
    assert_eq!(count_whole_records(&file[..]).unwrap(), whole);
    let offsets = super::record::offsets(&file, 3).unwrap();
    let damaged = |numbers: &[usize]| {
        let mut file = file.clone();
        for number in numbers {
            let (start, bytes) = offsets.range(*number).unwrap();
            file[(start + u64::from(bytes)) as usize - 1] ^= 4;
        }
        file
    };
    for number in 0..3 {
        let file = damaged(&[number]);
        let counts = count_whole_records(&file[..]).unwrap();
        assert_eq!((counts.samples, counts.damaged), (2, 1));
        assert!(count_features(&file[..]).is_err());
        let front = front_features(&file).unwrap();
        assert_eq!((front.samples, front.features), (2, counts.features));
    }
    let file = damaged(&[0, 1, 2]);
    let e = count_whole_records(&file[..]).unwrap_err();
    assert!(e.to_string().contains("does not match its CRC") && e.to_string().contains("byte 0"), "{e}");
    assert!(front_features(&file).is_err());
    let mut merged = FeatureCounts::default();
    merged.merge(&count_whole_records(&damaged(&[1])[..]).unwrap()).unwrap();
    merged.merge(&whole).unwrap();
    merged.merge(&count_whole_records(&damaged(&[0])[..]).unwrap()).unwrap();
    assert_eq!((merged.samples, merged.damaged), (7, 2));
}
