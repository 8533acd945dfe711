//! The kernel's arithmetic against the host's decoder: the same source, compiled as C++ for the host.

use forebay_gpu::kernel::{BLANK, Batch, CROP_RESIZE, FIND_UNDECODED, PTX, Picture, SOURCE};
use forebay_loader::decode::geometry::{PixelWindow, Region, Size, Stage};
use forebay_loader::decode::normalise::PictureWriter;
use forebay_loader::decode::pixels::Pixels;
use forebay_loader::decode::resize::Resizer;
use forebay_loader::decode::{Border, DType, ErasedBox, Interpolation, PixelLayout};
use sha2::Digest;
use std::ffi::c_uint;
use std::process::Command;

const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const STD: [f32; 3] = [0.229, 0.224, 0.225];

struct Kernel {
    library: libloading::Library,
    _folder: tempfile::TempDir,
}

impl Kernel {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (source, library) = (folder.path().join("kernel.cc"), folder.path().join("kernel.so"));
        std::fs::write(&source, SOURCE).expect("written");
        let flags = ["-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"];
        let made = Command::new("c++").args(flags).arg(&library).arg(&source).output().expect("a C++ compiler");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        // SAFETY: the file has no initialisers.
        let library = unsafe { libloading::Library::new(&library) }.expect("loads");
        Self { library, _folder: folder }
    }

    /// Runs the kernel for one picture and returns the `bytes` bytes of its row, normalised as on the host.
    fn run(&self, source: &Pixels, stage: &Stage, dtype: DType, layout: PixelLayout, bytes: usize) -> Vec<u8> {
        let scale = STD.map(|s| (1.0 / (255.0 * f64::from(s))) as f32);
        let offset = [0, 1, 2].map(|c| (-f64::from(MEAN[c]) / f64::from(STD[c])) as f32);
        self.run_scaled(source, stage, dtype, layout, bytes, (scale, offset))
    }

    fn run_scaled(
        &self,
        source: &Pixels,
        stage: &Stage,
        dtype: DType,
        layout: PixelLayout,
        bytes: usize,
        (scale, offset): ([f32; 3], [f32; 3]),
    ) -> Vec<u8> {
        let mut out = vec![0u8; bytes];
        let at = out.as_mut_ptr().expose_provenance() as u64;
        let batch = Batch::new(at, stage.output(), dtype, layout, scale, offset).expect("a type of pictures");
        self.make(&picture_of(source, stage), &batch);
        out
    }

    /// Makes the row of a picture. The memory that both name is alive and large enough.
    fn make(&self, picture: &Picture, batch: &Batch) {
        type Run = unsafe extern "C" fn(*const Picture, *const Batch, c_uint);
        // SAFETY: the type matches the source.
        let run = unsafe { self.library.get::<Run>("crop_resize_on_host") }.expect("a function of the fake");
        // SAFETY: by the contract of the test.
        unsafe { run(picture, batch, 1) };
    }
}

fn picture_of(source: &Pixels, stage: &Stage) -> Picture {
    let (region, pixels) = (source.region(), source.rgb().as_ptr().expose_provenance() as u64);
    Picture::new(pixels, u64::from(region.w) * 3, region, stage, 0, 0).expect("inside")
}

/// Region of a picture with random, smooth-edged or flat content, depending on `seed`.
fn source(region: Region, seed: u32) -> Pixels {
    let mut pixels = Pixels::default();
    let mut state = seed;
    for (i, byte) in pixels.start(region, 3).iter_mut().enumerate() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = match seed % 3 {
            0 => (state >> 24) as u8,
            1 => (i / 7) as u8,
            _ => 255,
        };
    }
    pixels
}

fn on_host(source: &Pixels, stage: &Stage, dtype: DType, layout: PixelLayout) -> Vec<u8> {
    let normalise = (dtype != DType::UInt8).then_some((MEAN, STD));
    let writer = PictureWriter::new(dtype, layout, normalise).expect("a writer");
    let mut out = vec![0u8; writer.bytes(stage.output())];
    let mut resizer = Resizer::default();
    resizer.plan(stage);
    resizer.run(source, |y, row| writer.write(&mut out, stage.output(), y, row));
    out
}

/// Crops as augmentation draws them: enlarged, shrunk, mirrored, and with windows that extend beyond the picture.
fn stages() -> Vec<(Region, Stage)> {
    let whole = Region { x: 0, y: 0, w: 210, h: 160 };
    let part = Region { x: 13, y: 22, w: 190, h: 130 };
    let mut stages = Vec::new();
    for (decoded, crop) in [
        (whole, whole),
        (whole, Region { x: 31, y: 17, w: 150, h: 97 }),
        (part, Region { x: 13, y: 40, w: 33, h: 50 }),
        (part, Region { x: 200, y: 150, w: 3, h: 2 }),
    ] {
        for resized in [Size { w: 64, h: 64 }, Size { w: 224, h: 100 }, crop.size()] {
            for window in
                [PixelWindow { x: 0, y: 0, size: resized }, PixelWindow { x: -5, y: 3, size: Size { w: 40, h: 70 } }]
            {
                for flip in [false, true] {
                    stages.push((
                        decoded,
                        Stage {
                            crop,
                            resized,
                            interpolation: Interpolation::Bilinear,
                            border: Border::BLACK,
                            window,
                            flip,
                        },
                    ));
                }
            }
        }
    }
    stages
}

