//! Hot paths, by the crate or folder that has most of their code. Each is called by its public interface, on one
//! thread, without clocks and networks, for a million instructions at least: counts of less depend on the alignment of
//! memory.
//!
//! The answers of stores are not among them, because their parsers are private and belong to a connection.

mod language;
mod order;
mod pictures;
mod samples;
mod session;
mod stored;
mod text;
mod vocabulary;
mod work;

use forebay_loader::Result;
use work::Work;

/// Name of a path in the file, and the function that makes its inputs.
type HotPath = (&'static str, fn() -> Result<Work>);

/// All paths. The order may be any: names identify their counts.
pub(super) const ALL: &[HotPath] = &[
    ("jpeg_crop", pictures::jpeg_crop),
    ("jpeg_crop_indexed", pictures::jpeg_crop_indexed),
    ("jpeg_whole", pictures::jpeg_whole),
    ("jpeg_progressive", pictures::jpeg_progressive),
    ("png", pictures::png),
    ("webp", pictures::webp),
    ("resize", pictures::resize),
    ("picture_operations", pictures::operations),
    ("mds_split", stored::mds_split),
    ("json_unescape", stored::json_unescape),
    ("zstd_unpack", stored::zstd_unpack),
    ("xxh3_shard", stored::xxh3_shard),
    ("tokens_int64", stored::tokens_int64),
    ("tokens_uint16", stored::tokens_uint16),
    ("order_py1e", order::py1e),
    ("order_py1br", order::py1br),
    ("packs", order::packs),
    ("bpe_english", text::bpe_english),
    ("bpe_cjk", text::bpe_cjk),
    ("unigram", text::unigram),
    ("word_piece", text::word_piece),
    ("sample_read", samples::read),
    ("session_step", session::step),
];
