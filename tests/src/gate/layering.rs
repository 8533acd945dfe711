//! Allowed imports between modules and between crates, and the modules that may use `unsafe`.
//!
//! The table is the design's. An edge that it does not allow is a mistake of the design or of the code, so the gate fails
//! until one of them is changed.

use super::Violation;
use super::sources::Source;
use super::syntax::{Mention, mentions, module_of};

/// Modules of the loader, lowest first, and the modules that each may use. A path such as `a::b` covers only `b` and the
/// modules below it, on either side; where two rows fit a module, the longer path counts.
const MAY_USE: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("sync", &[]),
    // Atomics and locks come from `sync` everywhere, so that a test can drive them.
    ("clock", &["sync"]),
    ("stats", &["sync"]),
    ("order", &[]),
    // The order's own small error is converted into the engine's here, since `error` may use nothing.
    ("order::error", &["error"]),
    ("format", &["error"]),
    // It hands shards to threads, by default one per CPU.
    ("format::writer", &["error", "sync", "topology"]),
    // Columns come with their encodings, and both sides read arrays, raw pictures and JSON.
    ("decode", &["error", "format::encoding", "format::json", "format::Column", "format::FIELDS"]),
    ("topology", &["error"]),
    ("memory", &["topology", "sync", "error"]),
    ("io", &["memory", "topology", "sync", "stats", "error"]),
    ("store", &["memory", "clock", "sync", "stats", "error"]),
    // Writes data for the decoder into shards: the writer's hook and the copy.
    ("indexing", &["sync", "error", "format", "decode", "io"]),
    // Objects as they are, without an index.
    ("objects", &["sync", "error", "clock", "stats", "topology", "store"]),
    // Lines and files of objects, which are read forward.
    ("contents", &["sync", "error", "memory", "format", "store", "objects"]),
    // Remote folders as the writer's destinations.
    ("output", &["sync", "error", "clock", "stats", "topology", "format", "store"]),
    // Pure. Messages show addresses without their secrets.
    ("sources", &["error", "format", "store::redact"]),
    ("cache", &["io", "memory", "sync", "clock", "stats", "error", "order::ids", "format::hash", "format::index"]),
    // Pure. The catalog reads the files of numbers.
    ("subsets", &["error", "format::encoding"]),
    // Types that pipeline and loader pass to each other; each may use everything below.
    ("config", BELOW_PIPELINE),
    ("catalog", BELOW_PIPELINE),
    ("batch", BELOW_PIPELINE),
    ("delivery", BELOW_PIPELINE),
    ("dlpack", BELOW_PIPELINE),
    ("state", BELOW_PIPELINE),
    ("pipeline", BELOW_LOADER),
    ("worker", ALL),
    ("verify", ALL),
    ("loader", ALL),
];
const BELOW_PIPELINE: &[&str] = &[
    "error", "sync", "clock", "stats", "order", "format", "decode", "topology", "memory", "io", "store", "sources",
    "cache", "output", "subsets", "config", "catalog", "batch", "delivery", "dlpack", "state",
];
const BELOW_LOADER: &[&str] = BELOW_PIPELINE;
const ALL: &[&str] = &[
    "error", "sync", "clock", "stats", "order", "format", "decode", "topology", "memory", "io", "store", "sources",
    "cache", "output", "subsets", "config", "catalog", "batch", "delivery", "dlpack", "state", "pipeline",
];

/// Parts of a module that most of its other parts must not use, and the parts that may.
const USED_ONLY_BY: &[(&str, &[&str])] = &[
    // The host path knows a device through `pipeline::sample::offload` alone. The wiring of an epoch connects the two.
    ("pipeline::device", &["pipeline::epoch"]),
];

/// Modules that may use `unsafe`: crate, then module path; `*` is any one module.
const MAY_BE_UNSAFE: &[(&str, &[&str])] = &[
    ("loader", &["memory"]),
    ("loader", &["io", "uring"]),
    ("loader", &["cache", "claim"]),
    ("loader", &["topology", "affinity"]),
    ("loader", &["decode", "kernel"]),
    ("loader", &["decode", "*", "kernel"]),
    ("loader", &["decode", "jpeg", "turbo"]),
    ("loader", &["dlpack"]),
    ("gpu", &[]),
    ("ffi", &[]),
    ("python", &["borrowed"]),
    ("python", &["capsule"]),
    ("python", &["rows"]),
];

