//! Fake nvJPEG, batches of pictures, and their expected contents.

use crate::fake::{self, BYTES, Rig, WaitMode};
use forebay_loader::decode::geometry::{PixelWindow, Region, Size, Stage};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder, Subsampling, encode};
use forebay_loader::decode::normalise::PictureWriter;
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::decode::resize::Resizer;
use forebay_loader::decode::{Border, DType, EncodedPicture, Interpolation, PixelLayout};
use forebay_loader::delivery::{
    BatchOnDevice, Delivery, DeviceRows, EncodedBatch, InFlightBatch, OutputLayout, PartialBatch, PictureDecoder,
    RowPicture, TensorMemory,
};
use forebay_loader::memory::BatchSlot;
use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

const NO_LEAKS: [i32; 4] = [1, 0, 0, 0];
pub(crate) const SIDE: u32 = 48;
pub(crate) const ROWS: usize = 18;
pub(crate) const STORED: Size = Size { w: 90, h: 70 };

/// Decodes as the host does, so that a difference is the fault of the device's part.
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
    // SAFETY: the fake passes a file that it was given.
    let file = unsafe { std::slice::from_raw_parts(file, len) };
    let [x, y, w, h] = [x, y, w, h].map(|v| v as u32);
    let mut pixels = Pixels::default();
    if Decoder::default().decode(file, Region { x, y, w, h }, &mut pixels).is_err() {
        return 1;
    }
    let have = pixels.region();
    for row in 0..h {
        let from = (((y - have.y + row) * have.w + x - have.x) * 3) as usize;
        // SAFETY: the memory has `h` rows of `pitch` bytes.
        let to = unsafe { out.add(row as usize * pitch) };
        // SAFETY: `3 * w` bytes of the row are the picture's.
        let to = unsafe { std::slice::from_raw_parts_mut(to, w as usize * 3) };
        to.copy_from_slice(&pixels.rgb()[from..from + to.len()]);
    }
    0
}

/// Makes all calls of a function fail.
pub(crate) const EVERY: c_int = -1;

/// nvJPEG's numbers of its backends.
pub(crate) const CORES: c_int = 2;
pub(crate) const ENGINES: c_int = 3;
/// Flag for one of them: only pictures with an odd width.
pub(crate) const ODD: c_int = 16;

/// Modes of the engines: regions or whole pictures, with interpolated or replicated chroma.
pub(crate) const REGIONS: c_int = 1;
pub(crate) const WHOLE: c_int = 2;
pub(crate) const REGIONS_REPLICATED: c_int = 4;
pub(crate) const WHOLE_REPLICATED: c_int = 8;

/// Fake nvJPEG that the decoder under test has loaded.
pub(crate) struct NvJpeg(libloading::Library);

impl NvJpeg {
    pub(crate) fn new() -> Self {
        // SAFETY: no initialisers.
        let library = unsafe { libloading::Library::new(fake::nvjpeg()) }.expect("loads");
        type Decode = unsafe extern "C" fn(*const u8, usize, c_int, c_int, c_int, c_int, *mut u8, usize) -> c_int;
        // SAFETY: the type matches the fake's source.
        let set = unsafe { library.get::<unsafe extern "C" fn(Decode)>("fake_nvjpeg_decode_with") }
            .expect("a function of the fake");
        // SAFETY: as above.
        unsafe { set(decode) };
        let nvjpeg = Self(library);
        nvjpeg.set_engines(2);
        nvjpeg.fail("", 0, 0);
        nvjpeg.set_times(0, 0, 0);
        nvjpeg.set_wrong(0);
        nvjpeg.set_modes(REGIONS | WHOLE | REGIONS_REPLICATED | WHOLE_REPLICATED);
        nvjpeg
    }

    /// Sets the number of engines.
    pub(crate) fn set_engines(&self, count: c_int) {
        self.set("fake_nvjpeg_engines", count);
    }

    /// Makes a backend decode wrong pixels; 0 selects no backend.
    pub(crate) fn set_wrong(&self, backend: c_int) {
        self.set("fake_nvjpeg_set_wrong", backend);
    }

    /// Restricts the modes of the engines.
    pub(crate) fn set_modes(&self, mask: c_int) {
        self.set("fake_nvjpeg_set_modes", mask);
    }

    fn set(&self, name: &str, value: c_int) {
        // SAFETY: the type matches the fake's source.
        let set = unsafe { self.0.get::<unsafe extern "C" fn(c_int)>(name) }.expect("a function of the fake");
        // SAFETY: as above.
        unsafe { set(value) };
    }

