//! Pictures decoded by the device's decoder, here one in host memory that decodes like the host.

use super::*;
use forebay_loader::config::{EngineConfig, ExtraOutput, SkipConfig, WorldConfig};
use forebay_loader::decode::geometry::Size;
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder, Subsampling, encode};
use forebay_loader::decode::normalise::PictureWriter;
use forebay_loader::decode::pixels;
use forebay_loader::decode::resize::Resizer;
use forebay_loader::delivery::{
    BatchOnDevice, Delivery, Device, DeviceRows, EncodedBatch, InFlightBatch, OutputLayout, PartialBatch,
    PictureDecoder, RowPicture, TensorMemory,
};
use forebay_loader::memory::{BatchMemory, BatchPool, BatchPoolConfig, Registrar};
use forebay_loader::{Error, ErrorKind, Result};
use serde_json::json;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SAMPLES: u64 = 60;
const SIZE: Size = Size { w: 60, h: 50 };

/// Behaviour of the decoder.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Decodes every valid picture.
    Decode,
    /// Rejects every third picture of a batch at the first attempt.
    RejectSome,
    /// Is disabled from this batch on.
    GiveUpAt(u64),
    /// Fails.
    Fail,
    /// Fails at the batch with this number while it is in flight.
    FailLate(u64),
    /// Decodes, and ends only when the next batch is filled, so that it is always late. `of_batch` is the number of
    /// chunks per batch, all from one thread, and `of_epoch` the number of chunks per epoch.
    DecodeLate { of_batch: u64, of_epoch: u64 },
    /// As `DecodeLate`, and rejects pictures as [`RejectSome`](Self::RejectSome) does, which the wait returns.
    RejectLate { of_batch: u64, of_epoch: u64 },
}

/// Host delivery with a picture decoder.
#[derive(Debug)]
struct DecodingDelivery(Arc<DecoderParts>);

#[derive(Debug)]
struct TestDecoder(Arc<DecoderParts>);

#[derive(Debug)]
struct DecoderParts {
    does: Does,
    batches: AtomicU64,
    /// Batches at their first attempt.
    firsts: AtomicU64,
    /// Files that were decoded.
    files: AtomicU64,
    /// Ended batches, and the most batches in flight at a time.
    ended: Arc<AtomicU64>,
    in_flight: AtomicU64,
    /// Chunks of samples for which the host checked whether the decoder takes pictures.
    chunks: AtomicU64,
    pool: Pool,
}

/// Batch in flight: the counter of those that have ended, and its outcome.
#[derive(Debug)]
struct Late(Arc<AtomicU64>, Result<BatchOnDevice>);

/// Decoded pictures of a batch.
#[derive(Debug)]
struct Pixels {
    decoder: Arc<DecoderParts>,
    bytes: usize,
    pictures: Vec<(RowPicture, Vec<u8>)>,
}

struct Pool(BatchPool);

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pool")
    }
}

impl DecodingDelivery {
    fn new(does: Does) -> Arc<Self> {
        let pool =
            BatchPool::new(&BatchPoolConfig { bytes: 16 << 20, ..BatchPoolConfig::default() }, None).expect("a pool");
        let [batches, firsts, files, in_flight, chunks] = [0; 5].map(AtomicU64::new);
        let ended = Arc::default();
        Arc::new(Self(Arc::new(DecoderParts {
            does,
            batches,
            firsts,
            files,
            ended,
            in_flight,
            chunks,
            pool: Pool(pool),
        })))
    }
}

impl Delivery for DecodingDelivery {
    fn device(&self) -> Device {
        Device::Cpu
    }

    fn registrar(&self) -> Option<&dyn Registrar> {
        None
    }

    fn picture_decoder(&self) -> Result<Arc<dyn PictureDecoder>> {
        Ok(Arc::new(TestDecoder(self.0.clone())))
    }

    fn deliver(&self, filled: BatchMemory, _bytes: usize) -> Result<Arc<dyn TensorMemory>> {
        Ok(Arc::new(filled))
    }
}

impl DecoderParts {
    fn rejects(&self) -> bool {
        matches!(self.does, Does::RejectSome | Does::RejectLate { .. })
    }

