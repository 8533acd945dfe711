//! `sizes.json` of OpenCLIP: the number of samples of each tar in its folder.

use super::known::{KnownTar, object, samples};
use crate::error::{Context, Result};

pub(super) fn parse(bytes: &[u8]) -> Result<Vec<KnownTar>> {
    let sizes = object(bytes)?;
    sizes.iter().map(|(name, count)| Ok(KnownTar::new(name, samples(count).context("tar", || name)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_by_the_name_of_the_tar() {
        let entries = parse(br#"{"00000.tar": 9789, "00001.tar": "9801", "00002.tar": 12.0}"#).expect("sizes");
        assert_eq!(
            entries,
            [("00000.tar", 9789), ("00001.tar", 9801), ("00002.tar", 12)].map(|(n, c)| KnownTar::new(n, c))
        );
        for (text, says) in [
            ("{\"00000.tar\": 9789", "not valid JSON"),
            ("[9789]", "a JSON object"),
            ("{\"00000.tar\": null}", "(tar 00000.tar)"),
            ("{\"00000.tar\": 1.5}", "a number of samples"),
            ("{\"00000.tar\": 1e300}", "a number of samples"),
            ("{\"00000.tar\": 18446744073709551615}", "a number of samples"),
        ] {
            let e = parse(text.as_bytes()).expect_err(text);
            assert!(e.kind() == crate::ErrorKind::Format && e.to_string().contains(says), "{text}: {e}");
        }
    }
}
