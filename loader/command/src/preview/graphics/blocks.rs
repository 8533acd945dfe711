//! Two pixels in a character: the upper half block, in the colour of the upper one, on the lower one's.

use crate::preview::picture::Picture;
use forebay_loader::decode::geometry::Size;

/// Returns the lines of `picture`, which is at most as wide as `cells`; each line is as wide as they are.
pub(super) fn lines(picture: &Picture, cells: Size, has_24_bits: bool) -> Vec<String> {
    let Size { w, h } = picture.size;
    let line = |row: u32| {
        let (mut line, mut last) = (String::new(), String::new());
        for x in 0..w {
            let upper = colour(38, picture.pixel(x, 2 * row), has_24_bits);
            let lower = (2 * row + 1 < h).then(|| colour(48, picture.pixel(x, 2 * row + 1), has_24_bits));
            let colours = format!("\x1b[{upper};{}m", lower.as_deref().unwrap_or("49"));
            if last != colours {
                line.push_str(&colours);
                last = colours;
            }
            line.push('▀');
        }
        line.push_str("\x1b[0m");
        line.extend(std::iter::repeat_n(' ', cells.w.saturating_sub(w) as usize));
        line
    };
    (0..h.div_ceil(2)).map(line).collect()
}

/// Returns the parameters of a colour: of the character for `ground` 38, and of the background for 48.
fn colour(ground: u8, [red, green, blue]: [u8; 3], has_24_bits: bool) -> String {
    if has_24_bits {
        return format!("{ground};2;{red};{green};{blue}");
    }
    format!("{ground};5;{}", of_256([red, green, blue]))
}

/// Levels of the cube of colours in the palette of 256.
const CUBE: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// Returns the nearest colour of the palette of 256: of its cube, or of its ramp of greys.
fn of_256(rgb: [u8; 3]) -> u8 {
    let nearest = |level: u8| (0..6_u8).min_by_key(|place| CUBE[usize::from(*place)].abs_diff(level)).unwrap_or(0);
    let places = rgb.map(nearest);
    let mean = rgb.iter().map(|level| u16::from(*level)).sum::<u16>() / 3;
    let step = (mean.saturating_sub(3) / 10).min(23) as u8;
    let distance = |other: [u8; 3]| rgb.iter().zip(other).map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum::<u32>();
    let (of_cube, of_ramp) = (distance(places.map(|place| CUBE[usize::from(place)])), distance([8 + 10 * step; 3]));
    if of_ramp < of_cube { 232 + step } else { 16 + 36 * places[0] + 6 * places[1] + places[2] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_three_rows_has_two_lines() {
        let rgb = [[255, 0, 0], [255, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 255], [128, 128, 128]].concat();
        let picture = Picture::new(Size { w: 2, h: 3 }, rgb);
        let found = lines(&picture, Size { w: 3, h: 2 }, true);
        assert_eq!(
            found,
            ["\x1b[38;2;255;0;0;48;2;0;0;0m▀▀\x1b[0m ", "\x1b[38;2;0;0;255;49m▀\x1b[38;2;128;128;128;49m▀\x1b[0m ",]
        );
        let found = lines(&picture, Size { w: 2, h: 2 }, false);
        assert_eq!(found[1], "\x1b[38;5;21;49m▀\x1b[38;5;244;49m▀\x1b[0m");
    }
}
