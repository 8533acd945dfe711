//! Versions of files and objects, by which a job notices that one was replaced while it was running.
//!
//! A folder has one table, [`Versions`]. A listing puts the versions in it that it has, and the first response for a
//! file puts in the version that no listing had. Every later response is compared with that version. Only a proof of a
//! change is one:
//!
//! * Two versions of different forms have different origins, such as the MD5 digest in a listing and the SHA-256
//!   digest in a response, and are not compared.
//! * The tags of a store are equal for equal content. Several web servers behind one address may have different tags,
//!   since they often follow from the time at which the server got its copy. A different tag of a web server is a proof
//!   if the file was changed after it was seen first, by the servers' own clocks.
//! * So is a different time of the last change, where there is no tag.
//!
//! An entry has digests instead of texts: a data set may have millions of files.

mod files;

pub use files::FileFacts;

use crate::error::{Error, ErrorKind};
use crate::sync::{Arc, Mutex};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Most entries, which take some 64 MiB. Files beyond them are not compared.
const ENTRIES_MAX: usize = 1 << 21;

/// Start of a record: its form and the program's version, which has the hashes in it.
const RECORD: &str = concat!("1 ", env!("CARGO_PKG_VERSION"));

/// Version in a response, with its times in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// Strong entity tag, or the time of the last change if there is none.
    pub text: &'a str,
    /// `text` is the time of the last change.
    pub is_time: bool,
    /// Time of the last change.
    pub modified_s: Option<u64>,
    /// Time of the response.
    pub answered_s: Option<u64>,
    /// Equal content has equal tags, whichever server responds.
    pub is_of_content: bool,
}

/// Origin of a version, as far as its text shows that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// MD5 digest.
    Md5,
    /// MD5 digest of the digests of parts: some stores list it for an object that they return with the digest of all
    /// its bytes.
    Md5OfParts,
    /// Digest of a different kind, with its number of digits.
    Digest(u8),
    /// Numbers, as of a file of this machine, and how many there are.
    Numbers(u8),
    /// Time of the last change.
    Time,
    /// Text of an unknown form, with its length.
    Other(u8),
}

#[derive(Clone, Copy, Debug)]
struct Known {
    version: u64,
    /// Time of the response, in seconds since 1970; 0 if it is not known.
    answered_s: u32,
    form: Form,
    /// It is from a response with a tag that is equal for equal content.
    is_of_content: bool,
}

/// Versions of the files of a folder, by their keys.
#[derive(Debug, Default)]
pub struct Versions {
    /// Entries that copies share, which do not change.
    base: Arc<HashMap<u64, Known>>,
    /// All further entries.
    table: Mutex<HashMap<u64, Known>>,
}

impl Versions {
    /// Notes the version that a listing has of the file `key`: an entity tag, with or without quotation marks. A
    /// version that is known already stays: the file was replaced after that, which the next response shows.
    pub fn expect(&self, key: &str, tag: &str) {
        if tag.is_empty() || is_weak(tag) {
            return;
        }
        let (version, form) = (digest(unquoted(tag)), Form::of_tag(unquoted(tag)));
        let (key, mut table) = (digest(key), self.table.lock());
        if !table.contains_key(&key) && !self.base.contains_key(&key) {
            insert(&mut table, key, Known { version, answered_s: 0, form, is_of_content: false });
        }
    }

    /// Compares the version that was `found` of the file `key` with the known one. Returns true if the file has
    /// changed.
    pub fn is_changed(&self, key: &str, found: Found<'_>) -> bool {
        let text = if found.is_time { found.text } else { unquoted(found.text) };
        let form = if found.is_time { Form::Time } else { Form::of_tag(text) };
        let answered_s = found.answered_s.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(0);
        let is_of_content = found.is_of_content && !found.is_time;
        let now = Known { version: digest(text), answered_s, form, is_of_content };
        let (key, mut table) = (digest(key), self.table.lock());
        let Some(known) = table.get(&key).or_else(|| self.base.get(&key)).copied() else {
            insert(&mut table, key, now);
            return false;
        };
        if known.form != form {
            // From now on responses are compared with responses.
            if known.answered_s == 0 && known.form != Form::Time {
                insert(&mut table, key, now);
            }
            return false;
        }
        if known.version == now.version {
            return false;
        }
        if is_of_content {
            return true;
        }
        // A file that is older than its first response is a copy on a second server.
        match (found.modified_s, known.answered_s) {
            (Some(modified_s), seen_s) if seen_s > 0 => modified_s >= u64::from(seen_s),
            _ => true,
        }
    }

