//! The stand-in for nvJPEG, batches of pictures, and what a consumer must read of them.

use crate::fake::{self, BYTES, Moving, Rig};
use forebay_loader::decode::geometry::{Filter, Region, Size, Stage, Window};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder, Subsampling, encode};
use forebay_loader::decode::normalise::PictureWriter;
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::decode::resize::Resizer;
use forebay_loader::decode::{DType, EncodedPicture, Layout};
use forebay_loader::delivery::{
    DecodeOutcome, Delivery, DeviceRows, EncodedBatch, InFlightBatch, OutputLayout, PictureDecoder, RowPicture,
    TensorMemory,
};
use forebay_loader::memory::BatchSlot;
use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

const NOTHING_LEFT: [i32; 4] = [1, 0, 0, 0];
pub(crate) const SIDE: u32 = 48;
pub(crate) const ROWS: usize = 18;
pub(crate) const STORED: Size = Size { w: 90, h: 70 };

/// Decodes as the host does, so that what differs is the fault of the way there.
unsafe extern "C" fn decode(
    file: *const u8,
    len: usize,
    x: c_int,
    y: c_int,
    w: c_int,
    h: c_int,
    out: *mut u8,
    pitch: usize,
) -> c_int {
    // SAFETY: the stand-in passes the file that it was given.
    let file = unsafe { std::slice::from_raw_parts(file, len) };
    let [x, y, w, h] = [x, y, w, h].map(|v| v as u32);
    let mut pixels = Pixels::new();
    if Decoder::new().decode(file, Region { x, y, w, h }, &mut pixels).is_err() {
        return 1;
    }
    let have = pixels.region();
    for row in 0..h {
        let from = (((y - have.y + row) * have.w + x - have.x) * 3) as usize;
        // SAFETY: the place has `h` rows of `pitch` bytes.
        let to = unsafe { out.add(row as usize * pitch) };
        // SAFETY: of which `3 * w` are the picture's.
        let to = unsafe { std::slice::from_raw_parts_mut(to, w as usize * 3) };
        to.copy_from_slice(&pixels.rgb()[from..from + to.len()]);
    }
    0
}

/// Every call of a function.
pub(crate) const EVERY: c_int = -1;

/// nvJPEG's numbers of its backends.
pub(crate) const CORES: c_int = 2;
pub(crate) const ENGINES: c_int = 3;
/// With one of them: only pictures with an odd width.
pub(crate) const ODD: c_int = 16;

/// Ways in which engines decode: with chroma blended, or as it is stored.
pub(crate) const PARTS: c_int = 1;
pub(crate) const WHOLES: c_int = 2;
pub(crate) const PARTS_AS_STORED: c_int = 4;
pub(crate) const WHOLES_AS_STORED: c_int = 8;

/// The stand-in for nvJPEG, as the target's.
pub(crate) struct NvJpeg(libloading::Library);

impl NvJpeg {
    pub(crate) fn new() -> Self {
        // SAFETY: no initialisers.
        let library = unsafe { libloading::Library::new(fake::nvjpeg()) }.expect("loads");
        type Decode = unsafe extern "C" fn(*const u8, usize, c_int, c_int, c_int, c_int, *mut u8, usize) -> c_int;
        // SAFETY: the type is the one of the stand-in's source.
        let set = unsafe { library.get::<unsafe extern "C" fn(Decode)>("fake_nvjpeg_decode_with") }.expect("there");
        // SAFETY: as above.
        unsafe { set(decode) };
        let nvjpeg = Self(library);
        nvjpeg.engines(2);
        nvjpeg.fail("", 0, 0);
        nvjpeg.take(0, 0, 0);
        nvjpeg.spoil(0);
        nvjpeg.ways(PARTS | WHOLES | PARTS_AS_STORED | WHOLES_AS_STORED);
        nvjpeg
    }

    /// So many decoders do nothing else.
    pub(crate) fn engines(&self, count: c_int) {
        self.set("fake_nvjpeg_engines", count);
    }

