//! The stages of decoding, at which a [`PartialDecoder`](super::PartialDecoder) can stop.

/// Last stage of decoding that is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum JpegStage {
    /// Headers are read, Huffman tables found or built, and the scans' bytes copied without stuffing.
    Bytes,
    /// The region's coefficients are decoded, the rest skipped.
    Coefficients,
    /// The coefficients are transformed to samples of each component.
    Samples,
    /// All stages: samples are upsampled to the picture's resolution and converted to RGB.
    #[default]
    Pixels,
}
