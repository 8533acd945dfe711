//! The stages of decoding, at which a [`PartialDecoder`](super::PartialDecoder) can stop.

#![forbid(unsafe_code)]

/// How far pictures are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecodeStage {
    /// Headers are read, Huffman tables found or made, the scans' bytes copied without stuffing.
    Bytes,
    /// The region's coefficients are decoded, what is not the region's is read over.
    Coefficients,
    /// The coefficients are transformed to samples of each component.
    Samples,
    /// All of it: samples are brought to the picture's resolution and turned into colours.
    Pixels,
}
