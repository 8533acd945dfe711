//! Kernels for any machine. All remaining kernels must give the same results.

use super::super::band::BandRun;
use super::super::fallback::Fallback;
use super::super::mcu_blocks::{McuBlocks, Position};
use super::super::order::{BLOCK, POSITIONS, ROWS};
use super::islow::fits;
use super::layout::BlockRow;
use super::reduced;

pub(super) fn unstuff(from: &[u8], out: &mut [u8]) -> (usize, usize) {
    const STEP: usize = 16;
    let (mut read, mut written) = (0, 0);
    while read < from.len() {
        // All bytes are tested, so that the compiler can use vectors.
        if let Some(chunk) = from[read..].first_chunk::<STEP>()
            && !chunk.iter().fold(false, |found, byte| found | (*byte == 0xff))
        {
            out[written..written + STEP].copy_from_slice(chunk);
            (read, written) = (read + STEP, written + STEP);
            continue;
        }
        // Byte by byte up to and including the next FF.
        let end = (read + STEP).min(from.len());
        while read < end {
            let byte = from[read];
            if byte == 0xff {
                if from.get(read + 1) != Some(&0) {
                    return (read, written);
                }
                read += 1;
            }
            out[written] = byte;
            (read, written) = (read + 1, written + 1);
        }
    }
    (read, written)
}

#[inline(always)]
pub(super) fn decode(
    blocks: &McuBlocks<'_>,
    at: &mut Position<'_>,
    count: usize,
    coefficients: &mut [i16],
) -> Result<(), Fallback> {
    blocks.decode::<true>(at, count, coefficients)
}

#[inline(always)]
pub(super) fn skip(blocks: &McuBlocks<'_>, at: &mut Position<'_>, count: usize) -> Result<(), Fallback> {
    blocks.skip(at, count)
}

pub(super) fn band(run: BandRun<'_, '_>) -> Result<(), Fallback> {
    run.read(|mut number, mut mask| {
        let mut out = 0;
        while mask != 0 && number != 0 {
            let lowest = mask & mask.wrapping_neg();
            out |= if number & 1 == 1 { lowest } else { 0 };
            mask ^= lowest;
            number >>= 1;
        }
        out
    })
}

/// See [`Kernels::order`](super::Kernels::order): by pairs.
#[inline(always)]
pub(super) fn order(backwards: &[[i16; BLOCK]], out: &mut [[i16; BLOCK]]) {
    for (from, out) in backwards.iter().zip(out) {
        for (value, position) in from.iter().rev().zip(POSITIONS) {
            out[usize::from(position)] = *value;
        }
    }
}

/// Runs a pass of the transform over eight lanes: `rows[k]` are the k-th inputs. Sums wrap and results saturate as in
/// libjpeg-turbo's vector code for x86, so that any coefficients give the same pixels.
#[inline(always)]
fn pass<const SHIFT: u32>(rows: &[[i16; 8]; 8]) -> [[i16; 8]; 8] {
    use super::constants::*;
    let mut out = [[0; 8]; 8];
    for i in 0..8 {
        let [in0, in1, in2, in3, in4, in5, in6, in7] = std::array::from_fn(|k| i32::from(rows[k][i]));
        let word = |v: i32| i32::from(v as i16);
        let even_0 = word(in0 + in4) << 13;
        let even_1 = word(in0 - in4) << 13;
        let even_2 = in2 * F_0_541 + in6 * (F_0_541 - F_1_847);
        let even_3 = in2 * (F_0_541 + F_0_765) + in6 * F_0_541;
        let sums = [even_0 + even_3, even_1 + even_2, even_1 - even_2, even_0 - even_3];
        let (z3, z4) = (word(in7 + in3), word(in5 + in1));
        let z3_rotated = z3 * (F_1_175 - F_1_961) + z4 * F_1_175;
        let z4_rotated = z3 * F_1_175 + z4 * (F_1_175 - F_0_390);
        let odds = [
            (in7 * -F_0_899 + in1 * (F_1_501 - F_0_899)).wrapping_add(z4_rotated),
            (in5 * -F_2_562 + in3 * (F_3_072 - F_2_562)).wrapping_add(z3_rotated),
            (in5 * (F_2_053 - F_2_562) + in3 * -F_2_562).wrapping_add(z4_rotated),
            (in7 * (F_0_298 - F_0_899) + in1 * -F_0_899).wrapping_add(z3_rotated),
        ];
        let descaled = |v: i32| {
            let v = v.wrapping_add(1 << (SHIFT - 1)) >> SHIFT;
            v.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16
        };
        for (k, (sum, odd)) in sums.into_iter().zip(odds).enumerate() {
            out[k][i] = descaled(sum.wrapping_add(odd));
            out[7 - k][i] = descaled(sum.wrapping_sub(odd));
        }
    }
    out
}

