//! Arguments of the commands that are a part of the Python package. Their names are the names of its keyword arguments.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum, value_parser};
use serde::Serialize;

/// List the checkpoints of a run, oldest first, and remove the rest of unfinished saves
///
/// The exit code is 1 if a folder is not a whole checkpoint.
#[derive(Args, Debug, Serialize)]
#[command(after_long_help = "\
Examples:
  forebay checkpoint s3://bucket/run
  forebay checkpoint s3://bucket/run --remove-incomplete")]
pub(crate) struct CheckpointArgs {
    /// URL or path of the folder of a run
    prefix: String,
    /// Remove folders without a commit that are older than --age
    #[arg(long)]
    remove_incomplete: bool,
    /// Time since the last change: a newer folder may be in use
    #[arg(long, value_name = "SECONDS", default_value_t = 86400.0)]
    age: f64,
}

/// Write any data set that a Loader opens as MDS
///
/// A Loader reads all of these as they are, and need not have them as MDS. Convert to change their order, columns or
/// compression, or for programs that read only MDS.
///
/// The source is what a Loader opens: tar files, Parquet and Arrow files, data sets of the Hugging Face hub, LitData's
/// chunks, TFRecord and ArrayRecord files, folders of pictures, Megatron's .bin, MDS. The same samples are written in
/// the same order. Several parts of the data set are written at a time, each in a folder below OUT; the index of all is
/// written last. A run that was killed continues: parts that are complete are compared with their hashes and kept.
#[derive(Args, Debug, Serialize)]
#[command(after_long_help = "\
Examples:
  forebay convert 's3://bucket/train-{000..146}.tar' s3://bucket/train-mds
  forebay convert data/corpus_text_document data/corpus --window 2049 --window-stride 2048
  forebay convert data/train data/shuffled --shuffle 1 --compression zstd:3
  forebay convert hf://datasets/ylecun/mnist data/mnist --columns image,label")]
pub(crate) struct ConvertArgs {
    /// As `remote` of a Loader: a folder or URL of a data set, a list of files, hf://datasets/...
    source: String,
    /// Folder or URL to write to: new, empty, or of a run that was interrupted
    out: String,
    /// Columns to write, as the source names them [default: all]
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    columns: Option<Vec<String>>,
    /// Write nulls of tables as columns that a sample does not have
    #[arg(long)]
    nulls: bool,
    /// Compression of the shards, such as zstd:3 [default: none]
    #[arg(long, value_name = "NAME")]
    compression: Option<String>,
    /// Hashes to record in the index
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = "xxh64")]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    hashes: Vec<String>,
    /// Largest raw shard, such as 128mb
    #[arg(long, value_name = "SIZE", default_value = "64mb")]
    size_limit: String,
    /// Write in the shuffled order of this seed
    #[arg(long, value_name = "SEED")]
    shuffle: Option<u64>,
    /// Tokens of a sample, for files of token ids
    #[arg(long, value_name = "TOKENS", value_parser = value_parser!(u64).range(1..))]
    window: Option<u64>,
    /// Distance of windows [default: --window]
    #[arg(long, value_name = "TOKENS", value_parser = value_parser!(u64).range(1..))]
    window_stride: Option<u64>,
    /// Folder for the shards of a remote source [default: in the user's cache]
    #[arg(long, value_name = "FOLDER")]
    local: Option<String>,
    /// Bytes of that folder [default: no limit]
    #[arg(long, value_name = "SIZE")]
    cache_limit: Option<String>,
    /// Parts at a time [default: the CPUs of this process]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    threads: Option<u32>,
}

/// Write an index next to tars, files or tables, add row indexes to JPEGs, or count tokens
///
/// With tar files, or their folder, it writes the index.json that a loader needs next to them, and nothing else; with a
/// folder of pictures or files of any kind, their list, so that loaders list nothing and a web server can have them;
/// with Parquet and Arrow files their facts about their groups of rows, so that loaders do not read it from each of
/// them.
///
/// With an MDS data set it writes a copy with row indexes: copies the data set from one folder to a second one, shard
/// by shard, and appends to each shard the positions of the rows of every JPEG, 0.2 to 0.3 % of its bytes. With them
/// forebay.Loader skips the parts above and right of a crop; the pixels are the same. Samples, their shards and their
/// order do not change, and readers, such as MosaicML streaming, ignore the index. Sizes and hashes in the copy's
/// index.json are new. A cache therefore treats the copy as a different data set, and a checkpoint of the original must
/// be loaded with `strict=False`.
///
/// With --tokenizer the tokens of each sample of any data set are counted, and kept in the cache of this machine.
#[derive(Args, Debug, Serialize)]
#[command(after_long_help = "\
Examples:
  forebay index 's3://bucket/train-{000..146}.tar'
  forebay index s3://bucket/train
  forebay index s3://bucket/photos/train
  forebay index 's3://bucket/tables/*.parquet'
  forebay index --files stem s3://bucket/pairs
  forebay index data/train data/train-indexed
  forebay index --transcode data/train data/train-indexed
  forebay index s3://bucket/texts --tokenizer tokenizer.json --column text")]