/// The workspace's crates, and those of them that each may use.
const CRATES: &[(&str, &[&str])] = &[
    ("forebay-loader", &[]),
    ("forebay-gpu", &["forebay-loader"]),
    ("forebay-python", &["forebay-gpu", "forebay-loader"]),
    ("forebay-ffi", &["forebay-gpu", "forebay-loader"]),
    ("forebay-header", &[]),
    ("forebay-tests", &["forebay-gpu", "forebay-loader"]),
    // The bench serves and makes data with the harness.
    ("forebay-bench", &["forebay-gpu", "forebay-loader", "forebay-tests"]),
];

/// External crates that the loader must not use: it is independent of CUDA, Python and C.
const NOT_IN_LOADER: &[&str] = &["cudarc", "pyo3", "numpy", "cbindgen", "libloading"];

/// Checks every Rust source.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let reexports = sources.iter().find(|s| s.path == "loader/src/lib.rs").map(|s| reexports(&s.text));
    let reexports = reexports.unwrap_or_default();
    for source in sources.iter().filter(|s| s.path.ends_with(".rs")) {
        violations.extend(check_file(source, &reexports));
    }
    for (part, users) in USED_ONLY_BY {
        violations.extend(check_users(sources, part, users));
    }
    violations
}

/// File and module of a source, and the paths that it uses or re-exports.
type UsedPaths<'a> = (&'a str, String, Vec<(String, Mention)>);

/// Returns the paths of a source of the loader.
fn used_paths(source: &Source) -> Option<UsedPaths<'_>> {
    let module = module_of(source.path.strip_prefix("loader/src/").filter(|path| path.ends_with(".rs"))?);
    let found = mentions(&source.text, &module).ok()?;
    let reexported = found.relative.into_iter().filter(|mention| mention.reexport);
    let used = found.paths.into_iter().chain(reexported).filter(|mention| !mention.in_test);
    Some((&source.path, module.join("::"), used.map(|mention| (mention.path.join("::"), mention)).collect()))
}

/// Checks that of the module above `part` only `part` itself and `users` use it, also by the names that the module's
/// root re-exports.
fn check_users(sources: &[Source], part: &str, users: &[&str]) -> Vec<Violation> {
    let files: Vec<_> = sources.iter().filter_map(used_paths).collect();
    let above = part.rsplit_once("::").map_or("", |(above, _)| above);
    let mut names = vec![part.to_owned()];
    for (_, at, used) in &files {
        let reexported = used.iter().filter(|(text, mention)| at == above && mention.reexport && is_under(text, part));
        names.extend(reexported.map(|(text, _)| format!("{above}::{}", text.rsplit("::").next().unwrap_or_default())));
    }
    let may_use = |at: &str| is_under(at, part) || !is_under(at, above) || users.iter().any(|user| is_under(at, user));
    let mut violations = Vec::new();
    for (path, at, used) in files.iter().filter(|(_, at, _)| !may_use(at)) {
        let wrong = |(text, mention): &&(String, Mention)| {
            !(at == above && mention.reexport) && names.iter().any(|name| is_under(text, name))
        };
        violations.extend(used.iter().filter(wrong).map(|(text, mention)| Violation {
            place: format!("{path}:{}", mention.line),
            problem: format!("`{at}` may not use `{text}`"),
            fix: format!(
                "only {} may: pass the value in from there, as a trait of the lower module",
                users.join(" and ")
            ),
        }));
    }
    violations
}

/// Returns the names that the loader's root re-exports, and the module of each: `Error` belongs to `error`.
fn reexports(lib: &str) -> Vec<(String, String)> {
    // In the root, `pub use error::Error` means `crate::error::Error`.
    let lib = lib.replace("pub use crate::", "pub use ").replace("pub use ", "pub use crate::");
    let found = mentions(&lib, &[]).unwrap_or_default();
    let named = found.paths.iter().filter(|m| m.path.len() > 1);
    named.map(|m| (m.path.last().cloned().unwrap_or_default(), m.path[0].clone())).collect()
}

