//! Graphics protocol of kitty: a PNG file as base64, in parts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use forebay_loader::decode::geometry::Size;

/// Most bytes of base64 in a part.
const PART_BYTES: usize = 4096;

/// Returns the sequence that draws a PNG file in `cells`, with the cursor where it was.
pub(super) fn sequence(png: &[u8], cells: Size) -> String {
    let text = STANDARD.encode(png);
    let mut sequence = String::with_capacity(text.len() + text.len() / PART_BYTES * 16 + 64);
    let mut rest = text.as_str();
    // a=T: draw it now; f=100: PNG; q=2: no answer; C=1: the cursor stays.
    let mut keys = format!("a=T,f=100,q=2,C=1,c={},r={},", cells.w, cells.h);
    while !rest.is_empty() {
        let (part, later) = rest.split_at(rest.len().min(PART_BYTES));
        let more = u8::from(!later.is_empty());
        sequence.push_str(&format!("\x1b_G{keys}m={more};{part}\x1b\\"));
        (rest, keys) = (later, String::new());
    }
    sequence
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_cut_into_parts() {
        let file: Vec<u8> = (0..5000_u32).map(|number| number as u8).collect();
        let sequence = sequence(&file, Size { w: 3, h: 2 });
        let parts: Vec<&str> = sequence.split_terminator("\x1b\\").collect();
        assert!(parts[0].starts_with("\x1b_Ga=T,f=100,q=2,C=1,c=3,r=2,m=1;"), "{}", parts[0]);
        assert!(parts[1].starts_with("\x1b_Gm=0;") && parts.len() == 2);
        let text: String = parts.iter().filter_map(|part| part.split(';').nth(1)).collect();
        assert_eq!(STANDARD.decode(text).expect("base64"), file);
    }
}
