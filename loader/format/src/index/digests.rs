//! Hashes that an index lists for a file.

use crate::HashAlgo;
use smallvec::SmallVec;

/// Hashes of one file by algorithm, in the order of the index.
///
/// For each hash the index of its algorithm in [`HashAlgo::ALL`], then the digest's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digests(SmallVec<[u8; INLINE_BYTES]>);

/// Bytes that need no allocation: a hash of 64 bits with its algorithm. A pointer and a length take as many.
const INLINE_BYTES: usize = 16;

impl Digests {
    /// Makes a list of algorithms and digests, which are lowercase hexadecimal digits.
    ///
    /// # Panics
    ///
    /// If a digest has the wrong length or invalid characters. The parser of the index checks both.
    pub fn new<S: AsRef<str>>(hashes: impl IntoIterator<Item = (HashAlgo, S)>) -> Self {
        let mut digests = Self::default();
        for (algo, hex) in hashes {
            let hex = hex.as_ref();
            assert_eq!(hex.len(), algo.hex_len(), "a {} digest of a different length", algo.name());
            digests.push(algo, hex).expect("hexadecimal digits");
        }
        digests
    }

    /// Adds the digest `hex`, which has the length of `algo`; `None` if it is not one of hexadecimal digits.
    pub(super) fn push(&mut self, algo: HashAlgo, hex: &str) -> Option<()> {
        self.0.push(HashAlgo::ALL.iter().position(|known| *known == algo)? as u8);
        let start = self.0.len();
        self.0.resize(start + algo.hex_len() / 2, 0);
        hex::decode_to_slice(hex, &mut self.0[start..]).ok()
    }

    /// Iterates over algorithms and digests, which are lowercase hexadecimal digits.
    pub fn iter(&self) -> impl Iterator<Item = (HashAlgo, String)> {
        self.raw().map(|(algo, digest)| (algo, hex::encode(digest)))
    }

    /// Iterates over the algorithms.
    pub fn algos(&self) -> impl Iterator<Item = HashAlgo> {
        self.raw().map(|(algo, _)| algo)
    }

    /// Returns the digest under `algo` as lowercase hexadecimal digits.
    pub fn get(&self, algo: HashAlgo) -> Option<String> {
        self.raw().find(|(known, _)| *known == algo).map(|(_, digest)| hex::encode(digest))
    }

    fn raw(&self) -> impl Iterator<Item = (HashAlgo, &[u8])> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            let (place, digests) = rest.split_first()?;
            let algo = HashAlgo::ALL[usize::from(*place)];
            let (digest, more) = digests.split_at(algo.hex_len() / 2);
            rest = more;
            Some((algo, digest))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_of_all_algorithms_keep_their_order() {
        let hashes: Vec<_> = HashAlgo::ALL.into_iter().rev().map(|algo| (algo, algo.hex(b"content"))).collect();
        let digests = Digests::new(hashes.clone());
        assert_eq!(digests.iter().collect::<Vec<_>>(), hashes);
        assert!(digests.algos().eq(HashAlgo::ALL.into_iter().rev()));
        assert_eq!(digests.get(HashAlgo::Sha1), Some(HashAlgo::Sha1.hex(b"content")));
        assert_eq!(Digests::new([hashes[0].clone()]).get(HashAlgo::Sha1), None);
        assert_eq!(Digests::default().iter().count(), 0);
    }
}
