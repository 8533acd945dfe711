//! Configurations in the card of a data set: the YAML document at the front of its README.md.

use super::choice::{chosen, or_train};
use crate::error::{Error, Result};
use crate::sources::wildcards::Pattern;
use crate::sources::yaml::{Value, parse};
use std::collections::BTreeMap;

/// Most patterns that are compared with all files.
const PATTERNS_MAX: usize = 10_000;

/// Patterns of the files of each split.
type Splits = Vec<(String, Vec<String>)>;

/// Configuration of a data set.
struct Config {
    name: String,
    is_default: bool,
    splits: Splits,
}

/// Returns those of `files` that belong to `split`, by the configurations of `card`; `None` if it has none, or `split` is a
/// folder that none of them has.
pub(super) fn files_of<'a>(card: &str, files: &[&'a str], split: &str) -> Result<Option<Vec<&'a str>>> {
    let configs = match configs(card) {
        Ok(configs) if configs.is_empty() => return Ok(None),
        Ok(configs) => configs,
        // The names of files may show the same.
        Err(e) => {
            log::warn!("the card of the data set is not used: {e}");
            return Ok(None);
        }
    };
    let (config, split) = match split.rsplit_once('/') {
        _ if configs.iter().any(|config| config.name == split) => (split, ""),
        Some((config, split)) if configs.iter().any(|known| known.name == config) => (config, split),
        Some(_) => return Ok(None),
        None => ("", split),
    };
    let named: BTreeMap<&str, &Config> = configs.iter().map(|config| (&*config.name, config)).collect();
    let default = configs.iter().find(|known| config.is_empty() && known.is_default);
    let example = |config: &str| format!("{config}/{}", or_train(split));
    let found = match default {
        Some(found) => found,
        None => chosen(&named, config, "configuration", &example)?,
    };
    let is_named = configs.len() > 1 || !config.is_empty();
    let example = |split: &str| if is_named { format!("{}/{split}", found.name) } else { split.to_owned() };
    let splits: BTreeMap<&str, &Vec<String>> = found.splits.iter().map(|(split, paths)| (&**split, paths)).collect();
    if splits.is_empty() {
        return Ok(None);
    }
    let patterns = chosen(&splits, split, "split", &example)?;
    // In the order of the patterns, each file once.
    let mut names: Vec<&str> = Vec::new();
    for pattern in *patterns {
        let pattern = pattern.trim_start_matches("./");
        let compiled = Pattern::of_card(pattern);
        let new = files.iter().filter(|file| compiled.fits(file)).copied();
        let new: Vec<&str> = new.filter(|file| !names.contains(file)).collect();
        if new.is_empty() {
            log::warn!("no file matches {pattern} in the card of the data set");
        }
        names.extend(new);
    }
    Ok(Some(names))
}

/// Returns the configurations that the card lists.
fn configs(card: &str) -> Result<Vec<Config>> {
    let Some(rest) = card.trim_start_matches('\u{feff}').strip_prefix("---") else { return Ok(Vec::new()) };
    let end = rest.find("\n---").ok_or_else(|| Error::format("its first part has no end"))?;
    let document = parse(&rest[..end])?;
    let Some(Value::List(configs)) = document.get("configs") else { return Ok(Vec::new()) };
    let configs = configs.iter().map(|config| {
        let splits = config.get("data_files").map(Value::splits).transpose()?.unwrap_or_default();
        let name = config.get("config_name").and_then(Value::text).unwrap_or("default");
        let is_default = config.get("default").and_then(Value::text) == Some("true");
        Ok(Config { name: name.to_owned(), is_default, splits })
    });
    let configs = configs.collect::<Result<Vec<_>>>()?;
    if configs.iter().flat_map(|config| &config.splits).map(|(_, paths)| paths.len()).sum::<usize>() > PATTERNS_MAX {
        return Err(Error::format(format!("it has more than {PATTERNS_MAX} patterns")));
    }
    Ok(configs)
}

impl Value {
    /// Returns a text, or a list of texts.
    fn texts(&self) -> Result<Vec<String>> {
        let texts = match self {
            Self::Text(text) => Some(vec![text.clone()]),
            Self::List(items) => items.iter().map(|item| item.text().map(str::to_owned)).collect(),
            Self::Map(_) => None,
        };
        texts.ok_or_else(|| Error::format("a path in `data_files` is no text"))
    }

    /// Returns the patterns of `data_files`: one or several for `train`, or several splits.
    fn splits(&self) -> Result<Splits> {
        match self {
            Self::Map(entries) => entries.iter().map(|(split, paths)| Ok((split.clone(), paths.texts()?))).collect(),
            Self::List(items) if items.iter().any(|item| matches!(item, Self::Map(_))) => {
                let split = |item: &Self| {
                    let split = item.get("split").and_then(Self::text).unwrap_or("train");
                    let paths =
                        item.get("path").ok_or_else(|| Error::format("`data_files` has a split without a path"))?;
                    Ok((split.to_owned(), paths.texts()?))
                };
                items.iter().map(split).collect()
            }
            paths => Ok(vec![("train".to_owned(), paths.texts()?)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_data_files_is_read() {
        for (files, splits) in [
            ("a", &[("train", &["a"][..])][..]),
            ("[a, b]", &[("train", &["a", "b"])]),
            ("{train: a, test: [b, c]}", &[("train", &["a"]), ("test", &["b", "c"])]),
            ("[{split: x, path: a}, {path: [b]}]", &[("x", &["a"]), ("train", &["b"])]),
        ] {
            let card = format!("---\nconfigs:\n- data_files: {files}\n---\n");
            let found = configs(&card).unwrap();
            assert_eq!(found[0].name, "default");
            let texts = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
            let expected: Splits = splits.iter().map(|(split, paths)| ((*split).to_owned(), texts(paths))).collect();
            assert_eq!(found[0].splits, expected, "{files}");
        }
    }

    #[test]
    fn a_card_that_cannot_be_read_is_an_error_and_is_not_used() {
        let deep = format!("---\nconfigs: {}\n---\n", "[".repeat(100));
        for card in [
            "---\nconfigs:\n- a: &x [1]\n- b: *x\n---\n",
            "---\nconfigs: [\n---\n",
            "---\nconfigs:\n- data_files: [{split: a}]\n---\n",
            "---\nno end",
            &deep,
        ] {
            assert!(configs(card).is_err(), "{card}");
            assert_eq!(files_of(card, &["a.parquet"], "").unwrap(), None);
        }
        for card in ["", "# A data set", "---\nlicense: mit\n---\n"] {
            assert!(configs(card).unwrap().is_empty());
        }
    }
}
