//! Scripted faults of requests.

/// Fault of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection closes after this many bytes of the body.
    CutAfter(u64),
    /// The body stalls after this many bytes, until [`release`](super::ObjectServer::release). A request that writes or
    /// lists gets no answer until then.
    StallAfter(u64),
    /// Every byte after this many waits for a [`release`](super::ObjectServer::release).
    DripAfter(u64),
    /// This status only, with `Retry-After` in seconds.
    Status(u16, Option<u64>),
    /// This status with a text where every byte waits for a [`release`](super::ObjectServer::release).
    DripStatus(u16),
    /// This status with this text.
    Text(u16, String),
    /// This text, with the number of the request instead of each `#`, and this header if it is named.
    Page(String, Option<(&'static str, String)>),
    /// Redirection with this status to this address.
    Redirect(u16, String),
    /// Correct bytes with a `Content-Range` that starts this many bytes later.
    ShiftContentRange(u64),
    /// A partial answer without `Content-Range`.
    NoContentRange,
    /// `Content-Length` exceeds the sent bytes by this many.
    ExcessLength(u64),
    /// An entity tag that only this answer has.
    OtherETag,
    /// The entity tag of a write as a weak one, as some proxies answer.
    WeakETag,
    /// No entity tag and no time.
    NoVersion,
    /// The whole object, as from a server that does not support ranges.
    IgnoreRange,
    /// Only the first bytes of the asked range, as the standard allows.
    Shorten(u64),
    /// The byte at this offset of the object is flipped, or of the request's body if it has one.
    FlipByte(u64),
    /// No `Content-Length`: the body comes in chunks.
    Chunked,
    /// The whole object in chunks, as Google sends one that is stored with `Content-Encoding: gzip`, unpacked on the
    /// way.
    Unpacked,
    /// The object as it is stored, with this `Content-Encoding`.
    Encoded(&'static str),
    /// The connection closes, and the request has no effect.
    Reset,
    /// The connection closes after the request has had its effect. For requests that write or list.
    LoseAnswer,
    /// The connection closes after the request has had its effect, and a second client has then stored this object: its
    /// key, or nothing for the request's own, and its bytes.
    Overwrite(&'static str, Vec<u8>),
}

/// Fault and the requests that it applies to.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Substring of the method, a blank, and the path with its query.
    pub(super) path: String,
    /// Matching requests that are served before the first fault.
    pub(super) after: u64,
    /// Matching requests that fail after those.
    pub(super) times: u64,
    pub(super) fault: Fault,
}

impl Rule {
    /// Returns a rule with `fault` for the next request with a method and address that contain `path`.
    pub fn once(path: impl Into<String>, fault: Fault) -> Self {
        Self { path: path.into(), after: 0, times: 1, fault }
    }

    /// Returns a rule with `fault` for every request with a method and address that contain `path`.
    pub fn always(path: impl Into<String>, fault: Fault) -> Self {
        Self { times: u64::MAX, ..Self::once(path, fault) }
    }

    /// Applies the fault to `times` requests.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    /// Serves `after` matching requests before the first fault.
    #[must_use]
    pub fn after(self, after: u64) -> Self {
        Self { after, ..self }
    }
}

/// Returns the fault for a request of `path`, a method and an address, if any, and counts it.
pub(super) fn fault(rules: &mut [Rule], path: &str) -> Option<Fault> {
    for rule in rules.iter_mut().filter(|rule| rule.times > 0 && path.contains(&rule.path)) {
        if matches!(rule.fault, Fault::FlipByte(_)) && (path.starts_with("PUT") || path.starts_with("POST")) {
            // A fault of the body, not of the response.
            continue;
        }
        if rule.after > 0 {
            rule.after -= 1;
            continue;
        }
        rule.times -= 1;
        return Some(rule.fault.clone());
    }
    None
}

/// Returns the offset of the byte to flip in the body of a request, if that is its fault, and counts it.
pub(super) fn flip(rules: &mut [Rule], path: &str, len: usize) -> Option<usize> {
    let rule = rules.iter_mut().find(|rule| rule.times > 0 && path.contains(&rule.path))?;
    match rule.fault {
        Fault::FlipByte(at) if rule.after == 0 && (at as usize) < len => {
            rule.times -= 1;
            Some(at as usize)
        }
        _ => None,
    }
}
