//! Self-test of the nvJPEG backends against the host's decoder.
//!
//! nvJPEG does not document how each backend decodes image regions in a batch. When a decoder is opened, each backend
//! decodes reference pictures, alone and many times in one batch, in different regions, and the pixels are compared
//! with the host's. A backend that fails is tried in all its [`DecodeMode`]s. One with different pixels in all of them
//! is disabled. A kind of picture that a backend rejects here it will also reject in batches.

use super::groups;
use crate::context::{Context, Stream};
use crate::kernel::BLANK;
use crate::memory::Block;
use crate::nvjpeg::library::Library;
use crate::nvjpeg::{BatchDecoder, ChromaUpsampling, DecodeJob, Extent, Handle, NvJpegError};
use forebay_loader::decode::geometry::{Region, Size};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder};
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::sync::Arc;
use forebay_loader::{Error, ErrorKind, Result};

/// Picture with edges in luma and slopes in both chroma channels, made by
/// [`encode`](forebay_loader::decode::jpeg::encode).
struct ReferencePicture {
    file: &'static [u8],
    size: Size,
    /// Sizes of the batches to test, each of this picture alone.
    counts: &'static [usize],
}

/// Picture that a backend must decode: 4:2:0, whole blocks. The cores read the entropy-coded data of batches of more
/// than 50 pictures on the device, of smaller ones on the host.
const REQUIRED: ReferencePicture =
    ReferencePicture { file: include_bytes!("selftest/s420.jpg"), size: Size { w: 160, h: 128 }, counts: &[1, 64, 3] };

/// Pictures that a backend may reject: odd sides, all kinds of chroma. The way in which chroma is blended is not
/// tested.
const OPTIONAL: [ReferencePicture; 5] = [
    ReferencePicture::optional(include_bytes!("selftest/odd_s420.jpg")),
    ReferencePicture::optional(include_bytes!("selftest/odd_s422.jpg")),
    ReferencePicture::optional(include_bytes!("selftest/odd_s440.jpg")),
    ReferencePicture::optional(include_bytes!("selftest/odd_s444.jpg")),
    ReferencePicture::optional(include_bytes!("selftest/odd_grey.jpg")),
];

impl ReferencePicture {
    const fn optional(file: &'static [u8]) -> Self {
        Self { file, size: Size { w: 157, h: 117 }, counts: &[64] }
    }

    /// Decodes the picture on the host.
    fn on_host(&self) -> Result<Vec<u8>> {
        let mut pixels = Pixels::default();
        Decoder::default().decode(self.file, Region::all(self.size), &mut pixels)?;
        Ok(pixels.rgb().to_vec())
    }

    /// Returns the region to compare in picture `number` of a batch. Regions differ and do not begin or end with
    /// blocks.
    fn part(&self, number: usize) -> Region {
        let (number, Size { w: of_w, h: of_h }) = (number as u32, self.size);
        let (w, h) = (101 - number % 8, 83 - number % 5);
        Region { x: (21 + 7 * number) % (of_w - w + 1), y: (13 + 5 * number) % (of_h - h + 1), w, h }
    }
}

/// Room for the pixels of one picture.
const PIXEL_BYTES: usize = (REQUIRED.size.w * REQUIRED.size.h * 3) as usize;
/// Pictures in the largest batch.
const COUNT_MAX: usize = 64;

/// Mode in which a backend is opened.
#[derive(Clone, Copy, Debug)]
struct DecodeMode {
    chroma: ChromaUpsampling,
    extent: Extent,
}

/// Modes of the engines, the best first.
const ENGINE_MODES: [DecodeMode; 4] = [
    DecodeMode { chroma: ChromaUpsampling::Interpolated, extent: Extent::Part },
    DecodeMode { chroma: ChromaUpsampling::Interpolated, extent: Extent::Whole },
    DecodeMode { chroma: ChromaUpsampling::Replicated, extent: Extent::Part },
    DecodeMode { chroma: ChromaUpsampling::Replicated, extent: Extent::Whole },
];

/// Modes of the cores, the best first.
const CORE_MODES: [DecodeMode; 2] = [ENGINE_MODES[1], ENGINE_MODES[3]];

/// Difference in grey levels between pixels and the host's.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct PixelDifference {
    /// Mean over a region.
    mean: f64,
    /// Mean over its row or column that differs most.
    line: f64,
}

impl PixelDifference {
    /// Rounding and blending differ by less than this between decoders. A shift by one pixel differs by more than twice
    /// as much, and so does replicated chroma.
    const INTERPOLATED_MAX: Self = Self { mean: 1.5, line: 4.0 };
    /// A shift of chroma by one sample differs by more than this.
    const REPLICATED_MAX: Self = Self { mean: 4.5, line: 7.0 };

