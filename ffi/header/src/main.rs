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
    builder.generate()?.write(std::io::stdout());
    Ok(())
}
