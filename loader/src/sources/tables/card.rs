//! Configurations in the card of a data set: the YAML document at the front of its README.md.

use crate::error::{Error, Result};
use crate::sources::choice::{chosen, or_train};
use crate::sources::wildcards::Pattern;
use crate::sources::yaml::{Value, parse};
use std::collections::BTreeMap;

/// Most patterns that are compared with all files.
const PATTERNS_MAX: usize = 10_000;

/// Characters of wildcards: a pattern may match nothing, but a file without these exists.
const WILDCARDS: [char; 3] = ['*', '?', '['];

/// Patterns of the files of each split.
type Splits = Vec<(String, Vec<String>)>;

/// Configuration of a data set.
struct Config {
    name: String,
    is_default: bool,
    /// Folder that its files are in, without slashes at its ends; empty for the data set's own folder.
    folder: String,
    splits: Splits,
}

/// Files of a split.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SplitFiles<'a> {
    /// Files in the order of the card.
    Listed(Vec<&'a str>),
    /// Files below `folder` that belong to `split` by their names.
    Below {
        /// Folder, without slashes at its ends.
        folder: String,
        /// Split without the name of the configuration.
        split: &'a str,
    },
}

/// Returns the files among `files` that belong to `split`, by the configurations of `card`; `None` if it has none, or
/// `split` is a folder that no configuration has.
///
/// # Errors
///
/// [`ErrorKind::Config`](crate::ErrorKind::Config) if there are several configurations or splits to choose from, or
/// none of the name, and for a file that there is not.
pub(super) fn files_of<'a>(card: &str, files: &[&'a str], split: &'a str) -> Result<Option<SplitFiles<'a>>> {
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
        let is_of_card = !config.is_empty() || !found.folder.is_empty();
        return Ok(is_of_card.then(|| SplitFiles::Below { folder: found.folder.clone(), split }));
    }
    let patterns = chosen(&splits, split, "split", &example)?;
    // In the order of the patterns, each file once.
    let mut names: Vec<&str> = Vec::new();
    for pattern in *patterns {
        let pattern = path_below(&found.folder, pattern);
        let compiled = Pattern::of_card(&pattern);
        let fitting: Vec<&str> = files.iter().filter(|file| compiled.fits(file)).copied().collect();
        if fitting.is_empty() && !pattern.contains(WILDCARDS) {
            let message = "the card of the data set names a file that does not exist, or that is not a table";
            return Err(Error::config(message).with("file", pattern));
        }
        if fitting.is_empty() {
            log::warn!("no file matches {pattern} in the card of the data set");
        }
        let new: Vec<&str> = fitting.into_iter().filter(|file| !names.contains(file)).collect();
        names.extend(new);
    }
    Ok(Some(SplitFiles::Listed(names)))
}

/// Returns `path`, which is relative to `folder`, relative to the folder of the data set.
fn path_below(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
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
        let folder = path_below("", config.get("data_dir").and_then(Value::text).unwrap_or_default());
        Ok(Config { name: name.to_owned(), is_default, folder, splits })
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
        texts.ok_or_else(|| Error::format("a path in `data_files` is not text"))
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
    fn the_files_of_a_configuration_are_in_its_folder() {
        let card = "---\nconfigs:\n- config_name: en\n  data_dir: ./en/\n  data_files: [{split: train, path: \
                    \"*.parquet\"}]\n\
                    - config_name: fr\n  data_dir: fr\n- config_name: all\n  data_files: \"**/*.parquet\"\n\
                    - config_name: up\n  data_dir: en/x\n  data_files: ../a.parquet\n- config_name: names\n---\n";
        let files = ["a.parquet", "en/a.parquet", "en/b.parquet", "fr/test.parquet", "fr/train.parquet"];
        let found = |split| files_of(card, &files, split).unwrap().unwrap();
        assert_eq!(found("en"), SplitFiles::Listed(files[1..3].to_vec()));
        assert_eq!(found("en/train"), SplitFiles::Listed(files[1..3].to_vec()));
        assert_eq!(found("fr/train"), SplitFiles::Below { folder: "fr".to_owned(), split: "train" });
        assert_eq!(found("fr"), SplitFiles::Below { folder: "fr".to_owned(), split: "" });
        assert_eq!(found("all"), SplitFiles::Listed(files.to_vec()));
        assert_eq!(found("up"), SplitFiles::Listed(vec!["en/a.parquet"]));
        assert_eq!(found("names/train"), SplitFiles::Below { folder: String::new(), split: "train" });
    }

    #[test]
    fn a_file_of_the_card_that_does_not_exist_is_an_error_and_a_pattern_may_match_nothing() {
        let card =
            |files: &str| format!("---\nconfigs:\n- config_name: x\n  data_dir: d\n  data_files: {files}\n---\n");
        let files = ["d/a.parquet", "b.parquet"];
        let e = files_of(&card("[a.parquet, b.parquet]"), &files, "").unwrap_err();
        assert!(e.to_string().contains("d/b.parquet"), "{e}");
        let found = files_of(&card("[\"b*.parquet\", a.parquet, \"a*\"]"), &files, "").unwrap();
        assert_eq!(found, Some(SplitFiles::Listed(vec!["d/a.parquet"])));
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