    /// The pixels of a backend are others; of none with 0.
    pub(crate) fn spoil(&self, backend: c_int) {
        self.set("fake_nvjpeg_spoil", backend);
    }

    /// Engines decode in these ways alone.
    pub(crate) fn ways(&self, mask: c_int) {
        self.set("fake_nvjpeg_ways", mask);
    }

    fn set(&self, name: &str, value: c_int) {
        // SAFETY: the type is the one of the stand-in's source.
        let set = unsafe { self.0.get::<unsafe extern "C" fn(c_int)>(name) }.expect("there");
        // SAFETY: as above.
        unsafe { set(value) };
    }

    /// Microseconds of the device's time: of a picture, by whom, and of a batch before the cores begin with its first.
    pub(crate) fn take(&self, engine: c_int, core: c_int, cores_first: c_int) {
        type Take = unsafe extern "C" fn(c_int, c_int, c_int);
        // SAFETY: the type is the one of the stand-in's source.
        let take = unsafe { self.0.get::<Take>("fake_nvjpeg_take") }.expect("there");
        // SAFETY: as above.
        unsafe { take(engine, core, cores_first) };
    }

    pub(crate) fn fail(&self, function: &str, nth: c_int, code: c_int) {
        type Fail = unsafe extern "C" fn(*const c_char, c_int, c_int);
        // SAFETY: the type is the one of the stand-in's source.
        let fail = unsafe { self.0.get::<Fail>("fake_nvjpeg_fail") }.expect("there");
        let function = CString::new(function).expect("a name");
        // SAFETY: the name is copied.
        unsafe { fail(function.as_ptr(), nth, code) }
    }

    pub(crate) fn call(&self, name: &str) -> c_int {
        // SAFETY: the stand-in's functions of this kind take nothing.
        let function = unsafe { self.0.get::<unsafe extern "C" fn() -> c_int>(name) }.expect("there");
        // SAFETY: as above.
        unsafe { function() }
    }

    /// Pictures by engines and by cores since the last call.
    pub(crate) fn counts(&self) -> (c_int, c_int) {
        (self.call("fake_nvjpeg_by_engines"), self.call("fake_nvjpeg_by_cores"))
    }
}

/// A stage of every kind: enlarged, shrunk, mirrored, looked at through a window that sticks out.
pub(crate) fn stage(seed: u32) -> Stage {
    let crop = Region { x: seed % 9, y: seed % 7, w: 30 + seed % 40, h: 25 + seed % 31 };
    let size = Size { w: SIDE, h: SIDE };
    let resized = if seed.is_multiple_of(3) { Size { w: SIDE + 10, h: SIDE - 6 } } else { size };
    Stage { crop, resized, window: Window { x: 0, y: i64::from(seed % 3), size }, flip: seed.is_multiple_of(2) }
}

pub(crate) fn file(seed: u32) -> Vec<u8> {
    let pixels: Vec<u8> =
        (0..STORED.w * STORED.h * 3).map(|i| ((i / 3 % STORED.w) * (seed % 5 + 1) + i / 977 * seed) as u8).collect();
    encode(&pixels, STORED, 80, Subsampling::S420, false).expect("a picture")
}

/// What a file holds that the stand-in does not decode as it should, and everybody else does: it refuses it, says that it decodes
/// it and does not, or does so with its upper half.
pub(crate) const REFUSED: &str = "REFUSED";
pub(crate) const NO_MEMORY: &str = "NOMEMORY";
pub(crate) const LEFT_OUT: &str = "LEFTOUT";
pub(crate) const CUT_SHORT: &str = "CUTSHORT";

/// A file with such a text in it.
fn file_with(text: &str, seed: u32) -> Vec<u8> {
    let file = file(seed);
    [&file[..2], &[0xff, 0xfe, 0, text.len() as u8 + 2], text.as_bytes(), &file[2..]].concat()
}

/// A batch of so many rows: pictures, and a number for each.
pub(crate) struct Form {
    rows: usize,
    writer: PictureWriter,
    pub(crate) outputs: Vec<OutputLayout>,
}

