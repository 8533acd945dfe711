//! The table of layers: the crates, their modules, and the modules that each may use.
//!
//! It is the design's. Where the code differs, one of the two is wrong.

/// This file.
pub const TABLE: &str = "tests/gate/src/layering/table.rs";

/// All modules of a crate without a row, such as its formats or schemes: a new one needs no entry here.
pub const OTHERS: &str = "*";

/// A crate of the workspace.
#[derive(Clone, Copy, Debug)]
pub struct Crate {
    /// Name in its Cargo.toml.
    pub name: &'static str,
    /// From the repository's root.
    pub folder: &'static str,
    /// Crates of the workspace that it may depend on. Dependencies of tests do not count.
    pub crates: &'static [&'static str],
    /// External crates that it may depend on, if projects outside use it alone; empty: any but [`NOT_IN_LOADER`].
    pub external: &'static [&'static str],
    /// Its modules, lowest first. In a crate without rows each module may use all the rest.
    pub layers: &'static [Layer],
    /// Parts of a module that most of its parts must not use, and the parts that may.
    pub used_only_by: &'static [(&'static str, &'static [&'static str])],
    /// Modules that may use `unsafe`; `*` is any one module, an empty path the whole crate.
    pub may_be_unsafe: &'static [&'static str],
}

/// Modules of a crate and the modules that they may use.
///
/// A path such as `a::b` covers only `b` and the modules below it, on either side. Where two rows fit a module, the
/// longer path counts. `forebay_core::a` is a module of a separate crate; a name that the crate's root re-exports from
/// there, such as `a`, is the same module.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    /// Modules that share the row, or [`OTHERS`] alone.
    pub modules: &'static [&'static str],
    /// Every entry is used by one of the modules at least.
    pub may_use: &'static [&'static str],
}

const fn layer(modules: &'static [&'static str], may_use: &'static [&'static str]) -> Layer {
    Layer { modules, may_use }
}

const fn krate(name: &'static str, folder: &'static str, crates: &'static [&'static str]) -> Crate {
    Crate { name, folder, crates, external: &[], layers: &[], used_only_by: &[], may_be_unsafe: &[] }
}

/// The workspace's crates.
pub const CRATES: &[Crate] = &[
    Crate {
        external: &["hwlocality", "libc", "rustix", "serde_json", "shuttle"],
        layers: CORE,
        ..krate("forebay-core", "loader/core", &[])
    },
    // Its errors become the engine's under a feature, so that projects outside depend on one crate alone.
    Crate { external: &["thiserror"], ..krate("forebay-order", "loader/order", &["forebay-core"]) },
    Crate {
        external: &[
            "crc32fast",
            "gif",
            "image-webp",
            "log",
            "png",
            "serde",
            "thiserror",
            "tiff",
            "turbojpeg-sys",
            "xxhash-rust",
        ],
        layers: PICTURE,
        may_be_unsafe: &["kernel", "*::kernel", "jpeg::turbo"],
        ..krate("forebay-picture", "loader/picture", &["forebay-core"])
    },
    Crate { layers: FORMAT, ..krate("forebay-format", "loader/format", &["forebay-core"]) },
    Crate { layers: STORE, ..krate("forebay-store", "loader/store", &["forebay-core"]) },
    Crate {
        external: &[
            "aho-corasick",
            "base64",
            "minijinja",
            "minijinja-contrib",
            "serde_json",
            "tiktoken-rs",
            "tokenizers",
            "xxhash-rust",
        ],
        layers: TEXT,
        ..krate("forebay-text", "loader/text", &["forebay-core"])
    },
    Crate {
        layers: LOADER,
        // The host path knows a device through `pipeline::sample::offload` alone. The wiring of an epoch connects the
        // two.
        used_only_by: &[("pipeline::device", &["pipeline::epoch"])],
        may_be_unsafe: &["memory", "io::uring", "cache::claim", "dlpack"],
        ..krate(
            "forebay-loader",
            "loader",
            &["forebay-core", "forebay-format", "forebay-order", "forebay-picture", "forebay-store", "forebay-text"],
        )
    },
    krate("forebay-command", "loader/command", &["forebay-loader"]),
    Crate { may_be_unsafe: &[""], ..krate("forebay-gpu", "gpu", &["forebay-loader"]) },
    Crate {
        may_be_unsafe: &["borrowed", "capsule", "rows"],
        ..krate("forebay-python", "python", &["forebay-command", "forebay-gpu", "forebay-loader"])
    },
    Crate { may_be_unsafe: &[""], ..krate("forebay-ffi", "ffi", &["forebay-gpu", "forebay-loader"]) },
    krate("forebay-header", "ffi/header", &[]),
    krate("forebay-tests", "tests", &["forebay-loader"]),
    krate("forebay-gate", "tests/gate", &[]),
    // The bench serves and makes data with the harness.
    krate("forebay-bench", "bench", &["forebay-loader", "forebay-tests"]),
];

