use super::super::rust_files::read;
use super::super::sources::Source;
use super::table::{Crate, Layer};
use super::*;

/// A small table: a crate with rows above one without.
const CRATES: &[Crate] = &[
    Crate {
        name: "forebay-core",
        folder: "loader/core",
        crates: &[],
        external: &[],
        layers: &[],
        used_only_by: &[],
        may_be_unsafe: &[],
    },
    Crate {
        name: "forebay-loader",
        folder: "loader",
        crates: &["forebay-core"],
        external: &[],
        layers: &[
            Layer { modules: &["order"], may_use: &[] },
            Layer { modules: &["order::error"], may_use: &["error"] },
            Layer { modules: &["io"], may_use: &["error", "forebay_core::sync"] },
            Layer { modules: &["cache"], may_use: &["io", "order::ids", "error"] },
            Layer { modules: &["pipeline", "state"], may_use: &["io", "order", "cache", "state"] },
            Layer { modules: &["loader"], may_use: &["pipeline"] },
        ],
        used_only_by: &[("pipeline::device", &["pipeline::epoch"])],
        may_be_unsafe: &["io::uring", "cache::*::kernel", "pipeline::device"],
    },
    Crate {
        name: "forebay-ffi",
        folder: "ffi",
        crates: &["forebay-loader"],
        external: &[],
        layers: &[],
        used_only_by: &[],
        may_be_unsafe: &[""],
    },
];

/// Roots of the crates: the loader offers modules of the core under their old names.
const ROOTS: &[(&str, &str)] = &[
    ("loader/core/src/lib.rs", "pub mod error; pub mod sync; pub use error::Error;"),
    ("loader/core/src/error.rs", ""),
    ("loader/core/src/sync/mod.rs", ""),
    ("loader/src/lib.rs", "pub mod io; pub use forebay_core::{Error, error, sync}; pub use loader::Loader;"),
];

