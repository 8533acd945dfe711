//! Paths of options that a document has elsewhere, for the errors about unknown names.

use super::engine::EngineConfig;
use super::fetch::FetchConfig;
use super::options::OptionInfo;
use super::order::OrderConfig;
use super::pack::PackConfig;
use super::select::SelectConfig;
use super::skip::SkipConfig;
use super::stream::StreamConfig;
use super::token_batch::TokenBatch;
use super::window::TokenWindow;
use super::world::WorldConfig;

/// Groups of options. A stream may have those with `true`.
const GROUPS: [(&str, bool, &[OptionInfo]); 9] = [
    ("order", false, OrderConfig::OPTIONS),
    ("engine", false, EngineConfig::OPTIONS),
    ("skip", false, SkipConfig::OPTIONS),
    ("world", false, WorldConfig::OPTIONS),
    ("select", true, SelectConfig::OPTIONS),
    ("window", true, TokenWindow::OPTIONS),
    ("window", false, PackConfig::OPTIONS),
    ("window", false, TokenBatch::OPTIONS),
    ("fetch", true, FetchConfig::OPTIONS),
];

/// Names that an option does not have, and the document with its name. A stream may have those with `true`.
const FORMER_NAMES: [(&str, bool, &str); 11] = [
    ("shuffle_seed", false, "{\"seed\": ...}"),
    ("mark_repeats", false, "{\"extra\": [\"repeat\"]}"),
    ("sample_ids", false, "{\"extra\": [\"sample_ids\"]}"),
    ("sample_draws", false, "{\"extra\": [\"sample_draws\"]}"),
    ("sample_keys", false, "{\"extra\": [\"sample_keys\"]}"),
    ("max_errors", false, "{\"skip\": {\"errors\": ...}}"),
    ("on_error", false, "{\"skip\": {\"errors\": ...}}"),
    ("on_missing", false, "{\"skip\": {\"missing\": true}}"),
    ("window_stride", true, "{\"window\": {\"tokens\": ..., \"stride\": ...}}"),
    ("download_retry", true, "{\"fetch\": {\"retry\": ...}}"),
    ("download_timeout", true, "{\"fetch\": {\"timeout\": ...}}"),
];

/// Returns the sentence about the option `name`, which is unknown in the object at `path`; none if no object has it.
/// The options of the document itself are `of_loader`.
pub(super) fn elsewhere(path: &str, name: &str, of_loader: &[OptionInfo]) -> Option<String> {
    if path.starts_with("fields") {
        // The options of fields have separate names.
        return None;
    }
    let of_stream = |document: String, may_be_in_stream: bool| {
        let is_in_stream = may_be_in_stream && path.starts_with("streams[");
        if is_in_stream { format!("{{\"streams\": [{document}]}}") } else { document }
    };
    let is_named = |option: &OptionInfo| option.name == name;
    if let Some((_, is_shared, document)) = FORMER_NAMES.iter().find(|(other, ..)| *other == name) {
        return Some(format!("`{name}` is not an option: write {}", of_stream((*document).to_owned(), *is_shared)));
    }
    // `window` has the options of one of three groups.
    let mut others = GROUPS.iter().filter(|(group, ..)| !path.starts_with(group));
    if let Some((group, is_shared, _)) = others.find(|(.., options)| options.iter().any(is_named)) {
        let document = format!("{{\"{group}\": {{\"{name}\": ...}}}}");
        let document = match *group {
            "select" => format!("{{\"streams\": [{document}]}}"),
            _ => of_stream(document, *is_shared),
        };
        return Some(format!("`{name}` is an option of `{group}`, as in {document}"));
    }
    if StreamConfig::OPTIONS.iter().any(is_named) {
        return Some(format!("`{name}` is an option of a stream, as in {{\"streams\": [{{\"{name}\": ...}}]}}"));
    }
    of_loader
        .iter()
        .any(is_named)
        .then(|| format!("`{name}` is an option of the loader itself, as in {{\"{name}\": ...}}"))
}
