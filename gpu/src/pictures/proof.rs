//! Opening a backend of nvJPEG: it gets no pictures before it has decoded one as the host does.
//!
//! What a library, a driver and a device make of a picture in a batch shows when they are asked, and no documentation
//! says it for all of them. So each backend decodes a small picture, or a part of it, alone and many times in one batch, and what
//! comes out is compared. One that refuses is asked again without blending chroma; one that decodes something else is not used.

use crate::context::{Context, Stream};
use crate::memory::Block;
use crate::nvjpeg::library::Library;
use crate::nvjpeg::{Batched, Chroma, Handle, Job};
use forebay_loader::decode::geometry::{Region, Size};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder};
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::sync::Arc;
use forebay_loader::{Error, ErrorKind, Result};

/// Edges of luma and slow colours, 160 x 128 pixels of 4:2:0, by [`encode`](forebay_loader::decode::jpeg::encode).
const FILE: &[u8] = include_bytes!("proof.jpg");

const SIZE: Size = Size { w: 160, h: 128 };

/// What is decoded by who takes parts. Neither side lies where blocks begin or end.
const REGION: Region = Region { x: 21, y: 13, w: 101, h: 83 };

/// Cores read batches of more than 50 pictures on the device, smaller ones on the host.
const COUNTS: [usize; 2] = [1, 64];

/// Levels, on average over a part. Ways to round and to bring chroma to the picture's resolution differ by less; the part
/// beside, a pixel away, by 7.
const DIFFERENCE_MAX: f64 = 3.0;

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
        let engines = proven("engines", |chroma| Handle::on_engines(&library, context, chroma));
        let cores = proven("cores", |chroma| Handle::on_cores(&library, context, chroma));
        match (engines, cores) {
            (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::Full => Err(error),
            (Err(of_engines), Err(of_cores)) => Err(of_cores.with("engines", of_engines)),
            (engines, cores) => Ok(Self { engines, cores }),
        }
    }
}

fn proven(what: &str, open: impl Fn(Chroma) -> Result<Arc<Handle>>) -> Result<Proven> {
    let open = |chroma| open(chroma).and_then(|handle| prove(&handle).map(|()| handle));
    match open(Chroma::Smooth) {
        Ok(handle) => Ok(Proven { handle, note: None }),
        Err(error) if error.kind() == ErrorKind::Full => Err(error),
        Err(error) => match open(Chroma::AsStored) {
            Ok(handle) => {
                let number = handle.context().number;
                let note = format!(
                    "the {what} of CUDA device {number} decode JPEGs without blending chroma, so that pixels differ from the \
                     host's where colours change: {error}"
                );
                Ok(Proven { handle, note: Some(note) })
            }
            // It says more than what it answered to the second question.
            Err(_) => Err(error),
        },
    }
}

/// Sees that a backend decodes.
fn prove(handle: &Arc<Handle>) -> Result<()> {
    let region = if handle.takes_parts() { REGION } else { Region::all(SIZE) };
    let host = on_host(region)?;
    for count in COUNTS {
        for picture in on_device(handle, region, count)?.chunks_exact(host.len()) {
            let sum: u64 = picture.iter().zip(&host).map(|(a, b)| u64::from(a.abs_diff(*b))).sum();
            let difference = sum as f64 / host.len() as f64;
            if difference > DIFFERENCE_MAX {
                let message = format!(
                    "nvJPEG decodes something else than the host: grey levels differ by {difference:.1} on average"
                );
                return Err(Error::new(ErrorKind::Unsupported, message).with("pictures", count));
            }
        }
    }
    Ok(())
}

/// A part as the host decodes it.
fn on_host(region: Region) -> Result<Vec<u8>> {
    let mut pixels = Pixels::new();
    Decoder::new().decode(FILE, region, &mut pixels)?;
    let have = pixels.region();
    let rows = pixels.rgb().chunks_exact(have.w as usize * 3).skip((region.y - have.y) as usize);
    let left = (region.x - have.x) as usize * 3;
    Ok(rows.take(region.h as usize).flat_map(|row| &row[left..][..region.w as usize * 3]).copied().collect())
}

/// A part as the backend decodes it, `count` times in one batch.
fn on_device(handle: &Arc<Handle>, region: Region, count: usize) -> Result<Vec<u8>> {
    let context = handle.context();
    let pitch = region.w as usize * 3;
    let bytes = pitch * region.h as usize;
    let stream = Stream::new(context)?;
    let memory = Block::alloc(context, count * bytes)?;
    // It may be what another backend has decoded to: what is not written must show.
    memory.fill(0xEE, count * bytes, &stream)?;
    let mut decoder = Batched::new(handle)?;
    let job = |at: usize| Job { file: FILE, region, out: memory.address + (at * bytes) as u64, pitch };
    let jobs: Vec<Job<'_>> = (0..count).map(job).collect();
    // SAFETY: the decoder is new; the file is there for ever, and the memory is nobody else's until the stream has been waited
    // for.
    let answer = unsafe { decoder.decode(&jobs, stream.handle) }.and_then(|answer| Ok(answer?));
    // What was refused may have been begun, and on streams of the library's own.
    let ended = if answer.is_ok() { stream.wait() } else { context.synchronize() };
    if let Err(error) = ended {
        std::mem::forget((decoder, memory));
        return Err(error);
    }
    answer?;
    memory.read(count * bytes, &stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_loader::decode::jpeg::{Subsampling, encode};

    /// A level that rises and falls by 8 from pixel to pixel.
    fn wave(at: u32) -> u32 {
        let phase = at % 32;
        8 * phase.min(32 - phase)
    }

    fn pixels() -> Vec<u8> {
        let pixel = |x: u32, y: u32| {
            let luma = 24 + wave(x + 3 * y);
            [luma + x / 3, luma + 16, luma + 24 - y / 3].map(|level| level.min(255) as u8)
        };
        (0..SIZE.h).flat_map(|y| (0..SIZE.w).flat_map(move |x| pixel(x, y))).collect()
    }

    #[test]
    fn the_file_is_what_its_description_says() {
        assert!(FILE == encode(&pixels(), SIZE, 90, Subsampling::S420, false).expect("a picture"));
    }

    #[test]
    fn the_part_is_told_from_its_neighbours() {
        let host = on_host(REGION).expect("decoded");
        let all = pixels();
        let difference = |x: u32, y: u32| {
            let at = |row: u32| (((y + row) * SIZE.w + x) * 3) as usize;
            let part = (0..REGION.h).flat_map(|row| &all[at(row)..][..REGION.w as usize * 3]);
            let sum: u32 = part.zip(&host).map(|(a, b)| u32::from(a.abs_diff(*b))).sum();
            f64::from(sum) / host.len() as f64
        };
        assert!(difference(REGION.x, REGION.y) < DIFFERENCE_MAX, "{}", difference(REGION.x, REGION.y));
        for (x, y) in [(20, 13), (22, 13), (21, 12), (21, 14), (16, 8), (16, 16), (0, 0)] {
            assert!(difference(x, y) > 2.0 * DIFFERENCE_MAX, "{x}, {y}: {}", difference(x, y));
        }
    }
}