type Check = fn(&[Crate], &[RustFile<'_>]) -> Vec<Violation>;

fn found(check: Check, texts: &[(&str, &str)]) -> Vec<String> {
    let source = |(path, text): &(&str, &str)| Source { path: (*path).to_owned(), text: (*text).to_owned() };
    let sources: Vec<Source> = ROOTS.iter().chain(texts).map(source).collect();
    let (files, unread) = read(&sources);
    assert!(unread.is_empty(), "{unread:?}");
    check(CRATES, &files).into_iter().map(|c| format!("{}: {}", c.place, c.problem)).collect()
}

fn forbidden(path: &str, text: &str) -> Vec<String> {
    found(imports::forbidden, &[(path, text)])
}

#[test]
fn a_pure_module_that_reads_files_through_io_is_caught_with_its_line() {
    assert_eq!(
        forbidden("loader/src/order/epoch.rs", "//! x\nuse crate::io::Reader;"),
        ["loader/src/order/epoch.rs:2: `order` may not use `io::Reader`"]
    );
}

#[test]
fn a_path_in_an_expression_counts_like_a_use_line() {
    assert_eq!(forbidden("loader/src/io/mod.rs", "fn f() { crate::cache::open() }").len(), 1);
}

#[test]
fn only_the_listed_part_of_a_module_is_allowed() {
    assert!(forbidden("loader/src/cache/mod.rs", "use crate::order::ids::ShardId;").is_empty());
    assert_eq!(forbidden("loader/src/cache/mod.rs", "use crate::order::shuffle::py1e;").len(), 1);
    assert_eq!(forbidden("loader/src/cache/mod.rs", "use crate::order::idstring;").len(), 1);
}

#[test]
fn a_row_for_one_file_does_not_cover_its_neighbours() {
    assert!(forbidden("loader/src/order/error.rs", "use crate::error::Kind;").is_empty());
    assert_eq!(forbidden("loader/src/order/errors.rs", "use crate::error::Kind;").len(), 1);
    assert_eq!(forbidden("loader/src/order/error.rs", "use crate::io::Reader;").len(), 1);
}

#[test]
fn a_name_that_the_root_reexports_belongs_to_its_module() {
    assert!(forbidden("loader/src/cache/write.rs", "use crate::Error;").is_empty());
    assert_eq!(
        forbidden("loader/src/pipeline/mod.rs", "use crate::Loader;"),
        ["loader/src/pipeline/mod.rs:1: `pipeline` may not use `loader::Loader`"]
    );
}

#[test]
fn a_module_of_a_crate_below_is_the_same_by_each_of_its_names() {
    for path in ["forebay_core::sync::Lock", "crate::sync::Lock"] {
        assert!(forbidden("loader/src/io/mod.rs", &format!("use {path};")).is_empty(), "{path}");
        assert_eq!(
            forbidden("loader/src/cache/mod.rs", &format!("use {path};")),
            ["loader/src/cache/mod.rs:1: `cache` may not use `forebay_core::sync::Lock`"]
        );
    }
    for path in ["forebay_core::error::Error", "forebay_core::Error", "crate::Error"] {
        assert_eq!(forbidden("loader/src/order/ids.rs", &format!("use {path};")).len(), 1, "{path}");
        assert!(forbidden("loader/src/order/error.rs", &format!("use {path};")).is_empty(), "{path}");
    }
    assert_eq!(forbidden("loader/src/order/ids.rs", "use forebay_core as core;").len(), 1);
}

#[test]
fn a_crate_without_rows_may_use_all_that_its_manifest_allows() {
    assert!(forbidden("ffi/src/batch.rs", "use forebay_loader::io::Reader; use crate::handle::Handle;").is_empty());
}

#[test]
fn tests_may_use_anything() {
    let text = "#[cfg(test)]\nmod tests { use crate::io::Reader; }";
    assert!(forbidden("loader/src/order/mod.rs", text).is_empty());
    assert!(forbidden("loader/src/order/tests.rs", "use crate::io::Reader;").is_empty());
}

#[test]
fn a_module_without_a_layer_is_caught() {
    assert_eq!(forbidden("loader/src/util.rs", ""), ["loader/src/util.rs: `util` is not in the table of layers"]);
}

#[test]
fn an_entry_that_no_module_of_its_row_uses_is_caught() {
    let texts = [
        ("loader/src/order/mod.rs", ""),
        ("loader/src/order/error.rs", "use forebay_core::error::Error;"),
        ("loader/src/io/mod.rs", "use crate::{Error, sync::Lock};"),
        // A test is no use, and the order's seeds are not its ids.
        ("loader/src/cache/mod.rs", "use crate::{Error, io}; #[cfg(test)] mod tests { use crate::order::ids; }"),
        ("loader/src/cache/tests/mod.rs", "use crate::order::ids;"),
        ("loader/src/pipeline/mod.rs", "use crate::{cache::Cache, io::Reader, state::State};"),
        // One module is enough. Its own names do not count.
        ("loader/src/state.rs", "use crate::order::ids; use crate::state::State;"),
    ];
    assert_eq!(
        found(imports::unused, &texts),
        [
            "tests/gate/src/layering/table.rs: `cache` of forebay-loader may use `order::ids`, and does not",
            "tests/gate/src/layering/table.rs: forebay-loader has no module `loader`",
            "tests/gate/src/layering/table.rs: `loader` of forebay-loader may use `pipeline`, and does not",
        ]
    );
}

#[test]
fn the_host_path_uses_no_device_not_even_by_a_name_of_the_root() {
    let root = ("loader/src/pipeline/mod.rs", "mod device;\npub(crate) use device::split::HostShare as Share;");
    let epoch = ("loader/src/pipeline/epoch.rs", "use super::device::offload::DeviceOffload;");
    let with = |path: &str, text: &str| found(part_users::check, &[root, epoch, (path, text)]);
    let sample = "loader/src/pipeline/sample/decode.rs";
    assert_eq!(
        with(sample, "use crate::pipeline::device::part::DevicePart;"),
        ["loader/src/pipeline/sample/decode.rs:1: `pipeline::sample::decode` may not use \
          `pipeline::device::part::DevicePart`"]
    );
    assert_eq!(with(sample, "use crate::pipeline::Share;").len(), 1);
    assert!(with(sample, "use crate::pipeline::run::Run;").is_empty());
    assert!(with("loader/src/pipeline/device/decode.rs", "use super::part::DevicePart;").is_empty());
    assert!(with("loader/src/loader.rs", "use crate::pipeline::Share;").is_empty());
    assert_eq!(
        found(part_users::check, &[root]),
        ["tests/gate/src/layering/table.rs: `pipeline::epoch` of forebay-loader may use `pipeline::device`, and \
             does not"]
    );
}

#[test]
fn unsafe_is_caught_outside_its_modules_and_only_there() {
    let text = "fn f() { unsafe { g() } }";
    for path in
        ["loader/src/pipeline/mod.rs", "loader/core/src/error.rs", "loader/src/io/pread.rs", "python/src/lib.rs"]
    {
        assert_eq!(found(unsafe_code::check, &[(path, text)]).len(), 1, "{path}");
    }
    for allowed in [
        "loader/src/io/uring/ring.rs",
        "loader/src/cache/evict/kernel.rs",
        "loader/src/cache/evict/kernel/avx2.rs",
        "ffi/src/lib.rs",
    ] {
        assert!(found(unsafe_code::check, &[(allowed, text)]).is_empty(), "{allowed}");
    }
}

#[test]
fn a_module_that_is_listed_for_unsafe_and_has_none_is_caught() {
    let texts = [
        ("loader/src/io/uring/ring.rs", "fn f() { unsafe { g() } }"),
        ("loader/src/cache/evict/kernel.rs", "fn f() { unsafe { g() } }"),
        ("loader/src/pipeline/device/mod.rs", "// unsafe"),
        ("ffi/src/lib.rs", "unsafe extern \"C\" {}"),
    ];
    assert_eq!(
        found(unsafe_code::unused, &texts),
        ["tests/gate/src/layering/table.rs: `pipeline::device` of forebay-loader may use unsafe, and does not"]
    );
}

#[test]
fn a_loader_that_depends_on_cuda_or_on_crates_above_it_is_caught() {
    let metadata = serde_json::json!({"packages": [
        {"name": "forebay-core", "dependencies": [{"name": "pyo3"}, {"name": "forebay-loader", "kind": "dev"}]},
        {"name": "forebay-loader", "dependencies": [{"name": "cudarc"}, {"name": "forebay-ffi"}, {"name": "zstd"}]},
        {"name": "forebay-ffi", "dependencies": [{"name": "cudarc"}, {"name": "forebay-loader"}]},
        {"name": "forebay-order", "dependencies": []},
    ]});
    let problems = |check: fn(&[Crate], &serde_json::Value) -> Vec<Violation>| -> Vec<String> {
        check(CRATES, &metadata).into_iter().map(|c| c.problem).collect()
    };
    assert_eq!(
        problems(manifests::check),
        [
            "forebay-core may not depend on pyo3",
            "forebay-loader may not depend on cudarc",
            "forebay-loader may not depend on forebay-ffi",
            "forebay-order is not in the table of crates",
        ]
    );
    assert_eq!(problems(manifests::unused), ["forebay-loader may depend on forebay-core, and does not"]);
}

#[test]
fn a_crate_of_the_table_that_does_not_exist_is_caught() {
    let metadata = serde_json::json!({"packages": [
        {"name": "forebay-loader", "dependencies": [{"name": "forebay-core"}]},
        {"name": "forebay-ffi", "dependencies": [{"name": "forebay-loader"}]},
    ]});
    let unused = manifests::unused(CRATES, &metadata);
    assert_eq!(unused.iter().map(|c| c.problem.as_str()).collect::<Vec<_>>(), ["there is no crate forebay-core"]);
}

#[test]
fn a_crate_for_outside_projects_depends_on_the_listed_crates_alone() {
    let crates = [Crate { external: &["libc", "thiserror"], ..CRATES[0] }];
    let metadata = serde_json::json!({"packages": [
        {"name": "forebay-core", "dependencies": [
            {"name": "thiserror"}, {"name": "tokio"}, {"name": "tempfile", "kind": "dev"},
        ]},
    ]});
    let problems = |check: fn(&[Crate], &serde_json::Value) -> Vec<Violation>| -> Vec<String> {
        check(&crates, &metadata).into_iter().map(|c| c.problem).collect()
    };
    assert_eq!(problems(manifests::check), ["forebay-core may not depend on tokio"]);
    assert_eq!(problems(manifests::unused), ["forebay-core may depend on libc, and does not"]);
}

#[test]
fn modules_without_a_row_share_the_row_of_the_rest() {
    let crates = [Crate {
        layers: &[
            Layer { modules: &["config"], may_use: &["*"] },
            Layer { modules: &["http"], may_use: &["config"] },
            Layer { modules: &["*"], may_use: &["http"] },
        ],
        ..CRATES[0]
    }];
    let found = |check: Check, texts: &[(&str, &str)]| -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source { path: (*path).to_owned(), text: (*text).to_owned() };
        let sources: Vec<Source> = texts.iter().map(source).collect();
        check(&crates, &read(&sources).0).into_iter().map(|c| format!("{}: {}", c.place, c.problem)).collect()
    };
    let config = ("loader/core/src/config.rs", "use crate::{s3::Settings, http::Client};");
    let http = ("loader/core/src/http.rs", "use crate::config::Config; use crate::gcs::Bucket;");
    let (s3, gcs) = ("loader/core/src/s3.rs", "loader/core/src/gcs/mod.rs");
    let texts = [config, http, (s3, "use crate::http::Client;"), (gcs, "use crate::s3::Settings;")];
    assert_eq!(
        found(imports::forbidden, &texts),
        [
            "loader/core/src/config.rs:1: `config` may not use `http::Client`",
            "loader/core/src/http.rs:1: `http` may not use `gcs::Bucket`",
            "loader/core/src/gcs/mod.rs:1: `gcs` may not use `s3::Settings`",
        ]
    );
    assert!(found(imports::unused, &texts).is_empty());
    let unused = "`config` of forebay-core may use `*`, and does not";
    assert!(found(imports::unused, &texts[1..]).iter().any(|found| found.ends_with(unused)));
}