fn check_file(source: &Source, reexports: &[(String, String)]) -> Vec<Violation> {
    let Some((krate, in_src)) = source.path.split_once("/src/") else {
        return Vec::new();
    };
    let module = module_of(in_src);
    let found = match mentions(&source.text, &module) {
        Ok(found) => found,
        Err(problem) => {
            return vec![Violation { place: source.path.clone(), problem, fix: "run cargo check".to_owned() }];
        }
    };
    let mut violations = Vec::new();
    if !may_be_unsafe(krate, &module) {
        violations.extend(found.unsafe_lines.iter().map(|line| Violation {
            place: format!("{}:{line}", source.path),
            problem: "unsafe is not allowed in this module".to_owned(),
            fix: "use a safe call, or move the operation into a module that the design lists for unsafe".to_owned(),
        }));
    }
    // The crate's root is the map and may name every module.
    let Some(from) = module.first().filter(|_| krate == "loader") else {
        return violations;
    };
    if module.last().is_some_and(|m| m == "tests") {
        return violations;
    }
    let here = module.join("::");
    let fitting = MAY_USE.iter().filter(|(name, _)| is_under(&here, name));
    let Some((_, allowed)) = fitting.max_by_key(|(name, _)| name.len()) else {
        violations.push(Violation {
            place: source.path.clone(),
            problem: format!("`{from}` is not in the table of layers"),
            fix: "give it a place in tests/src/gate/layering.rs, or put the code into a module that has one".to_owned(),
        });
        return violations;
    };
    for mention in found.paths.iter().filter(|m| !m.in_test) {
        let mut path = mention.path.clone();
        if let Some((_, home)) = reexports.iter().find(|(name, _)| *name == path[0]) {
            path.insert(0, home.clone());
        }
        let known = MAY_USE.iter().any(|(name, _)| *name == path[0]);
        // A macro or another name of the root that is not a module: the compiler checks that it exists.
        if path[0] == *from || !known {
            continue;
        }
        let text = path.join("::");
        if !allowed.iter().any(|a| is_under(&text, a)) {
            let list = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
            violations.push(Violation {
                place: format!("{}:{}", source.path, mention.line),
                problem: format!("`{from}` may not use `{text}`"),
                fix: format!("it may use {list}: pass the value in from above, or move the code down"),
            });
        }
    }
    violations
}