fn transposed(rows: &[[i16; 8]; 8]) -> [[i16; 8]; 8] {
    std::array::from_fn(|y| std::array::from_fn(|x| rows[x][y]))
}

/// Converts values to rows; `position` returns the position of the `i`-th value in zigzag order.
#[inline(always)]
fn in_rows(values: &[i16; BLOCK], position: impl Fn(usize) -> usize) -> [[i16; 8]; 8] {
    let mut rows = [[0; 8]; 8];
    for (i, row) in ROWS.into_iter().enumerate() {
        rows[usize::from(row / 8)][usize::from(row % 8)] = values[position(i)];
    }
    rows
}

/// Returns the position by pairs of the `i`-th value in zigzag order.
pub(super) fn by_pairs(i: usize) -> usize {
    POSITIONS[i].into()
}

/// Decodes a block, and returns whether its values fit.
#[inline(always)]
fn idct_block(
    block: &[i16; BLOCK],
    position: impl Fn(usize) -> usize,
    quantisation: &[i16; BLOCK],
) -> ([[u8; 8]; 8], bool) {
    let (values, steps) = (in_rows(block, position), in_rows(quantisation, by_pairs));
    let rows: [[i16; 8]; 8] = std::array::from_fn(|y| std::array::from_fn(|x| values[y][x].wrapping_mul(steps[y][x])));
    let is_flat = values[1..].as_flattened().iter().all(|v| *v == 0);
    let columns = if is_flat {
        // Like the pass, except for values that do not fit, which libjpeg-turbo wraps here.
        [rows[0].map(|v| v << 2); 8]
    } else {
        pass::<11>(&rows)
    };
    let all_fit = [rows, columns].as_flattened().as_flattened().iter().all(|v| fits((*v).into()));
    let result = transposed(&pass::<18>(&transposed(&columns)));
    (result.map(|row| row.map(|v| (v.clamp(-128, 127) + 128) as u8)), all_fit)
}

/// See [`Kernels::idct`](super::Kernels::idct); blocks by pairs. Returns true if all values [`fit`](fits), as every
/// kernel does; on x86 all do.
pub(super) fn idct(row: BlockRow<'_>, out: &mut [u8], stride: usize) -> bool {
    let mut all_fit = true;
    for (i, offset) in row.offsets.iter().enumerate() {
        let (rows, fits) = idct_block(row.at(*offset), by_pairs, row.quantisation);
        all_fit &= fits;
        for (y, samples) in rows.iter().enumerate() {
            out[y * stride + i * 8..][..8].copy_from_slice(samples);
        }
    }
    all_fit
}

/// See [`Kernels::idct`](super::Kernels::idct); to blocks of less than 8, from blocks by pairs.
#[inline(always)]
pub(super) fn idct_reduced(side: u32, row: BlockRow<'_>, out: &mut [u8], stride: usize) -> bool {
    reduced::idct(side, row, |block| *block, out, stride)
}

/// Decodes blocks side by side that have values too large for the vector code, in the order that `position` gives, to
/// eight rows.
#[cfg(target_arch = "x86_64")]
#[cold]
#[inline(never)]
pub(super) fn idct_large<const BLOCKS: usize, const WIDTH: usize>(
    blocks: [&[i16; BLOCK]; BLOCKS],
    position: impl Fn(usize) -> usize,
    quantisation: &[i16; BLOCK],
    out: [&mut [u8; WIDTH]; 8],
) {
    let blocks = blocks.map(|block| idct_block(block, &position, quantisation).0);
    for (y, out) in out.into_iter().enumerate() {
        for (out, block) in out.as_chunks_mut::<8>().0.iter_mut().zip(&blocks) {
            *out = block[y];
        }
    }
}