    /// Returns a text for the version of the object `key` that this process has read. A copy of the object on disk has
    /// it as an attribute, which further processes compare. `None` for a version that proves nothing to them.
    pub fn record(&self, key: &str) -> Option<String> {
        let (key, table) = (digest(key), self.table.lock());
        let known = table.get(&key).or_else(|| self.base.get(&key)).filter(|known| known.is_of_content)?;
        Some(format!("{RECORD} {} {:016x}", known.form.number(), known.version))
    }

    /// Compares the version of the object `key` that a [`record`](Self::record) has with the known one, like
    /// [`is_changed`](Self::is_changed). A record of a different program is not compared.
    pub fn is_changed_record(&self, key: &str, record: &str) -> bool {
        let parsed = record.strip_prefix(RECORD).and_then(|rest| {
            let (form, version) = rest.trim_start().split_once(' ')?;
            Some((Form::of_number(form.parse().ok()?)?, u64::from_str_radix(version, 16).ok()?))
        });
        let Some((form, version)) = parsed else { return false };
        let (key, mut table) = (digest(key), self.table.lock());
        match table.get(&key).or_else(|| self.base.get(&key)) {
            Some(known) => known.form == form && known.version != version,
            None => {
                insert(&mut table, key, Known { version, answered_s: 0, form, is_of_content: true });
                false
            }
        }
    }

    /// Returns the entries as the start of tables that [`copy`](Self::copy) makes.
    pub fn frozen(&self) -> Self {
        let mut all = (*self.base).clone();
        // A copy: streams with the same address share this table.
        all.extend(self.table.lock().iter().map(|(key, known)| (*key, *known)));
        Self { base: Arc::new(all), table: Mutex::default() }
    }

    /// Returns a table with the [`frozen`](Self::frozen) entries. It waits for no lock, so a forked process may call
    /// it.
    pub fn copy(&self) -> Self {
        Self { base: self.base.clone(), table: Mutex::default() }
    }
}

fn insert(table: &mut HashMap<u64, Known>, key: u64, known: Known) {
    if table.len() < ENTRIES_MAX || table.contains_key(&key) {
        table.insert(key, known);
    }
}

impl Form {
    fn of_tag(text: &str) -> Self {
        let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let len = u8::try_from(text.len()).unwrap_or(u8::MAX);
        match text.split_once('-') {
            None if is_hex(text) && len == 32 => Self::Md5,
            Some((digest, parts)) if is_hex(digest) && digest.len() == 32 && is_number(parts) => Self::Md5OfParts,
            None if is_hex(text) && matches!(len, 40 | 64 | 96 | 128) => Self::Digest(len),
            _ if text.contains('-') && text.split('-').all(is_number) => {
                Self::Numbers(u8::try_from(text.split('-').count()).unwrap_or(u8::MAX))
            }
            _ => Self::Other(len),
        }
    }
}

impl Form {
    /// Number in a record: the kind, and the count of its digits or numbers in the last byte.
    fn number(self) -> u16 {
        match self {
            Self::Md5 => 0,
            Self::Md5OfParts => 1 << 8,
            Self::Digest(count) => 2 << 8 | u16::from(count),
            Self::Numbers(count) => 3 << 8 | u16::from(count),
            Self::Time => 4 << 8,
            Self::Other(count) => 5 << 8 | u16::from(count),
        }
    }

