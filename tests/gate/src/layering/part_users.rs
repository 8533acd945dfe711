//! Parts of a module that only some parts may use.

use super::super::rust_files::RustFile;
use super::super::syntax::Mention;
use super::names::is_under;
use super::table::{Crate, TABLE};
use crate::violation::Violation;

/// Paths that production code of one file uses or re-exports.
struct Used<'a> {
    path: &'a str,
    module: String,
    mentions: Vec<(String, &'a Mention)>,
}

fn used<'a>(file: &'a RustFile<'a>) -> Used<'a> {
    let absolute = file.absolute().map(|mention| (mention.path.join("::"), mention));
    // `pub use child::Name` in the file of the module above.
    let reexported = file.relative().filter(|mention| mention.is_reexport());
    let below = |mention: &Mention| [&mention.scope[..], &mention.path[..]].concat().join("::");
    let mentions = absolute.chain(reexported.map(|mention| (below(mention), mention))).collect();
    Used { path: file.path, module: file.module.join("::"), mentions }
}

/// Checks that in the module above a part only the part itself and its users use it, also by the names that the
/// module's root re-exports, and that the part and its users exist.
pub(super) fn check(crates: &[Crate], files: &[RustFile<'_>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for krate in crates {
        let own: Vec<_> = files.iter().filter(|file| file.folder == krate.folder && !file.is_test).map(used).collect();
        for (part, users) in krate.used_only_by {
            let uses = uses_of(&own, part);
            let is_allowed = |at: &str| users.iter().any(|user| is_under(at, user));
            violations.extend(uses.iter().filter(|(file, ..)| !is_allowed(&file.module)).map(|(file, text, line)| {
                Violation {
                    place: format!("{}:{line}", file.path),
                    problem: format!("`{}` may not use `{text}`", file.module),
                    fix: format!(
                        "only {} may: pass the value in from there, as a trait of the lower module",
                        users.join(" and ")
                    ),
                }
            }));
            let is_used = |user: &str| uses.iter().any(|(file, ..)| is_under(&file.module, user));
            violations.extend(users.iter().filter(|user| !is_used(user)).map(|user| Violation {
                place: TABLE.to_owned(),
                problem: format!("`{user}` of {} may use `{part}`, and does not", krate.name),
                fix: format!("remove it from the users of `{part}`"),
            }));
        }
    }
    violations
}

/// Returns the uses of `part` in the module above it, outside of the part: file, path and line.
fn uses_of<'a>(files: &'a [Used<'a>], part: &str) -> Vec<(&'a Used<'a>, &'a str, usize)> {
    let above = part.rsplit_once("::").map_or("", |(above, _)| above);
    let reexports = |file: &&Used<'_>| file.module == above;
    let mut names = vec![part.to_owned()];
    for (text, mention) in files.iter().filter(reexports).flat_map(|file| &file.mentions) {
        if let Some(import) = mention.import.as_ref().filter(|import| import.reexport && is_under(text, part)) {
            names.push(format!("{above}::{}", import.name));
        }
    }
    let mut uses = Vec::new();
    for file in files.iter().filter(|file| is_under(&file.module, above) && !is_under(&file.module, part)) {
        for (text, mention) in &file.mentions {
            let is_offer = file.module == above && mention.is_reexport();
            if !is_offer && names.iter().any(|name| is_under(text, name)) {
                uses.push((file, text.as_str(), mention.line));
            }
        }
    }
    uses
}
