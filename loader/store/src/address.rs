//! Addresses as texts: schemes, and the secrets that messages must not have.

use super::key::encode_path;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::cmp::Reverse;

/// Schemes of the engine's own transports, and the one outside that is used most.
pub(super) const SUPPORTED: [&str; 12] =
    ["file", "http", "https", "s3", "gs", "azure", "azure-dl", "wasbs", "hf", "oci", DBFS, SFTP];

/// Scheme of remotes without a server, which have one slash.
pub(super) const DBFS: &str = "dbfs";

pub(super) const SFTP: &str = "sftp";

/// Schemes without any transport, and the scheme to use instead.
pub(super) const UNSUPPORTED: [(&str, &str); 2] = [
    (
        "r2",
        "R2 has the protocol of S3: use s3://BUCKET/folder, with \
         AWS_ENDPOINT_URL=https://ACCOUNT.r2.cloudflarestorage.com, AWS_REGION=auto and the keys of an R2 token in \
         AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    ("alipan", "copy the data set to a folder, or to a supported store"),
];

pub(super) fn instead_of(scheme: &str) -> Option<&'static str> {
    UNSUPPORTED.iter().find(|(known, _)| *known == scheme).map(|(_, instead)| *instead)
}

/// Returns true if `name` is an address, or meant as one, rather than a path: it starts with a scheme of at least two
/// letters, and a slash; or it has a user, as scp's `user:password@host:path`.
pub fn is_url(name: &str) -> bool {
    has_scheme(name) || !Address::of(name).user.is_empty()
}

fn has_scheme(name: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.len() > 1
            && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    name.split_once(":/").is_some_and(|(scheme, _)| is_scheme(scheme))
}

/// Schemes in which `@` is part of a remote's name. The part before it is a secret only with a colon, which no name
/// has.
const WITHOUT_USERS: [&str; 4] = ["azure", "azure-dl", "oci", "wasbs"];

/// Returns a remote for messages and logs, without the user name, password, parameters, query and fragment of its
/// address.
pub fn redact(remote: &str) -> Cow<'_, str> {
    let address = Address::of(remote);
    match address.user {
        "" => remote[..remote.len() - address.tail.len()].into(),
        _ => format!("{}...{}", address.start, address.server_and_path).into(),
    }
}

/// Shortest part of a secret that is cut wherever it is. Shorter ones are in most texts by chance.
const SECRET_BYTES_MIN: usize = 4;

/// Returns a text of a library about `remote`, without the secrets of its address. Such a text may have only a
/// part of them, because libraries split and encode addresses by different rules.
pub fn redact_in<'a>(text: &'a str, remote: &str) -> Cow<'a, str> {
    let Address { user, tail, .. } = Address::of(remote);
    if user.is_empty() && tail.is_empty() {
        return text.into();
    }
    let mut text = text.replace(remote, &redact(remote));
    if !user.is_empty() {
        text = text.replace(&format!("{user}@"), "...@");
    }
    let parts = [user, tail].into_iter().flat_map(|secret| {
        let coarse = secret.split(['/', '?', '#', '&', ';']);
        let fine = secret.split(['/', '?', '#', '&', ';', ':', '=', '@']);
        std::iter::once(secret).chain(coarse).chain(fine).map(str::to_owned)
    });
    let with_encoded = |part: String| {
        let decoded = percent_decode_str(&part).decode_utf8_lossy().into_owned();
        [encode_path(&part), decoded, part]
    };
    let long = parts.flat_map(with_encoded).filter(|part| part.len() >= SECRET_BYTES_MIN);
    let mut secrets: Vec<String> = long.collect();
    // A secret goes before its parts.
    secrets.sort_by_key(|secret| Reverse(secret.len()));
    secrets.iter().fold(text, |text, secret| text.replace(secret, "...")).into()
}

/// Parts of a remote, in their order. A path without secrets is all `start`.
#[derive(Default)]
pub(super) struct Address<'a> {
    /// Scheme, colon and slashes.
    start: &'a str,
    /// User name and password; empty without them.
    pub(super) user: &'a str,
    /// Server and path; after a user it begins with `@`.
    server_and_path: &'a str,
    /// Parameters of the path, query and fragment.
    pub(super) tail: &'a str,
}

/// Returns the position of the first `name=` after one of `marks`, which belongs to it.
fn parameters_at(text: &str, marks: &[char]) -> Option<usize> {
    let is_parameter = |after: &str| {
        let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')));
        end.is_some_and(|end| end > 0 && after[end..].starts_with('='))
    };
    text.match_indices(marks).map(|(at, _)| at).find(|at| is_parameter(&text[at + 1..]))
}

/// Returns true for a path with `?name=value`.
pub(super) fn has_query(path: &str) -> bool {
    parameters_at(path, &['?']).is_some()
}

/// Splits `user:password@host:path`, as scp has it, before the last `@`.
fn scp_user(name: &str) -> Option<(&str, &str)> {
    let (user, host) = name.split_at(name.rfind('@')?);
    let is_user = user.split_once(':').is_some_and(|(user, _)| !user.is_empty() && !user.contains('/'));
    let is_host = host.split(['/', ':']).next().is_some_and(|name| host[name.len()..].starts_with(':'));
    (is_user && is_host).then_some((user, host))
}

