//! Conversion of stored pixels to RGB, as Pillow does it.

/// Copies a row of grey, grey + alpha, RGB or RGB + alpha pixels to RGB.
pub fn rgb_row(row: &[u8], channels: usize, out: &mut [u8]) {
    match channels {
        3 => out.copy_from_slice(row),
        1 | 2 => out.chunks_exact_mut(3).zip(row.chunks_exact(channels)).for_each(|(out, p)| out.fill(p[0])),
        _ => out.chunks_exact_mut(3).zip(row.chunks_exact(channels)).for_each(|(out, p)| out.copy_from_slice(&p[..3])),
    }
}

/// Writes the opacity of a row of such pixels to all three channels: 255 if they have none.
pub fn opacity_row(row: &[u8], channels: usize, out: &mut [u8]) {
    let out = out.chunks_exact_mut(3);
    match channels {
        2 | 4 => out.zip(row.chunks_exact(channels)).for_each(|(out, p)| out.fill(p[channels - 1])),
        _ => out.for_each(|out| out.fill(255)),
    }
}

/// One channel of Pillow's CMYK to RGB: the white that the black ink leaves, times the fraction that the coloured ink
/// leaves.
#[inline]
pub fn rgb_channel(ink: u8, black: u8) -> u8 {
    let white = 255 - u32::from(black);
    let product = u32::from(ink) * white + 128;
    (white - (((product >> 8) + product) >> 8)) as u8
}
