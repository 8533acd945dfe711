//! Files with sections of settings, as command lines of clouds write them.

/// Settings of a section, by name in lower case.
pub(crate) type Section = Vec<(String, String)>;

/// Returns a setting of a section that is not empty.
pub(crate) fn ini_value(section: &Section, name: &str) -> Option<String> {
    let found = section.iter().find(|(key, value)| key == name && !value.is_empty());
    found.map(|(_, value)| value.clone())
}

/// Returns the sections of a file in their order, with their names. Indented lines belong to a nested setting and are
/// left out.
pub(crate) fn ini_sections(text: &str) -> Vec<(&str, Section)> {
    let mut sections: Vec<(&str, Section)> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.trim().strip_prefix('[').and_then(|line| line.split(']').next()) {
            sections.push((name.trim(), Section::new()));
        } else if let Some((_, section)) = sections.last_mut()
            && !line.starts_with([' ', '\t', '#', ';'])
            && let Some((key, value)) = line.split_once('=')
        {
            section.push((key.trim().to_lowercase(), value.trim().to_owned()));
        }
    }
    sections
}
