//! Loaders that can be measured, and their work.

use serde::Serialize;

/// Loader that can be measured.
pub(super) struct Entrant {
    /// Name on the command line.
    pub(super) id: &'static str,
    /// Name in the table.
    pub(super) name: &'static str,
    /// Module: `peer_<module>.py`.
    pub(super) module: &'static str,
    /// Form of the data set that it reads: a folder.
    pub(super) form: &'static str,
    /// True if its module makes that form from `files` on first use. Otherwise `synth` makes it.
    pub(super) makes_form: bool,
    /// Kinds of work besides crops.
    pub(super) also: &'static [Work],
    /// Difference of its work from the rest, as a sentence; empty for none.
    pub(super) differs: &'static str,
}

/// Defaults: a loader of crops.
const CROPS: Entrant = Entrant { id: "", name: "", module: "", form: "", makes_form: false, also: &[], differs: "" };

pub(super) const ENTRANTS: &[Entrant] = &[
    Entrant {
        id: "forebay",
        name: "forebay",
        module: "forebay",
        form: "mds",
        also: &[Work::Bytes, Work::Tokens],
        ..CROPS
    },
    Entrant { id: "forebay-indexed", name: "forebay (row index)", module: "forebay", form: "mds-indexed", ..CROPS },
    Entrant { id: "forebay-tar", name: "forebay (tar)", module: "forebay", form: "tar", also: &[Work::Bytes], ..CROPS },
    Entrant {
        id: "forebay-folder",
        name: "forebay (folder)",
        module: "forebay",
        form: "files",
        also: &[Work::Bytes],
        ..CROPS
    },
    Entrant {
        id: "forebay-parquet",
        name: "forebay (Parquet)",
        module: "forebay",
        form: "parquet",
        makes_form: true,
        also: &[Work::Bytes],
        ..CROPS
    },
    Entrant {
        id: "dali-files",
        name: "DALI (files)",
        module: "dali",
        form: "files",
        differs: "in the recipes DALI has its own versions of the operations, and MixUp alone, without the classes",
        ..CROPS
    },
    Entrant { id: "dali-tar", name: "DALI (tar)", module: "dali", form: "tar", ..CROPS },
    Entrant {
        id: "ffcv",
        name: "FFCV",
        module: "ffcv",
        form: "ffcv",
        makes_form: true,
        differs: "FFCV resizes with OpenCV's INTER_AREA, its first batch waits for numba's compiler, and its memory \
                  includes the mapped data set",
        ..CROPS
    },
    Entrant {
        id: "dataio",
        name: "dataio-rs (tar)",
        module: "dataio",
        form: "tar",
        differs: "in the recipes dataio-rs has its own versions of the operations, and MixUp alone, without the \
                  classes",
        ..CROPS
    },
    Entrant {
        id: "datago",
        name: "datago (files)",
        module: "datago",
        form: "files",
        differs: "datago has no random crop: it resizes whole pictures to the area of the crop, and a batch is a list \
                  of them",
        ..CROPS
    },
    Entrant { id: "spdl", name: "SPDL", module: "spdl", form: "files", ..CROPS },
    Entrant {
        id: "imagefolder",
        name: "ImageFolder",
        module: "imagefolder",
        form: "files",
        also: &[Work::Bytes],
        ..CROPS
    },
    Entrant {
        id: "albumentations",
        name: "Albumentations",
        module: "albumentations",
        form: "files",
        differs: "Albumentations decodes with OpenCV and has its own versions of the operations",
        ..CROPS
    },
    Entrant { id: "litdata", name: "LitData", module: "litdata", form: "litdata", makes_form: true, ..CROPS },
    Entrant { id: "lancedb", name: "LanceDB", module: "lancedb", form: "lancedb", makes_form: true, ..CROPS },
    Entrant {
        id: "datasets",
        name: "Hugging Face datasets",
        module: "datasets",
        form: "parquet",
        makes_form: true,
        also: &[Work::Bytes],
        ..CROPS
    },
    Entrant { id: "webdataset", name: "WebDataset", module: "webdataset", form: "tar", also: &[Work::Bytes], ..CROPS },
    Entrant {
        id: "streaming",
        name: "MosaicML streaming",
        module: "streaming",
        form: "mds",
        also: &[Work::Bytes, Work::Tokens],
        ..CROPS
    },
];

/// Work of the loaders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Work {
    /// Decode JPEGs, crop, flip.
    Images,
    /// Deliver JPEG files as stored.
    Bytes,
    /// Deliver arrays as stored.
    Tokens,
}