    /// Sets the microseconds of simulated time per picture of engines and cores, and of the cores before the first
    /// picture of a batch.
    pub(crate) fn set_times(&self, engine: c_int, core: c_int, cores_first: c_int) {
        type Set = unsafe extern "C" fn(c_int, c_int, c_int);
        // SAFETY: the type matches the fake's source.
        let set = unsafe { self.0.get::<Set>("fake_nvjpeg_set_times") }.expect("a function of the fake");
        // SAFETY: as above.
        unsafe { set(engine, core, cores_first) };
    }

    pub(crate) fn fail(&self, function: &str, nth: c_int, code: c_int) {
        type Fail = unsafe extern "C" fn(*const c_char, c_int, c_int);
        // SAFETY: the type matches the fake's source.
        let fail = unsafe { self.0.get::<Fail>("fake_nvjpeg_fail") }.expect("a function of the fake");
        let function = CString::new(function).expect("a name");
        // SAFETY: the name is copied.
        unsafe { fail(function.as_ptr(), nth, code) }
    }

    pub(crate) fn call(&self, name: &str) -> c_int {
        // SAFETY: functions of this kind have no arguments.
        let function = unsafe { self.0.get::<unsafe extern "C" fn() -> c_int>(name) }.expect("a function of the fake");
        // SAFETY: as above.
        unsafe { function() }
    }

    /// Returns the pictures that engines and cores have decoded since the last call.
    pub(crate) fn counts(&self) -> (c_int, c_int) {
        (self.call("fake_nvjpeg_by_engines"), self.call("fake_nvjpeg_by_cores"))
    }
}

/// Stage of each kind: enlarged, shrunk, mirrored, with a window that extends beyond the picture.
pub(crate) fn stage(seed: u32) -> Stage {
    let crop = Region { x: seed % 9, y: seed % 7, w: 30 + seed % 40, h: 25 + seed % 31 };
    let size = Size { w: SIDE, h: SIDE };
    let resized = if seed.is_multiple_of(3) { Size { w: SIDE + 10, h: SIDE - 6 } } else { size };
    Stage {
        crop,
        resized,
        interpolation: Interpolation::Bilinear,
        border: Border::BLACK,
        window: PixelWindow { x: 0, y: i64::from(seed % 3), size },
        flip: seed.is_multiple_of(2),
    }
}

pub(crate) fn file(seed: u32) -> Vec<u8> {
    let pixels: Vec<u8> =
        (0..STORED.w * STORED.h * 3).map(|i| ((i / 3 % STORED.w) * (seed % 5 + 1) + i / 977 * seed) as u8).collect();
    encode(&pixels, STORED, 80, Subsampling::S420, false).expect("a picture")
}

/// Texts in a file that only the fake reacts to: it rejects the picture, finds no memory, accepts it and never decodes
/// it, or decodes only its upper half.
pub(crate) const REJECTED: &str = "REJECTED";
pub(crate) const NO_MEMORY: &str = "NOMEMORY";
pub(crate) const UNDECODED: &str = "UNDECODED";
pub(crate) const CUT_SHORT: &str = "CUTSHORT";

/// File that contains `text`.
fn file_with(text: &str, seed: u32) -> Vec<u8> {
    let file = file(seed);
    [&file[..2], &[0xff, 0xfe, 0, text.len() as u8 + 2], text.as_bytes(), &file[2..]].concat()
}

/// Layout of a batch with pictures and a number for each row.
pub(crate) struct BatchForm {
    rows: usize,
    writer: PictureWriter,
    pub(crate) outputs: Vec<OutputLayout>,
}

impl BatchForm {
    /// Creates a layout of [`ROWS`] rows.
    pub(crate) fn new(dtype: DType, layout: PixelLayout) -> Self {
        Self::with_rows(ROWS, dtype, layout)
    }

    pub(crate) fn with_rows(rows: usize, dtype: DType, layout: PixelLayout) -> Self {
        let normalise = (dtype != DType::UInt8).then_some(([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]));
        let writer = PictureWriter::new(dtype, layout, normalise).expect("a writer");
        let size = Size { w: SIDE, h: SIDE };
        let pictures = OutputLayout { offset: 0, row_bytes: writer.bytes(size), form: writer.form(size) };
        let numbers = OutputLayout { offset: pictures.row_bytes * rows, row_bytes: 8, form: None };
        Self { rows, writer, outputs: vec![pictures, numbers] }
    }