impl<'a> Address<'a> {
    pub(super) fn of(remote: &'a str) -> Self {
        // Without a scheme only a user or a query makes it an address.
        let (server_and_path, tail) = remote.split_at(parameters_at(remote, &['?']).unwrap_or(remote.len()));
        let path = match scp_user(server_and_path) {
            Some((user, server_and_path)) => Self { start: "", user, server_and_path, tail },
            None => Self { start: server_and_path, tail, ..Self::default() },
        };
        let is_bare = remote.starts_with("//");
        let (scheme, rest) = match remote.split_once(':') {
            _ if is_bare => ("", remote),
            Some(parts) => parts,
            None => return path,
        };
        let is_known = SUPPORTED.contains(&scheme) || instead_of(scheme).is_some();
        // The part before `://` need not be a known scheme.
        if !(is_bare || is_known || rest.starts_with("//") || has_scheme(remote)) {
            return path;
        }
        let (start, rest) = remote.split_at(remote.len() - rest.trim_start_matches('/').len());
        // A query may be encoded by mistake, or its start may be missing.
        let ends = ["?", "#", "%3F", "%3f", "%23"].iter().filter_map(|end| rest.find(end));
        let tail_at = ends.chain(parameters_at(rest, &['&', ';'])).min().unwrap_or(rest.len());
        let (server_and_path, tail) = rest.split_at(tail_at);
        // A password may contain any of `/@?#`, unencoded by mistake: it ends at the last `@`.
        let server = server_and_path.split('/').next().unwrap_or_default();
        let has_user = if WITHOUT_USERS.contains(&scheme) {
            server.split('@').next().is_some_and(|name| name.contains(':'))
        } else {
            server.contains(['@', ':'])
        };
        match server_and_path.rfind('@') {
            _ if has_user && tail.contains('@') => Self { start, user: rest, ..Self::default() },
            Some(at) if has_user => {
                Self { start, user: &server_and_path[..at], server_and_path: &server_and_path[at..], tail }
            }
            _ if is_bare => path,
            _ => Self { start, user: "", server_and_path, tail },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_an_address_are_not_shown() {
        for (remote, shown) in [
            ("https://h/x?X-Amz-Signature=secret", "https://h/x"),
            ("https://h/x?sig=a@secret", "https://h/x"),
            ("https://h/x#secret", "https://h/x"),
            ("s3://bucket/x?versionId=secret", "s3://bucket/x"),
            ("wasbs://box@account/x?sig=secret", "wasbs://box@account/x"),
            ("oci://me:secret@namespace/x", "oci://...@namespace/x"),
            ("http://me:sec/ret@h/x", "http://...@h/x"),
            ("http://me:sec@ret@h/x", "http://...@h/x"),
            ("sftp://me:secret@h/a@b", "sftp://...@b"),
            ("http://me@sec/ret@h/x", "http://...@h/x"),
            ("http://me:sec?ret@h/x", "http://..."),
            ("http://me:sec#ret@h/x?y", "http://..."),
            ("https:me:sec/ret@h", "https:...@h"),
            ("http://h:81/x?y=secret", "http://h:81/x"),
            ("http://h/x%3Fsig=secret", "http://h/x"),
            ("http://h/x%3fsig=secret#y", "http://h/x"),
            ("//me:secret@h/x", "//...@h/x"),
            ("//me:sec/ret@h/x", "//...@h/x"),
            ("//secret@h/x?y", "//...@h/x"),
            ("http://h/x;jsessionid=secret/y", "http://h/x"),
            ("http://h/x&sig=sec/ret", "http://h/x"),
            ("s3://bucket/x;token=secret?y", "s3://bucket/x"),
            ("me:secret@h:/x", "...@h:/x"),
            ("me:sec/ret@h:x", "...@h:x"),
            ("me:secret@h:/x?token=secret", "...@h:/x"),
            ("/data/x?token=secret", "/data/x"),
            ("bucket/x?X-Amz-Signature=secret", "bucket/x"),
        ] {
            assert_eq!(redact(remote), shown);
        }
    }

    #[test]
    fn secrets_of_an_address_are_cut_from_the_text_of_a_different_library() {
        for (remote, text, shown) in [
            ("s3://AKIA:secret@b/x", "no bucket AKIA:secret@b", "no bucket ...@b"),
            ("s3://AKIA:secret@b/x", "no bucket AKIA%3Asecret%40b", "no bucket ...%40b"),
            ("s3://AKIA:sec%2Fret@b/x", "wrong password sec/ret", "wrong password ..."),
            ("sftp://me:secret@h/x", "cannot open sftp://me:secret@h/x", "cannot open sftp://...@h/x"),
            ("sftp://me:secret@h/x", "'secret' is wrong for me", "'...' is wrong for me"),
            ("http://h/x?sig=secret", "no key x?sig=secret", "no key x..."),
            ("http://h/x?sig=secret", "no parameter secret", "no parameter ..."),
            ("http://h/x;jsessionid=secret", "no key x;jsessionid=secret", "no key x..."),
            ("me:secret@h:/x", "'secret' is wrong", "'...' is wrong"),
            ("http://me@h/x", "me@h is unknown", "...@h is unknown"),
            ("http://h/x", "no key x at http://h/x", "no key x at http://h/x"),
            ("/data/a?b#c", "no /data/a?b#c", "no /data/a?b#c"),
        ] {
            assert_eq!(redact_in(text, remote), shown);
        }
    }

    /// The same names are in Python's `test_reader_writer_and_loader_agree_on_the_form_of_a_url`.
    #[test]
    fn a_name_with_a_scheme_or_a_user_is_an_address() {
        for name in ["s3://b/x", "s3:/b/x", "azure-dl://c/x", "HTTP://h", "file:///x", "me:y@h:/x", "//me:y@h/x"] {
            assert!(is_url(name), "{name}");
        }
        for name in ["data", "/data/x://y", "C:/data", "a b:/c", "://x", "data:x", "9p:/x", "git@h:x", "data/a?b=c"] {
            assert!(!is_url(name), "{name}");
        }
    }
}
