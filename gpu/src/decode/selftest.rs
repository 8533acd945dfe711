//! Opening a backend of nvJPEG: it gets no pictures before it has decoded one as the host does.
//!
//! What a library, a driver and a device make of a picture in a batch shows when they are asked, and no documentation
//! says it for all of them. So each backend decodes small pictures, alone and many times in one batch, in parts that
//! differ, and what comes out is compared. One that fails is asked in other [`Way`]s; one that decodes something else in all of
//! them is not used. Kinds that it refuses it will refuse again.

use super::groups;
use crate::context::{Context, Stream};
use crate::kernel::BLANK;
use crate::memory::Block;
use crate::nvjpeg::library::Library;
use crate::nvjpeg::{Batched, Chroma, Extent, Handle, Job, Refusal};
use forebay_loader::decode::geometry::{Region, Size};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder};
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::sync::Arc;
use forebay_loader::{Error, ErrorKind, Result};

/// A picture of edges of luma and slopes of both chromas, by [`encode`](forebay_loader::decode::jpeg::encode).
struct Sample {
    file: &'static [u8],
    size: Size,
    /// Pictures of a batch, one batch after the other.
    counts: &'static [usize],
}

/// What a backend has to decode: 4:2:0 of whole blocks. Cores read batches of more than 50 on the device, smaller ones on the host.
const USUAL: Sample =
    Sample { file: include_bytes!("selftest/s420.jpg"), size: Size { w: 160, h: 128 }, counts: &[1, 64, 3] };

/// What it may refuse: sides that are odd, and every kind of chroma. How they blend chroma is not looked at.
const OTHERS: [Sample; 5] = [
    Sample::other(include_bytes!("selftest/odd_s420.jpg")),
    Sample::other(include_bytes!("selftest/odd_s422.jpg")),
    Sample::other(include_bytes!("selftest/odd_s440.jpg")),
    Sample::other(include_bytes!("selftest/odd_s444.jpg")),
    Sample::other(include_bytes!("selftest/odd_grey.jpg")),
];

impl Sample {
    const fn other(file: &'static [u8]) -> Self {
        Self { file, size: Size { w: 157, h: 117 }, counts: &[64] }
    }

    /// The picture as the host decodes it.
    fn on_host(&self) -> Result<Vec<u8>> {
        let mut pixels = Pixels::new();
        Decoder::new().decode(self.file, Region::all(self.size), &mut pixels)?;
        Ok(pixels.rgb().to_vec())
    }

    /// The part that picture `number` of a batch is looked at in: none lies as another one, or where blocks begin or end.
    fn part(&self, number: usize) -> Region {
        let (number, Size { w: of_w, h: of_h }) = (number as u32, self.size);
        let (w, h) = (101 - number % 8, 83 - number % 5);
        Region { x: (21 + 7 * number) % (of_w - w + 1), y: (13 + 5 * number) % (of_h - h + 1), w, h }
    }
}

/// Room for a picture's pixels, and for the pictures of a batch.
const PIXEL_BYTES: usize = (USUAL.size.w * USUAL.size.h * 3) as usize;
const COUNT_MAX: usize = 64;

/// How a backend is asked.
#[derive(Clone, Copy, Debug)]
struct Way {
    chroma: Chroma,
    extent: Extent,
}

const ENGINES: [Way; 4] = [
    Way { chroma: Chroma::Smooth, extent: Extent::Part },
    Way { chroma: Chroma::Smooth, extent: Extent::Whole },
    Way { chroma: Chroma::AsStored, extent: Extent::Part },
    Way { chroma: Chroma::AsStored, extent: Extent::Whole },
];

const CORES: [Way; 2] = [ENGINES[1], ENGINES[3]];

/// Grey levels by which what is decoded may differ from the host's.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
struct Difference {
    /// On average over a part.
    mean: f64,
    /// On average over the row or the column of it that differs most.
    line: f64,
}

impl Difference {
    /// Ways to round and to blend differ by less; a part that lies a pixel beside by more than twice as much, and so do
    /// chromas that are not blended.
    const SMOOTH_MAX: Self = Self { mean: 1.5, line: 4.0 };
    /// Chromas that lie a sample beside differ by more.
    const AS_STORED_MAX: Self = Self { mean: 4.5, line: 7.0 };

