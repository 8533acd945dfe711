//! Colours of classes in masks, and of boxes.

/// Label of pixels without a class, as PASCAL VOC has it.
const WITHOUT_CLASS: u8 = 255;

/// Returns the colour of a label: the palette of PASCAL VOC, where neighbours differ much.
pub(super) fn colour(label: u8) -> [u8; 3] {
    if label == WITHOUT_CLASS {
        return [224, 224, 192];
    }
    let (mut rgb, mut rest) = ([0; 3], label);
    for position in (0..8).rev() {
        for (bit, channel) in rgb.iter_mut().enumerate() {
            *channel |= (rest >> bit & 1) << position;
        }
        rest >>= 3;
    }
    rgb
}

/// Returns the colour of a box: bright on every picture.
pub(super) fn box_colour(number: usize) -> [u8; 3] {
    const COLOURS: [[u8; 3]; 8] = [
        [255, 64, 64],
        [64, 224, 64],
        [80, 144, 255],
        [255, 208, 0],
        [255, 96, 255],
        [0, 224, 224],
        [255, 144, 32],
        [176, 112, 255],
    ];
    COLOURS[number % COLOURS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_the_colours_of_voc() {
        assert_eq!([0, 1, 2, 15].map(colour), [[0; 3], [128, 0, 0], [0, 128, 0], [192, 128, 128]]);
    }
}
