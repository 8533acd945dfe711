//! Address of the next page of a listing, in the header `Link`.

use crate::Error;
use crate::destination::incomplete;
use crate::failure::Failure;
use http::header::{HeaderMap, LINK};

/// Returns the address of the page after `address`, in a header such as `<https://...>; rel="next"`, and `None` without
/// one. A header that is cut or cannot be read is an error: the listing would end early.
pub(super) fn next_page(address: &str, headers: &HeaderMap) -> Result<Option<String>, Failure> {
    for value in headers.get_all(LINK) {
        let bad = || {
            let shown: String = String::from_utf8_lossy(value.as_bytes()).chars().take(200).collect();
            incomplete(&format!("its Link header cannot be read: {}", shown.escape_default()))
        };
        let mut rest = value.to_str().map_err(|_| bad())?;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.is_empty() {
                break;
            }
            let (target, after) = rest.strip_prefix('<').and_then(|link| link.split_once('>')).ok_or_else(bad)?;
            let (relations, after) = relations(after).ok_or_else(bad)?;
            if relations.split_whitespace().any(|relation| relation.eq_ignore_ascii_case("next")) {
                return resolve(address, target).map(Some);
            }
            rest = after;
        }
    }
    Ok(None)
}

/// Returns the value of `rel` among the parameters of a link, which it must have, and the text after them.
fn relations(text: &str) -> Option<(String, &str)> {
    let (mut rest, mut found) = (text.trim_start(), None);
    while let Some(parameter) = rest.strip_prefix(';') {
        let end = parameter.find(['=', ';', ',']).unwrap_or(parameter.len());
        let (name, after) = parameter.split_at(end);
        let (value, after) = match after.strip_prefix('=').map(str::trim_start) {
            None => ("", after),
            Some(after) => match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => after.split_at(after.find([';', ',']).unwrap_or(after.len())),
            },
        };
        if name.trim().eq_ignore_ascii_case("rel") {
            found.get_or_insert_with(|| value.trim().to_owned());
        }
        rest = after.trim_start();
    }
    let is_end = rest.is_empty() || rest.starts_with(',');
    found.filter(|relations| is_end && !relations.is_empty()).map(|relations| (relations, rest))
}

/// Returns the address of a link in the response from `address`.
fn resolve(address: &str, target: &str) -> Result<String, Failure> {
    let base = url::Url::parse(address).map_err(|e| Failure::permanent(Error::internal("no address").caused_by(e)))?;
    match base.join(target) {
        Ok(next) if !target.is_empty() => Ok(next.into()),
        _ => Err(incomplete("its Link header has no address of the next page")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: &str = "https://hub/api/tree/main?recursive=true";

    fn next(links: &[&str]) -> Result<Option<String>, Failure> {
        let values = links.iter().map(|link| (LINK, http::HeaderValue::from_str(link).expect("a header")));
        next_page(ADDRESS, &values.collect())
    }

    #[test]
    fn the_next_page_is_found_in_each_form_of_the_header() {
        for (links, expected) in [
            (&[][..], None),
            (&["<https://hub/a?cursor=x>; rel=\"next\""], Some("https://hub/a?cursor=x")),
            (&["<https://hub/a?cursor=x,y;z>; rel=\"next\""], Some("https://hub/a?cursor=x,y;z")),
            (&["<https://hub/a>;rel=next"], Some("https://hub/a")),
            (
                &["<https://hub/p>; rel=\"prev\", <https://hub/n>; title=\"a, b\"; REL = \"Next last\""],
                Some("https://hub/n"),
            ),
            (&["<https://hub/p>; rel=\"prev first\""], None),
            (&["<https://hub/p>; rel=prev", "<https://hub/n>; rel=next"], Some("https://hub/n")),
            (&["</api/tree/main?cursor=x>; rel=\"next\""], Some("https://hub/api/tree/main?cursor=x")),
        ] {
            assert_eq!(next(links).expect("it can be read").as_deref(), expected, "{links:?}");
        }
    }

    #[test]
    fn a_header_that_is_cut_at_any_byte_is_an_error_and_not_the_end() {
        let whole = "<https://hub/a?cursor=x>; rel=\"next\"";
        for end in 1..whole.len() {
            let failure = next(&[&whole[..end]]).expect_err(&whole[..end]);
            assert!(failure.error.to_string().contains("Link header"), "{}", failure.error);
        }
        assert!(next(&["<>; rel=\"next\""]).is_err(), "no address");
        assert!(next(&["https://hub/a; rel=\"next\""]).is_err(), "no brackets");
    }
}
