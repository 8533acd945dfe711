//! Pictures decoded on the device, over stand-ins for driver and nvJPEG that do everything as late as is legal, but for
//! the engines, which write when they are called.

mod fake;

use fake::{BYTES, Moving, Rig};
use forebay_loader::ErrorKind;
use forebay_loader::decode::geometry::{Filter, Region, Size, Stage, Window};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder, Subsampling, encode};
use forebay_loader::decode::normalise::Writer;
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::decode::resize::Resizer;
use forebay_loader::decode::{DType, EncodedPicture, Layout};
use forebay_loader::memory::BatchSlot;
use forebay_loader::target::{
    BatchTarget, Decoded, EncodedBatch, OutputPlace, PictureDecoder, Placed, RowPicture, TensorMemory,
};
use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

const NOTHING_LEFT: [i32; 4] = [1, 0, 0, 0];
const SIDE: u32 = 48;
const ROWS: usize = 18;
const STORED: Size = Size { w: 90, h: 70 };

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
const EVERY: c_int = -1;

/// The stand-in for nvJPEG, as the target's.
struct NvJpeg(libloading::Library);

impl NvJpeg {
    fn new() -> Self {
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
        nvjpeg.counts();
        nvjpeg
    }

    fn engines(&self, count: c_int) {
        // SAFETY: the type is the one of the stand-in's source.
        let set = unsafe { self.0.get::<unsafe extern "C" fn(c_int)>("fake_nvjpeg_engines") }.expect("there");
        // SAFETY: as above.
        unsafe { set(count) };
    }

    fn fail(&self, function: &str, nth: c_int, code: c_int) {
        type Fail = unsafe extern "C" fn(*const c_char, c_int, c_int);
        // SAFETY: the type is the one of the stand-in's source.
        let fail = unsafe { self.0.get::<Fail>("fake_nvjpeg_fail") }.expect("there");
        let function = CString::new(function).expect("a name");
        // SAFETY: the name is copied.
        unsafe { fail(function.as_ptr(), nth, code) }
    }

    fn call(&self, name: &str) -> c_int {
        // SAFETY: the stand-in's functions of this kind take nothing.
        let function = unsafe { self.0.get::<unsafe extern "C" fn() -> c_int>(name) }.expect("there");
        // SAFETY: as above.
        unsafe { function() }
    }

    /// Pictures by engines and by cores since the last call.
    fn counts(&self) -> (c_int, c_int) {
        (self.call("fake_nvjpeg_by_engines"), self.call("fake_nvjpeg_by_cores"))
    }
}

/// A stage of every kind: enlarged, shrunk, mirrored, looked at through a window that sticks out.
fn stage(seed: u32) -> Stage {
    let crop = Region { x: seed % 9, y: seed % 7, w: 30 + seed % 40, h: 25 + seed % 31 };
    let size = Size { w: SIDE, h: SIDE };
    let resized = if seed.is_multiple_of(3) { Size { w: SIDE + 10, h: SIDE - 6 } } else { size };
    Stage { crop, resized, window: Window { x: 0, y: i64::from(seed % 3), size }, flip: seed.is_multiple_of(2) }
}

fn file(seed: u32) -> Vec<u8> {
    let pixels: Vec<u8> =
        (0..STORED.w * STORED.h * 3).map(|i| ((i / 3 % STORED.w) * (seed % 5 + 1) + i / 977 * seed) as u8).collect();
    encode(&pixels, STORED, 80, Subsampling::S420, false).expect("a picture")
}

/// A file that the library refuses and everybody else decodes.
fn refused_file(seed: u32) -> Vec<u8> {
    let file = file(seed);
    [&file[..2], &[0xff, 0xfe, 0, 9], b"REFUSED", &file[2..]].concat()
}

/// A batch of [`ROWS`] rows: pictures, and a number for each.
struct Form {
    writer: Writer,
    outputs: Vec<OutputPlace>,
}

impl Form {
    fn new(dtype: DType, layout: Layout) -> Self {
        let normalise = (dtype != DType::UInt8).then_some(([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]));
        let writer = Writer::new(dtype, layout, normalise).expect("a writer");
        let size = Size { w: SIDE, h: SIDE };
        let pictures = OutputPlace { offset: 0, row_bytes: writer.bytes(size), form: writer.form(size) };
        let numbers = OutputPlace { offset: pictures.row_bytes * ROWS, row_bytes: 8, form: None };
        Self { writer, outputs: vec![pictures, numbers] }
    }