impl Form {
    /// One of [`ROWS`] rows.
    pub(crate) fn new(dtype: DType, layout: Layout) -> Self {
        Self::with_rows(ROWS, dtype, layout)
    }

    pub(crate) fn with_rows(rows: usize, dtype: DType, layout: Layout) -> Self {
        let normalise = (dtype != DType::UInt8).then_some(([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]));
        let writer = PictureWriter::new(dtype, layout, normalise).expect("a writer");
        let size = Size { w: SIDE, h: SIDE };
        let pictures = OutputLayout { offset: 0, row_bytes: writer.bytes(size), form: writer.form(size) };
        let numbers = OutputLayout { offset: pictures.row_bytes * rows, row_bytes: 8, form: None };
        Self { rows, writer, outputs: vec![pictures, numbers] }
    }

    /// What the host makes of picture `seed`.
    pub(crate) fn on_host(&self, file: &[u8], stage: &Stage) -> Vec<u8> {
        let mut pixels = Pixels::new();
        let mut resizer = Resizer::new();
        let needed = resizer.plan(stage, Filter::Bilinear);
        Decoder::new().decode(file, needed, &mut pixels).expect("decodes");
        let mut out = vec![0; self.outputs[0].row_bytes];
        resizer.run(&pixels, |y, row| self.writer.write(&mut out, stage.output(), y, row));
        out
    }

    /// A slot whose rows are files, but for those in `decoded`, with the pictures of `seed` on.
    pub(crate) fn fill(
        &self,
        rig: &Rig,
        seed: u32,
        decoded: &[usize],
        refused: &[usize],
    ) -> (BatchSlot, Vec<RowPicture>) {
        self.fill_with(rig, seed, decoded, |row| refused.contains(&row).then_some(REFUSED))
    }

    /// The same with such texts in some rows' files.
    pub(crate) fn fill_with(
        &self,
        rig: &Rig,
        seed: u32,
        decoded: &[usize],
        text: impl Fn(usize) -> Option<&'static str>,
    ) -> (BatchSlot, Vec<RowPicture>) {
        let mut slot = rig.pool.take(BYTES).expect("a slot");
        let bytes = slot.bytes_mut().expect("all of it");
        let mut pictures = Vec::new();
        let [place, numbers] = self.outputs[..] else { panic!("two outputs") };
        for row in 0..self.rows {
            let seed = seed + row as u32;
            let file = text(row).map_or_else(|| file(seed), |text| file_with(text, seed));
            let at = &mut bytes[place.offset + row * place.row_bytes..][..place.row_bytes];
            if decoded.contains(&row) {
                at.copy_from_slice(&self.on_host(&file, &stage(seed)));
            } else {
                at[..file.len()].copy_from_slice(&file);
                let picture = EncodedPicture { bytes: file.len(), size: STORED, stage: stage(seed) };
                pictures.push(RowPicture { output: 0, row, at: place.offset + row * place.row_bytes, picture });
            }
            bytes[numbers.offset + row * 8..][..8].copy_from_slice(&u64::from(seed).to_ne_bytes());
        }
        (slot, pictures)
    }

    pub(crate) fn place(
        &self,
        decoder: &Opened,
        (slot, pictures): (BatchSlot, Vec<RowPicture>),
        rows: &[usize],
    ) -> forebay_loader::Result<DecodeOutcome> {
        self.place_again(decoder, (slot, pictures), rows, None)
    }

    pub(crate) fn place_again(
        &self,
        decoder: &Opened,
        (slot, pictures): (BatchSlot, Vec<RowPicture>),
        rows: &[usize],
        decoded: Option<DeviceRows>,
    ) -> forebay_loader::Result<DecodeOutcome> {
        decoder.moved(|| {
            let placed = self.start_again(decoder, (slot, pictures), rows, decoded)?;
            if let DecodeOutcome::InFlight(batch) = placed { decoder.wait(batch) } else { Ok(placed) }
        })
    }