#[test]
fn grey_levels_differ_from_the_host_s_by_at_most_one() {
    let kernel = Kernel::new();
    let (mut values, mut differing) = (0, 0);
    for (seed, (decoded, stage)) in (0..).zip(stages()) {
        let source = source(decoded, seed);
        let expected = on_host(&source, &stage, DType::UInt8, PixelLayout::Nhwc);
        let got = kernel.run(&source, &stage, DType::UInt8, PixelLayout::Nhwc, expected.len());
        for (got, expected) in got.iter().zip(&expected) {
            assert!(got.abs_diff(*expected) <= 1, "{got} for {expected} in {stage:?}");
            differing += usize::from(got != expected);
        }
        values += expected.len();
    }
    assert!(differing * 500 < values, "{differing} of {values}");
}

#[test]
fn normalisation_types_and_layouts_are_bit_identical_to_the_host_s() {
    let kernel = Kernel::new();
    for (seed, (decoded, stage)) in (0..).zip(stages()) {
        let source = source(decoded, seed);
        for layout in [PixelLayout::Nchw, PixelLayout::Nhwc] {
            let levels = on_host(&source, &stage, DType::UInt8, layout);
            let ours = kernel.run(&source, &stage, DType::UInt8, layout, levels.len());
            for dtype in [DType::Float16, DType::BFloat16, DType::Float32] {
                let expected = on_host(&source, &stage, dtype, layout);
                let got = kernel.run(&source, &stage, dtype, layout, expected.len());
                let item = dtype.size();
                for (i, (level, our)) in levels.iter().zip(&ours).enumerate().filter(|(_, (level, our))| level == our) {
                    let at = i * item..(i + 1) * item;
                    assert_eq!(got[at.clone()], expected[at], "level {level} {our} as {dtype:?}");
                }
            }
        }
    }
}

#[test]
fn numbers_are_rounded_to_nearest_ties_to_even() {
    let kernel = Kernel::new();
    // Each grey level once.
    let region = Region { x: 0, y: 0, w: 256, h: 1 };
    let mut levels = Pixels::default();
    levels.start(region, 3).iter_mut().enumerate().for_each(|(i, byte)| *byte = (i / 3) as u8);
    let stage = Stage::identity(region.size());
    // Ties in both types, halves below the normal numbers, tiny numbers, and overflows.
    for (scale, offset) in [
        (0.5, 256.0),
        (0.5, -2048.0),
        (0.000_000_029_802_322, 0.0),
        (0.000_000_007_450_581, 0.0),
        (0.000_06, -0.007),
        (1000.0, 0.0),
    ] {
        let run = |dtype| {
            let bytes = 256 * 3 * 2;
            kernel.run_scaled(&levels, &stage, dtype, PixelLayout::Nhwc, bytes, ([scale; 3], [offset; 3]))
        };
        let (float16, bfloat16) = (run(DType::Float16), run(DType::BFloat16));
        for level in 0..256 {
            let value = level as f32 * scale + offset;
            let at = level * 6..level * 6 + 2;
            assert_eq!(float16[at.clone()], half::f16::from_f32(value).to_ne_bytes(), "{value} as float16");
            assert_eq!(bfloat16[at], half::bf16::from_f32(value).to_ne_bytes(), "{value} as bfloat16");
        }
    }
}

