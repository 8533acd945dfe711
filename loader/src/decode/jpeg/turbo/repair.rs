//! Odd headers made ordinary, in the way in which libjpeg reads them.
//!
//! The library keeps the first warning of a file only. One about the header, which it gets over without harm, would hide all
//! that is wrong behind it: so the file is looked at again without its cause.

/// `bytes` without what libjpeg warns of before the first scan's data, as far as it goes on as if nothing were wrong: bytes
/// between markers, revisions of JFIF and colour transforms of Adobe that it does not know, and a sequential scan that says
/// it is a part of a progressive one. `None` when there is nothing of the kind, or no header at all.
pub(super) fn repair_header(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut rest = bytes.strip_prefix(&[0xff, 0xd8])?;
    let mut out = vec![0xff, 0xd8];
    let (mut components, mut is_sequential, mut transform) = (0, false, None);
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
            }
            0xda => {
                let behind_components = 1 + 2 * usize::from(*body.first()?);
                let parameters = body.get_mut(behind_components..)?.first_chunk_mut::<3>()?;
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
    (out != bytes).then_some(out)
}

/// The code of the next marker, behind bytes that are none.
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