    fn start_again(
        &self,
        decoder: &Opened,
        (slot, pictures): (BatchSlot, Vec<RowPicture>),
        rows: &[usize],
        decoded: Option<DeviceRows>,
    ) -> forebay_loader::Result<DecodeOutcome> {
        decoder.submit(EncodedBatch {
            slot,
            bytes: BYTES,
            outputs: &self.outputs,
            rows,
            pictures: &pictures,
            on_device: decoded,
        })
    }

    /// Places a batch with all rows, and does not wait for the device.
    pub(crate) fn start(&self, decoder: &Opened, filled: (BatchSlot, Vec<RowPicture>)) -> InFlightBatch {
        self.start_with(decoder, filled, None)
    }

    /// The same, where the device has some rows already.
    pub(crate) fn start_with(
        &self,
        decoder: &Opened,
        filled: (BatchSlot, Vec<RowPicture>),
        decoded: Option<DeviceRows>,
    ) -> InFlightBatch {
        let rows: Vec<usize> = (0..self.rows).collect();
        match self.start_again(decoder, filled, &rows, decoded).expect("an answer") {
            DecodeOutcome::InFlight(batch) => batch,
            other => panic!("{other:?}"),
        }
    }

    /// Places a batch of pictures of `seed` on of which `refused` come back, and decodes those of them that are in `rows` on
    /// the host, as the loader does: the batch as it comes again with `rows`.
    pub(crate) fn refused(
        &self,
        rig: &Rig,
        decoder: &Opened,
        seed: u32,
        refused: &[usize],
        rows: &[usize],
    ) -> (BatchSlot, Vec<RowPicture>, Option<DeviceRows>) {
        self.refused_with(rig, decoder, seed, (refused, REFUSED), rows)
    }