#[inline(always)]
pub(super) fn smooth_across(samples: &[u8], out: &mut [u8]) {
    double_columns([samples], [1, 2], out);
}

#[inline(always)]
pub(super) fn smooth_down(near: &[u8], far: &[u8], bias: u16, out: &mut [u8]) {
    for (out, (near, far)) in out.iter_mut().zip(near.iter().zip(far)) {
        *out = ((u16::from(*near) * 3 + u16::from(*far) + bias) >> 2) as u8;
    }
}

#[inline(always)]
pub(super) fn smooth_both(near: &[u8], far: &[u8], out: &mut [u8]) {
    double_columns([near, far], [8, 7], out);
}

/// Doubles the columns of one row, or of three parts of a row and one of the next, with a bias for even and odd
/// columns.
///
/// Whole chunks of pairs, each stored as one number, let the compiler use vectors as well as a kernel by hand could.
/// The loop is no closure, because the compiler leaves closures with many callers out of the kernel, without its
/// vectors.
#[inline(always)]
fn double_columns<const ROWS: usize>(rows: [&[u8]; ROWS], [even, odd]: [u16; 2], out: &mut [u8]) {
    const PAIRS: usize = 32;
    let shift = 2 * ROWS as u32;
    let mut last = [0; 2 * PAIRS];
    for (i, out) in out.chunks_mut(2 * PAIRS).enumerate() {
        let length = out.len();
        let rows = rows.map(|row| row[PAIRS * i..].first_chunk::<{ PAIRS + 2 }>().expect("a margin after the row"));
        let pairs = out.first_chunk_mut().unwrap_or(&mut last).as_chunks_mut::<2>().0;
        for (j, pair) in pairs.iter_mut().enumerate() {
            let [left, here, right] = [j, j + 1, j + 2]
                .map(|at| rows[1..].iter().fold(rows[0][at].into(), |sum: u16, row| 3 * sum + u16::from(row[at])));
            *pair = ((here * 3 + left + even) >> shift | (here * 3 + right + odd) >> shift << 8).to_le_bytes();
        }
        if length < 2 * PAIRS {
            out.copy_from_slice(&last[..length]);
        }
    }
}

#[inline(always)]
fn rgb(samples: [u8; 3]) -> [u8; 3] {
    const HALF: i32 = 1 << 15;
    let [y, cb, cr] = samples.map(i32::from);
    let (cb, cr) = (cb - 128, cr - 128);
    let channels = [
        y + ((91_881 * cr + HALF) >> 16),
        y + ((-22_554 * cb - 46_802 * cr + HALF) >> 16),
        y + ((116_130 * cb + HALF) >> 16),
    ];
    channels.map(|v| v.clamp(0, 255) as u8)
}

#[inline(always)]
pub(super) fn ycbcr([y, cb, cr]: [&[u8]; 3], out: &mut [u8]) {
    let pixels = out.as_chunks_mut::<3>().0;
    let (y, cb, cr) = (&y[..pixels.len()], &cb[..pixels.len()], &cr[..pixels.len()]);
    for (i, pixel) in pixels.iter_mut().enumerate() {
        *pixel = rgb([y[i], cb[i], cr[i]]);
    }
}

#[inline(always)]
pub(super) fn ycbcr_planes([y, cb, cr]: [&[u8]; 3], [r, g, b]: [&mut [u8]; 3]) {
    for (((y, cb), cr), ((r, g), b)) in y.iter().zip(cb).zip(cr).zip(r.iter_mut().zip(g).zip(b)) {
        [*r, *g, *b] = rgb([*y, *cb, *cr]);
    }
}

#[inline(always)]
pub(super) fn interleave(planes: [&[u8]; 3], out: &mut [u8]) {
    let pixels = out.as_chunks_mut::<3>().0;
    let planes = planes.map(|p| &p[..pixels.len()]);
    for (i, pixel) in pixels.iter_mut().enumerate() {
        *pixel = planes.map(|p| p[i]);
    }
}