    fn max(chroma: ChromaUpsampling) -> Self {
        match chroma {
            ChromaUpsampling::Interpolated => Self::INTERPOLATED_MAX,
            ChromaUpsampling::Replicated => Self::REPLICATED_MAX,
        }
    }

    /// Compares `part` of the host's picture, `width` pixels wide, with `pixels`, which are `region` of the
    /// picture as a backend decoded it. The region contains the part.
    fn of(part: Region, host: &[u8], width: u32, region: Region, pixels: &[u8]) -> Self {
        let (mut rows, mut columns) = (vec![0u32; part.h as usize], vec![0u32; part.w as usize]);
        for (y, row) in rows.iter_mut().enumerate() {
            for (x, column) in columns.iter_mut().enumerate() {
                let (x, y) = (part.x as usize + x, part.y as usize + y);
                let theirs = (y - region.y as usize) * region.w as usize + x - region.x as usize;
                let ours = y * width as usize + x;
                let of_pixel = pixels[theirs * 3..][..3].iter().zip(&host[ours * 3..][..3]);
                let sum: u32 = of_pixel.map(|(a, b)| u32::from(a.abs_diff(*b))).sum();
                *row += sum;
                *column += sum;
            }
        }
        let worst = |lines: &[u32], len: u32| f64::from(lines.iter().copied().max().unwrap_or(0)) / f64::from(len * 3);
        let mean = f64::from(rows.iter().sum::<u32>()) / f64::from(part.w * part.h * 3);
        Self { mean, line: worst(&rows, part.w).max(worst(&columns, part.h)) }
    }

    fn is_within(self, max: Self) -> bool {
        self.mean <= max.mean && self.line <= max.line
    }
}

/// Backend that has passed the test.
pub(super) struct VerifiedBackend {
    pub(super) handle: Arc<Handle>,
    /// Sentence for the statistics if it passed in a mode after its first one.
    pub(super) note: Option<String>,
}

/// Backends of a device. At least one has passed the test.
pub(crate) struct Backends {
    /// Engines, or the reason why they cannot be used, such as a device without any.
    pub(super) engines: Result<VerifiedBackend>,
    /// Cores, or the reason why they cannot be used.
    pub(super) cores: Result<VerifiedBackend>,
}