    fn of_number(number: u16) -> Option<Self> {
        let [kind, count] = number.to_be_bytes();
        Some(match kind {
            0 => Self::Md5,
            1 => Self::Md5OfParts,
            2 => Self::Digest(count),
            3 => Self::Numbers(count),
            4 => Self::Time,
            5 => Self::Other(count),
            _ => return None,
        })
    }
}

/// Returns true if `found` differs from the entity tag in a listing, and has the same origin.
pub fn is_different(listed: &str, found: &str) -> bool {
    let (listed, found) = (unquoted(listed), unquoted(found));
    !is_weak(listed) && listed != found && Form::of_tag(listed) == Form::of_tag(found)
}

/// Returns the error for a file that has changed.
pub fn changed() -> Error {
    let message = "the file was replaced or changed while the job was running, so the samples are of two data sets: \
                   start the job again, and write changed files under new names";
    Error::new(ErrorKind::Stale, message)
}

fn is_weak(tag: &str) -> bool {
    tag.starts_with("W/")
}

fn unquoted(tag: &str) -> &str {
    tag.trim_matches('"')
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(text: &str) -> Found<'_> {
        Found { text, is_time: false, modified_s: None, answered_s: Some(1000), is_of_content: true }
    }

    #[test]
    fn a_response_is_compared_with_the_listing_and_with_the_first_response() {
        let versions = Versions::default();
        versions.expect("listed", "0123456789abcdef0123456789abcdef");
        assert!(!versions.is_changed("listed", tag("\"0123456789abcdef0123456789abcdef\"")));
        assert!(versions.is_changed("listed", tag("\"0123456789abcdef0123456789abcdee\"")));
        assert!(!versions.is_changed("second", tag("\"a\"")));
        assert!(!versions.is_changed("second", tag("\"a\"")));
        assert!(versions.is_changed("second", tag("\"b\"")));
        assert!(versions.is_changed("second", tag("\"b\"")), "the first one stays");
    }

    #[test]
    fn versions_of_different_origins_are_not_compared_and_the_first_response_replaces_the_listing() {
        let (git, sha) = ("a".repeat(40), "b".repeat(64));
        for (listed, first) in [
            (&*git, &*sha),
            ("CPjHxQ0=", "0123456789abcdef0123456789abcdef"),
            ("7-1-2-3", "\"x\""),
            ("0123456789abcdef0123456789abcdef-3", "\"0123456789abcdef0123456789abcdef\""),
            ("0123456789abcdef0123456789abcdef", "\"0123456789abcdef0123456789abcdef-3\""),
            ("W/\"a\"", "\"b\""),
        ] {
            let versions = Versions::default();
            versions.expect("k", listed);
            assert!(!versions.is_changed("k", tag(first)), "{listed} {first}");
            let other: String = first.chars().map(|c| if c == 'b' || c == 'x' || c == '0' { 'c' } else { c }).collect();
            assert!(versions.is_changed("k", tag(&other)), "{listed} {first} {other}");
        }
        let versions = Versions::default();
        let time = Found { is_time: true, ..tag("Fri, 20 Nov 2026 10:00:00 GMT") };
        assert!(!versions.is_changed("k", tag("\"a\"")));
        assert!(!versions.is_changed("k", time), "a server without tags");
        assert!(versions.is_changed("k", tag("\"b\"")));
    }

    #[test]
    fn different_tags_of_web_servers_are_a_change_if_the_file_is_newer_than_its_first_response() {
        let of_server = |text, modified_s| Found { modified_s: Some(modified_s), is_of_content: false, ..tag(text) };
        let versions = Versions::default();
        assert!(!versions.is_changed("k", of_server("\"5f-1a\"", 400)));
        assert!(!versions.is_changed("k", of_server("\"60-1a\"", 401)), "a copy on a second server");
        assert!(!versions.is_changed("k", of_server("\"5f-1a\"", 400)));
        assert!(versions.is_changed("k", of_server("\"61-1a\"", 1000)), "changed in the second of the first response");
        let time = |text, modified_s| Found { is_time: true, ..of_server(text, modified_s) };
        assert!(!versions.is_changed("t", time("early", 400)));
        assert!(!versions.is_changed("t", time("earlier", 300)));
        assert!(versions.is_changed("t", time("late", 2000)));
    }

    #[test]
    fn a_later_listing_does_not_replace_a_version_that_the_job_has_read() {
        let versions = Versions::default();
        assert!(!versions.is_changed("k", tag("\"a\"")));
        versions.expect("k", "b");
        assert!(versions.is_changed("k", tag("\"b\"")), "a second stream lists the replaced file");
        let of_copy = versions.frozen().copy();
        of_copy.expect("k", "b");
        assert!(of_copy.is_changed("k", tag("\"b\"")));
        let listed = Versions::default();
        listed.expect("k", "a");
        listed.expect("k", "b");
        assert!(listed.is_changed("k", tag("\"b\"")) && !listed.is_changed("k", tag("\"a\"")));
    }

    #[test]
    fn a_record_of_a_version_is_compared_by_every_process() {
        let (one, two) = (Versions::default(), Versions::default());
        one.expect("listed", "a");
        for (key, found) in [("k", tag("\"a\"")), ("t", Found { is_time: true, ..tag("early") })] {
            assert!(!one.is_changed(key, found));
        }
        // Listings are compared by each process, and times come from one server.
        assert_eq!([one.record("listed"), one.record("t"), one.record("absent")], [None, None, None]);
        let record = one.record("k").unwrap();
        assert!(!two.is_changed_record("k", &record), "the first version that it sees");
        assert!(!two.is_changed("k", tag("\"a\"")) && two.is_changed("k", tag("\"b\"")));
        let three = Versions::default();
        assert!(!three.is_changed("k", tag("\"b\"")));
        assert!(three.is_changed_record("k", &record));
        for foreign in ["", "1", "2 0 0", &record[1..], &record[..record.len() - 18]] {
            assert!(!three.is_changed_record("k", foreign), "{foreign}");
        }
        let forms = [Form::Md5, Form::Md5OfParts, Form::Digest(64), Form::Numbers(4), Form::Time, Form::Other(9)];
        forms.iter().for_each(|form| assert_eq!(Form::of_number(form.number()), Some(*form)));
    }

    #[test]
    fn tags_of_one_origin_are_compared() {
        let (md5, joined) = ("a".repeat(32), format!("{}-3", "a".repeat(32)));
        assert!(is_different("abc", "\"abd\"") && is_different(&joined, &format!("{}-3", "b".repeat(32))));
        assert!(!is_different(&md5, &joined) && !is_different(&joined, &md5));
        assert!(!is_different("abc", "\"abc\"") && !is_different(&md5, "abc") && !is_different("W/\"a\"", "W/\"b\""));
    }

    #[test]
    fn copies_share_frozen_entries_and_have_their_own_responses() {
        let versions = Versions::default();
        versions.expect("k", "a");
        let (frozen, again) = (versions.frozen(), versions.frozen());
        assert!(again.is_changed("k", tag("\"b\"")), "a stream with the same address");
        let (one, two) = (frozen.copy(), frozen.copy());
        assert!(one.is_changed("k", tag("\"b\"")) && two.is_changed("k", tag("\"b\"")));
        assert!(!one.is_changed("new", tag("\"a\"")) && !two.is_changed("new", tag("\"b\"")));
        assert!(one.is_changed("new", tag("\"b\"")));
    }

    #[test]
    fn the_table_has_a_bound_and_known_files_are_still_compared() {
        let versions = Versions::default();
        assert!(!versions.is_changed("k", tag("\"a\"")));
        let mut table = versions.table.lock();
        let known = *table.values().next().expect("an entry");
        (0..ENTRIES_MAX as u64).for_each(|key| {
            table.entry(key).or_insert(known);
        });
        drop(table);
        assert!(!versions.is_changed("new", tag("\"a\"")));
        assert!(!versions.is_changed("new", tag("\"b\"")), "not in the table");
        assert!(versions.is_changed("k", tag("\"b\"")));
    }
}
