//! The JPEG decoder against libjpeg-turbo: random crops of whole files, damaged files, and the allocations of a
//! picture.
//!
//! Every run compares some hundreds of crops. To compare more, set their number and, if needed, a folder of JPEG files:
//!
//! ```text
//! FOREBAY_JPEG_CROPS=100000 FOREBAY_JPEG_DATA=/data/imagenet/val \
//!     cargo test --release -p forebay-tests --test jpeg crops
//! ```

#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

mod target;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use forebay_loader::decode::geometry::{Region, Scale, Size};
use forebay_loader::decode::jpeg::{Decoder, JpegDecoder, RowIndexer, Subsampling, Turbo, encode};
use forebay_loader::decode::pixels::Pixels;
use forebay_tests::data::{Draws, picture};
use forebay_tests::hostile::damage;

/// Default number of crops, see `FOREBAY_JPEG_CROPS`.
const CROPS: u64 = 600;

/// Default number of damaged inputs per seed, see `FOREBAY_HOSTILE_ROUNDS`.
const ROUNDS: u64 = 300;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Returns the files of a folder and of the folders in it, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    entries.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Returns pictures of usual sizes in every subsampling, a third of them progressive.
fn synthetic_pictures() -> Vec<Vec<u8>> {
    let kinds = [
        Subsampling::S444,
        Subsampling::S422,
        Subsampling::S420,
        Subsampling::S440,
        Subsampling::S411,
        Subsampling::S441,
        Subsampling::Grey,
    ];
    let sizes = [(375, 500), (500, 333), (161, 97), (64, 400)];
    let mut made = Vec::new();
    for (i, kind) in kinds.into_iter().enumerate() {
        for (j, (w, h)) in sizes.into_iter().enumerate() {
            let size = Size { w, h };
            let quality = [96, 85, 60, 30][(i + j) % 4];
            let progressive = (i + j) % 3 == 2;
            made.push(encode(&picture(size, (i * 4 + j) as u64), size, quality, kind, progressive).unwrap());
        }
    }
    made
}

fn random_crop(size: Size, draws: &mut Draws) -> Region {
    let mut below = |n: u32| draws.below(u64::from(n)) as u32;
    let (x, y) = (below(size.w), below(size.h));
    Region { x, y, w: 1 + below(size.w - x), h: 1 + below(size.h - y) }
}

fn row(pixels: &Pixels, region: Region, y: u32) -> &[u8] {
    let have = pixels.region();
    let start = ((y - have.y) as usize * have.w as usize + (region.x - have.x) as usize) * 3;
    &pixels.rgb()[start..start + region.w as usize * 3]
}

