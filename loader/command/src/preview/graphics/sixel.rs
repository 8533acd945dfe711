//! Sixels: bands of six rows, one pass for each colour of a palette.

use crate::preview::picture::Picture;

/// Levels of red, green and blue in the palette, of 252 colours together. The eye sees most levels of green.
const LEVELS: [i32; 3] = [6, 7, 6];

/// Returns the sequence that draws `picture` at the cursor.
pub(super) fn sequence(picture: &Picture) -> String {
    let (width, height) = (picture.size.w as usize, picture.size.h as usize);
    let colours = dithered(&picture.rgb, width);
    let mut used: Vec<u8> = colours.clone();
    used.sort_unstable();
    used.dedup();
    let mut sequence = format!("\x1bPq\"1;1;{width};{height}");
    for colour in &used {
        let [red, green, blue] = levels_of(*colour);
        let percent = |level: i32, of: i32| level * 100 / (of - 1);
        let (red, green, blue) = (percent(red, LEVELS[0]), percent(green, LEVELS[1]), percent(blue, LEVELS[2]));
        sequence.push_str(&format!("#{colour};2;{red};{green};{blue}"));
    }
    for band in colours.chunks(6 * width) {
        let mut here: Vec<u8> = band.to_vec();
        here.sort_unstable();
        here.dedup();
        for colour in here {
            sequence.push_str(&format!("#{colour}"));
            push_runs(&mut sequence, (0..width).map(|x| sixel(band, width, x, colour)));
            sequence.push('$');
        }
        sequence.push('-');
    }
    sequence.push_str("\x1b\\");
    sequence
}

/// Returns the character for the six pixels of column `x` that have `colour`.
fn sixel(band: &[u8], width: usize, x: usize, colour: u8) -> char {
    let rows = band.iter().skip(x).step_by(width);
    let bits = rows.enumerate().fold(0, |bits, (row, found)| bits | u8::from(*found == colour) << row);
    char::from(b'?' + bits)
}

/// Appends characters, with a count before equal ones.
fn push_runs(sequence: &mut String, characters: impl Iterator<Item = char>) {
    let mut run: Option<(char, usize)> = None;
    for character in characters.map(Some).chain([None]) {
        match (&mut run, character) {
            (Some((known, count)), Some(character)) if *known == character => *count += 1,
            (_, character) => {
                match run {
                    Some((known, count)) if count > 3 => sequence.push_str(&format!("!{count}{known}")),
                    Some((known, count)) => sequence.extend(std::iter::repeat_n(known, count)),
                    None => {}
                }
                run = character.map(|character| (character, 1));
            }
        }
    }
}

fn levels_of(colour: u8) -> [i32; 3] {
    let colour = i32::from(colour);
    [colour / (LEVELS[1] * LEVELS[2]), colour / LEVELS[2] % LEVELS[1], colour % LEVELS[2]]
}

/// Returns the colour of each pixel in the palette. The error of a pixel is spread to its neighbours, by Floyd and
/// Steinberg.
fn dithered(rgb: &[u8], width: usize) -> Vec<u8> {
    let mut values: Vec<i32> = rgb.iter().map(|level| i32::from(*level)).collect();
    let mut colours = Vec::with_capacity(rgb.len() / 3);
    for pixel in 0..rgb.len() / 3 {
        let (x, mut colour) = (pixel % width, 0);
        for (channel, levels) in LEVELS.into_iter().enumerate() {
            let at = pixel * 3 + channel;
            let (value, steps) = (values[at].clamp(0, 255), levels - 1);
            let level = (value * steps + 127) / 255;
            colour = colour * levels + level;
            let error = value - level * 255 / steps;
            let below = at + width * 3;
            let shares =
                [(at + 3, 7, x + 1 < width), (below - 3, 3, x > 0), (below, 5, true), (below + 3, 1, x + 1 < width)];
            for (neighbour, share, is_there) in shares {
                if let Some(value) = values.get_mut(neighbour).filter(|_| is_there) {
                    *value += error * share / 16;
                }
            }
        }
        colours.push(colour as u8);
    }
    colours
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_loader::decode::geometry::Size;

    #[test]
    fn a_picture_of_two_colours_has_two_passes() {
        let rgb = [[255, 255, 255], [0, 0, 0]].repeat(4).concat();
        let sequence = sequence(&Picture::new(Size { w: 8, h: 1 }, rgb));
        assert_eq!(sequence, "\x1bPq\"1;1;8;1#0;2;0;0;0#251;2;100;100;100#0?@?@?@?@$#251@?@?@?@?$-\x1b\\");
    }

    #[test]
    fn equal_characters_are_counted() {
        let mut text = String::new();
        push_runs(&mut text, "aaaabbc".chars());
        assert_eq!(text, "!4abbc");
    }

    #[test]
    fn the_mean_of_a_grey_area_is_kept() {
        let colours = dithered(&[100; 3 * 64 * 64], 64);
        let red: i32 = colours.iter().map(|colour| levels_of(*colour)[0] * 255 / 5).sum();
        assert!((red / (64 * 64) - 100).abs() <= 3, "{red}");
    }
}
