//! Requests that go wrong on purpose.

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection closes after this many bytes of the body.
    CutAfter(u64),
    /// The body stands still after this many bytes, until [`release`](super::ObjectServer::release).
    StallAfter(u64),
    /// Nothing but this status, with `Retry-After` in seconds.
    Status(u16, Option<u64>),
    /// Another place to look.
    Redirect(u16, String),
    /// The right bytes, and a `Content-Range` that starts this many bytes further.
    ShiftContentRange(u64),
    /// A partial answer without `Content-Range`.
    NoContentRange,
    /// `Content-Length` says this much more than is sent.
    LieLength(u64),
    /// An entity tag that no other answer has.
    OtherETag,
    /// No entity tag and no time.
    NoVersion,
    /// The whole object, as from a server that does not know ranges.
    IgnoreRange,
    /// Only the first bytes of the asked range, as the standard allows.
    Shorten(u64),
    /// The byte at this offset of the object is flipped.
    FlipByte(u64),
    /// No `Content-Length`: the body comes in chunks.
    Chunked,
}

/// Which requests a fault happens to.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The path contains this.
    pub(super) path: String,
    /// Matching requests that are let through first.
    pub(super) after: u64,
    /// Matching requests that go wrong then.
    pub(super) times: u64,
    pub(super) fault: Fault,
}

impl Rule {
    /// `fault` for the next request whose path contains `path`.
    pub fn once(path: impl Into<String>, fault: Fault) -> Self {
        Self { path: path.into(), after: 0, times: 1, fault }
    }

    /// `fault` for every request whose path contains `path`.
    pub fn always(path: impl Into<String>, fault: Fault) -> Self {
        Self { times: u64::MAX, ..Self::once(path, fault) }
    }

    /// For `times` requests.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self { times, ..self }
    }

    /// Lets `after` matching requests through first.
    #[must_use]
    pub fn after(self, after: u64) -> Self {
        Self { after, ..self }
    }
}

/// The fault for a request of `path`, if any; uses the rule up.
pub(super) fn fault(rules: &mut [Rule], path: &str) -> Option<Fault> {
    for rule in rules.iter_mut().filter(|rule| rule.times > 0 && path.contains(&rule.path)) {
        if rule.after > 0 {
            rule.after -= 1;
            continue;
        }
        rule.times -= 1;
        return Some(rule.fault.clone());
    }
    None
}
