//! The index of one tar that DALI's `wds2idx` writes: a line `v1.2 COUNT`, then a line per sample.
//!
//! ```text
//!   v1.2 2
//!   jpg 512 100 0.jpg cls 1536 1 0.cls      of each file: field, offset of the content, bytes, and in v1.2 the name
//! ```

use super::known::TarFacts;
use crate::error::{Error, ErrorKind, Result};

/// Bytes of a file's header, which is before its content.
const HEADER_BYTES: u64 = 512;

/// Versions that DALI reads. They differ in the lines of samples.
const VERSIONS: [&str; 2] = ["v1.1", "v1.2"];

/// Returns the number of samples, which the first line has and the remaining lines confirm.
pub(super) fn parse(bytes: &[u8]) -> Result<TarFacts> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let first = String::from_utf8_lossy(lines.next().unwrap_or_default());
    let mut words = first.split_whitespace();
    let (version, count, rest) = (words.next().unwrap_or_default(), words.next(), words.next());
    if !VERSIONS.contains(&version) {
        if version.starts_with('v') && version[1..].starts_with(|c: char| c.is_ascii_digit()) {
            let message = "only the versions v1.1 and v1.2 are read: make the index again with `wds2idx`";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        return Err(Error::format("the first line of an index of DALI is `v1.2` and a number of samples"));
    }
    let count: Option<u64> = count.filter(|_| rest.is_none()).and_then(|count| count.parse().ok());
    let count = count.ok_or_else(|| Error::format("the first line has no number of samples"))?;
    let lines: Vec<&[u8]> = lines.filter(|line| !line.trim_ascii().is_empty()).collect();
    let found = lines.len() as u64;
    if found != count {
        let message = format!("it has lines for {found} of {count} samples: make the index again with `wds2idx`");
        return Err(Error::format(message));
    }
    let header = |number: usize| ranges(version, lines.get(number)?)?.first()?.0.checked_sub(HEADER_BYTES);
    let end = lines.last().and_then(|line| {
        let ends = ranges(version, line)?.into_iter().map(|(start, bytes)| start.checked_add(bytes));
        ends.max()??.checked_next_multiple_of(HEADER_BYTES)
    });
    Ok(TarFacts::new(lines.len(), header, end))
}

/// Returns the offsets and bytes of the files of a sample; `None` for an unknown line, as of names with spaces.
fn ranges(version: &str, line: &[u8]) -> Option<Vec<(u64, u64)>> {
    let line = String::from_utf8_lossy(line);
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let words_of_file = if version == "v1.1" { 3 } else { 4 };
    if words.is_empty() || !words.len().is_multiple_of(words_of_file) {
        return None;
    }
    words.chunks(words_of_file).map(|file| Some((file[1].parse().ok()?, file[2].parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_has_the_number_of_samples() {
        let text = b"v1.2 2\njpg 512 100 0.jpg cls 1536 1 0.cls\njpg 2560 100 1.jpg cls 3584 1 1.cls\n";
        assert_eq!(parse(text).expect("an index"), TarFacts { samples: 2, headers: vec![2048], end: Some(4096) });
        assert_eq!(
            parse(b"v1.1 1\njpg 512 100 cls 1536 1").expect("an index"),
            TarFacts { samples: 1, headers: vec![0], end: Some(2048) }
        );
        assert_eq!(parse(b"v1.2 1\njpg").expect("an index"), TarFacts { samples: 1, headers: vec![], end: None });
    }

    #[test]
    fn a_damaged_index_is_an_error() {
        for (text, kind, says) in [
            ("", ErrorKind::Format, "first line"),
            ("<html>", ErrorKind::Format, "first line"),
            ("v\u{fc}1 2", ErrorKind::Format, "first line"),
            ("v1.3 1\na", ErrorKind::Unsupported, "v1.1 and v1.2"),
            ("v1.2", ErrorKind::Format, "no number"),
            ("v1.2 x\n", ErrorKind::Format, "no number"),
            ("v1.2 1 2\na\n", ErrorKind::Format, "no number"),
            ("v1.2 3\njpg 512 100 0.jpg\n", ErrorKind::Format, "1 of 3 samples"),
        ] {
            let e = parse(text.as_bytes()).expect_err(text);
            assert!(e.kind() == kind && e.to_string().contains(says), "{text}: {e}");
        }
    }
}