    fn max(chroma: Chroma) -> Self {
        match chroma {
            Chroma::Smooth => Self::SMOOTH_MAX,
            Chroma::AsStored => Self::AS_STORED_MAX,
        }
    }

    /// Between a part of the host's picture, `pitch` pixels from row to row, and `region` of it as it came from elsewhere, which has
    /// the part in it.
    fn of(part: Region, host: &[u8], pitch: u32, region: Region, pixels: &[u8]) -> Self {
        let (mut rows, mut columns) = (vec![0u32; part.h as usize], vec![0u32; part.w as usize]);
        for (y, row) in rows.iter_mut().enumerate() {
            for (x, column) in columns.iter_mut().enumerate() {
                let (x, y) = (part.x as usize + x, part.y as usize + y);
                let theirs = (y - region.y as usize) * region.w as usize + x - region.x as usize;
                let ours = y * pitch as usize + x;
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

/// A backend that decodes as the host does.
pub(super) struct Proven {
    pub(super) handle: Arc<Handle>,
    /// What is said of it if it is not quite what was asked for.
    pub(super) note: Option<String>,
}

/// What of a library decodes on a device: at least one of the two.
pub(crate) struct Backends {
    /// The engines that do nothing else; why not, for one thing on a device without.
    pub(super) engines: Result<Proven>,
    /// The device's ordinary cores; why not.
    pub(super) cores: Result<Proven>,
}

impl Backends {
    /// Opens both.
    ///
    /// # Errors
    ///
    /// What the driver and the library say of both; `Unsupported` if they decode something else; `Full` where memory ends.
    pub(crate) fn open(library: Library, context: &Arc<Context>) -> Result<Self> {
        let library = Arc::new(library);
        let engines = proven("engines", &ENGINES, |way| Handle::on_engines(&library, context, way.chroma, way.extent));
        let cores = proven("cores", &CORES, |way| Handle::on_cores(&library, context, way.chroma));
        match (engines, cores) {
            (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::Full => Err(error),
            (Err(of_engines), Err(of_cores)) => Err(of_cores.with("engines", of_engines)),
            (engines, cores) => Ok(Self { engines, cores }),
        }
    }
}

/// The first of `ways` in which a backend decodes as the host does.
fn proven(what: &str, ways: &[Way], open: impl Fn(&Way) -> Result<Arc<Handle>>) -> Result<Proven> {
    let mut refusal = None;
    for way in ways {
        match open(way).and_then(|handle| prove(&handle, way.chroma).map(|()| handle)) {
            Ok(handle) => {
                let note = refusal.map(|refusal| way.note(what, ways[0], handle.context().number, &refusal));
                return Ok(Proven { handle, note });
            }
            Err(error) if error.kind() == ErrorKind::Full => return Err(error),
            // The first says more than what was answered to other questions.
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(refusal.unwrap_or_else(|| Error::internal("a backend that is asked nothing")))
}

impl Way {
    /// What is said where a backend decodes in this way, after it failed in the `first`.
    fn note(self, what: &str, first: Self, device: u32, refusal: &Error) -> String {
        let wholes = if self.extent == first.extent { "" } else { " whole rather than in parts, which takes longer" };
        let chroma = match self.chroma {
            Chroma::Smooth => "",
            Chroma::AsStored => " without blending chroma, so that pixels differ from the host's where colours change",
        };
        let and = if wholes.is_empty() || chroma.is_empty() { "" } else { ", and" };
        format!("the {what} of CUDA device {device} decode JPEGs{wholes}{and}{chroma}: {refusal}")
    }
}

/// Sees that a backend decodes as the host does, as far as its way with chroma lets it.
fn prove(handle: &Arc<Handle>, chroma: Chroma) -> Result<()> {
    let trial = Trial::new(handle)?;
    let trial = prove_with(trial, handle, &USUAL, Difference::max(chroma), |refusal| Err(refusal.into()))?;
    let may_refuse = |refusal: Refusal| if refusal.is_of_memory() { Err(refusal.into()) } else { Ok(()) };
    let with = |trial, other| prove_with(trial, handle, other, Difference::AS_STORED_MAX, may_refuse);
    OTHERS.iter().try_fold(trial, with).map(drop)
}

/// The same with one sample; `refused` says whether that may be.
fn prove_with(
    mut trial: Trial,
    handle: &Handle,
    sample: &Sample,
    max: Difference,
    refused: impl Fn(Refusal) -> Result<()>,
) -> Result<Trial> {
    let host = sample.on_host()?;
    for count in sample.counts.iter().copied() {
        let parts: Vec<Region> = (0..count).map(|number| sample.part(number)).collect();
        let regions: Vec<Region> =
            parts.iter().map(|part| groups::region(*part, sample.size, handle.extent())).collect();
        let answer;
        (trial, answer) = trial.run(sample.file, &regions)?;
        let pixels = match answer {
            Ok(pixels) => pixels,
            Err(refusal) => {
                refused(refusal)?;
                continue;
            }
        };
        for ((part, region), pixels) in parts.iter().zip(&regions).zip(pixels.chunks_exact(PIXEL_BYTES)) {
            let difference = Difference::of(*part, &host, sample.size.w, *region, pixels);
            if !difference.is_within(max) {
                let Difference { mean, line } = difference;
                let Size { w, h } = sample.size;
                let message = format!(
                    "nvJPEG decodes something else than the host: grey levels differ by {mean:.1} on average, and by \
                     {line:.1} in one row or column"
                );
                let picture = format!("{w}x{h}");
                return Err(Error::new(ErrorKind::Unsupported, message).with("pictures", count).with("size", picture));
            }
        }
    }
    Ok(trial)
}

/// A backend's decoder and memory for its pictures.
struct Trial {
    decoder: Batched,
    memory: Block,
    stream: Stream,
}

impl Trial {
    fn new(handle: &Arc<Handle>) -> Result<Self> {
        let context = handle.context();
        let (stream, memory) = (Stream::new(context)?, Block::alloc(context, COUNT_MAX * PIXEL_BYTES)?);
        Ok(Self { decoder: Batched::new(handle)?, memory, stream })
    }

    /// Decodes `regions` of the picture in one batch: pixels without gaps between rows, [`PIXEL_BYTES`] from one to the next. The
    /// outer error is the driver's.
    fn run(self, file: &'static [u8], regions: &[Region]) -> Result<(Self, std::result::Result<Vec<u8>, Refusal>)> {
        let Self { mut decoder, memory, stream } = self;
        let bytes = regions.len() * PIXEL_BYTES;
        // It may be what another backend has decoded to: what is not written must show.
        memory.fill(BLANK, &stream)?;
        let job = |(number, region): (usize, &Region)| {
            let out = memory.address + (number * PIXEL_BYTES) as u64;
            Job { file, region: *region, out, pitch: region.w as usize * 3 }
        };
        let jobs: Vec<Job<'_>> = regions.iter().enumerate().map(job).collect();
        // SAFETY: what the decoder was given before has been waited for; the file is there for ever, and the memory is nobody
        // else's until the stream has been waited for.
        let answer = unsafe { decoder.decode(&jobs, stream.handle) };
        // What was refused may have been begun.
        if let Err(error) = stream.wait() {
            std::mem::forget((decoder, memory));
            return Err(error);
        }
        let pixels = match answer? {
            Ok(()) => Ok(memory.read(bytes, &stream)?),
            Err(refusal) => Err(refusal),
        };
        Ok((Self { decoder, memory, stream }, pixels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_loader::decode::jpeg::{Subsampling, encode};

    const SIZE: Size = USUAL.size;

    /// A level that rises and falls by one from pixel to pixel, from 0 to 16.
    fn wave(at: u32) -> f64 {
        let phase = at % 32;
        f64::from(phase.min(32 - phase))
    }

    /// Luma and the chromas' distances from grey at a pixel.
    fn ycc(x: u32, y: u32) -> [f64; 3] {
        [64.0 + 8.0 * wave(x + 3 * y), 4.0 * wave(x + y) - 32.0, 4.0 * wave(x + 264 - y) - 32.0]
    }

    fn rgb([y, cb, cr]: [f64; 3]) -> [u8; 3] {
        [y + 1.402 * cr, y - 0.344_136 * cb - 0.714_136 * cr, y + 1.772 * cb].map(|level| level.round() as u8)
    }

    fn picture(size: Size, pixel: impl Fn(u32, u32) -> [f64; 3]) -> Vec<u8> {
        (0..size.h).flat_map(|y| (0..size.w).map(move |x| (x, y))).flat_map(|(x, y)| rgb(pixel(x, y))).collect()
    }

    /// The picture with each sample of chroma, the average of four pixels', for those that lie `dx` and `dy` beside.
    fn as_stored(dx: u32, dy: u32) -> Vec<u8> {
        picture(SIZE, |x, y| {
            let chroma = |channel: usize| {
                let (x, y) = (((x + dx) & !1).min(SIZE.w - 2), ((y + dy) & !1).min(SIZE.h - 2));
                let four = [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(right, down)| ycc(x + right, y + down)[channel]);
                four.iter().sum::<f64>() / 4.0
            };
            [ycc(x, y)[0], chroma(1), chroma(2)]
        })
    }

    /// Whether every part of `pixels` passes for the host's, or none does.
    fn all_pass(pixels: &[u8], max: Difference) -> bool {
        let host = USUAL.on_host().expect("decoded");
        let difference = |number| Difference::of(USUAL.part(number), &host, SIZE.w, Region::all(SIZE), pixels);
        let passes = |number| difference(number).is_within(max);
        let first = passes(0);
        assert!((1..64).all(|number| passes(number) == first), "some parts pass");
        first
    }

    #[test]
    fn the_files_are_what_their_descriptions_say() {
        use Subsampling::{Grey, S420, S422, S440, S444};
        let of_kind = |size, kind| encode(&picture(size, ycc), size, 95, kind, false).expect("a picture");
        assert!(USUAL.file == of_kind(SIZE, S420));
        for (other, kind) in OTHERS.iter().zip([S420, S422, S440, S444, Grey]) {
            assert!(other.file == of_kind(other.size, kind), "{kind:?}");
        }
    }

    #[test]
    fn a_picture_that_lies_beside_and_one_whose_chroma_does_are_told_apart() {
        let [smooth, as_stored_max] = [Chroma::Smooth, Chroma::AsStored].map(Difference::max);
        for (dx, dy) in [(1, 0), (0, 1), (2, 2), (8, 0), (0, 16)] {
            let all = picture(SIZE, |x, y| ycc(x + dx, y + dy));
            let chroma = picture(SIZE, |x, y| [ycc(x, y)[0], ycc(x + dx, y + dy)[1], ycc(x + dx, y + dy)[2]]);
            for pixels in [all, chroma] {
                assert!(!all_pass(&pixels, smooth) && !all_pass(&pixels, as_stored_max), "{dx}, {dy}");
            }
        }
    }

    #[test]
    fn chroma_as_it_is_stored_passes_where_it_is_expected_and_where_it_is_stored() {
        let [smooth, as_stored_max] = [Chroma::Smooth, Chroma::AsStored].map(Difference::max);
        assert!(!all_pass(&as_stored(0, 0), smooth) && all_pass(&as_stored(0, 0), as_stored_max));
        for (dx, dy) in [(1, 0), (0, 1), (2, 0), (0, 2)] {
            assert!(!all_pass(&as_stored(dx, dy), as_stored_max), "{dx}, {dy}");
        }
    }

    #[test]
    fn one_row_or_column_that_is_wrong_shows() {
        let host = USUAL.on_host().expect("decoded");
        let part = USUAL.part(5);
        let differs = |at: &dyn Fn(u32, u32) -> bool| {
            let mut pixels = host.clone();
            for (number, pixel) in pixels.as_chunks_mut::<3>().0.iter_mut().enumerate() {
                let (x, y) = (number as u32 % SIZE.w, number as u32 / SIZE.w);
                if at(x, y) {
                    pixel.iter_mut().for_each(|level| *level ^= 16);
                }
            }
            let difference = Difference::of(part, &host, SIZE.w, Region::all(SIZE), &pixels);
            assert!(difference.mean < Difference::SMOOTH_MAX.mean);
            !difference.is_within(Difference::AS_STORED_MAX)
        };
        assert!(differs(&|x, _| x == part.x + part.w - 1) && differs(&|_, y| y == part.y));
        assert!(
            !differs(&|x, _| x == part.x + part.w) && !differs(&|_, y| y + 1 == part.y),
            "they are beside the part"
        );
    }
}