/// External crates that the loader, and the crates that it depends on, must not use: it is independent of CUDA, Python
/// and C.
pub const NOT_IN_LOADER: &[&str] = &["cudarc", "pyo3", "numpy", "cbindgen", "libloading"];

const CORE: &[Layer] = &[
    layer(&["error"], &[]),
    layer(&["sync"], &[]),
    // Atomics and locks come from `sync` everywhere, so that a test can drive them.
    layer(&["clock"], &["sync"]),
    layer(&["stats"], &["sync"]),
    // Its models try the orders in which threads run.
    layer(&["flow"], &["sync", "error"]),
    // So do its models.
    layer(&["session"], &["sync", "error"]),
    layer(&["topology"], &["error"]),
    layer(&["versions"], &["sync", "error"]),
];

const PICTURE: &[Layer] = &[
    layer(&["kept"], &[]),
    layer(&["size"], &[]),
    layer(&["border"], &[]),
    layer(&["interpolation"], &[]),
    layer(&["rgb"], &[]),
    layer(&["kernel"], &[]),
    layer(&["vectors"], &["forebay_core::error"]),
    layer(&["aligned"], &["kept"]),
    layer(&["geometry"], &["border", "interpolation", "size"]),
    layer(&["pixels"], &["geometry", "kept", "kernel", "vectors", "forebay_core::error"]),
    layer(&["tiff_entry"], &[]),
    layer(&["orientation"], &["geometry", "pixels", "tiff_entry"]),
    layer(&["format"], &["geometry", "orientation", "pixels", "forebay_core::error"]),
    layer(&["png", "webp"], &["format", "geometry", "orientation", "pixels", "rgb", "forebay_core::error"]),
    layer(
        &["formats"],
        &["format", "geometry", "orientation", "pixels", "png", "rgb", "tiff_entry", "webp", "forebay_core::error"],
    ),
    layer(&["masks"], &["geometry", "kept", "forebay_core::error"]),
    layer(&["jpeg"], &["aligned", "geometry", "kept", "kernel", "pixels", "rgb", "vectors", "forebay_core::error"]),
    layer(&["resize"], &["aligned", "border", "geometry", "interpolation", "kept", "kernel", "pixels", "vectors"]),
    layer(&["picture_ops"], &["border", "interpolation", "kept", "kernel", "vectors"]),
];

// The formatter would give each name a line.
#[rustfmt::skip]
const STORE: &[Layer] = &[
    layer(&["buffer", "hedge", "trials"], &[]),
    layer(&["address", "failure", "key", "queue", "url"], &["address", "key", "forebay_core"]),
    // It has the settings of all schemes.
    layer(&["config"], &["http", "library", "gcs", "*", "forebay_core"]),
    // The common part of all schemes knows none of them.
    layer(
        &[
            "context", "credentials", "destination", "downloader", "fetcher", "file", "flight", "http", "library",
            "remote", "retry", "source", "threads", "ticket", "transfer",
        ],
        &[
            "buffer", "hedge", "trials", "address", "failure", "key", "queue", "config", "context", "destination",
            "fetcher", "flight", "http", "retry", "source", "threads", "ticket", "transfer", "forebay_core",
        ],
    ),
    // The schemes. None knows a second one.
    layer(
        &["*"],
        &[
            "context", "credentials", "destination", "failure", "http", "key", "source", "threads", "url",
            "forebay_core",
        ],
    ),
    // Its XML interface is like S3's.
    layer(
        &["gcs"],
        &["context", "credentials", "destination", "failure", "http", "key", "s3", "url", "forebay_core"],
    ),
    layer(
        &["stores"],
        &[
            "address", "config", "destination", "file", "gcs", "http", "key", "library", "remote", "source", "threads",
            "url", "*", "forebay_core",
        ],
    ),
    // Objects by their URLs.
    layer(
        &["objects"],
        &[
            "address", "buffer", "config", "destination", "key", "remote", "source", "stores", "ticket", "transfer",
            "url", "s3", "forebay_core",
        ],
    ),
];

#[rustfmt::skip]
const FORMAT: &[Layer] = &[
    layer(&["hash", "identity", "json", "read_at", "table", "trailer", "wire"], &["forebay_core::error"]),
    layer(&["compression", "encoding"], &["json", "read_at", "forebay_core::error"]),
    layer(&["ipc"], &["compression", "read_at", "forebay_core::error"]),
    layer(&["columns"], &["encoding", "forebay_core::error"]),
    layer(
        &["arrow", "layout", "shard_format"],
        &["columns", "encoding", "identity", "json", "read_at", "shard_format", "table", "forebay_core::error"],
    ),
    // The formats, the recipes that make shards of third-party files, the index, and the list of all.
    layer(
        &["*"],
        &[
            "arrow", "columns", "compression", "encoding", "hash", "identity", "ipc", "json", "layout",
            "read_at", "shard_format", "table", "wire", "*", "forebay_core::error",
        ],
    ),
    // It hands shards to threads, by default one per CPU.
    layer(
        &["writer"],
        &[
            "columns", "compression", "encoding", "hash", "*", "layout", "table", "trailer", "forebay_core::error",
            "forebay_core::sync", "forebay_core::topology",
        ],
    ),
];

