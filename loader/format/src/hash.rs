//! The 17 hashes of files that an index may list, under their names in Python's `hashlib` and `xxhash`.

use blake2::{Blake2b512, Blake2s256};
use sha2::digest::DynDigest;
use xxhash_rust::{xxh3::Xxh3, xxh32::Xxh32, xxh64::Xxh64};

use forebay_core::error::{Error, ErrorKind, Result};

/// Declares [`HashAlgo`]: each variant with its name in the index, the length of its hexadecimal digest, its rank by
/// cost, and the state at its start.
macro_rules! algorithms {
    ($($variant:ident, $name:literal, $hex_len:literal, $cost:literal, $state:expr;)*) => {
        /// Hash algorithm of files. The variants are in the order of their names, as the reference lists them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the variants are the names of the algorithms")]
        pub enum HashAlgo {
            $($variant,)*
        }

        impl HashAlgo {
            /// All algorithms, in the order of their names.
            pub const ALL: [Self; 17] = [$(Self::$variant),*];

            /// Name in the index.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Length of the hexadecimal digest in characters.
            pub fn hex_len(self) -> usize {
                match self {
                    $(Self::$variant => $hex_len,)*
                }
            }

            /// Rank by cost, cheapest first: the xxHash family runs at memory speed; SHA-1 and SHA-256 have CPU
            /// instructions on current processors; SHA-3 is the slowest everywhere.
            fn cost(self) -> u8 {
                match self {
                    $(Self::$variant => $cost,)*
                }
            }

            fn start(self) -> HashState {
                match self {
                    $(Self::$variant => $state,)*
                }
            }
        }
    };
}

algorithms! {
    Blake2b, "blake2b", 128, 7, HashState::digest::<Blake2b512>();
    Blake2s, "blake2s", 64, 11, HashState::digest::<Blake2s256>();
    Md5, "md5", 32, 10, HashState::digest::<md5::Md5>();
    Sha1, "sha1", 40, 4, HashState::digest::<sha1::Sha1>();
    Sha224, "sha224", 56, 6, HashState::digest::<sha2::Sha224>();
    Sha256, "sha256", 64, 5, HashState::digest::<sha2::Sha256>();
    Sha384, "sha384", 96, 9, HashState::digest::<sha2::Sha384>();
    Sha3_224, "sha3_224", 56, 12, HashState::digest::<sha3::Sha3_224>();
    Sha3_256, "sha3_256", 64, 13, HashState::digest::<sha3::Sha3_256>();
    Sha3_384, "sha3_384", 96, 14, HashState::digest::<sha3::Sha3_384>();
    Sha3_512, "sha3_512", 128, 15, HashState::digest::<sha3::Sha3_512>();
    Sha512, "sha512", 128, 8, HashState::digest::<sha2::Sha512>();
    Xxh128, "xxh128", 32, 1, HashState::Xxh128(Box::default());
    Xxh32, "xxh32", 8, 3, HashState::Xxh32(Xxh32::new(0));
    Xxh3_128, "xxh3_128", 32, 1, HashState::Xxh128(Box::default());
    Xxh3_64, "xxh3_64", 16, 0, HashState::Xxh3(Box::default());
    Xxh64, "xxh64", 16, 2, HashState::Xxh64(Xxh64::new(0));
}

impl HashAlgo {
    /// Returns the algorithm with this name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for any further name.
    pub fn parse(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|algo| algo.name() == name).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|algo| algo.name()).collect();
            Error::new(ErrorKind::Unsupported, format!("`{name}` is not a known hash; known are {}", known.join(", ")))
        })
    }

    /// Returns the digest of `bytes` as lowercase hexadecimal digits.
    pub fn hex(self, bytes: &[u8]) -> String {
        let mut hasher = Hasher::new(self);
        hasher.update(bytes);
        hasher.finish_hex()
    }
}

/// Returns the cheapest algorithm of a list; `None` for an empty one.
pub fn cheapest(algos: impl IntoIterator<Item = HashAlgo>) -> Option<HashAlgo> {
    algos.into_iter().min_by_key(|algo| algo.cost())
}

/// Hash in progress.
pub struct Hasher(HashState);

enum HashState {
    Digest(Box<dyn DynDigest + Send>),
    Xxh32(Xxh32),
    Xxh64(Xxh64),
    /// Half a kilobyte of state, hence the box.
    Xxh3(Box<Xxh3>),
    Xxh128(Box<Xxh3>),
}

impl HashState {
    fn digest<D: DynDigest + Default + Send + 'static>() -> Self {
        Self::Digest(Box::new(D::default()))
    }
}

impl Hasher {
    /// Starts a hash.
    pub fn new(algo: HashAlgo) -> Self {
        Self(algo.start())
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            HashState::Digest(digest) => digest.update(bytes),
            HashState::Xxh32(xxh) => xxh.update(bytes),
            HashState::Xxh64(xxh) => xxh.update(bytes),
            HashState::Xxh3(xxh) | HashState::Xxh128(xxh) => xxh.update(bytes),
        }
    }

    /// Returns the digest as lowercase hexadecimal digits. xxHash values are written big-endian (their canonical form).
    pub fn finish_hex(self) -> String {
        match self.0 {
            HashState::Digest(digest) => hex::encode(digest.finalize()),
            HashState::Xxh32(xxh) => hex::encode(xxh.digest().to_be_bytes()),
            HashState::Xxh64(xxh) => hex::encode(xxh.digest().to_be_bytes()),
            HashState::Xxh3(xxh) => hex::encode(xxh.digest().to_be_bytes()),
            HashState::Xxh128(xxh) => hex::encode(xxh.digest128().to_be_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_sorted_and_parse_back() {
        assert!(HashAlgo::ALL.is_sorted_by_key(|algo| algo.name()));
        for algo in HashAlgo::ALL {
            assert_eq!(HashAlgo::parse(algo.name()).unwrap(), algo);
            assert_eq!(algo.hex(b"x").len(), algo.hex_len(), "{algo:?}");
        }
        assert_eq!(HashAlgo::parse("shake_128").unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn well_known_digests_are_computed() {
        assert_eq!(HashAlgo::Md5.hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(HashAlgo::Sha1.hex(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(HashAlgo::Xxh64.hex(b""), "ef46db3751d8e999");
        assert_eq!(HashAlgo::Xxh32.hex(b""), "02cc5d05");
        assert_eq!(HashAlgo::Xxh3_64.hex(b""), "2d06800538d394c2");
        assert_eq!(HashAlgo::Xxh128.hex(b""), "99aa06d3014798d86001c324468d497f");
    }

    #[test]
    fn hashing_in_pieces_gives_the_digest_of_the_whole() {
        let bytes: Vec<u8> = (0..5000u32).map(|i| (i * 7) as u8).collect();
        for algo in HashAlgo::ALL {
            let mut hasher = Hasher::new(algo);
            bytes.chunks(333).for_each(|piece| hasher.update(piece));
            assert_eq!(hasher.finish_hex(), algo.hex(&bytes), "{algo:?}");
        }
    }

    #[test]
    fn the_cheapest_of_a_list_is_found_at_any_position() {
        assert_eq!(cheapest([HashAlgo::Sha1, HashAlgo::Xxh64]), Some(HashAlgo::Xxh64));
        assert_eq!(cheapest([]), None);
    }
}