#[test]
fn random_crops_have_the_pixels_of_libjpeg_turbos_whole_picture() {
    let crops = setting("FOREBAY_JPEG_CROPS", CROPS);
    let pictures: Vec<Vec<u8>> = match std::env::var_os("FOREBAY_JPEG_DATA") {
        Some(folder) => {
            let jpegs = files(Path::new(&folder)).into_iter();
            jpegs
                .filter(|p| p.extension().is_some_and(|e| e == "jpg" || e == "jpeg" || e == "JPEG"))
                .map(|p| std::fs::read(p).unwrap())
                .collect()
        }
        None => synthetic_pictures(),
    };
    let (mut decoder, mut turbo) = (Decoder::default(), Turbo::new().unwrap());
    let (mut whole, mut part) = (Pixels::default(), Pixels::default());
    let mut draws = Draws::new(17, 0);
    let (mut compared, mut different, mut indexes) = (0, 0, 0);
    let mut indexer = RowIndexer::default();
    for (i, bytes) in pictures.iter().enumerate() {
        // Progressive files get none.
        let mut row_index = Vec::new();
        indexes += u64::from(indexer.append(bytes, &mut row_index));
        let size = turbo.size(bytes).unwrap();
        turbo.decode(bytes, Region::all(size), &mut whole).unwrap();
        let share = crops / pictures.len() as u64 + u64::from((i as u64) < crops % pictures.len() as u64);
        for _ in 0..share {
            let region = random_crop(size, &mut draws);
            // From the start of the file, and from the start of each row that is needed.
            let mut is_same = true;
            for row_index in [&[], &row_index[..]] {
                decoder.decode_scaled(bytes, row_index, Scale::Full, region, &mut part).unwrap();
                let mut rows = region.y..region.y + region.h;
                if !rows.all(|y| row(&whole, region, y) == row(&part, region, y)) {
                    println!("picture {i}, {region:?} differs with an index of {} bytes", row_index.len());
                    is_same = false;
                }
            }
            different += u64::from(!is_same);
            compared += 1;
        }
    }
    let counts = decoder.take_row_index_counts();
    println!(
        "{different} of {compared} crops of {} pictures differ; {indexes} pictures have a row index, {} crops used it",
        pictures.len(),
        counts.used
    );
    assert_eq!(counts.rejected, 0);
    assert_eq!((compared, different), (crops, 0));
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/jpeg/seeds");
    files(&folder).iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Bytes of markers and of the stuffing after FF, for damage.
const MARKER_BYTES: [u8; 6] = [0xff, 0x00, 0xd0, 0xd9, 0xda, 0xc4];

#[test]
fn damaged_pictures_are_decoded_to_the_same_pixels_or_rejected_by_both_decoders() {
    let seeds = seeds();
    assert!(seeds.len() >= 10, "{}", seeds.len());
    let rounds = setting("FOREBAY_HOSTILE_ROUNDS", ROUNDS);
    let mut draws = Draws::new(18, 0);
    let (mut decoded, mut rejected) = (0, 0);
    for (i, seed) in seeds.iter().enumerate() {
        for round in 0..rounds {
            let input = if round == 0 { seed.clone() } else { damage(seed, &seeds, &MARKER_BYTES, &mut draws) };
            match catch_unwind(AssertUnwindSafe(|| target::agree(&input))) {
                Ok(true) => decoded += 1,
                Ok(false) => rejected += 1,
                Err(_) => panic!("seed {i}, round {round}: {}", input.escape_ascii()),
            }
        }
    }
    println!("{decoded} decoded, {rejected} rejected");
    assert!(decoded > 0 && rejected > 0);
}

#[test]
fn changed_row_indexes_of_the_seeds_are_used_or_rejected() {
    let (mut decoder, mut turbo) = (Decoder::default(), Turbo::new().unwrap());
    let (mut changes, mut used, mut rejected) = (0, 0, 0);
    for input in seeds() {
        let (file, Some(change)) = target::Change::split(&input) else { continue };
        let counts = change.decode(file, turbo.size(file).unwrap(), &mut decoder);
        println!("{} bytes: {counts:?}", input.len());
        changes += 1;
        used += counts.used;
        rejected += counts.rejected;
    }
    assert!(changes >= 10, "{changes}");
    // Without vector instructions libjpeg-turbo decodes everything, and no index is read.
    assert!((used, rejected) == (0, 0) || used > 10 && rejected > 10, "{used} used, {rejected} rejected");
}

/// Allocator that counts a thread's allocations.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract; the memory came from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_picture_that_is_no_larger_than_those_before_allocates_nothing() {
    let pictures = synthetic_pictures();
    let mut indexer = RowIndexer::default();
    // Progressive ones have none.
    let mut indexed = |bytes: &Vec<u8>| {
        let mut index = Vec::new();
        indexer.append(bytes, &mut index).then_some(index)
    };
    let indexes: Vec<Option<Vec<u8>>> = pictures.iter().map(&mut indexed).collect();
    assert!(indexes.iter().flatten().count() > 1);
    let mut decoder = Decoder::default();
    let mut pixels = Pixels::default();
    let mut all = || {
        for (bytes, index) in pictures.iter().zip(&indexes) {
            let size = decoder.size(bytes).unwrap();
            decoder.decode(bytes, Region::all(size), &mut pixels).unwrap();
            let part = Region { x: 7, y: 5, w: size.w / 2, h: size.h / 2 };
            decoder.decode(bytes, part, &mut pixels).unwrap();
            if let Some(index) = index {
                decoder.decode_scaled(bytes, index, Scale::Full, part, &mut pixels).unwrap();
            }
        }
        ALLOCATIONS.with(Cell::get)
    };
    let first = all();
    assert!(first > 0, "the counter counts");
    let before = ALLOCATIONS.with(Cell::get);
    assert_eq!(all(), before);
}