    /// The same, for such a text in those files.
    pub(crate) fn refused_with(
        &self,
        rig: &Rig,
        decoder: &Opened,
        seed: u32,
        (refused, text): (&[usize], &'static str),
        rows: &[usize],
    ) -> (BatchSlot, Vec<RowPicture>, Option<DeviceRows>) {
        let filled = self.fill_with(rig, seed, &[], |row| refused.contains(&row).then_some(text));
        let list = filled.1.clone();
        let every: Vec<usize> = (0..self.rows).collect();
        let DecodeOutcome::Rejected { slot, pictures, on_device: decoded } =
            self.place(decoder, filled, &every).expect("an answer")
        else {
            panic!("{refused:?} cannot be decoded")
        };
        assert_eq!(pictures, refused);
        assert_eq!(rig.call("fake_cuda_queued"), 0, "the slot is the caller's again");
        let of_host: Vec<usize> = rows.iter().copied().filter(|row| refused.contains(row)).collect();
        let slot = self.with_rows_of_host(slot, seed, &of_host);
        let rest = list.into_iter().filter(|p| rows.contains(&p.row) && !refused.contains(&p.row)).collect();
        (slot, rest, decoded)
    }

    /// A slot that came back, with these rows decoded on the host as the loader does.
    pub(crate) fn with_rows_of_host(&self, mut slot: BatchSlot, seed: u32, rows: &[usize]) -> BatchSlot {
        let row_bytes = self.outputs[0].row_bytes;
        for row in rows {
            let seed = seed + *row as u32;
            let host = self.on_host(&file(seed), &stage(seed));
            slot.bytes_mut().expect("all of it")[row * row_bytes..][..row_bytes].copy_from_slice(&host);
        }
        slot
    }

    pub(crate) fn done(
        &self,
        decoder: &Opened,
        filled: (BatchSlot, Vec<RowPicture>),
        rows: &[usize],
    ) -> Arc<dyn TensorMemory> {
        match self.place(decoder, filled, rows).expect("placed") {
            DecodeOutcome::Done { memory, .. } => memory,
            other => panic!("{other:?}"),
        }
    }

    /// Compares what a consumer reads with the host's pictures `seed` on of the `rows`.
    pub(crate) fn check(&self, rig: &Rig, memory: &dyn TensorMemory, seed: u32, rows: &[usize]) {
        memory.order_before(None).expect("ordered");
        let got = rig.read_all(memory);
        let [place, numbers] = self.outputs[..] else { panic!("two outputs") };
        for (at, row) in rows.iter().enumerate() {
            let seed = seed + *row as u32;
            let number = &got[numbers.offset + at * 8..][..8];
            assert_eq!(number, u64::from(seed).to_ne_bytes(), "number of row {row}");
            let picture = &got[place.offset + at * place.row_bytes..][..place.row_bytes];
            let host = self.on_host(&file(seed), &stage(seed));
            match self.writer.dtype() {
                DType::UInt8 => {
                    let worst = picture.iter().zip(&host).map(|(a, b)| a.abs_diff(*b)).max();
                    assert!(worst <= Some(1), "row {row} differs by {worst:?} levels");
                }
                _ => {
                    let float = |b: &[u8; 4]| f32::from_ne_bytes(*b);
                    let pairs = picture.as_chunks::<4>().0.iter().zip(host.as_chunks::<4>().0);
                    let worst = pairs.map(|(a, b)| (float(a) - float(b)).abs()).fold(0.0, f32::max);
                    // One grey level: 1 / (255 * 0.2).
                    assert!(worst < 0.0197, "row {row} differs by {worst}");
                }
            }
        }
    }
}

pub(crate) fn all() -> Vec<usize> {
    (0..ROWS).collect()
}

/// A decoder that has decoded nothing but what it was opened with, which the device has done.
pub(crate) fn open(rig: &Rig, nvjpeg: &NvJpeg) -> Opened {
    let moving = rig.moving();
    let before = moving.waits_move(true);
    let decoder = Some(rig.target.picture_decoder().expect("a decoder"));
    moving.waits_move(before);
    nvjpeg.counts();
    Opened { decoder, moving }
}

/// A decoder that ends even when its test fails: what waits for the device then has to see it move.
pub(crate) struct Opened {
    pub(crate) decoder: Option<Arc<dyn PictureDecoder>>,
    moving: Moving,
}

impl Opened {
    /// Runs `body` while waits move the device: each as far as it waits for.
    pub(crate) fn moved<T>(&self, body: impl FnOnce() -> T) -> T {
        self.moving.little(body)
    }

    /// What became of a batch that was started.
    pub(crate) fn ended(&self, batch: InFlightBatch) -> Arc<dyn TensorMemory> {
        match self.moved(|| self.wait(batch)).expect("an answer") {
            DecodeOutcome::Done { memory, .. } => memory,
            other => panic!("{other:?}"),
        }
    }

    /// Has it get all the memory of its own that it needs for batches like this.
    pub(crate) fn warm(&self, rig: &Rig, form: &Form) {
        let rows: Vec<usize> = (0..form.rows).collect();
        // Both lanes.
        for seed in 0..2 {
            drop(form.done(self, form.fill(rig, seed, &[], &[]), &rows));
        }
        rig.call("fake_cuda_run");
    }
}

impl std::ops::Deref for Opened {
    type Target = dyn PictureDecoder;

    fn deref(&self) -> &Self::Target {
        &**self.decoder.as_ref().expect("open")
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.moving.waits_move(true);
        drop(self.decoder.take());
    }
}

/// Ends it; nothing may be left.
pub(crate) fn end(rig: Rig, nvjpeg: &NvJpeg, decoder: Opened) {
    drop(decoder);
    assert_eq!(nvjpeg.call("fake_nvjpeg_live"), 0, "the process may end now, and the library with it");
    nothing_is_left(rig, nvjpeg);
}

pub(crate) fn nothing_is_left(rig: Rig, nvjpeg: &NvJpeg) {
    // A decoder ends when the device has done what it was given.
    let (left, handles) = rig.end_and(|call| [nvjpeg.call("fake_nvjpeg_live"), call("fake_cuda_modules")]);
    assert_eq!((left, handles), (NOTHING_LEFT, [0, 0]));
}