    /// Returns the row that the host makes of the picture.
    pub(crate) fn on_host(&self, file: &[u8], stage: &Stage) -> Vec<u8> {
        let mut pixels = Pixels::default();
        let mut resizer = Resizer::default();
        let needed = resizer.plan(stage);
        Decoder::default().decode(file, needed, &mut pixels).expect("decodes");
        let mut out = vec![0; self.outputs[0].row_bytes];
        resizer.run(&pixels, |y, row| self.writer.write(&mut out, stage.output(), y, row));
        out
    }

    /// Fills a slot with the pictures from `seed` on. Rows are files, except those in `decoded`. The fake rejects the
    /// rows in `rejected`.
    pub(crate) fn fill(
        &self,
        rig: &Rig,
        seed: u32,
        decoded: &[usize],
        rejected: &[usize],
    ) -> (BatchSlot, Vec<RowPicture>) {
        self.fill_with(rig, seed, decoded, |row| rejected.contains(&row).then_some(REJECTED))
    }

    /// Fills a slot where `text` puts texts into the files of some rows.
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
                let picture = EncodedPicture { bytes: file.len(), size: STORED, stage: stage(seed), erased: None };
                pictures.push(RowPicture { output: 0, row, at: place.offset + row * place.row_bytes, picture });
            }
            bytes[numbers.offset + row * 8..][..8].copy_from_slice(&u64::from(seed).to_ne_bytes());
        }
        (slot, pictures)
    }

    /// Submits a batch and waits for it.
    pub(crate) fn submit(
        &self,
        decoder: &TestDecoder,
        filled: (BatchSlot, Vec<RowPicture>),
        rows: &[usize],
    ) -> forebay_loader::Result<BatchOnDevice> {
        decoder.advancing(|| self.submit_only(decoder, filled, rows, None)?.wait())
    }

    fn submit_only(
        &self,
        decoder: &TestDecoder,
        (slot, pictures): (BatchSlot, Vec<RowPicture>),
        rows: &[usize],
        on_device: Option<Box<dyn DeviceRows>>,
    ) -> forebay_loader::Result<Box<dyn InFlightBatch>> {
        let (outputs, pictures) = (&self.outputs[..], &pictures[..]);
        decoder.submit(EncodedBatch { slot, bytes: BYTES, outputs, rows, pictures, on_device })
    }

    /// Delivers a batch with `rows`.
    pub(crate) fn deliver(
        &self,
        BatchOnDevice { slot, rows: on_device, .. }: BatchOnDevice,
        rows: &[usize],
    ) -> forebay_loader::Result<Arc<dyn TensorMemory>> {
        on_device.expect("rows on the device").deliver(PartialBatch { slot, outputs: &self.outputs, rows })
    }

    /// Waits for a batch in flight and delivers it with all rows.
    pub(crate) fn finish(&self, decoder: &TestDecoder, batch: Box<dyn InFlightBatch>) -> Arc<dyn TensorMemory> {
        let batch = decoder.advancing(|| batch.wait()).expect("finished");
        assert!(batch.undecoded.is_empty(), "{:?}", batch.undecoded);
        self.deliver(batch, &(0..self.rows).collect::<Vec<_>>()).expect("delivered")
    }

    /// Submits a batch with all rows, without a wait for the device.
    pub(crate) fn start(&self, decoder: &TestDecoder, filled: (BatchSlot, Vec<RowPicture>)) -> Box<dyn InFlightBatch> {
        self.start_with(decoder, filled, None)
    }

    /// Submits a batch with rows that the device has already.
    pub(crate) fn start_with(
        &self,
        decoder: &TestDecoder,
        filled: (BatchSlot, Vec<RowPicture>),
        on_device: Option<Box<dyn DeviceRows>>,
    ) -> Box<dyn InFlightBatch> {
        let rows: Vec<usize> = (0..self.rows).collect();
        self.submit_only(decoder, filled, &rows, on_device).expect("submitted")
    }

    /// Submits a batch with the pictures from `seed` on, leaves the `rejected` ones undecoded, and decodes
    /// those in `rows` on the host as the loader does. Returns the batch for its delivery with `rows`.
    pub(crate) fn rejected(
        &self,
        rig: &Rig,
        decoder: &TestDecoder,
        seed: u32,
        rejected: &[usize],
        rows: &[usize],
    ) -> BatchOnDevice {
        self.rejected_with(rig, decoder, seed, (rejected, REJECTED), rows)
    }

    /// As [`rejected`](Self::rejected), with `text` in these files.
    pub(crate) fn rejected_with(
        &self,
        rig: &Rig,
        decoder: &TestDecoder,
        seed: u32,
        (rejected, text): (&[usize], &'static str),
        rows: &[usize],
    ) -> BatchOnDevice {
        let filled = self.fill_with(rig, seed, &[], |row| rejected.contains(&row).then_some(text));
        let every: Vec<usize> = (0..self.rows).collect();
        let mut batch = self.submit(decoder, filled, &every).expect("finished");
        assert_eq!(batch.undecoded, rejected);
        assert_eq!(rig.call("fake_cuda_queued"), 0, "work in flight uses the slot");
        let host_rows: Vec<usize> = rows.iter().copied().filter(|row| rejected.contains(row)).collect();
        self.decode_on_host(&mut batch.slot, seed, &host_rows);
        batch
    }

    /// Decodes these rows of the slot on the host, as the loader does.
    pub(crate) fn decode_on_host(&self, slot: &mut BatchSlot, seed: u32, rows: &[usize]) {
        let row_bytes = self.outputs[0].row_bytes;
        for row in rows {
            let seed = seed + *row as u32;
            let host = self.on_host(&file(seed), &stage(seed));
            slot.bytes_mut().expect("all of it")[row * row_bytes..][..row_bytes].copy_from_slice(&host);
        }
    }

    /// Submits a batch with decoded pictures alone, and delivers it.
    pub(crate) fn done(
        &self,
        decoder: &TestDecoder,
        filled: (BatchSlot, Vec<RowPicture>),
        rows: &[usize],
    ) -> Arc<dyn TensorMemory> {
        let batch = self.submit(decoder, filled, rows).expect("finished");
        assert!(batch.undecoded.is_empty(), "{:?}", batch.undecoded);
        self.deliver(batch, rows).expect("delivered")
    }

    /// Compares the batch that a consumer reads with the host's pictures from `seed` on in `rows`.
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
                    // The limit is one grey level: 1 / (255 * 0.2).
                    assert!(worst < 0.0197, "row {row} differs by {worst}");
                }
            }
        }
    }
}