    fn has_given_up(&self) -> bool {
        matches!(self.does, Does::GiveUpAt(batch) if self.batches.load(Ordering::SeqCst) >= batch)
    }

    /// Returns when the batch after number `batch` is filled: the one after that has begun, or there is
    /// none.
    fn be_late(&self, batch: u64) {
        let (Does::DecodeLate { of_batch, of_epoch } | Does::RejectLate { of_batch, of_epoch }) = self.does else {
            return;
        };
        let batches = of_epoch.div_ceil(of_batch);
        let chunks = batch / batches * of_epoch + (of_batch * (batch % batches + 2) + 1).min(of_epoch);
        while self.chunks.load(Ordering::SeqCst) < chunks {
            std::thread::yield_now();
        }
    }

    /// Pixels of `file` in the form of its output.
    fn decode(&self, file: &[u8], place: &OutputLayout, picture: &RowPicture) -> Result<Vec<u8>> {
        let form = place.form.expect("an output of pictures");
        let writer = PictureWriter::new(form.dtype, form.layout, None)?;
        self.files.fetch_add(1, Ordering::SeqCst);
        let (mut pixels, mut resizer) = (pixels::Pixels::default(), Resizer::default());
        let needed = resizer.plan(&picture.picture.stage);
        Decoder::default().decode(file, needed, &mut pixels)?;
        let mut out = vec![0; place.row_bytes];
        resizer.run(&pixels, |y, row| writer.write(&mut out, form.size, y, row));
        Ok(out)
    }
}

impl PictureDecoder for TestDecoder {
    fn is_open(&self) -> bool {
        self.0.chunks.fetch_add(1, Ordering::SeqCst);
        !self.0.has_given_up()
    }

    fn describe(&self) -> String {
        "the test".to_owned()
    }

    fn take_fallbacks(&self) -> Vec<String> {
        let inner = &self.0;
        let gave_up = matches!(inner.does, Does::GiveUpAt(batch) if inner.batches.load(Ordering::SeqCst) == batch);
        gave_up.then(|| "it had enough".to_owned()).into_iter().collect()
    }

    fn submit(&self, batch: EncodedBatch<'_>) -> Result<Box<dyn InFlightBatch>> {
        let inner = &self.0;
        inner.be_late(inner.firsts.fetch_add(1, Ordering::SeqCst));
        let decoded = inner.decode_now(batch);
        let number = inner.batches.fetch_add(1, Ordering::SeqCst);
        let decoded = decoded?;
        match inner.does {
            Does::RejectLate { .. } | Does::FailLate(_) => {
                inner.in_flight.fetch_max(number + 1 - inner.ended.load(Ordering::SeqCst), Ordering::SeqCst);
                let outcome = match inner.does {
                    Does::FailLate(failing) if failing == number => {
                        Err(Error::new(ErrorKind::Io, "the device is lost"))
                    }
                    _ => Ok(decoded),
                };
                Ok(Box::new(Late(inner.ended.clone(), outcome)))
            }
            _ => Ok(Box::new(decoded)),
        }
    }
}

impl InFlightBatch for Late {
    fn wait(self: Box<Self>) -> Result<BatchOnDevice> {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1
    }
}

impl DecoderParts {
    fn decode_now(self: &Arc<Self>, batch: EncodedBatch<'_>) -> Result<BatchOnDevice> {
        let EncodedBatch { mut slot, bytes, outputs, rows, pictures, on_device } = batch;
        assert!(on_device.is_none());
        assert!(pictures.is_sorted_by_key(|picture| (picture.output, picture.row)) && rows.is_sorted());
        assert!(pictures.iter().all(|picture| rows.contains(&picture.row)));
        if matches!(self.does, Does::Fail) {
            return Err(Error::new(ErrorKind::Io, "the device is lost"));
        }
        let filled = slot.bytes_mut().expect("all of it");
        let (mut decoded, mut rejected) = (Vec::new(), Vec::new());
        for (number, picture) in pictures.iter().enumerate() {
            let place = &outputs[picture.output];
            let file = &filled[picture.at..][..picture.picture.bytes];
            if self.has_given_up() || self.rejects() && number % 3 == 1 {
                rejected.push(number);
                continue;
            }
            match self.decode(file, place, picture) {
                Ok(pixels) => decoded.push((*picture, pixels)),
                // Damage may be detected in only one of a sample's pictures.
                Err(_) if picture.output == 0 && picture.row % 2 == 0 => {
                    decoded.push((*picture, vec![0; place.row_bytes]));
                }
                Err(_) => rejected.push(number),
            }
        }
        let on_engines = (0..pictures.len()).filter(|number| !rejected.contains(number)).step_by(2).collect();
        let pixels = Pixels { decoder: self.clone(), bytes, pictures: decoded };
        Ok(BatchOnDevice { slot, rows: Some(Box::new(pixels)), undecoded: rejected, on_engines })
    }
}

