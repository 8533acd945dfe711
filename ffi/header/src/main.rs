//! Prints `forebay.h`, which is committed as `ffi/include/forebay.h`; the gate compares the two.

use cbindgen::{Builder, Config, DocumentationStyle, Language, RenameRule};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = Config {
        language: Language::C,
        cpp_compat: true,
        no_includes: true,
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        include_guard: Some("FOREBAY_H".to_owned()),
        header: Some("/* The C interface of forebay. Generated from ffi/src; do not edit. */".to_owned()),
        after_includes: Some(
            "\n/* Defined in dlpack.h, which is needed only to access a tensor's fields. */\n\
             struct DLManagedTensorVersioned;"
                .to_owned(),
        ),
        documentation_style: DocumentationStyle::C99,
        usize_is_size_t: true,
        ..Config::default()
    };
    config.enumeration.rename_variants = RenameRule::QualifiedScreamingSnakeCase;
    let dlpack = ("DlManagedTensorVersioned".to_owned(), "struct DLManagedTensorVersioned".to_owned());
    config.export.rename.extend([dlpack]);
    // No function has it in its signature: the member of a struct is a plain number, which may have any value.
    config.export.include = vec!["ForebayValueKind".to_owned()];
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let files = [
        "version.rs",
        "status.rs",
        "arguments.rs",
        "loader.rs",
        "batch.rs",
        "value.rs",
        "reader.rs",
        "writer.rs",
        "log.rs",
    ];
    let builder = files.iter().fold(Builder::new().with_config(config), |b, file| b.with_src(source.join(file)));
    let mut header = Vec::new();
    builder.generate()?.write(&mut header);
    print!("{}", with_names_of_enums(&String::from_utf8(header)?));
    Ok(())
}

/// Replaces `enum Name` by the name that its `typedef` gives: some languages, such as Go, take the two for different
/// types.
fn with_names_of_enums(header: &str) -> String {
    let (mut lines, mut is_shifted) = (Vec::new(), false);
    for line in header.lines() {
        let is_prototype = line.starts_with("enum ");
        // Parameters on further lines are below the first one.
        let line = if is_shifted && line.starts_with(' ') { &line["enum ".len()..] } else { line };
        is_shifted = (is_prototype || is_shifted) && !line.ends_with(';');
        let keeps = line.starts_with("typedef enum ") || line.starts_with("//");
        lines.push(if keeps { line.to_owned() } else { line.replace("enum Forebay", "Forebay") });
    }
    lines.join("\n") + "\n"
}