const TEXT: &[Layer] = &[
    layer(&["unicode"], &[]),
    layer(&["pieces"], &[]),
    layer(&["alphabet"], &[]),
    layer(&["chat"], &["forebay_core::error", "forebay_core::sync"]),
    layer(&["encoding"], &["forebay_core::error"]),
    layer(&["settings"], &["encoding"]),
    layer(&["characters"], &["unicode", "forebay_core::sync"]),
    layer(&["document"], &["settings", "forebay_core::error"]),
    layer(&["spans"], &["alphabet", "document"]),
    layer(&["scope"], &["characters", "document", "pieces", "settings"]),
    layer(&["long_texts"], &["forebay_core::sync"]),
    layer(&["added_tokens"], &["document"]),
    layer(&["vocabulary"], &[]),
    layer(&["word_table"], &[]),
    layer(&["common_words"], &["word_table", "forebay_core::sync"]),
    layer(&["words"], &["common_words", "word_table"]),
    layer(&["merges"], &["alphabet", "vocabulary", "words"]),
    layer(&["models"], &["merges", "vocabulary", "words"]),
    layer(
        &["newer"],
        &["added_tokens", "characters", "common_words", "document", "models", "words", "forebay_core::sync"],
    ),
    layer(
        &["engine"],
        &["characters", "document", "newer", "scope", "settings", "forebay_core::error", "forebay_core::sync"],
    ),
    layer(&["rank_pairs"], &["common_words", "merges", "scope", "words", "forebay_core::sync"]),
    layer(&["ranks"], &["characters", "encoding", "rank_pairs", "settings", "forebay_core::error"]),
    layer(
        &["tokenizer"],
        &[
            "document",
            "engine",
            "long_texts",
            "pieces",
            "ranks",
            "scope",
            "settings",
            "spans",
            "forebay_core::error",
            "forebay_core::sync",
        ],
    ),
];

const LOADER: &[Layer] = &[
    // Columns come with their encodings, and both sides read arrays, raw pictures and JSON.
    layer(
        &["decode"],
        &[
            "error",
            "forebay_picture",
            "forebay_text",
            "format::encoding",
            "format::json",
            "format::Column",
            "format::FIELDS",
        ],
    ),
    layer(&["memory"], &["topology", "sync", "error", "forebay_core::flow"]),
    layer(&["io"], &["memory", "sync", "stats", "error", "versions"]),
    // Writes data for the decoder into shards: the writer's hook and the copy.
    layer(&["indexing"], &["sync", "error", "format", "decode", "io"]),
    // Lines and files of objects, which are read forward.
    layer(&["contents"], &["sync", "error", "memory", "format", "store", "objects", "versions"]),
    // Remote folders as the writer's destinations.
    layer(&["output"], &["sync", "error", "clock", "stats", "topology", "format", "store"]),
    // Pure. Messages show addresses without their secrets.
    layer(&["sources"], &["error", "format", "store::redact"]),
    layer(
        &["cache"],
        &["io", "sync", "clock", "stats", "error", "format::compression", "format::hash", "format::index", "versions"],
    ),
    // Figures of a process's loaders for programs that ask.
    layer(&["monitor"], &["error", "sync", "stats", "store::Tls"]),
    // Pure. The catalog reads the files of numbers.
    layer(&["subsets"], &["error", "format::encoding"]),
    // The pipeline, and the types that it and the loader exchange; each may use everything below.
    layer(
        &["config", "catalog", "batch", "delivery", "dlpack", "state", "pipeline"],
        &[
            "error",
            "sync",
            "clock",
            "stats",
            "order",
            "format",
            "decode",
            "topology",
            "memory",
            "io",
            "store",
            "sources",
            "cache",
            "output",
            "subsets",
            "monitor",
            "config",
            "catalog",
            "batch",
            "delivery",
            "forebay_core::flow",
            "session",
            "versions",
        ],
    ),
    layer(
        &["worker", "verify", "loader"],
        &[
            "error",
            "sync",
            "clock",
            "stats",
            "order",
            "format",
            "decode",
            "topology",
            "memory",
            "io",
            "store",
            "sources",
            "cache",
            "subsets",
            "monitor",
            "config",
            "catalog",
            "batch",
            "delivery",
            "state",
            "pipeline",
            "forebay_core::flow",
            "session",
            "versions",
        ],
    ),
    // A loader's batches into data sets.
    layer(
        &["conversion"],
        &["sync", "error", "format", "decode", "store", "indexing", "config", "batch", "delivery", "state", "loader"],
    ),
];