#[test]
fn an_erased_box_has_its_values_as_they_are_and_the_rest_is_unchanged() {
    let kernel = Kernel::new();
    let region = Region { x: 0, y: 0, w: 9, h: 7 };
    let (source, stage) = (source(region, 4), Stage { flip: true, ..Stage::identity(region.size()) });
    let boxes = [(0, 0, 9, 7), (0, 0, 1, 1), (8, 6, 1, 1), (2, 3, 4, 2), (3, 0, 0, 5), (3, 3, 2, 0)];
    for (x, y, w, h) in boxes {
        for (dtype, layout) in
            [(DType::UInt8, PixelLayout::Nhwc), (DType::UInt8, PixelLayout::Nchw), (DType::Float32, PixelLayout::Nchw)]
        {
            let value = if dtype == DType::UInt8 { [7.0, 0.0, 255.0] } else { [-1.25, 300.0, 0.0] };
            let item = dtype.size();
            let mut got = vec![0u8; 9 * 7 * 3 * item];
            let at = got.as_mut_ptr().expose_provenance() as u64;
            let batch = Batch::new(at, region.size(), dtype, layout, [0.5; 3], [3.0; 3]).expect("a type of pictures");
            let picture = picture_of(&source, &stage);
            kernel.make(&picture, &batch);
            let plain = got.clone();
            kernel.make(&picture.erased(ErasedBox { region: Region { x, y, w, h }, value }), &batch);
            for (i, (got, plain)) in got.chunks(item).zip(plain.chunks(item)).enumerate() {
                let (c, pixel) = if layout == PixelLayout::Nhwc { (i % 3, i / 3) } else { (i / 63, i % 63) };
                let (column, row) = (pixel as u32 % 9, pixel as u32 / 9);
                let is_inside = (x..x + w).contains(&column) && (y..y + h).contains(&row);
                let erased = if item == 1 { vec![value[c] as u8] } else { value[c].to_ne_bytes().to_vec() };
                assert_eq!(got, if is_inside { &erased[..] } else { plain }, "{column}, {row}, {c} of {dtype:?}");
            }
        }
    }
}

#[test]
fn a_crop_outside_of_the_decoded_region_is_an_error() {
    let decoded = Region { x: 10, y: 10, w: 50, h: 50 };
    for (x, y, w, h) in [(9, 10, 5, 5), (10, 9, 5, 5), (40, 10, 21, 5), (10, 40, 5, 21)] {
        let stage = Stage { crop: Region { x, y, w, h }, ..Stage::identity(Size { w, h }) };
        assert!(Picture::new(0, 150, decoded, &stage, 0, 0).is_err());
    }
}

#[test]
fn unwritten_rows_of_a_crop_are_found_at_any_alignment() {
    type Find = unsafe extern "C" fn(*const Picture, c_uint);
    let kernel = Kernel::new();
    // SAFETY: the type matches the source.
    let find = unsafe { kernel.library.get::<Find>("find_undecoded_on_host") }.expect("a function of the fake");
    let decoded = Region { x: 4, y: 6, w: 21, h: 13 };
    let pitch = decoded.w as usize * 3;
    let crop = Region { x: 7, y: 8, w: 9, h: 5 };
    // Words as in the fill of the device; rows begin at any byte of a word.
    let blank = vec![BLANK; (pitch * decoded.h as usize).div_ceil(4)];
    let is_undecoded = |written: &dyn Fn(usize, usize) -> bool| {
        let mut words = blank.clone();
        // SAFETY: bytes have no alignment and any value.
        let (_, pixels, _) = unsafe { words.align_to_mut::<u8>() };
        for (at, byte) in pixels.iter_mut().enumerate().filter(|(at, _)| written(at / pitch, at % pitch / 3)) {
            *byte = (at * 7) as u8;
        }
        let stage = Stage { crop, ..Stage::identity(crop.size()) };
        // The bytes of the remaining pictures must not change.
        let mut flags = [9u8, 0, 9];
        let flags_at = flags[1..].as_mut_ptr().expose_provenance() as u64;
        let at = words.as_mut_ptr().expose_provenance() as u64;
        let picture = Picture::new(at, pitch as u64, decoded, &stage, 0, flags_at).expect("inside");
        // SAFETY: the crop is inside of the words, and the flag has a byte.
        unsafe { find(&picture, 1) };
        assert_eq!([flags[0], flags[2]], [9, 9]);
        flags[1] == 1
    };
    assert!(is_undecoded(&|_, _| false));
    assert!(!is_undecoded(&|_, _| true));
    let [top, left] = [crop.y - decoded.y, crop.x - decoded.x].map(|v| v as usize);
    for y in 0..decoded.h as usize {
        let is_in_crop = (top..top + crop.h as usize).contains(&y);
        assert_eq!(is_undecoded(&|row, _| row != y), is_in_crop, "row {y}");
        // One pixel is enough if it is among the crop's last four.
        let has = |pixel: usize| !is_undecoded(&|row, column| row != y || column == pixel);
        for pixel in 0..decoded.w as usize {
            let is_at_end = (left + crop.w as usize - 4..left + crop.w as usize).contains(&pixel);
            assert_eq!(has(pixel), !is_in_crop || is_at_end, "pixel {pixel} of row {y}");
        }
    }
}

#[test]
fn the_compiled_kernel_matches_the_source() {
    let digest: String = sha2::Sha256::digest(SOURCE).iter().map(|byte| format!("{byte:02x}")).collect();
    let first = format!("// SHA-256 of crop_resize.cu: {digest}\n");
    assert!(PTX.starts_with(&first), "recompile it: python gpu/src/kernel/compile.py");
    for name in [CROP_RESIZE, FIND_UNDECODED] {
        assert!(PTX.contains(&format!(".visible .entry {name}(")));
    }
    // Contracted products and sums would differ from the host's.
    assert!(!PTX.contains("fma.rn"));
}
