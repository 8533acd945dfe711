//! Key and field of a file, as WebDataset divides its name.

/// Column with the sample's key.
pub const KEY: &str = "__key__";

/// Key and field of the file `name`: "train/0007" and "seg.png" of "train/0007.seg.PNG". `None` for files that belong
/// to no sample: those without a field, hidden ones, and those that describe the data set, such as `__meta__/...`.
pub(super) fn key_and_field(name: &[u8]) -> Option<(&[u8], String)> {
    if is_about_data_set(name) {
        return None;
    }
    let last = name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let dot = name[last..].iter().position(|byte| *byte == b'.')?;
    if dot == 0 {
        return None;
    }
    let (key, field) = (&name[..last + dot], &name[last + dot + 1..]);
    Some((key, String::from_utf8_lossy(field).to_lowercase()))
}

/// True for names that begin with `__...__`, followed by a slash or nothing, as `__[^/]*__($|/)` matches them.
fn is_about_data_set(name: &[u8]) -> bool {
    let first = name.split(|byte| *byte == b'/').next().unwrap_or(name);
    first.len() >= 4 && first.starts_with(b"__") && first.ends_with(b"__")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_divided_at_the_first_dot_of_their_last_part() {
        for (name, expected) in [
            ("0007.jpg", Some(("0007", "jpg"))),
            ("./0007.seg.PNG", Some(("./0007", "seg.png"))),
            ("a.b/c/7.x", Some(("a.b/c/7", "x"))),
            ("a/7.", Some(("a/7", ""))),
            ("__a.b", Some(("__a", "b"))),
            ("a/__b__/7.x", Some(("a/__b__/7", "x"))),
            ("0007", None),
            ("a.b/7", None),
            ("._0007.jpg", None),
            ("a/._0007.jpg", None),
            ("__meta__/7.x", None),
            ("__meta.json__", None),
            ("", None),
        ] {
            let found = key_and_field(name.as_bytes());
            let found = found.as_ref().map(|(key, field)| (std::str::from_utf8(key).unwrap(), field.as_str()));
            assert_eq!(found, expected, "{name}");
        }
    }
}