impl Backends {
    /// Opens and tests both backends.
    ///
    /// # Errors
    ///
    /// Errors of both backends, if both fail; `Unsupported` if their pixels differ; `Full` when memory runs out.
    pub(crate) fn open(library: Library, context: &Arc<Context>) -> Result<Self> {
        let library = Arc::new(library);
        let engines = open_verified("engines", &ENGINE_MODES, |mode| {
            Handle::on_engines(&library, context, mode.chroma, mode.extent)
        });
        let cores = open_verified("cores", &CORE_MODES, |mode| Handle::on_cores(&library, context, mode.chroma));
        match (engines, cores) {
            (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::Full => Err(error),
            (Err(of_engines), Err(of_cores)) => Err(of_cores.with("engines", of_engines)),
            (engines, cores) => Ok(Self { engines, cores }),
        }
    }
}

/// Opens a backend in the first of `modes` in which it passes the test.
fn open_verified(
    backend: &str,
    modes: &[DecodeMode],
    open: impl Fn(&DecodeMode) -> Result<Arc<Handle>>,
) -> Result<VerifiedBackend> {
    let mut first_error = None;
    for mode in modes {
        match open(mode).and_then(|handle| verify(&handle, mode.chroma).map(|()| handle)) {
            Ok(handle) => {
                let note = first_error.map(|error| mode.note(backend, modes[0], handle.context().number, &error));
                return Ok(VerifiedBackend { handle, note });
            }
            Err(error) if error.kind() == ErrorKind::Full => return Err(error),
            // The error of the first mode is the most useful one.
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or_else(|| Error::internal("a backend has no modes")))
}

impl DecodeMode {
    /// Returns the sentence for a backend that passes in this mode after it failed with `error` in mode `first`.
    fn note(self, backend: &str, first: Self, device: u32, error: &Error) -> String {
        let whole = if self.extent == first.extent { "" } else { " whole rather than in regions, which takes longer" };
        let chroma = match self.chroma {
            ChromaUpsampling::Interpolated => "",
            ChromaUpsampling::Replicated => {
                " without blending chroma, so that pixels differ from the host's where colours change"
            }
        };
        let and = if whole.is_empty() || chroma.is_empty() { "" } else { ", and" };
        format!("the {backend} of CUDA device {device} decode JPEGs{whole}{and}{chroma}: {error}")
    }
}

/// Fails unless a backend decodes the reference pictures as the host does, within the limits of its chroma upsampling.
fn verify(handle: &Arc<Handle>, chroma: ChromaUpsampling) -> Result<()> {
    let test = TestDecoder::new(handle)?;
    let test = verify_picture(test, handle, &REQUIRED, PixelDifference::max(chroma), |error| Err(error.into()))?;
    let may_reject = |error: NvJpegError| if error.is_out_of_memory() { Err(error.into()) } else { Ok(()) };
    let with = |test, picture| verify_picture(test, handle, picture, PixelDifference::REPLICATED_MAX, may_reject);
    OPTIONAL.iter().try_fold(test, with).map(drop)
}

/// Verifies one picture. `on_error` decides whether the backend may reject it.
fn verify_picture(
    mut test: TestDecoder,
    handle: &Handle,
    picture: &ReferencePicture,
    max: PixelDifference,
    on_error: impl Fn(NvJpegError) -> Result<()>,
) -> Result<TestDecoder> {
    let host = picture.on_host()?;
    for count in picture.counts.iter().copied() {
        let parts: Vec<Region> = (0..count).map(|number| picture.part(number)).collect();
        let regions: Vec<Region> =
            parts.iter().map(|part| groups::region(*part, picture.size, handle.extent())).collect();
        let result;
        (test, result) = test.decode(picture.file, &regions)?;
        let pixels = match result {
            Ok(pixels) => pixels,
            Err(error) => {
                on_error(error)?;
                continue;
            }
        };
        for ((part, region), pixels) in parts.iter().zip(&regions).zip(pixels.chunks_exact(PIXEL_BYTES)) {
            let difference = PixelDifference::of(*part, &host, picture.size.w, *region, pixels);
            if !difference.is_within(max) {
                let PixelDifference { mean, line } = difference;
                let Size { w, h } = picture.size;
                let message = format!(
                    "nvJPEG's pixels differ from the host's: grey levels differ by {mean:.1} on average, and by \
                     {line:.1} in one row or column"
                );
                let size = format!("{w}x{h}");
                return Err(Error::new(ErrorKind::Unsupported, message).with("pictures", count).with("size", size));
            }
        }
    }
    Ok(test)
}

/// Decoder of a backend, with memory for its pixels.
struct TestDecoder {
    decoder: BatchDecoder,
    memory: Block,
    stream: Stream,
}

impl TestDecoder {
    fn new(handle: &Arc<Handle>) -> Result<Self> {
        let context = handle.context();
        let (stream, memory) = (Stream::new(context)?, Block::alloc(context, COUNT_MAX * PIXEL_BYTES)?);
        Ok(Self { decoder: BatchDecoder::new(handle)?, memory, stream })
    }

    /// Decodes `regions` of the picture in one batch. Returns the pixels without gaps between rows, [`PIXEL_BYTES`]
    /// from one picture to the next. The outer error is the driver's.
    fn decode(
        self,
        file: &'static [u8],
        regions: &[Region],
    ) -> Result<(Self, std::result::Result<Vec<u8>, NvJpegError>)> {
        let Self { mut decoder, memory, stream } = self;
        let bytes = regions.len() * PIXEL_BYTES;
        // The memory may have the correct pixels of an earlier backend.
        memory.fill(BLANK, &stream)?;
        let job = |(number, region): (usize, &Region)| {
            let out = memory.address + (number * PIXEL_BYTES) as u64;
            DecodeJob { file, region: *region, out, pitch: region.w as usize * 3 }
        };
        let jobs: Vec<DecodeJob<'_>> = regions.iter().enumerate().map(job).collect();
        // SAFETY: earlier work of the decoder has been waited for; the file is static, and the memory is used by
        // nothing else until the stream has been waited for.
        let result = unsafe { decoder.decode(&jobs, stream.handle) };
        // A rejected batch may have been started.
        if let Err(error) = stream.wait() {
            std::mem::forget((decoder, memory));
            return Err(error);
        }
        let pixels = match result? {
            Ok(()) => Ok(memory.read(bytes, &stream)?),
            Err(error) => Err(error),
        };
        Ok((Self { decoder, memory, stream }, pixels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_loader::decode::jpeg::{Subsampling, encode};

    const SIZE: Size = REQUIRED.size;

    /// Triangle wave from 0 to 16 with a slope of one level per pixel.
    fn wave(at: u32) -> f64 {
        let phase = at % 32;
        f64::from(phase.min(32 - phase))
    }

    /// Luma of a pixel and the distances of its chroma channels from grey.
    fn ycc(x: u32, y: u32) -> [f64; 3] {
        [64.0 + 8.0 * wave(x + 3 * y), 4.0 * wave(x + y) - 32.0, 4.0 * wave(x + 264 - y) - 32.0]
    }

    fn rgb([y, cb, cr]: [f64; 3]) -> [u8; 3] {
        [y + 1.402 * cr, y - 0.344_136 * cb - 0.714_136 * cr, y + 1.772 * cb].map(|level| level.round() as u8)
    }

    fn picture(size: Size, pixel: impl Fn(u32, u32) -> [f64; 3]) -> Vec<u8> {
        (0..size.h).flat_map(|y| (0..size.w).map(move |x| (x, y))).flat_map(|(x, y)| rgb(pixel(x, y))).collect()
    }

    /// Picture with replicated chroma: each sample is the mean of four pixels, shifted by `dx` and `dy`.
    fn replicated(dx: u32, dy: u32) -> Vec<u8> {
        picture(SIZE, |x, y| {
            let chroma = |channel: usize| {
                let (x, y) = (((x + dx) & !1).min(SIZE.w - 2), ((y + dy) & !1).min(SIZE.h - 2));
                let four = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(right, down)| ycc(x + right, y + down)[channel]);
                four.iter().sum::<f64>() / 4.0
            };
            [ycc(x, y)[0], chroma(1), chroma(2)]
        })
    }

    /// Returns true if every part of `pixels` is within `max` of the host's, false if none is.
    fn all_pass(pixels: &[u8], max: PixelDifference) -> bool {
        let host = REQUIRED.on_host().expect("decoded");
        let difference = |number| PixelDifference::of(REQUIRED.part(number), &host, SIZE.w, Region::all(SIZE), pixels);
        let passes = |number| difference(number).is_within(max);
        let first = passes(0);
        assert!((1..64).all(|number| passes(number) == first), "some parts pass");
        first
    }

    #[test]
    fn the_files_match_their_descriptions() {
        use Subsampling::{Grey, S420, S422, S440, S444};
        let of_kind = |size, kind| encode(&picture(size, ycc), size, 95, kind, false).expect("a picture");
        assert!(REQUIRED.file == of_kind(SIZE, S420));
        for (other, kind) in OPTIONAL.iter().zip([S420, S422, S440, S444, Grey]) {
            assert!(other.file == of_kind(other.size, kind), "{kind:?}");
        }
    }

    #[test]
    fn a_shifted_picture_and_shifted_chroma_are_detected() {
        let [interpolated, replicated_max] =
            [ChromaUpsampling::Interpolated, ChromaUpsampling::Replicated].map(PixelDifference::max);
        for (dx, dy) in [(1, 0), (0, 1), (2, 2), (8, 0), (0, 16)] {
            let all = picture(SIZE, |x, y| ycc(x + dx, y + dy));
            let chroma = picture(SIZE, |x, y| [ycc(x, y)[0], ycc(x + dx, y + dy)[1], ycc(x + dx, y + dy)[2]]);
            for pixels in [all, chroma] {
                assert!(!all_pass(&pixels, interpolated) && !all_pass(&pixels, replicated_max), "{dx}, {dy}");
            }
        }
    }

    #[test]
    fn replicated_chroma_passes_only_where_it_is_expected_and_unshifted() {
        let [interpolated, replicated_max] =
            [ChromaUpsampling::Interpolated, ChromaUpsampling::Replicated].map(PixelDifference::max);
        assert!(!all_pass(&replicated(0, 0), interpolated) && all_pass(&replicated(0, 0), replicated_max));
        for (dx, dy) in [(1, 0), (0, 1), (2, 0), (0, 2)] {
            assert!(!all_pass(&replicated(dx, dy), replicated_max), "{dx}, {dy}");
        }
    }

    #[test]
    fn one_wrong_row_or_column_is_detected() {
        let host = REQUIRED.on_host().expect("decoded");
        let part = REQUIRED.part(5);
        let differs = |at: &dyn Fn(u32, u32) -> bool| {
            let mut pixels = host.clone();
            for (number, pixel) in pixels.as_chunks_mut::<3>().0.iter_mut().enumerate() {
                let (x, y) = (number as u32 % SIZE.w, number as u32 / SIZE.w);
                if at(x, y) {
                    pixel.iter_mut().for_each(|level| *level ^= 16);
                }
            }
            let difference = PixelDifference::of(part, &host, SIZE.w, Region::all(SIZE), &pixels);
            assert!(difference.mean < PixelDifference::INTERPOLATED_MAX.mean);
            !difference.is_within(PixelDifference::REPLICATED_MAX)
        };
        assert!(differs(&|x, _| x == part.x + part.w - 1) && differs(&|_, y| y == part.y));
        assert!(
            !differs(&|x, _| x == part.x + part.w) && !differs(&|_, y| y + 1 == part.y),
            "the row and the column are outside of the part"
        );
    }
}