pub(crate) fn all() -> Vec<usize> {
    (0..ROWS).collect()
}

/// Opens a decoder and waits for the device to finish its self-test.
pub(crate) fn open(rig: &Rig, nvjpeg: &NvJpeg) -> TestDecoder {
    let wait_mode = rig.wait_mode();
    let before = wait_mode.advance(true);
    let decoder = Some(rig.delivery.picture_decoder().expect("a decoder"));
    wait_mode.advance(before);
    nvjpeg.counts();
    TestDecoder { decoder, wait_mode }
}

/// Decoder that is dropped even if its test fails. The device then advances when the drop waits for it.
pub(crate) struct TestDecoder {
    pub(crate) decoder: Option<Arc<dyn PictureDecoder>>,
    wait_mode: WaitMode,
}

impl TestDecoder {
    /// Runs `body` while a wait advances the device only as far as it needs.
    pub(crate) fn advancing<T>(&self, body: impl FnOnce() -> T) -> T {
        self.wait_mode.minimal(body)
    }

    /// Makes the decoder allocate all the memory that it needs for such batches.
    pub(crate) fn warm(&self, rig: &Rig, form: &BatchForm) {
        let rows: Vec<usize> = (0..form.rows).collect();
        // One batch for each group slot.
        for seed in 0..2 {
            drop(form.done(self, form.fill(rig, seed, &[], &[]), &rows));
        }
        rig.call("fake_cuda_run");
    }
}

impl std::ops::Deref for TestDecoder {
    type Target = dyn PictureDecoder;

    fn deref(&self) -> &Self::Target {
        &**self.decoder.as_ref().expect("open")
    }
}

impl Drop for TestDecoder {
    fn drop(&mut self) {
        self.wait_mode.advance(true);
        drop(self.decoder.take());
    }
}

/// Drops everything and checks that nothing has leaked.
pub(crate) fn end(rig: Rig, nvjpeg: &NvJpeg, decoder: TestDecoder) {
    drop(decoder);
    assert_eq!(nvjpeg.call("fake_nvjpeg_live"), 0, "handles are alive although the process may exit now");
    check_leaks(rig, nvjpeg);
}

pub(crate) fn check_leaks(rig: Rig, nvjpeg: &NvJpeg) {
    // The decoder's drop ends when the device has done its work.
    let (leaks, handles) = rig.end_and(|call| [nvjpeg.call("fake_nvjpeg_live"), call("fake_cuda_modules")]);
    assert_eq!((leaks, handles), (NO_LEAKS, [0, 0]));
}
