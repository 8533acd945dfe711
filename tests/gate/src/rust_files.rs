//! Rust files of the workspace's crates, with the module that each is and the paths that it mentions.

use super::sources::Source;
use super::syntax::{Mention, Mentions, mentions, module_of};
use crate::violation::Violation;
use std::collections::BTreeSet;
use std::slice;

/// Path of a module from its crate's root.
pub type Module = Vec<String>;

/// File below the folder `src` of a crate.
#[derive(Debug)]
pub struct RustFile<'a> {
    /// From the repository's root.
    pub path: &'a str,
    /// Its text.
    pub text: &'a str,
    /// Folder of the crate: `loader`, `ffi/header`.
    pub folder: &'a str,
    /// Empty for the crate's root.
    pub module: Module,
    /// Paths and `unsafe` in it.
    pub found: Mentions,
    /// True if only tests have the module.
    pub is_test: bool,
}

impl RustFile<'_> {
    /// Mentions of production code that start at the crate's root.
    pub fn absolute(&self) -> impl Iterator<Item = &Mention> {
        self.found.paths.iter().filter(|mention| !mention.in_test)
    }

    /// The remaining mentions of production code.
    pub fn relative(&self) -> impl Iterator<Item = &Mention> {
        self.found.relative.iter().filter(|mention| !mention.in_test)
    }
}

/// Reads every file below a folder `src`. A file that is not made of Rust's tokens is a violation.
pub fn read(sources: &[Source]) -> (Vec<RustFile<'_>>, Vec<Violation>) {
    let mut files = Vec::new();
    let mut violations = Vec::new();
    for source in sources {
        let Some((folder, in_src)) = source.path.split_once("/src/").filter(|(_, file)| file.ends_with(".rs")) else {
            continue;
        };
        let module = module_of(in_src);
        match mentions(&source.text, &module) {
            Ok(found) => {
                let is_test = module.iter().any(|name| name == "tests");
                files.push(RustFile { path: &source.path, text: &source.text, folder, module, found, is_test });
            }
            Err(problem) => {
                violations.push(Violation { place: source.path.clone(), problem, fix: "run cargo check".to_owned() })
            }
        }
    }
    let declared = |file: &RustFile<'_>| {
        let child = |name: &String| (file.folder.to_owned(), [&file.module[..], slice::from_ref(name)].concat());
        file.found.test_modules.iter().map(child).collect::<Vec<_>>()
    };
    let test_modules: BTreeSet<(String, Module)> = files.iter().flat_map(declared).collect();
    for file in &mut files {
        let above = |len: usize| (file.folder.to_owned(), file.module[..len].to_vec());
        file.is_test |= (1..=file.module.len()).any(|len| test_modules.contains(&above(len)));
    }
    (files, violations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_only_tests_have_are_known_with_all_below_them() {
        let sources = [
            ("loader/src/store/mod.rs", "#[cfg(test)]\nmod models;\nmod flight;"),
            ("loader/src/store/models/one.rs", ""),
            ("loader/src/store/flight.rs", ""),
            ("loader/core/src/models.rs", ""),
            ("loader/src/io/tests/uring.rs", ""),
            ("bench/tests/suite.rs", ""),
        ];
        let sources = sources.map(|(path, text)| Source { path: path.to_owned(), text: text.to_owned() });
        let (files, _) = read(&sources);
        let found: Vec<_> = files.iter().map(|file| (file.folder, file.module.join("::"), file.is_test)).collect();
        let expected = [
            ("loader", "store".to_owned(), false),
            ("loader", "store::models::one".to_owned(), true),
            ("loader", "store::flight".to_owned(), false),
            ("loader/core", "models".to_owned(), false),
            ("loader", "io::tests::uring".to_owned(), true),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_file_that_is_not_rust_is_a_violation() {
        let broken = [Source { path: "gpu/src/copy.rs".to_owned(), text: "fn f( {".to_owned() }];
        let (files, violations) = read(&broken);
        assert!(files.is_empty());
        assert_eq!(violations[0].place, "gpu/src/copy.rs");
    }
}