    /// What the host makes of picture `seed`.
    fn on_host(&self, file: &[u8], stage: &Stage) -> Vec<u8> {
        let mut pixels = Pixels::new();
        let mut resizer = Resizer::new();
        let needed = resizer.plan(stage, Filter::Bilinear);
        Decoder::new().decode(file, needed, &mut pixels).expect("decodes");
        let mut out = vec![0; self.outputs[0].row_bytes];
        resizer.run(&pixels, |y, row| self.writer.write(&mut out, stage.output(), y, row));
        out
    }

    /// A slot whose rows are files, but for those in `decoded`, with the pictures of `seed` on.
    fn fill(&self, rig: &Rig, seed: u32, decoded: &[usize], refused: &[usize]) -> (BatchSlot, Vec<RowPicture>) {
        let mut slot = rig.pool.take(BYTES).expect("a slot");
        let bytes = slot.bytes_mut().expect("all of it");
        let mut pictures = Vec::new();
        let [place, numbers] = self.outputs[..] else { panic!("two outputs") };
        for row in 0..ROWS {
            let seed = seed + row as u32;
            let file = if refused.contains(&row) { refused_file(seed) } else { file(seed) };
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

    fn place(
        &self,
        decoder: &dyn PictureDecoder,
        (slot, pictures): (BatchSlot, Vec<RowPicture>),
        rows: &[usize],
    ) -> forebay_loader::Result<Placed> {
        self.place_again(decoder, (slot, pictures), rows, None)
    }

    fn place_again(
        &self,
        decoder: &dyn PictureDecoder,
        (slot, pictures): (BatchSlot, Vec<RowPicture>),
        rows: &[usize],
        decoded: Option<Decoded>,
    ) -> forebay_loader::Result<Placed> {
        decoder.place(EncodedBatch { slot, bytes: BYTES, outputs: &self.outputs, rows, pictures: &pictures, decoded })
    }

    /// Places a batch of pictures of `seed` on of which `refused` come back, and decodes those of them that are in `rows` on
    /// the host, as the loader does: the batch as it comes again with `rows`.
    fn refused(
        &self,
        rig: &Rig,
        decoder: &dyn PictureDecoder,
        seed: u32,
        refused: &[usize],
        rows: &[usize],
    ) -> (BatchSlot, Vec<RowPicture>, Option<Decoded>) {
        let filled = self.fill(rig, seed, &[], refused);
        let list = filled.1.clone();
        let Placed::Refused { mut slot, pictures, decoded } = self.place(decoder, filled, &all()).expect("an answer")
        else {
            panic!("{refused:?} cannot be decoded")
        };
        assert_eq!(pictures, refused);
        assert_eq!(rig.call("fake_cuda_queued"), 0, "the slot is the caller's again");
        let row_bytes = self.outputs[0].row_bytes;
        for row in rows.iter().copied().filter(|row| refused.contains(row)) {
            let host = self.on_host(&file(seed + row as u32), &stage(seed + row as u32));
            slot.bytes_mut().expect("all of it")[row * row_bytes..][..row_bytes].copy_from_slice(&host);
        }
        let rest = list.into_iter().filter(|p| rows.contains(&p.row) && !refused.contains(&p.row)).collect();
        (slot, rest, decoded)
    }

    fn done(
        &self,
        decoder: &dyn PictureDecoder,
        filled: (BatchSlot, Vec<RowPicture>),
        rows: &[usize],
    ) -> Arc<dyn TensorMemory> {
        match self.place(decoder, filled, rows).expect("placed") {
            Placed::Done { memory, .. } => memory,
            Placed::Refused { pictures, .. } => panic!("refused {pictures:?}"),
        }
    }

    /// Compares what a consumer reads with the host's pictures `seed` on of the `rows`.
    fn check(&self, rig: &Rig, memory: &dyn TensorMemory, seed: u32, rows: &[usize]) {
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

fn all() -> Vec<usize> {
    (0..ROWS).collect()
}

fn open(rig: &Rig) -> Opened {
    Opened { decoder: Some(rig.target.pictures().expect("a decoder")), moving: rig.moving() }
}

/// A decoder that ends even when its test fails: it waits for a device that has to move then.
struct Opened {
    decoder: Option<Arc<dyn PictureDecoder>>,
    moving: Moving,
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
fn end(rig: Rig, nvjpeg: &NvJpeg, decoder: Opened) {
    drop(decoder);
    assert_eq!(nvjpeg.call("fake_nvjpeg_live"), 0);
    assert_eq!(rig.call("fake_cuda_modules"), 0);
    assert_eq!(rig.end(), NOTHING_LEFT);
}

#[test]
fn pictures_are_the_host_s_in_every_type_and_layout_beside_rows_that_are_done() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    let decoder = open(&rig);
    assert_eq!(decoder.describe(), "nvJPEG 12.4 with 2 engines");
    assert!(decoder.take_fallbacks().is_empty());
    for (dtype, layout) in [(DType::UInt8, Layout::Nhwc), (DType::UInt8, Layout::Nchw), (DType::Float32, Layout::Nchw)]
    {
        let form = Form::new(dtype, layout);
        for (decoded, rows) in
            [(vec![], all()), (vec![2, 3], all()), (vec![0], vec![0, 1, 4]), (vec![5], vec![2, 3, 5])]
        {
            let (slot, mut pictures) = form.fill(&rig, 10, &decoded, &[]);
            pictures.retain(|picture| rows.contains(&picture.row));
            let memory = form.done(&*decoder, (slot, pictures), &rows);
            form.check(&rig, &*memory, 10, &rows);
            drop(memory);
            rig.call("fake_cuda_run");
        }
    }
    let (by_engines, by_cores) = nvjpeg.counts();
    assert!(by_engines > 0 && by_cores > 0, "{by_engines} and {by_cores}");
    end(rig, &nvjpeg, decoder);
}

#[test]
fn engines_write_only_where_nothing_is_read_any_more() {
    let (rig, nvjpeg) = (Rig::with_slots(4, "", 0), NvJpeg::new());
    // So many that they get all pictures: no wait for who ends first stands in for the one for the kernel.
    nvjpeg.engines(ROWS as c_int);
    let decoder = open(&rig);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    let fill = |seed| form.fill(&rig, seed, &[], &[]);
    let [first, second] = [100, 200].map(|seed| form.done(&*decoder, fill(seed), &all()));
    // Nothing has moved: the kernel has yet to read both lanes' pixels, so the third batch waits on the host.
    let third = std::thread::scope(|scope| {
        let third = scope.spawn(|| form.done(&*decoder, fill(300), &all()));
        // One waiter is the thread that gives slots back.
        assert!(rig.await_waiters(2), "the third batch does not wait for the first");
        rig.call("fake_cuda_run");
        third.join().expect("placed")
    });
    form.check(&rig, &*first, 100, &all());
    form.check(&rig, &*second, 200, &all());
    form.check(&rig, &*third, 300, &all());
    assert_eq!(nvjpeg.counts(), (3 * ROWS as c_int, 0));
    drop((first, second, third));
    end(rig, &nvjpeg, decoder);
}

#[test]
fn files_are_found_wherever_they_lie_in_the_slot() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    let decoder = open(&rig);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    let (mut slot, mut pictures) = form.fill(&rig, 90, &[], &[]);
    let mut end_of_room = BYTES;
    let bytes = slot.bytes_mut().expect("all of it");
    for picture in pictures.iter_mut().filter(|picture| picture.row % 3 == 1) {
        let file = picture.at..picture.at + picture.picture.bytes;
        end_of_room -= picture.picture.bytes;
        bytes.copy_within(file.clone(), end_of_room);
        bytes[file].fill(0);
        picture.at = end_of_room;
    }
    let memory = form.done(&*decoder, (slot, pictures), &all());
    form.check(&rig, &*memory, 90, &all());
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_slot_with_files_goes_back_when_they_have_been_read() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    // Cores read files in their stream's order.
    nvjpeg.engines(0);
    let decoder = open(&rig);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    let memory = form.done(&*decoder, form.fill(&rig, 40, &[1], &[]), &all());
    assert_eq!(rig.call("fake_cuda_await_waiter"), 1);
    assert!(rig.pool.try_take(BYTES).expect("open").is_none());
    rig.call("fake_cuda_run");
    rig.pool.take(BYTES).expect("a slot").bytes_mut().expect("all of it").fill(9);
    form.check(&rig, &*memory, 40, &all());
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_decoder_that_ends_waits_for_what_it_has_begun() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    let mut decoder = open(&rig);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    let memory = form.done(&*decoder, form.fill(&rig, 50, &[], &[]), &all());
    let ending = decoder.decoder.take();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(ending));
        // One waiter is the thread that gives slots back.
        assert!(rig.await_waiters(2), "the library's states end while their batch is under way");
        rig.call("fake_cuda_run");
    });
    form.check(&rig, &*memory, 50, &all());
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn rows_are_written_only_where_a_consumer_has_read() {
    let (rig, nvjpeg) = (Rig::with_slots(2, "", 0), NvJpeg::new());
    // A wait of the engines' stream would hold back the other one, too.
    nvjpeg.engines(0);
    let decoder = open(&rig);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    let first = form.done(&*decoder, form.fill(&rig, 40, &[], &[]), &all());
    first.order_before(None).expect("ordered");
    let later = rig.read_later(&*first);
    drop(first);
    // In the memory of the first, whose read is still queued.
    let second = form.done(&*decoder, form.fill(&rig, 80, &[], &[]), &all());
    rig.run_copies();
    rig.call("fake_cuda_run");
    let picture = &later[..form.outputs[0].row_bytes];
    let host = form.on_host(&file(40), &stage(40));
    assert!(picture.iter().zip(&host).all(|(a, b)| a.abs_diff(*b) <= 1), "the consumer saw another batch");
    form.check(&rig, &*second, 80, &all());
    drop(second);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn refused_pictures_come_back_and_the_others_are_not_decoded_again() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    let (slot, rest, decoded) = form.refused(&rig, &*decoder, 60, &[1, 4, 5], &all());
    let (before, rest_len) = (nvjpeg.counts(), rest.len());
    assert_eq!(before.0 + before.1, rest_len as c_int);
    let placed = form.place_again(&*decoder, (slot, rest), &all(), decoded).expect("placed");
    let Placed::Done { memory, on_engines } = placed else { panic!("nothing is left that could be refused") };
    assert_eq!(on_engines, before.0 as usize);
    assert_eq!(nvjpeg.counts(), (0, 0), "pictures were decoded twice");
    form.check(&rig, &*memory, 60, &all());
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn pictures_that_are_done_move_up_where_samples_were_given_up() {
    for (refused, given_up) in [(vec![0], vec![0]), (vec![1, 4, 5], vec![1, 4]), (vec![17], vec![17])] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.moving().waits_move(true);
        let decoder = open(&rig);
        for (dtype, layout) in [(DType::UInt8, Layout::Nhwc), (DType::Float32, Layout::Nchw)] {
            let form = Form::new(dtype, layout);
            let rows: Vec<usize> = all().into_iter().filter(|row| !given_up.contains(row)).collect();
            let (slot, rest, decoded) = form.refused(&rig, &*decoder, 60, &refused, &rows);
            nvjpeg.counts();
            let placed = form.place_again(&*decoder, (slot, rest), &rows, decoded).expect("placed");
            let Placed::Done { memory, .. } = placed else { panic!("nothing is left that could be refused") };
            assert_eq!(nvjpeg.counts(), (0, 0), "pictures were decoded twice");
            form.check(&rig, &*memory, 60, &rows);
        }
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn a_batch_that_does_not_come_again_gives_its_memory_back() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    drop(form.refused(&rig, &*decoder, 60, &[3], &all()));
    let allocated = rig.call("fake_cuda_allocated");
    drop(form.refused(&rig, &*decoder, 80, &[5, 6], &all()));
    // The other lane has its own memory for pixels.
    assert_eq!(rig.call("fake_cuda_allocated"), allocated + 1);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_row_that_cannot_be_moved_is_the_batch_s_error_and_nothing_is_lost() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    let rows: Vec<usize> = (1..ROWS).collect();
    let (slot, rest, decoded) = form.refused(&rig, &*decoder, 60, &[0], &rows);
    rig.fail_nth("cuMemcpyDtoDAsync_v2", 3, 700);
    let error = form.place_again(&*decoder, (slot, rest), &rows, decoded).expect_err("a lost device");
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    let memory = form.done(&*decoder, form.fill(&rig, 30, &[], &[]), &all());
    form.check(&rig, &*memory, 30, &all());
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_library_that_refuses_every_picture_is_not_asked_again() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    let filled = form.fill(&rig, 60, &[], &all());
    let Placed::Refused { pictures, .. } = form.place(&*decoder, filled, &all()).expect("an answer") else {
        panic!("no file can be decoded")
    };
    assert_eq!(pictures, all());
    assert!(!decoder.is_open());
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("one fallback") };
    assert!(sentence.contains("refuses all pictures"), "{sentence}");
    end(rig, &nvjpeg, decoder);
}

#[test]
fn without_engines_the_cores_decode_and_it_is_said_once() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    nvjpeg.engines(0);
    let decoder = open(&rig);
    assert_eq!(decoder.describe(), "nvJPEG 12.4 without engines");
    let [sentence] = &decoder.take_fallbacks()[..] else { panic!("one fallback") };
    assert!(sentence.contains("ARCH_MISMATCH"), "{sentence}");
    assert!(decoder.take_fallbacks().is_empty());
    let form = Form::new(DType::UInt8, Layout::Nchw);
    let memory = form.done(&*decoder, form.fill(&rig, 70, &[], &[]), &all());
    form.check(&rig, &*memory, 70, &all());
    assert_eq!(nvjpeg.counts(), (0, ROWS as c_int));
    drop(memory);
    end(rig, &nvjpeg, decoder);
}

