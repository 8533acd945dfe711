//! Megatron's files of token ids.

use super::extension::ends_with;
use super::kind::{FileKind, Pair};

/// Extension of a file of token ids.
const BIN: &str = ".bin";

/// Extension of its index.
const IDX: &str = ".idx";

/// Files of token ids, each with an `.idx` of the same name: ranges of them are the shards.
pub static TOKENS: FileKind = FileKind {
    name: "tokens",
    noun: "bin",
    extensions: BIN,
    hints: &[BIN],
    is_of: |name| Ok(ends_with(name, BIN)),
    pair: Some(Pair { first: BIN, second: IDX }),
    ..FileKind::LISTED
};

/// Returns the name of the `.idx` file of the `.bin` file `name`.
pub fn idx_of(name: &str) -> String {
    let stem = if ends_with(name, BIN) { &name[..name.len() - BIN.len()] } else { name };
    format!("{stem}{IDX}")
}