pub(crate) struct IndexArgs {
    /// Tar files or their folder, a folder or pattern of files or tables, or a folder with index.json and MDS shards
    source: String,
    /// For MDS: folder for the copy, new or empty; else folder for index.json [default: theirs]
    out: Option<String>,
    /// Replace an index of tars or files
    #[arg(long)]
    overwrite: bool,
    /// Files of any kind: a sample each, or all files of one stem
    #[arg(long, value_name = "KIND")]
    files: Option<FileSamples>,
    /// CSV, TSV or JSON-lines file, or annotations of COCO, that name the files
    #[arg(long, value_name = "FILE")]
    manifest: Option<String>,
    /// Rewrite progressive JPEGs as baseline JPEGs with the same pixels and markers
    #[arg(long)]
    transcode: bool,
    /// Shards at a time [default: the CPUs of this process; 16 tars]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    threads: Option<u32>,
    #[command(flatten)]
    #[serde(flatten)]
    lengths: LengthArgs,
}

/// Samples of a folder of files of any kind.
#[derive(Clone, Copy, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum FileSamples {
    Each,
    Stem,
}

#[derive(Args, Debug, Serialize)]
#[command(next_help_heading = "Lengths in tokens")]
struct LengthArgs {
    /// Path or URL of a tokenizer.json, or of ranks of tiktoken: count the tokens of each sample once
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<String>,
    /// With ranks, the name of tiktoken's encoding, such as o200k_base
    #[arg(long, value_name = "NAME")]
    encoding: Option<String>,
    /// Column with the text
    #[arg(long, default_value = "text")]
    column: String,
    /// Path to the text in a column of JSON documents, such as meta.text
    #[arg(long)]
    path: Option<String>,
    /// Token before each text; yes or no: with or without the tokenizer's own
    #[arg(long, value_name = "TOKEN")]
    add_bos: Option<String>,
    /// Token after each text, in the same way
    #[arg(long, value_name = "TOKEN")]
    add_eos: Option<String>,
    /// Special tokens that a text may contain, as in <a>,<b>; or all
    #[arg(long, value_name = "TOKENS")]
    allowed_special: Option<String>,
    /// Bytes that are not UTF-8
    #[arg(long, default_value = "strict", value_name = "EFFECT")]
    errors: WrongBytes,
    /// Folder of the shards on this machine, as `local` of the Loader
    #[arg(long, value_name = "FOLDER")]
    local: Option<String>,
    /// Bytes of shards there, such as 100gb, as `cache_limit` of the Loader
    #[arg(long, value_name = "SIZE")]
    cache_limit: Option<String>,
    /// Split of the data set, as `split` of the Loader
    #[arg(long)]
    split: Option<String>,
}

/// Effect of bytes that are not UTF-8.
#[derive(Clone, Copy, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum WrongBytes {
    Strict,
    Replace,
}

/// Compare all files of a data set with its index, and repair a folder from its remote
///
/// Sizes, every hash that the index has, compressed files with raw ones, and tables of offsets are compared. With
/// --remote the folder is a cache of that remote: shards may be absent, and --repair replaces damaged ones. The exit
/// code is 0 if every file is intact at the end, and 1 if not. Jobs may run meanwhile; a shard that one reads is left
/// as it is.
#[derive(Args, Debug, Serialize)]
#[command(after_long_help = "\
Examples:
  forebay verify s3://bucket/train
  forebay verify data/train
  forebay verify /cache/train --remote s3://bucket/train --repair")]
pub(crate) struct VerifyArgs {
    /// Folder or URL of the data set
    source: String,
    /// URL or folder that the shards of a folder come from: the folder is its cache
    #[arg(long, value_name = "URL")]
    remote: Option<String>,
    /// Replace damaged shards with the remote's
    #[arg(long, requires = "remote")]
    repair: bool,
    /// Fetch absent shards from the remote
    #[arg(long, requires = "remote")]
    complete: bool,
    /// Shards at a time [default: the CPUs of this process]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    threads: Option<u32>,
}
