//! Offsets of batches, and files that declare different ones.

use super::batches;
use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, Field, Fields, Schema, UnionFields, UnionMode};
use forebay_core::error::ErrorKind;
use std::sync::Arc;

/// Number of rows that is not in a file for further reasons.
const ROWS: usize = 1_234;

/// Returns a stream of one batch of a column of nulls.
fn stream(kind: &DataType, options: IpcWriteOptions) -> Vec<u8> {
    let column: ArrayRef = new_null_array(kind, ROWS);
    let schema = Arc::new(Schema::new(vec![Field::new("x", kind.clone(), true)]));
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &schema, options).unwrap();
    writer.write(&RecordBatch::try_new(schema, vec![column]).unwrap()).unwrap();
    writer.into_inner().unwrap()
}

/// Returns `file` with a batch and columns that declare `rows` rows.
fn declaring(file: &[u8], rows: u64) -> Vec<u8> {
    let mut out = file.to_vec();
    let places = out.windows(8).enumerate().filter(|(_, bytes)| *bytes == (ROWS as u64).to_le_bytes());
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    assert!(places.len() > 1);
    places.iter().for_each(|at| out[*at..][..8].copy_from_slice(&rows.to_le_bytes()));
    out
}

fn item(kind: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", kind, true))
}

#[test]
fn a_batch_with_too_few_bytes_for_its_rows_is_an_error() {
    let pair = vec![Field::new("a", DataType::Null, true), Field::new("b", DataType::Int16, true)];
    let parts = UnionFields::try_new(vec![0], vec![Field::new("a", DataType::Null, true)]).unwrap();
    for kind in [
        DataType::Boolean,
        DataType::Int32,
        DataType::Decimal256(9, 2),
        DataType::Utf8,
        DataType::LargeBinary,
        DataType::Utf8View,
        DataType::FixedSizeBinary(3),
        DataType::List(item(DataType::Int8)),
        DataType::FixedSizeList(item(DataType::Int8), 3),
        DataType::Struct(pair.into()),
        DataType::Union(parts, UnionMode::Sparse),
    ] {
        let file = stream(&kind, IpcWriteOptions::default());
        assert_eq!(batches(&file[..]).unwrap().batches[0].rows, ROWS as u64, "{kind}");
        // As many rows as bits can be of truth values alone.
        let e = batches(&declaring(&file, file.len() as u64 * 8)[..]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Format, "{kind}");
        assert!(e.to_string().contains("too few for the") && e.to_string().contains("byte"), "{kind}: {e}");
    }
}

#[test]
fn a_batch_may_have_more_rows_than_bytes() {
    let many = 1 << 40;
    let nothing = [DataType::Null, DataType::FixedSizeBinary(0), DataType::Struct(Fields::empty())];
    for kind in nothing {
        let file = declaring(&stream(&kind, IpcWriteOptions::default()), many);
        assert_eq!(batches(&file[..]).unwrap().batches[0].rows, many, "{kind}");
    }
    let zstd = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD)).unwrap();
    let file = declaring(&stream(&DataType::Int64, zstd), many);
    assert_eq!(batches(&file[..]).unwrap().batches[0].rows, many);
}
