//! `forebay cat`: the bytes of objects.

use crate::addresses::{Address, Found};
use crate::reading::{Piece, Reading};
use crate::tally::Tally;
use crate::{Command, Exit, Session};
use clap::Args;
use forebay_loader::objects::{ObjectEntry, Objects};
use forebay_loader::store::redact;
use forebay_loader::sync::Arc;
use forebay_loader::{Error, ErrorKind, Result};

/// Print the bytes of objects, one after the other
///
/// The bytes are the ones that the store has: nothing is unpacked. They are fetched ahead in a few requests at once,
/// within 64 MiB of memory.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  forebay cat s3://bucket/train/index.json
  forebay cat --range 0-99 s3://bucket/train-000.tar | xxd
  forebay cat 's3://bucket/texts-{00..31}.jsonl' | head")]
pub(crate) struct CatArgs {
    /// Object, or pattern of objects
    #[arg(required = true, value_name = "ADDRESS")]
    addresses: Vec<String>,
    /// First and last byte of each object, from 0, as in 0-99; without the last one, the rest
    #[arg(long, value_name = "A-B", value_parser = byte_range)]
    range: Option<ByteRange>,
}

/// Most bytes of an object in flight or ready.
const AHEAD_BYTES: u64 = 64 << 20;

/// Part of an object: its first byte, and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByteRange {
    first: u64,
    len: Option<u64>,
}

fn byte_range(text: &str) -> Result<ByteRange, String> {
    let wrong = || "a range is as in 0-99 or 100-".to_owned();
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    let first = number(first)?;
    if last.is_empty() {
        return Ok(ByteRange { first, len: None });
    }
    let len = number(last)?.checked_sub(first).and_then(|len| len.checked_add(1));
    Ok(ByteRange { first, len: Some(len.ok_or("the last byte is before the first one")?) })
}

impl Command for CatArgs {
    fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    fn run(&self, session: &Session) -> Result<Exit> {
        let objects = session.objects()?;
        let print = |address: &Address, tally: &mut Tally| self.print(session, &objects, address, tally);
        let tally = Tally::of_addresses(&self.addresses, session, print);
        Ok(tally.exit())
    }
}

impl CatArgs {
    fn print(&self, session: &Session, objects: &Arc<Objects>, address: &Address, tally: &mut Tally) -> Result<()> {
        let one = |url: &str, entry: Option<&ObjectEntry>, tally: &mut Tally| {
            self.print_object(session, objects, url, entry).map(|bytes| tally.count(bytes))
        };
        // A web server has no listing, and other stores need no request for one.
        if !address.is_pattern() {
            return one(&address.url, None, tally);
        }
        match address.find(objects, false)? {
            Found::Object(entry) => one(&entry.url, Some(&entry), tally),
            Found::Several(mut entries) => {
                while let Some(page) = entries.next_page()? {
                    for entry in page.iter().take_while(|_| !session.output.is_closed()) {
                        one(&entry.url, Some(entry), tally).unwrap_or_else(|error| tally.fail(session, &error));
                    }
                }
                Ok(())
            }
        }
    }

    /// Prints an object, and returns its bytes.
    fn print_object(
        &self,
        session: &Session,
        objects: &Arc<Objects>,
        url: &str,
        entry: Option<&ObjectEntry>,
    ) -> Result<u64> {
        let range = self.range.unwrap_or(ByteRange { first: 0, len: None });
        let mut left = range.len.unwrap_or(u64::MAX);
        let reading = Reading::start(objects, url, entry, range.first, AHEAD_BYTES)?;
        let mut printed = 0;
        while left > 0 && !session.output.is_closed() {
            match reading.next() {
                Ok(Piece::Bytes(bytes)) => {
                    let wanted = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    session.output.bytes(&bytes[..wanted]);
                    left -= wanted as u64;
                    printed += wanted as u64;
                }
                Ok(Piece::None | Piece::Begin) => {}
                Ok(Piece::End) => break,
                Err(error) if error.kind() == ErrorKind::Stale && range.first > 0 && printed == 0 => {
                    let message = "the range begins after the end of the object";
                    return Err(Error::config(message).with("first byte", range.first).with("url", redact(url)));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(printed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_a_first_and_perhaps_a_last_byte() {
        for (text, first, len) in [("0-99", 0, Some(100)), ("7-7", 7, Some(1)), ("100-", 100, None)] {
            assert_eq!(byte_range(text), Ok(ByteRange { first, len }), "{text}");
        }
        for text in ["", "-", "-5", "5", "5-3", "a-b", "0-18446744073709551615"] {
            byte_range(text).expect_err(text);
        }
    }
}
