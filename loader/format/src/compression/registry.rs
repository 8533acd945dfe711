//! All families of compression algorithms. This is the only list of them.

use super::codec::Codec;
use super::{brotli, bzip2, chunk_frames, gzip, snappy, zlib, zstd};

/// Families of whole files, which can be written.
pub(super) static WRITTEN: [&dyn Codec; 5] =
    [&brotli::Brotli, &bzip2::Bzip2, &gzip::Gzip, &snappy::Snappy, &zstd::Zstd];

/// Families that are only read.
static READ_ONLY: [&dyn Codec; 2] = [&chunk_frames::ChunkFrames, &zlib::Zlib];

/// Returns all families.
pub(super) fn all() -> impl Iterator<Item = &'static dyn Codec> {
    WRITTEN.iter().chain(&READ_ONLY).copied()
}
