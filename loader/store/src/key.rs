//! Keys of objects: their check, and their encoding in addresses.

use crate::{Error, Result};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Longest key that S3 accepts; it applies to all stores.
const KEY_BYTES_MAX: usize = 1024;

/// Longest path that Linux accepts, without the slash at its start and the zero at its end.
const FILE_BYTES_MAX: usize = 4094;

/// Form of the keys that a remote accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    /// Relative path.
    Path,
    /// Path of a file of this machine, relative to the root.
    File,
    /// Key of an object store, where `a//b` and `a/b` are two objects.
    Object,
}

impl KeyForm {
    /// Rejects keys that could leave the remote, or that a server could read as a different object.
    pub(crate) fn check(self, key: &str) -> Result<()> {
        let part = |part: &str| part.is_empty() && self != Self::Object || part == "." || part == "..";
        let byte = |b: u8| match self {
            Self::Path => b < 0x20 || b == 0x7f || b == b'\\',
            Self::File => b == 0,
            // Addresses have it encoded.
            Self::Object => false,
        };
        let len_max = if self == Self::File { FILE_BYTES_MAX } else { KEY_BYTES_MAX };
        let bad = key.is_empty() || key.len() > len_max || key.bytes().any(byte) || key.split('/').any(part);
        if bad {
            let shown: String = key.chars().take(80).flat_map(char::escape_default).collect();
            let why = match self {
                Self::Path => {
                    "a key must be a relative path of at most 1024 bytes without empty, '.' or '..' parts, backslashes \
                     or control characters"
                }
                Self::File => "a path must have at most 4095 bytes, without empty, '.' or '..' parts",
                Self::Object => "a key must have at most 1024 bytes, without '.' or '..' between slashes",
            };
            return Err(Error::config(why).with("key", shown));
        }
        Ok(())
    }

    /// Rejects a start of keys that could leave the remote.
    pub(crate) fn check_prefix(self, prefix: &str) -> Result<()> {
        let bare = if self == Self::Object { prefix } else { prefix.strip_suffix('/').unwrap_or(prefix) };
        if prefix.is_empty() { Ok(()) } else { self.check(bare) }
    }
}

/// Rejects keys that are not relative paths.
pub(crate) fn check_key(key: &str) -> Result<()> {
    KeyForm::Path.check(key)
}

/// Characters that are encoded in a path: all but unreserved ones and '/', as S3 signs it.
const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Encodes a path. Its slashes stay.
pub(crate) fn encode_path(key: &str) -> String {
    utf8_percent_encode(key, &ENCODED).to_string()
}

/// Encodes a prefix, with a slash at its end unless it is empty.
pub(crate) fn encode_prefix(prefix: &str) -> String {
    if prefix.is_empty() { String::new() } else { format!("{}/", encode_path(prefix)) }
}

/// Returns a prefix with a slash at its end unless it is empty, not encoded.
pub(crate) fn with_slash(prefix: String) -> String {
    if prefix.is_empty() { prefix } else { prefix + "/" }
}

const ENCODED_COMPONENT: AsciiSet = ENCODED.add(b'/');

/// Encodes a text as one part of a path.
pub(crate) fn encode_component(text: &str) -> String {
    utf8_percent_encode(text, &ENCODED_COMPONENT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_cannot_leave_its_remote() {
        for key in ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\nb", "a\\b", &"x".repeat(1025)] {
            assert!(check_key(key).is_err(), "{key:?}");
        }
        check_key("a/b c/ü+%.mds.zstd").expect("fine");
        for key in ["", "..", "a/../b", "./a", "a//../b", &"x".repeat(1025)] {
            assert!(KeyForm::Object.check(key).is_err(), "{key:?}");
        }
        for key in ["", "/a", "a//b", "..", "a/../b", "a\0b", &"x".repeat(4095)] {
            assert!(KeyForm::File.check(key).is_err(), "{key:?}");
        }
        for key in ["a\\b", "a\nb/c", &"x".repeat(1025)] {
            KeyForm::File.check(key).expect(key);
        }
        for key in ["a//b", "/a", "a///b/c", "//", "a\\b", "a\n\u{1}b"] {
            KeyForm::Object.check(key).expect(key);
            KeyForm::Object.check_prefix(key).expect(key);
            assert!(KeyForm::Path.check_prefix(key).is_err(), "{key:?}");
        }
        assert_eq!(encode_path("a/b c/ü+%.mds"), "a/b%20c/%C3%BC%2B%25.mds");
        assert_eq!(encode_component("refs/pr/1"), "refs%2Fpr%2F1");
    }
}
