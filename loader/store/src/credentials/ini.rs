//! Files with sections of settings, as command lines of clouds write them.

/// Settings of a section, by name in lower case.
pub(crate) type Section = Vec<(String, String)>;

/// Returns a setting of a section that is not empty.
pub(crate) fn ini_value(section: &Section, name: &str) -> Option<String> {
    let found = section.iter().find(|(key, value)| key == name && !value.is_empty());
    found.map(|(_, value)| value.clone())
}

/// Returns the sections of a file in their order, with their names. A name ends at `=` or `:`. Indented lines belong to
/// the setting before them, if that has no value: `endpoint_url` of `s3 =` has the name `s3.endpoint_url`.
pub(crate) fn ini_sections(text: &str) -> Vec<(&str, Section)> {
    let mut sections: Vec<(&str, Section)> = Vec::new();
    let mut outer = None;
    for line in text.lines() {
        if let Some(name) = line.trim().strip_prefix('[').and_then(|line| line.split(']').next()) {
            sections.push((name.trim(), Section::new()));
            outer = None;
            continue;
        }
        let Some((_, section)) = sections.last_mut() else { continue };
        let is_nested = line.starts_with([' ', '\t']);
        if let Some((key, value)) = line.split_once(['=', ':'])
            && !line.trim_start().starts_with(['#', ';'])
        {
            let (key, value) = (key.trim().to_lowercase(), value.trim().to_owned());
            match (is_nested, &outer) {
                (false, _) => {
                    outer = value.is_empty().then(|| key.clone());
                    section.push((key, value));
                }
                (true, Some(outer)) => section.push((format!("{outer}.{key}"), value)),
                (true, None) => {}
            }
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_at_the_first_of_both_signs() {
        let text = "[a]\nhost: https://h:1\nKey = x:y=z\n  nested = 1\n# no = 1\n[ b ]\nempty =\n";
        let sections = ini_sections(text);
        assert_eq!(sections.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["a", "b"]);
        let value = |name| ini_value(&sections[0].1, name);
        assert_eq!((value("host").as_deref(), value("key").as_deref()), (Some("https://h:1"), Some("x:y=z")));
        assert_eq!((value("nested"), ini_value(&sections[1].1, "empty")), (None, None));
    }

    #[test]
    fn indented_settings_have_the_name_of_the_setting_around_them() {
        let text = "[services a]\ns3 =\n  endpoint_url = http://h:1\n  # x = 2\n\
                    sts =\n\tendpoint_url=http://h:2\n[b]\n  c = 1\n";
        let sections = ini_sections(text);
        let value = |name| ini_value(&sections[0].1, name);
        assert_eq!(value("s3.endpoint_url").as_deref(), Some("http://h:1"));
        assert_eq!(value("sts.endpoint_url").as_deref(), Some("http://h:2"));
        assert_eq!((value("endpoint_url"), sections[1].1.len()), (None, 0));
    }
}
