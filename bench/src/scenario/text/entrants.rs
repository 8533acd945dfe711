//! Programs that make ids or packs of texts.

use serde::Serialize;

/// Work of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Work {
    /// The ids of each document.
    Ids,
    /// Rows of one length that are filled with documents.
    Packs,
}

/// Program that can be measured.
pub(super) struct Entrant {
    /// Name on the command line.
    pub(super) id: &'static str,
    /// Name in the table.
    pub(super) name: &'static str,
    /// Module: `peer_text_<module>.py`.
    pub(super) module: &'static str,
    /// The module's way of its work.
    pub(super) way: &'static str,
    pub(super) work: Work,
    /// True if it is measured on each CPU set, and not only on the largest.
    pub(super) scales: bool,
    /// True if it reads the texts in MDS, which its module makes on first use.
    pub(super) reads_mds: bool,
    /// Difference of its work from the rest, as a sentence; empty for none.
    pub(super) differs: &'static str,
}

/// Defaults: a program that makes ids, on the largest CPU set.
const IDS: Entrant =
    Entrant { id: "", name: "", module: "", way: "", work: Work::Ids, scales: false, reads_mds: false, differs: "" };
const PACKS: Entrant = Entrant { work: Work::Packs, ..IDS };

/// The program that defines the ids.
pub(super) const DEFINITION: &str = "tokenizers-loader";

pub(super) const ENTRANTS: &[Entrant] = &[
    Entrant { id: "forebay", name: "forebay", module: "forebay", scales: true, ..IDS },
    Entrant {
        id: "gigatoken",
        name: "gigatoken, encode_files",
        module: "gigatoken",
        scales: true,
        differs: "gigatoken makes no batches: its first batch is all ids",
        ..IDS
    },
    Entrant {
        id: "tokenizers-1",
        name: "tokenizers 1.0, encode_batch",
        module: "tokenizers1",
        way: "batch",
        scales: true,
        ..IDS
    },
    Entrant {
        id: "tokenizers-1-loader",
        name: "tokenizers 1.0 in a DataLoader",
        module: "tokenizers1",
        way: "loader",
        ..IDS
    },
    Entrant { id: "tokenizers", name: "tokenizers 0.x, encode_batch", module: "tokenizers", way: "batch", ..IDS },
    Entrant { id: DEFINITION, name: "tokenizers 0.x in a DataLoader", module: "tokenizers", way: "loader", ..IDS },
    Entrant { id: "tiktoken", name: "tiktoken, encode_batch", module: "tiktoken", ..IDS },
    Entrant {
        id: "forebay-packs",
        name: "forebay, Pack",
        module: "forebay",
        differs: "the first epoch of forebay's packs also counts the tokens of each document, which makes all ids a \
                  first time; the counts are kept",
        ..PACKS
    },
    Entrant {
        id: "trl",
        name: "datasets and TRL",
        module: "trl",
        differs: "datasets and TRL make all packs in the first epoch and keep them on disk, and the later epochs read \
                  them",
        ..PACKS
    },
    Entrant {
        id: "grain",
        name: "Grain, best fit",
        module: "grain",
        differs: "Grain's packs are made of documents that were split before, because it refuses longer ones",
        ..PACKS
    },
    Entrant {
        id: "streaming",
        name: "MosaicML streaming, concatenated",
        module: "streaming",
        reads_mds: true,
        differs: "MosaicML streaming with the loop of llm-foundry's ConcatTokensDataset cuts documents at the end of \
                  each row",
        ..PACKS
    },
];
