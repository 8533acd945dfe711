//! Repair of odd headers, to the values that libjpeg assumes, and of missing end markers.
//!
//! The library keeps only the first warning of a file. A harmless one about the header would hide all damage after it,
//! so the file is decoded again with the cause of the warning removed. A file without its end marker gives the same
//! warning if its data is cut, but with an end marker only a file with cut data gives a warning.

use super::super::progression::Coverage;

/// Returns `bytes` without the harmless causes of libjpeg's warnings: bytes between markers, unknown revisions of JFIF,
/// unknown colour transforms of Adobe, and a sequential scan with the header of a progressive one, all before the
/// first scan's data; and, if it `may_lack_end`, with an end marker if no scan is missing. Returns `None` if there is
/// no such cause, or no header at all.
pub(super) fn repaired(bytes: &[u8], may_lack_end: bool) -> Option<Vec<u8>> {
    let mut rest = bytes.strip_prefix(&[0xff, 0xd8])?;
    let mut out = vec![0xff, 0xd8];
    let (mut components, mut is_sequential, mut is_huffman, mut transform) = (0, false, false, None);
    let is_one_scan;
    loop {
        let code = next_marker(&mut rest)?;
        out.extend([0xff, code]);
        if matches!(code, 0x01 | 0xd0..=0xd7) {
            continue;
        }
        let (high, low) = (*rest.first()?, *rest.get(1)?);
        let start = out.len() + 2;
        out.extend(rest.split_off(..usize::from(u16::from_be_bytes([high, low])).max(2))?);
        let body = &mut out[start..];
        match code {
            0xe0 if body.starts_with(b"JFIF\0") && body.len() >= 14 => body[5] = 1,
            0xee if body.starts_with(b"Adobe") && body.len() >= 12 => transform = Some(start + 11),
            0xc0..=0xc3 | 0xc9 | 0xca => {
                components = usize::from(*body.get(5)?);
                is_sequential = !matches!(code, 0xc2 | 0xca);
                is_huffman = code <= 0xc3;
            }
            0xda => {
                let parameters_start = 1 + 2 * usize::from(*body.first()?);
                is_one_scan = is_sequential && usize::from(body[0]) == components;
                let parameters = body.get_mut(parameters_start..)?.first_chunk_mut::<3>()?;
                if is_sequential && components > 0 {
                    *parameters = [0, 63, 0];
                }
                break;
            }
            0xd8 | 0xd9 => return None,
            _ => {}
        }
    }
    if let Some(at) = transform {
        out[at] = match (components, out[at]) {
            (3, 2..) => 1,
            (4, 1 | 3..) => 2,
            (_, known) => known,
        };
    }
    out.extend(rest);
    let is_changed = out != bytes;
    // Arithmetic decoders read zeros after the end of the data, without a warning.
    if (is_changed || may_lack_end) && is_huffman && (is_one_scan || Coverage::check_headers(&out).is_ok()) {
        append_end(&mut out);
        return Some(out);
    }
    is_changed.then_some(out)
}

/// Appends an end marker instead of zeros, with which files that are cut may be filled up.
fn append_end(file: &mut Vec<u8>) {
    let zeros = file.iter().rev().take_while(|byte| **byte == 0).count();
    file.truncate(file.len() - zeros);
    if zeros > 0 && file.ends_with(&[0xff]) {
        // Data, and not the start of a marker.
        file.push(0);
    }
    file.extend([0xff, 0xd9]);
}

/// Returns the code of the next marker, after bytes that are none.
fn next_marker(rest: &mut &[u8]) -> Option<u8> {
    loop {
        let at = rest.iter().position(|byte| *byte == 0xff)?;
        let fill = rest[at..].iter().position(|byte| *byte != 0xff)?;
        let code = rest[at + fill];
        *rest = &rest[at + fill + 1..];
        if code != 0 {
            return Some(code);
        }
    }
}