/// Returns true if the path `text` is `prefix` or a path below it.
fn is_under(text: &str, prefix: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn may_be_unsafe(krate: &str, module: &[String]) -> bool {
    MAY_BE_UNSAFE.iter().any(|(name, prefix)| {
        *name == krate && prefix.len() <= module.len() && prefix.iter().zip(module).all(|(p, m)| *p == "*" || p == m)
    })
}

/// Checks the arrows between crates in the output of `cargo metadata --no-deps`.
pub fn check_crates(metadata: &serde_json::Value) -> Vec<Violation> {
    let mut violations = Vec::new();
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    for package in list(&metadata["packages"]) {
        let name = package["name"].as_str().unwrap_or_default().to_owned();
        let allowed = CRATES.iter().find(|(krate, _)| *krate == name).map(|(_, allowed)| *allowed);
        for dependency in list(&package["dependencies"]) {
            let on = dependency["name"].as_str().unwrap_or_default();
            // Dependencies of tests do not reach a user.
            if dependency["kind"] == "dev" {
                continue;
            }
            let ours = on.starts_with("forebay-");
            let wrong = if ours {
                !allowed.is_some_and(|a| a.contains(&on))
            } else {
                name == "forebay-loader" && NOT_IN_LOADER.contains(&on)
            };
            if wrong {
                violations.push(Violation {
                    place: format!("Cargo.toml of {name}"),
                    problem: format!("{name} may not depend on {on}"),
                    fix: "arrows point one way: python, ffi, bench, tests -> gpu -> loader".to_owned(),
                });
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> Source {
        Source { path: path.to_owned(), text: text.to_owned() }
    }

    fn violations(path: &str, text: &str) -> Vec<String> {
        let lib = file("loader/src/lib.rs", "pub mod io;\npub use error::{Error, Result};\npub use loader::Loader;");
        check(&[lib, file(path, text)]).into_iter().map(|c| format!("{}: {}", c.place, c.problem)).collect()
    }

    #[test]
    fn a_pure_module_that_reads_files_through_io_is_caught_with_its_line() {
        assert_eq!(
            violations("loader/src/order/epoch.rs", "//! x\nuse crate::io::Reader;"),
            ["loader/src/order/epoch.rs:2: `order` may not use `io::Reader`"]
        );
    }

    #[test]
    fn a_path_in_an_expression_counts_like_a_use_line() {
        assert_eq!(violations("loader/src/store/mod.rs", "fn f() { crate::cache::open() }").len(), 1);
    }

    #[test]
    fn only_the_listed_part_of_a_module_is_allowed() {
        assert!(violations("loader/src/cache/mod.rs", "use crate::order::ids::ShardId;").is_empty());
        assert!(violations("loader/src/cache/mod.rs", "use crate::format::hash;").is_empty());
        assert_eq!(violations("loader/src/cache/mod.rs", "use crate::order::shuffle::py1e;").len(), 1);
        assert_eq!(violations("loader/src/cache/mod.rs", "use crate::format::hashing;").len(), 1);
    }

    #[test]
    fn a_row_for_one_file_does_not_cover_its_neighbours() {
        assert!(violations("loader/src/order/error.rs", "use crate::error::Error;").is_empty());
        assert_eq!(violations("loader/src/order/errors.rs", "use crate::error::Error;").len(), 1);
        assert_eq!(violations("loader/src/order/error.rs", "use crate::io::Reader;").len(), 1);
    }

    #[test]
    fn a_name_that_the_root_reexports_belongs_to_its_module() {
        assert!(violations("loader/src/format/mds.rs", "use crate::Error;").is_empty());
        assert_eq!(
            violations("loader/src/pipeline/mod.rs", "use crate::Loader;"),
            ["loader/src/pipeline/mod.rs:1: `pipeline` may not use `loader::Loader`"]
        );
    }

    #[test]
    fn the_host_path_uses_no_device_not_even_by_a_name_of_the_root() {
        let root = file("loader/src/pipeline/mod.rs", "mod device;\npub(crate) use device::split::HostShare;");
        let found = |path: &str, text: &str| -> Vec<String> {
            check(&[root.clone(), file(path, text)])
                .into_iter()
                .map(|c| format!("{}: {}", c.place, c.problem))
                .collect()
        };
        let sample = "loader/src/pipeline/sample/decode.rs";
        assert_eq!(
            found(sample, "use crate::pipeline::device::part::DevicePart;"),
            ["loader/src/pipeline/sample/decode.rs:1: `pipeline::sample::decode` may not use \
              `pipeline::device::part::DevicePart`"]
        );
        assert_eq!(found(sample, "use crate::pipeline::HostShare;").len(), 1);
        assert!(found(sample, "use crate::pipeline::run::Run;").is_empty());
        assert!(found("loader/src/pipeline/epoch.rs", "use super::device::offload::DeviceOffload;").is_empty());
        assert!(found("loader/src/pipeline/device/decode.rs", "use super::part::DevicePart;").is_empty());
        assert!(found("loader/src/loader.rs", "use crate::pipeline::HostShare;").is_empty());
    }

    #[test]
    fn tests_may_use_what_they_like() {
        let text = "#[cfg(test)]\nmod tests { use crate::io::Reader; }";
        assert!(violations("loader/src/order/mod.rs", text).is_empty());
        assert!(violations("loader/src/order/tests.rs", "use crate::io::Reader;").is_empty());
    }

    #[test]
    fn a_module_without_a_layer_is_caught() {
        assert_eq!(violations("loader/src/util.rs", ""), ["loader/src/util.rs: `util` is not in the table of layers"]);
    }

    #[test]
    fn unsafe_is_caught_outside_its_modules_and_only_there() {
        let text = "fn f() { unsafe { g() } }";
        assert_eq!(violations("loader/src/pipeline/mod.rs", text).len(), 1);
        assert_eq!(violations("python/src/lib.rs", text).len(), 1);
        assert_eq!(violations("loader/src/io/pread.rs", text).len(), 1);
        for allowed in [
            "loader/src/memory/slab.rs",
            "loader/src/io/uring/ring.rs",
            "loader/src/decode/resize/kernel.rs",
            "loader/src/decode/jpeg/turbo.rs",
            "gpu/src/copy.rs",
            "ffi/src/lib.rs",
            "python/src/capsule.rs",
        ] {
            assert!(violations(allowed, text).is_empty(), "{allowed}");
        }
    }

    #[test]
    fn a_loader_that_depends_on_cuda_or_on_crates_above_it_is_caught() {
        let metadata = serde_json::json!({"packages": [
            {"name": "forebay-loader", "dependencies": [{"name": "cudarc"}, {"name": "forebay-gpu"}, {"name": "zstd"}]},
            {"name": "forebay-gpu", "dependencies": [{"name": "cudarc"}, {"name": "forebay-loader"}]},
            {"name": "forebay-ffi", "dependencies": [{"name": "forebay-tests", "kind": "dev"}]},
        ]});
        let found: Vec<String> = check_crates(&metadata).into_iter().map(|c| c.problem).collect();
        assert_eq!(found, ["forebay-loader may not depend on cudarc", "forebay-loader may not depend on forebay-gpu"]);
    }
}
