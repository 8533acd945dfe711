//! The file formats: index, shards, encodings, compression, hashes. Files of MosaicML `streaming` are the same byte for
//! byte; [`tar`] has WebDataset's, [`litdata`] LitData's, [`tfrecord`] TensorFlow's, [`array_record`] Grain's,
//! [`tokens`] Megatron's.
//!
//! ```text
//!   index.json --Index::parse--> Index { shards: [Shard { layout: Arc<Layout>, files, samples, .. }] }
//!                                           |
//!                      Shard::table_file, read where it is (ReadAt)
//!                                           |
//!                              Shard::offsets --> OffsetTable::range(i)      range of sample i in the data file
//!                                                        |
//!                              Layout::split --> SampleColumns::get(c)       the bytes of each of its columns
//!                                                        |
//!                              Encoding::decode --> Value
//! ```
//!
//! Every format goes through these four steps, so that the pipeline handles all in the same way: MDS keeps its offsets
//! at the front of the shard, JSONL and XSV in a separate `.meta` file; the offsets of tar and TFRecord files are found
//! by their headers, and LitData's chunks have MDS's table.
//!
//! A shard with a [`recipe`] has no file in the store: it becomes a file, usually MDS, when it enters the cache. A
//! shard with a [`Slice`](index::Slice) is a range of a file that is read where it is.
//!
//! After the last sample of an MDS shard there may be a [`trailer`] with an index of its values.
//!
//! ```
//! use forebay_format::writer::{LocalDir, Options, Writer};
//! use forebay_format::{Encoding, Index, Layout, Scratch, Value};
//!
//! // A data set with one column, in one shard.
//! let folder = tempfile::tempdir()?;
//! let layout = Layout::mds([("number".to_owned(), Encoding::Int)])?;
//! let mut writer = Writer::new(layout, Box::new(LocalDir::create(folder.path(), true)?), Options::default())?;
//! for number in [5, 6, 7] {
//!     writer.write(&[Value::Int(number)])?;
//! }
//! writer.finish()?;
//!
//! // Sample 1 of that shard.
//! let index = Index::parse(&std::fs::read(folder.path().join("index.json"))?, "index.json")?;
//! let shard = &index.shards[0];
//! let file = std::fs::read(folder.path().join(&*shard.raw_data.basename))?;
//! let (start, len) = shard.offsets(&file[..])?.range(1)?;
//! let mut scratch = Scratch::default();
//! let columns = shard.layout.split(&file[start as usize..][..len as usize], &mut scratch)?;
//! assert_eq!(Encoding::Int.decode(columns.get(0))?, Value::Int(6));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything here is pure: bytes in, values out, no clock, no file. The one exception is [`writer`]: its threads
//! pass files to a sink. Input is not trusted: lengths are checked before memory is allocated for them, nesting is
//! bounded, names cannot leave their directory, and errors contain file and field.

pub mod array_record;
pub mod arrow;
mod columns;
pub mod compression;
pub mod encoding;
pub mod hash;
mod identity;
pub mod index;
pub mod ipc;
pub mod json;
pub mod layout;
pub mod lines;
pub mod litdata;
mod mds;
pub mod npz;
pub mod parquet;
mod plain;
mod read_at;
pub mod recipe;
mod registry;
mod sample_format;
mod shard_format;
mod table;
pub mod tar;
mod text;
pub mod tfrecord;
pub mod tokens;
pub mod trailer;
mod wire;
pub mod writer;

pub use columns::{Column, ColumnForm, ColumnUse, FIELDS, OmittedColumn, SampleColumns, Scratch};
pub use compression::Compression;
pub use encoding::{Encoding, Value};
pub use forebay_core::{Error, ErrorKind, Result};
pub use hash::HashAlgo;
pub use index::{Digests, FileInfo, FilePair, INDEX_BASENAME, Index, Shard};
pub use layout::Layout;
pub use mds::Mds;
pub use read_at::{AHEAD_BYTES, FileReader, ReadAt, ended};
pub use recipe::Recipe;
pub use sample_format::{SampleFile, SampleFormat, SurveyedFile};
pub use shard_format::ShardFormat;
pub use table::{OffsetTable, offset_table};
pub use text::XsvKind;
pub use trailer::{Trailer, TrailerWriter};
pub use writer::Writer;

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
