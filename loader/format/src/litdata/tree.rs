//! Names of the leaves of a tree, from its description in the index.

use serde_json::Value as Json;

use crate::json;
use forebay_core::error::{Error, Result};

/// Most levels of a tree: far more than data sets have, and few enough for the stack.
const LEVELS_MAX: usize = 64;

/// Returns the path of each leaf, in their order: the keys of dictionaries and the numbers of lists, joined by dots. A
/// tree that is a leaf has the name `root`.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] for a description that has a different form.
pub(super) fn leaf_names(spec: &str, root: &str) -> Result<Vec<String>> {
    let wrong = || Error::format("the description of an item is not one of LitData's").with("field", "data_spec");
    let spec = json::parse(spec.as_bytes())?;
    let tree = match spec.as_array().map(Vec::as_slice) {
        Some([version, tree]) if version.as_u64() == Some(1) => tree,
        _ => return Err(wrong()),
    };
    let mut names = Vec::new();
    leaves(tree, "", LEVELS_MAX, &mut names).ok_or_else(wrong)?;
    if names == [""] {
        root.clone_into(&mut names[0]);
    }
    Ok(names)
}

/// Adds the names of the leaves of `tree`, which has the path `path`.
fn leaves(tree: &Json, path: &str, levels_left: usize, names: &mut Vec<String>) -> Option<()> {
    let children = tree.get("children_spec")?.as_array()?;
    let Some(kind) = tree.get("type")?.as_str() else {
        names.push(path.to_owned());
        return children.is_empty().then_some(());
    };
    let keys = keys(kind, tree.get("context")?, children.len())?;
    let levels_left = levels_left.checked_sub(1)?;
    for (child, key) in children.iter().zip(keys) {
        let path = if path.is_empty() { key } else { format!("{path}.{key}") };
        leaves(child, &path, levels_left, names)?;
    }
    Some(())
}

/// Returns the names of a node's children: the keys of a dictionary, or their numbers.
fn keys(kind: &str, context: &Json, children: usize) -> Option<Vec<String>> {
    let numbers = || (0..children).map(|number| number.to_string()).collect();
    let keys = match kind {
        "builtins.list" | "builtins.tuple" | "collections.deque" | "collections.namedtuple" => return Some(numbers()),
        "builtins.dict" | "collections.OrderedDict" => json::parse(context.as_str()?.as_bytes()).ok()?,
        // Its context is the factory of its values, then the keys.
        "collections.defaultdict" => {
            let context = match context {
                Json::String(text) => json::parse(text.as_bytes()).ok()?,
                context => context.clone(),
            };
            context.get("dict_context")?.clone()
        }
        // Classes that users register.
        _ => return Some(numbers()),
    };
    let keys: Vec<String> = keys.as_array()?.iter().map(key).collect::<Option<_>>()?;
    (keys.len() == children).then_some(keys)
}

fn key(key: &Json) -> Option<String> {
    match key {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}