#[test]
fn where_memory_ends_everything_is_refused_from_then_on() {
    for (of_driver, function, nth, code) in
        [(true, "cuMemAlloc_v2", 1, 2), (true, "cuMemAlloc_v2", 2, 2), (false, "nvjpegDecodeBatchedEx", 2, 5)]
    {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.moving().waits_move(true);
        let decoder = open(&rig);
        let form = Form::new(DType::UInt8, Layout::Nhwc);
        match of_driver {
            true => rig.fail_nth(function, nth, code),
            false => nvjpeg.fail(function, nth, code),
        }
        assert!(decoder.is_open());
        for _ in 0..2 {
            let filled = form.fill(&rig, 20, &[], &[]);
            let Placed::Refused { pictures, .. } = form.place(&*decoder, filled, &all()).expect("an answer") else {
                panic!("there was no memory")
            };
            assert_eq!(pictures, all());
            assert!(!decoder.is_open());
        }
        let [sentence] = &decoder.take_fallbacks()[..] else { panic!("one fallback") };
        assert!(sentence.contains("no memory left"), "{sentence}");
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn a_failure_that_is_no_picture_s_is_the_batch_s_error_and_nothing_is_lost() {
    for (function, code) in
        [("cuLaunchKernel", 700), ("cuMemcpyHtoDAsync_v2", 700), ("cuEventRecord", 700), ("cuStreamWaitEvent", 700)]
    {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.moving().waits_move(true);
        let decoder = open(&rig);
        let form = Form::new(DType::UInt8, Layout::Nhwc);
        rig.fail(function, code);
        let error = form.place(&*decoder, form.fill(&rig, 20, &[], &[]), &all()).expect_err(function);
        assert_eq!(error.kind(), ErrorKind::Io, "{function}: {error}");
        assert!(error.to_string().contains("device 0"), "{error}");
        // The slot is there again, and the next batch is whole.
        let memory = form.done(&*decoder, form.fill(&rig, 30, &[], &[]), &all());
        form.check(&rig, &*memory, 30, &all());
        drop(memory);
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn a_batch_that_the_library_fails_at_is_tried_by_halves() {
    for (function, code) in [
        ("nvjpegDecodeBatchedEx", 6),
        ("nvjpegDecodeBatchedEx", 8),
        ("nvjpegDecodeBatchedInitialize", 8),
        ("cores", 1),
        ("engines", 7),
    ] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.moving().waits_move(true);
        let decoder = open(&rig);
        let form = Form::new(DType::UInt8, Layout::Nhwc);
        nvjpeg.fail(function, 1, code);
        let memory = form.done(&*decoder, form.fill(&rig, 20, &[], &[]), &all());
        form.check(&rig, &*memory, 20, &all());
        assert!(decoder.take_fallbacks().is_empty(), "{function} {code}");
        let (by_engines, by_cores) = nvjpeg.counts();
        assert!(by_engines > 0 && by_cores > 0, "{by_engines} and {by_cores}");
        drop(memory);
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn engines_that_refuse_everything_are_given_up_and_the_cores_decode() {
    for code in [4, 6, 8] {
        let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
        rig.moving().waits_move(true);
        let decoder = open(&rig);
        let form = Form::new(DType::UInt8, Layout::Nhwc);
        nvjpeg.fail("engines", EVERY, code);
        // Half of a batch goes to the engines.
        let batches = 16_usize.div_ceil(ROWS / 2) as u32;
        for seed in 0..batches {
            assert!(decoder.take_fallbacks().is_empty());
            let memory = form.done(&*decoder, form.fill(&rig, seed, &[], &[]), &all());
            form.check(&rig, &*memory, seed, &all());
            assert_eq!(nvjpeg.counts(), (0, ROWS as c_int));
        }
        let [sentence] = &decoder.take_fallbacks()[..] else { panic!("one fallback") };
        assert!(sentence.contains("its ordinary cores do it from now on"), "{sentence}");
        // Nobody asks them again.
        nvjpeg.fail("engines", 0, 0);
        let memory = form.done(&*decoder, form.fill(&rig, 90, &[], &[]), &all());
        form.check(&rig, &*memory, 90, &all());
        assert_eq!(nvjpeg.counts(), (0, ROWS as c_int));
        assert!(decoder.is_open());
        drop(memory);
        end(rig, &nvjpeg, decoder);
    }
}

#[test]
fn engines_that_refuse_a_batch_now_and_then_are_kept() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    for seed in 0..8 {
        nvjpeg.fail("engines", if seed % 2 == 0 { EVERY } else { 0 }, 6);
        let memory = form.done(&*decoder, form.fill(&rig, seed, &[], &[]), &all());
        form.check(&rig, &*memory, seed, &all());
        assert_eq!(nvjpeg.counts().0 > 0, seed % 2 == 1, "batch {seed}");
    }
    assert!(decoder.take_fallbacks().is_empty());
    end(rig, &nvjpeg, decoder);
}

#[test]
fn a_library_that_fails_at_every_picture_leaves_them_to_the_host() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    rig.moving().waits_move(true);
    let decoder = open(&rig);
    let form = Form::new(DType::UInt8, Layout::Nhwc);
    nvjpeg.fail("nvjpegDecodeBatchedEx", EVERY, 6);
    let Placed::Refused { pictures, .. } =
        form.place(&*decoder, form.fill(&rig, 60, &[], &[]), &all()).expect("an answer")
    else {
        panic!("nothing can be decoded")
    };
    assert_eq!(pictures, all());
    assert!(!decoder.is_open());
    end(rig, &nvjpeg, decoder);
}

#[test]
fn what_is_missing_is_said() {
    let (rig, nvjpeg) = (Rig::new(), NvJpeg::new());
    let libraries = forebay_gpu::Libraries { nvjpeg: Some("/nowhere/libnvjpeg.so.12".into()), ..fake::libraries() };
    let target = forebay_gpu::CudaTarget::with_libraries(0, &libraries).expect("a target");
    let error = target.pictures().expect_err("no library");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("/nowhere/libnvjpeg.so.12"), "{error}");
    drop(target);
    // An old driver does not know the kernel's version of PTX.
    rig.fail("cuModuleLoadData", 222);
    let error = rig.target.pictures().expect_err("no kernel");
    assert!(error.to_string().contains("cuModuleLoadData"), "{error}");
    nvjpeg.fail("nvjpegCreateEx", 1, 1);
    assert!(rig.target.pictures().is_err());
    // A version that does not know a flag is asked without.
    nvjpeg.fail("nvjpegCreateEx", 1, 2);
    let decoder = open(&rig);
    end(rig, &nvjpeg, decoder);
}
