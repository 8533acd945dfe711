//! The index of one tar that DALI's `wds2idx` writes: a line `v1.2 COUNT`, then a line per sample.

use crate::error::{Error, ErrorKind, Result};

/// Versions that DALI reads. They differ in the lines of samples.
const VERSIONS: [&str; 2] = ["v1.1", "v1.2"];

/// Returns the number of samples, which the first line has and the other lines confirm.
pub(super) fn parse(bytes: &[u8]) -> Result<u64> {
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
    let found = lines.filter(|line| !line.trim_ascii().is_empty()).count() as u64;
    if found != count {
        let message = format!("it has lines for {found} of {count} samples: make the index again with `wds2idx`");
        return Err(Error::format(message));
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_has_the_number_of_samples() {
        let text = b"v1.2 2\njpg 512 100 0.jpg cls 1536 1 0.cls\njpg 2560 100 1.jpg cls 3584 1 1.cls\n";
        assert_eq!(parse(text).expect("an index"), 2);
        assert_eq!(parse(b"v1.1 1\njpg 512 100 cls 1536 1").expect("an index"), 1);
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