impl DeviceRows for Pixels {
    fn deliver(self: Box<Self>, batch: PartialBatch<'_>) -> Result<Arc<dyn TensorMemory>> {
        let PartialBatch { mut slot, outputs, rows } = batch;
        let row = |place: &OutputLayout, row: usize| place.offset + row * place.row_bytes;
        let filled = slot.bytes_mut().expect("all of it");
        let mut out = self.decoder.pool.0.take(self.bytes)?;
        let to = out.bytes_mut().expect("all of it");
        for place in outputs {
            for (at, kept) in rows.iter().enumerate() {
                to[row(place, at)..][..place.row_bytes]
                    .copy_from_slice(&filled[row(place, *kept)..][..place.row_bytes]);
            }
        }
        for (picture, pixels) in &self.pictures {
            if let Ok(at) = rows.binary_search(&picture.row) {
                to[row(&outputs[picture.output], at)..][..pixels.len()].copy_from_slice(pixels);
            }
        }
        Ok(Arc::new(out.freeze().expect("filled")))
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Kind of a sample's file.
#[derive(Clone, Copy, PartialEq)]
enum FileKind {
    Ordinary,
    Progressive,
    /// Longer than its row.
    Long,
    /// With the headers and the end of an ordinary file, and a part missing between.
    Broken,
    /// Both.
    LongAndBroken,
}

fn data(directory: &Path, samples: u64, kind: impl Fn(u64) -> FileKind) {
    let item = |number: u64| -> Result<(Vec<u8>, i64)> {
        let pixels = forebay_tests::data::picture(SIZE, number);
        let mut file = encode(&pixels, SIZE, 90, Subsampling::S420, kind(number) == FileKind::Progressive)?;
        if matches!(kind(number), FileKind::Broken | FileKind::LongAndBroken) {
            let (start, end) = (file.len() * 2 / 3, file.len() - 2);
            file.drain(start..end);
            // Nothing that looks like a marker.
            file[start - 1] &= 0x7f;
        }
        if matches!(kind(number), FileKind::Long | FileKind::LongAndBroken) {
            // A comment in front.
            let comment = [&[0xff, 0xfe, 0xff, 0xff][..], &[0; 0xfffd]].concat();
            file.splice(2..2, comment);
        }
        Ok((file, number as i64))
    };
    forebay_tests::data::images(directory, (0..samples).map(item), Options::default()).expect("a data set");
}

fn crops(directory: &Path) -> LoaderConfig {
    let ops = json!([{"op": "random_resized_crop", "size": [64, 64]}, {"op": "random_horizontal_flip"}]);
    // Two pictures of each sample: a random crop and the whole picture.
    let fields = json!([["x", {"kind": "image", "column": "image", "ops": ops}],
                        ["y", {"kind": "scalar", "column": "class"}],
                        ["whole", {"kind": "image", "column": "image", "ops": [{"op": "resize", "size": [70, 80]}],
                                   "layout": "NHWC"}]]);
    let fields = Some(serde_json::from_value(fields).expect("fields"));
    let extra = vec![ExtraOutput::Repeat];
    LoaderConfig { fields, extra, engine: engine(), ..config(stream(Some(directory), None)) }
}

/// Options `engine` of [`crops`].
fn engine() -> EngineConfig {
    EngineConfig { device_decode: true, ..EngineConfig::default() }
}

/// The bytes of each output of each batch.
fn bytes(batches: &[Batch]) -> Vec<[Vec<u8>; 4]> {
    let of = |batch: &Batch, name| match batch.get(name) {
        Some(Output::Tensor(tensor)) => tensor.host().expect("host memory").to_vec(),
        other => panic!("{other:?}"),
    };
    batches.iter().map(|batch| ["x", "y", "whole", "repeat"].map(|name| of(batch, name))).collect()
}

fn counter(loader: &Loader, name: &str) -> u64 {
    let counters = loader.stats().expect("figures").counters;
    counters.iter().find(|(n, _)| *n == name).map_or(0, |(_, value)| *value)
}

/// Returns true if the page cache did not have all samples. `is_open` is called again for each of the missing ones, so
/// the decoder is no longer late.
fn was_read_from_disk(loader: &Loader) -> bool {
    let notes = loader.stats().expect("figures").notes;
    notes.iter().any(|note| note.contains("samples that are not in the page cache are read with"))
}

/// Asserts that two epochs with the delivery's decoder equal the host's, and returns the loader with the decoder.
fn same_as_on_the_host(config: LoaderConfig, does: Does) -> Loader {
    same_with(config, DecodingDelivery::new(does))
}

fn same_with(config: LoaderConfig, target: Arc<DecodingDelivery>) -> Loader {
    let host = Loader::new(config.clone()).expect("a loader");
    let elsewhere = Loader::with_delivery(config, target).expect("a loader");
    for _ in 0..2 {
        assert!(bytes(&epoch(&elsewhere)) == bytes(&epoch(&host)));
    }
    elsewhere
}

#[test]
fn batches_equal_the_host_s_whichever_pictures_the_decoder_accepts() {
    let dir = tempfile::tempdir().expect("a folder");
    let kind = |number| match number % 10 {
        3 => FileKind::Progressive,
        6 => FileKind::Long,
        _ => FileKind::Ordinary,
    };
    data(dir.path(), SAMPLES, kind);
    let ordinary = (0..SAMPLES).filter(|number| kind(*number) == FileKind::Ordinary).count() as u64;
    // Five slots, with three quarters of the memory, have no space after their rows.
    let engine = EngineConfig { memory: Some(3 << 20), ..engine() };
    let tight = LoaderConfig { engine, ..crops(dir.path()) };
    let loader = same_as_on_the_host(tight, Does::Decode);
    assert_eq!(counter(&loader, "pictures_on_device"), 2 * 2 * ordinary);
    let loader = same_as_on_the_host(crops(dir.path()), Does::Decode);
    assert!(counter(&loader, "pictures_on_device") > 2 * 2 * ordinary);
    assert!(counter(&loader, "pictures_on_engines") > 0);
    assert_eq!(counter(&loader, "pictures_refused"), 0);
    let notes = loader.stats().expect("figures").notes;
    assert!(notes.contains(&"pictures are decoded by the test".to_owned()), "{notes:?}");
    data_of_ordinary_files(SAMPLES, |directory| {
        let target = DecodingDelivery::new(Does::RejectSome);
        let loader = same_with(crops(directory), target.clone());
        let (rejected, on_device) = (counter(&loader, "pictures_refused"), counter(&loader, "pictures_on_device"));
        assert!(rejected > SAMPLES, "{rejected}");
        assert_eq!(rejected + on_device, 2 * 2 * SAMPLES);
        assert_eq!(target.0.files.load(Ordering::SeqCst), on_device, "pictures were decoded twice");
    });
}

#[test]
fn pictures_rejected_at_the_end_of_a_batch_are_decoded_on_the_host_while_the_next_batch_is_in_flight() {
    data_of_ordinary_files(SAMPLES, |directory| {
        let engine = EngineConfig { prefetch: Some(8), ..engine() };
        let config = LoaderConfig { threads: Some(1), engine, ..crops(directory) };
        let target = DecodingDelivery::new(Does::RejectLate { of_batch: 4, of_epoch: 15 });
        let loader = same_with(config, target.clone());
        let (rejected, on_device) = (counter(&loader, "pictures_refused"), counter(&loader, "pictures_on_device"));
        assert!(rejected > SAMPLES, "{rejected}");
        assert_eq!(rejected + on_device, 2 * 2 * SAMPLES);
        let count = |of: &AtomicU64| of.load(Ordering::SeqCst);
        let DecoderParts { files, batches, ended, in_flight, .. } = &*target.0;
        assert_eq!(count(files), on_device, "pictures were decoded twice");
        assert_eq!(count(batches), count(ended), "every batch was waited for");
        assert!(count(in_flight) == 2 || was_read_from_disk(&loader));
    });
}

#[test]
fn a_device_that_fails_with_a_batch_in_flight_ends_the_epoch_with_its_error() {
    data_of_ordinary_files(SAMPLES, |directory| {
        // It is the second batch that is filled, which may be the first one of the order: reads end in any order.
        let does = Does::FailLate(1);
        let loader = Loader::with_delivery(crops(directory), DecodingDelivery::new(does)).expect("a loader");
        loader.start_epoch().expect("started");
        let delivered = (0..4).take_while(|_| matches!(loader.next(), Ok(Next::Batch(_)))).count();
        assert!(delivered < 4, "all batches of the epoch");
        let error = loader.next().expect_err("the device is lost");
        assert!(error.to_string().contains("the device is lost"), "{error}");
        drop(loader);
        let loader =
            Loader::with_delivery(crops(directory), DecodingDelivery::new(Does::FailLate(9))).expect("a loader");
        loader.start_epoch().expect("started");
        assert!(matches!(loader.next().expect("a batch"), Next::Batch(_)));
        // Ends with batches in flight.
        drop(loader);
    });
}

#[test]
fn files_longer_than_their_rows_are_stored_after_the_rows_and_decoded_from_there() {
    let dir = tempfile::tempdir().expect("a folder");
    data(dir.path(), SAMPLES, |_| FileKind::Long);
    let loader = same_as_on_the_host(crops(dir.path()), Does::Decode);
    let on_device = counter(&loader, "pictures_on_device");
    // The space suffices for files of average size: the last file of a batch may not fit.
    assert!(on_device >= 2 * 2 * SAMPLES * 9 / 10, "{on_device}");
    let loader = same_as_on_the_host(crops(dir.path()), Does::RejectSome);
    assert!(counter(&loader, "pictures_refused") > SAMPLES);
}

#[test]
fn batches_that_lose_all_their_long_files_have_space_for_one_more() {
    let dir = tempfile::tempdir().expect("a folder");
    data(dir.path(), 12, |number| if [3, 7].contains(&number) { FileKind::LongAndBroken } else { FileKind::Long });
    let config = LoaderConfig {
        batch_size: 1,
        shuffle: false,
        skip: SkipConfig { errors: 12, ..SkipConfig::default() },
        world: WorldConfig { world_size: 2, ..WorldConfig::default() },
        ..crops(dir.path())
    };
    let loader = same_as_on_the_host(config, Does::Decode);
    assert!(counter(&loader, "batches_refilled") > 0);
}

fn data_of_ordinary_files(samples: u64, body: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().expect("a folder");
    data(dir.path(), samples, |_| FileKind::Ordinary);
    body(dir.path());
}

#[test]
fn after_a_decoder_gives_up_the_host_decodes_the_rest_and_counts_it() {
    data_of_ordinary_files(SAMPLES, |directory| {
        let loader = same_as_on_the_host(crops(directory), Does::GiveUpAt(3));
        assert!(counter(&loader, "pictures_on_device") > 0);
        // The second epoch does not call it.
        let asked = counter(&loader, "pictures_on_device") + counter(&loader, "pictures_refused");
        assert!(asked <= 2 * SAMPLES, "{asked} pictures");
        assert!(counter(&loader, "device_decode_fallbacks") > 0);
        let notes = loader.stats().expect("figures").notes;
        assert!(notes.contains(&"it had enough".to_owned()), "{notes:?}");
    });
}

#[test]
fn decode_threads_share_the_pictures_of_a_slow_decoder_if_configured() {
    data_of_ordinary_files(SAMPLES, |directory| {
        for share_decode in [false, true] {
            let engine = EngineConfig { share_decode, ..engine() };
            let config = LoaderConfig { threads: Some(1), engine, ..crops(directory) };
            // Four chunks for a thread in a batch of 16; the fourth batch has 12 samples.
            let loader = same_as_on_the_host(config, Does::DecodeLate { of_batch: 4, of_epoch: 15 });
            let (shared, on_device) = (counter(&loader, "pictures_shared"), counter(&loader, "pictures_on_device"));
            assert!(share_decode || shared == 0, "{shared}");
            assert!((shared > 0) == share_decode || was_read_from_disk(&loader), "{shared}");
            assert!(on_device > 0);
            assert_eq!(shared + on_device, 2 * 2 * SAMPLES);
        }
    });
}

#[test]
fn a_failed_device_ends_the_epoch_with_its_error() {
    data_of_ordinary_files(SAMPLES, |directory| {
        let loader = Loader::with_delivery(crops(directory), DecodingDelivery::new(Does::Fail)).expect("a loader");
        loader.start_epoch().expect("started");
        let error = loader.next().expect_err("the device is lost");
        assert!(error.to_string().contains("the device is lost"), "{error}");
    });
}

#[test]
fn a_decoder_that_is_not_configured_gets_no_pictures() {
    data_of_ordinary_files(SAMPLES, |directory| {
        let config = LoaderConfig { engine: EngineConfig::default(), ..crops(directory) };
        let loader = same_as_on_the_host(config, Does::Fail);
        assert_eq!(counter(&loader, "pictures_on_device"), 0);
    });
}

#[test]
fn a_delivery_without_a_decoder_is_noted_and_counted_once() {
    data_of_ordinary_files(SAMPLES, |directory| {
        let loader = Loader::new(crops(directory)).expect("a loader");
        let batches = epoch(&loader).len() + epoch(&loader).len();
        assert!(batches > 0);
        assert_eq!(counter(&loader, "device_decode_fallbacks"), 1);
    });
}

#[test]
fn a_bad_picture_is_its_sample_s_error_and_skipped_within_the_budget() {
    let dir = tempfile::tempdir().expect("a folder");
    data(dir.path(), SAMPLES, |number| if number % 8 == 5 { FileKind::Broken } else { FileKind::Ordinary });
    let bad = (0..SAMPLES).filter(|number| number % 8 == 5).count() as u64;
    let skip = |errors| SkipConfig { errors, ..SkipConfig::default() };
    let skipping = |errors| LoaderConfig { skip: skip(errors), ..crops(dir.path()) };
    // A picture is bad for both outputs, and counts once.
    for does in [Does::Decode, Does::FailLate(u64::MAX)] {
        let loader = same_as_on_the_host(skipping(2 * bad), does);
        assert_eq!(counter(&loader, "samples_skipped"), 2 * bad);
        assert!(counter(&loader, "pictures_refused") >= 2 * bad);
    }
    let raising = LoaderConfig { shuffle: false, ..crops(dir.path()) };
    let loader = Loader::with_delivery(raising, DecodingDelivery::new(Does::Decode)).expect("a loader");
    loader.start_epoch().expect("started");
    let error = loader.next().expect_err("sample 5 is bad");
    assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    for word in ["shard.00000.mds", "sample 5", "batch 0", "image"] {
        assert!(error.to_string().contains(word), "{word} is missing: {error}");
    }
}

#[test]
fn batches_with_samples_that_the_decoder_all_rejects_are_omitted_or_repeat_a_sample() {
    let dir = tempfile::tempdir().expect("a folder");
    data(dir.path(), 12, |number| if [3, 7].contains(&number) { FileKind::Broken } else { FileKind::Ordinary });
    for ranks in [1, 2] {
        let config = LoaderConfig {
            batch_size: 1,
            shuffle: false,
            skip: SkipConfig { errors: 12, ..SkipConfig::default() },
            world: WorldConfig { world_size: ranks, ..WorldConfig::default() },
            ..crops(dir.path())
        };
        let loader = same_as_on_the_host(config, Does::Decode);
        assert!(counter(&loader, "samples_skipped") > 0);
        assert_eq!(counter(&loader, "batches_refilled") > 0, ranks == 2);
    }
}
