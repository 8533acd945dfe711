/* The C interface of forebay. Generated from ffi/src; do not edit. */

#ifndef FOREBAY_H
#define FOREBAY_H

#include <stddef.h>
#include <stdint.h>

/* Defined in dlpack.h, which is needed only to access a tensor's fields. */
struct DLManagedTensorVersioned;

// Version of the interface in this header. A new major version breaks programs and changes the name of the library,
// `libforebay.so.MAJOR`.
#define FOREBAY_ABI_MAJOR 1

// Version of the interface in this header. A new minor version adds functions or statuses.
#define FOREBAY_ABI_MINOR 0

// Result of a call. Every status except OK, END and PENDING is an error with a message in `forebay_last_error`.
typedef enum ForebayStatus {
  // Done.
  FOREBAY_STATUS_OK = 0,
  // End of the epoch.
  FOREBAY_STATUS_END = 1,
  // A null pointer, a handle that is not live, text that is not UTF-8, a number out of range, or a call from the log
  // callback.
  FOREBAY_STATUS_INVALID = 2,
  // An argument or a combination of arguments is wrong.
  FOREBAY_STATUS_CONFIG = 3,
  // A file, object or sample does not exist.
  FOREBAY_STATUS_NOT_FOUND = 4,
  // The store or the file system refuses access.
  FOREBAY_STATUS_PERMISSION = 5,
  // The network failed.
  FOREBAY_STATUS_NETWORK = 6,
  // Too few bytes arrived within `fetch.timeout`, or nothing changed for `engine.stall_timeout`.
  FOREBAY_STATUS_TIMEOUT = 7,
  // Bytes do not match their recorded size or hash.
  FOREBAY_STATUS_CHECKSUM = 8,
  // Bytes do not conform to their format.
  FOREBAY_STATUS_FORMAT = 9,
  // A sample cannot be decoded into the fields of the configuration.
  FOREBAY_STATUS_DECODE = 10,
  // A feature that this build or this machine does not have.
  FOREBAY_STATUS_UNSUPPORTED = 11,
  // No room: disk, memory limit, locked-memory limit.
  FOREBAY_STATUS_FULL = 12,
  // A checkpoint does not belong to this data set and these arguments.
  FOREBAY_STATUS_STATE = 13,
  // The remote index changed since the cache was filled.
  FOREBAY_STATUS_STALE = 14,
  // A system call failed for a reason without a separate status.
  FOREBAY_STATUS_IO = 15,
  // The loader is closed, no epoch is in progress, or this is a forked child.
  FOREBAY_STATUS_CLOSED = 16,
  // A bug in the library: please report it.
  FOREBAY_STATUS_INTERNAL = 17,
  // No batch within the timeout of `forebay_loader_next_within`: call again.
  FOREBAY_STATUS_PENDING = 18,
} ForebayStatus;

// Kind of an output.
typedef enum ForebayKind {
  // Rows of equal shape, stacked: `forebay_batch_view` and `forebay_batch_tensor`.
  FOREBAY_KIND_TENSOR = 0,
  // UTF-8 text of each row, without a NUL at its end: `forebay_batch_row`.
  FOREBAY_KIND_TEXT = 1,
  // Bytes of each row: `forebay_batch_row`.
  FOREBAY_KIND_BYTES = 2,
  // An array with its own shape for each row, in the encoding of an MDS `ndarray`: `forebay_batch_row`.
  FOREBAY_KIND_RAGGED = 3,
} ForebayKind;

// Importance of a log line.
typedef enum ForebayLogLevel {
  // Something failed.
  FOREBAY_LOG_LEVEL_ERROR = 1,
  // Something is probably wrong or slow.
  FOREBAY_LOG_LEVEL_WARN = 2,
  // Decisions that are made once.
  FOREBAY_LOG_LEVEL_INFO = 3,
  // Details for working on the library.
  FOREBAY_LOG_LEVEL_DEBUG = 4,
} ForebayLogLevel;

// Kind of a value.
typedef enum ForebayValueKind {
  // `data`: bytes. Stored files such as JPEG and PNG, pickles, and lists of pictures as stored. A writer takes bytes
  // for every column and stores them unchanged.
  FOREBAY_VALUE_KIND_BYTES = 0,
  // `data`: UTF-8 text, `len` bytes, without a NUL at its end.
  FOREBAY_VALUE_KIND_TEXT = 1,
  // `data`: a JSON document as UTF-8 text.
  FOREBAY_VALUE_KIND_JSON = 2,
  // `integer`.
  FOREBAY_VALUE_KIND_INT = 3,
  // `data`: the decimal digits of an integer that `integer` cannot hold.
  FOREBAY_VALUE_KIND_BIG_INT = 4,
  // `number`.
  FOREBAY_VALUE_KIND_FLOAT = 5,
  // `data`: a decimal number as text.
  FOREBAY_VALUE_KIND_DECIMAL = 6,
  // `data`: one number of the type `type_name`, little-endian. A reader sets `number` as well, and `integer` if it
  // is one.
  FOREBAY_VALUE_KIND_SCALAR = 7,
  // `data`: little-endian elements of the type `type_name`, in C order; `ndim` sizes in `shape`.
  FOREBAY_VALUE_KIND_ARRAY = 8,
  // `data`: rows of pixels; `shape` is height and width, `type_name` Pillow's mode, such as "RGB".
  FOREBAY_VALUE_KIND_PIXELS = 9,
} ForebayValueKind;

// One batch. Free it with `forebay_batch_free`; tensors taken from it outlive it.
typedef struct ForebayBatch ForebayBatch;

// A loader. Its functions may be called from any thread; free it with `forebay_loader_free`.
typedef struct ForebayLoader ForebayLoader;

// Reader of single samples by number. Free it with `forebay_reader_free`.
typedef struct ForebayReader ForebayReader;

// One sample. Free it with `forebay_sample_free`; it outlives its reader.
typedef struct ForebaySample ForebaySample;

// Writer of a data set. Free it with `forebay_writer_free`.
typedef struct ForebayWriter ForebayWriter;

// Position and size of a batch.
typedef struct ForebayBatchInfo {
  // Epoch of the batch.
  uint64_t epoch;
  // Number of the batch in its epoch.
  uint64_t number;
  // Rows in every output.
  size_t rows;
  // Number of outputs.
  size_t outputs;
} ForebayBatchInfo;

// A tensor in the memory of its batch: dense, rows first, without strides.
typedef struct ForebayTensorView {
  // First element, in the device's memory. It may be written.
  void *data;
  // Bytes of all elements.
  size_t bytes;
  // `ndim` sizes, rows first.
  const int64_t *shape;
  // Number of dimensions.
  uint32_t ndim;
  // DLPack's number for the kind of the elements: 0 signed, 1 unsigned, 2 float, 4 bfloat, 6 bool.
  uint8_t dtype_code;
  // Bits of an element.
  uint8_t dtype_bits;
  // DLPack's number for the kind of the device: 1 host, 2 CUDA.
  int32_t device_type;
  // Number of the device, 0 for the host.
  int32_t device_id;
} ForebayTensorView;

// Value of a column. Members that its kind does not name are 0.
typedef struct ForebayValue {
  // Name of the column.
  const char *column;
  // A ForebayValueKind.
  uint32_t kind;
  // Number of sizes in `shape`.
  uint32_t ndim;
  // An integer.
  int64_t integer;
  // A number.
  double number;
  // Bytes, text or elements.
  const uint8_t *data;
  // Bytes in `data`.
  size_t len;
  // Type of the elements, such as "uint16", or mode of the pixels.
  const char *type_name;
  // Sizes, slowest first.
  const uint64_t *shape;
} ForebayValue;

// Function that receives log lines: `context` as passed to `forebay_log_set`, level, and message, which is valid
// during the call.
typedef void (*ForebayLogCallback)(void *context, ForebayLogLevel level, const char *message);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Version of the interface in the library: its major version times 65,536 plus its minor version. A program works if
// the major version equals FOREBAY_ABI_MAJOR and the minor version is at least FOREBAY_ABI_MINOR.
//
// Threads: any.
uint32_t forebay_abi_version(void);

// Version of the library, such as "0.1.0". Valid forever.
//
// Threads: any.
const char *forebay_version(void);

// Message of this thread's last failed call; "" before the first. Valid until this thread's next failure.
//
// Threads: any; each has its own.
const char *forebay_last_error(void);

// Status of this thread's last failed call; FOREBAY_STATUS_OK before the first.
//
// Threads: any; each has its own.
ForebayStatus forebay_last_status(void);

// This thread's last failed call as JSON, "" before the first: `status`, its name in lower case such as "not_found";
// `code`, its number; `message`; `context`, an object of texts with the facts that are known, such as `file`, `shard`,
// `sample`, `column`, `stream`. Valid until this thread's next failure.
//
// Threads: any; each has its own.
const char *forebay_last_error_json(void);

// Frees a string that a `char **` of this interface received. NULL is fine.
//
// Threads: any.
//
// # Safety
//
// `string` is null or comes from this library and has not been freed.
void forebay_string_free(char *string);

// Opens a data set. `device` is the device of the batches: NULL or "cpu", "cuda:0" for that CUDA device, "cuda" for
// the device of the local rank. `config` is a JSON object, for example:
//
// ```json
// {
//   "streams": [{"local": "/data/set", "split": "train"}],
//   "fields": [["ids", {"kind": "tokens", "column": "tokens", "length": 8, "dtype": "int32"}]],
//   "batch_size": 16,
//   "shuffle": true,
//   "order": {"shuffle_block_size": 1000000},
//   "engine": {"memory": "64mb", "prefetch": 4},
//   "world": {"rank": 0, "world_size": 1, "local_rank": 0, "local_world_size": 1}
// }
// ```
//
// The default of each option is in brackets. Unknown names are an error. An error contains its path in the document,
// such as `streams[0].choose` or `engine.memory`. Sizes are bytes, as a number or as text such as `"2gb"` in powers of
// 1,024. They are the options of the Python `Loader`, which makes this document.
//
// Options of the document, where `{}` is an object of options that all have their defaults:
//
// * `streams` (required): The data: at least one stream. A list of objects.
// * `fields` (null): Outputs of a batch by name. null: every column under its own name; pictures and pickles
//   undecoded. A list of pairs of an output's name and a field, in the outputs' order.
// * `window` (null): Tokens of a sample, or their window, packs or token batches. null: documents are samples. A
//   number, or an object such as `{"tokens": 2048, "stride": 1024}`, for packs `{"length": 4096}`, for batches by
//   tokens `{"max_tokens": 16384}`.
// * `extra` ([]): Names of outputs to add: "repeat", "sample_ids", "sample_draws" and "sample_keys".
// * `batch_size` (required): Rows of a batch on each device.
// * `drop_last` (false): Leave out a last batch that is not full.
// * `shuffle` (false): Shuffle samples, differently in each epoch.
// * `seed` (9176): Seed of the order.
// * `order` ({}): Order of the samples, besides `shuffle` and `seed`.
// * `threads` (null): Decode threads. null: the CPUs of this process, shared with all ranks of the node.
// * `cache_limit` (null): Bytes on disk of all streams, or "100gb". null: no limit.
// * `fetch` ({}): Fetches of shards: attempts, time limit and check.
// * `engine` ({}): Resources and limits of this process.
// * `skip` ({}): Samples that an epoch leaves out instead of failing.
// * `world` ({}): Rank of this process.
//
// Options of a stream, an object in `streams`. It has `remote`, `local` or both, and at most one of `proportion`,
// `repeat` and `choose`:
//
// * `remote` (null): URL or path of the shards' folder, or files, such as `s3://bucket/train-{000..146}.tar`. null:
//   `local` has them.
// * `local` (null): Folder that holds the shards, or will. null: a stable folder in the user's cache directory.
// * `split` (null): Sub-folder of both, such as "train", or split of a folder of files without an index.
// * `files` (null): Files that `remote` names are samples, whatever their extensions: "each", or "stem" for those that
//   share a stem. Or the folder or pattern of each column below `remote`, such as {"image": "images", "mask":
//   "masks"}: a sample has the files of one stem.
// * `manifest` (null): CSV, TSV or JSON-lines file with a line for each sample: its files below `remote`, in columns
//   such as `file_name` and `mask_file_name`, and values. Or annotations of COCO, `instances_train2017.json`.
// * `ignore_counts` (false): Read tars and record files once to find their samples and all their fields, and use no
//   counts that came with them.
// * `select` ({}): Samples to keep or draw.
// * `window` (null): Tokens of a sample, in files of token ids, or a window of tokens. null: the loader's `window`.
// * `proportion` (null): Share of an epoch, relative to the proportions of all streams.
// * `repeat` (null): Occurrences of each sample in an epoch: 0.5 takes every second sample.
// * `choose` (null): Samples of this stream in an epoch.
// * `fetch` (null): Fetches of this stream's shards. null: as in the loader's `fetch`.
//
// Options of `select`, in a stream. It has at most one of `weights` and `balance`:
//
// * `subset` (null): Samples to keep, by number: text such as "0:1000, 5000:6000", a list of numbers, or a file of
//   them. In JSON write a list as such a text.
// * `fraction` (null): Seeded part to keep, such as (0, 0.9) and (0.9, 1): neighbouring parts share no sample and miss
//   none. In JSON a pair is a list, such as `[0, 0.9]`.
// * `fraction_seed` (null): Seed of `fraction`. null: 0.
// * `filter` (null): Condition on number and text columns of the samples to keep, such as `class < 100 and name !=
//   "unknown"`.
// * `weights` (null): Weight of each sample, to draw with replacement: a number column, an array of numbers, or its
//   `.npy` file. In JSON an array is the text `float64:` and the base64 of its doubles.
// * `balance` (null): Column of the classes that an epoch draws equally often, with replacement.
//
// Options of `window`, in the document and in a stream:
//
// * `tokens` (required): Tokens of a sample.
// * `stride` (null): Tokens from the start of a window to the start of the next one. null: `tokens`.
//
// Options of packs, which `window` of the document may have instead. A batch is then made of one field, `tokens` or
// `tokenize` without `length`. The program finds the longest sequence of `padding_free` in `cu_seq_lens_q`:
//
// * `length` (required): Tokens of a pack.
// * `method` ("best_fit"): Method of packing: "best_fit", which cuts no document that fits into a pack, or "cut", one
//   after the other.
// * `overflow` ("split"): Documents that are longer than a pack: "split" into several sequences, "truncate" or "drop".
// * `max_sequences` (null): Most sequences of a pack. null: no limit.
// * `pad_sequences_to` (1): Multiple of tokens at which each sequence begins, with padding before the next one.
// * `lengths` (null): Numbers of tokens, as for `weights`. null: taken from the sizes of stored ids, or counted once
//   and kept.
// * `form` ("padding_free"): Outputs of a batch: "padding_free", "segments", "indexed_mask", "sequence_id", "thd" or
//   "document_ids".
// * `pad` (0): Token id that fills the rest of a row.
// * `proportion_unit` ("samples"): Unit of the proportions of streams: "samples" or "tokens".
//
// Options of batches by tokens, which `window` of the document may have instead; `batch_size` is then 1. A batch is
// made of one field as for packs, and has `labels`, `attention_mask` and `position_ids`:
//
// * `max_tokens` (required): Most tokens of a batch with its padding: its rows times the longest of them.
// * `max_sequences` (null): Most rows of a batch. null: no limit.
// * `max_length` (null): Most tokens of a row. null: `max_tokens`.
// * `overflow` ("split"): Documents that are longer than a row: "split" into several rows, "truncate" or "drop".
// * `pad_to_multiple_of` (1): Multiple of tokens that the rows of a batch are padded to.
// * `lengths` (null): Numbers of tokens, as for `weights`. null: taken from the sizes of stored ids, or counted once
//   and kept.
// * `pad` (0): Token id that fills the rest of a row.
// * `proportion_unit` ("samples"): Unit of the proportions of streams: "samples" or "tokens".
//
// Options of `order`, equal on all ranks:
//
// * `shuffle_algo` ("py1e"): Shuffle algorithm: "py1e", "py1br", "py1s", "py2s" or "naive".
// * `shuffle_block_size` (null): Samples that are shuffled together. null: max(4,000,000 / canonical nodes, 262,144).
// * `partition_algo` ("relaxed"): Partition algorithm: "relaxed" or "orig".
// * `num_canonical_nodes` (null): Nodes that define the order. null: this job's nodes, or 64 times as many for py1s
//   and py2s.
// * `replication` (null): Number of consecutive ranks that get the same samples.
// * `epoch_size` (null): Samples of an epoch. null: the sum of the streams' shares.
// * `repeat_augment` (1): Rows of each sample, with separate draws; an epoch keeps its length and has fewer samples.
// * `augment_seed` (null): Seed of random crops and flips. null: `seed`.
// * `sampling_method` ("balanced"): Sampling of stream shares: "balanced" draws again in each epoch, "fixed" draws
//   once.
// * `sampling_granularity` (1): Samples that are drawn together.
// * `batching_method` ("random"): Mix of streams in a batch: "random", "stratified", "per_stream" or
//   "device_per_stream".
// * `bucket_by` (null): Lengths, to batch samples of similar length: a number column, bytes of any column, or as in
//   `weights`.
// * `bucket_batches` (64): Global batches that `bucket_by` sorts together.
// * `skip_steps` (null): Steps to leave out on all ranks, counted through all epochs. Checkpoints keep them.
//
// Options of `fetch`, in the document and in a stream. A stream with `fetch` uses none of the document's:
//
// * `retry` (2): Total attempts per download.
// * `timeout` (60.0): Seconds for an answer to begin, and for each 16 KiB of it, before an attempt fails.
// * `validate_hash` (null): Hash to match when a shard is fetched or unpacked, such as "xxh64". null: the cheapest in
//   the index.
// * `keep_zip` (false): Keep compressed shards next to the unpacked ones.
//
// Options of `engine`:
//
// * `prefetch` (null): Batches made ahead. null: 3, and more of batches below 2 MiB: as many as 8 MiB hold, at most
//   31.
// * `memory` (null): Bytes for batches and encoded samples, as a number or "2gb". null: a share of the machine's
//   memory.
// * `mmap` (false): Copy samples of up to 16 KiB from memory maps; a failing disk then ends the process with SIGBUS.
// * `pin_threads` (false): Bind each decode thread to one CPU.
// * `fetch_threads` (null): Threads that talk to the store. null: one per 4 CPUs.
// * `predownload` (null): Samples whose shards are fetched ahead. null: enough for `prefetch` batches, at least 8
//   batches.
// * `ca_file` (null): File of certificates (PEM) that stores may have, in addition to the system's.
// * `stall_timeout` (600.0): Seconds without progress before the next batch fails with an error.
// * `sample_bytes_max` (1073741824): Largest sample that is read, in bytes or as "1gb".
// * `allow_unsafe_types` (false): Accept columns of Python pickles; they are delivered as bytes.
// * `device_decode` (false): Decode baseline JPEGs on the CUDA device (nvJPEG). Its grey levels may differ by a few.
// * `share_decode` (false): With `device_decode`, idle decode threads take pictures too; grey levels may vary between
//   runs.
// * `gpu_direct_storage` (false): Read stored rows of 4 KiB or more from local disk into CUDA memory (cuFile).
// * `metrics` (null): Serve the figures to Prometheus, "prometheus://:9400" (the local rank is added to the port), or
//   send them: "otlp". Python has "tensorboard:DIR" and functions of figures and step too.
// * `monitor` (true): Let `forebay top` of the same user look into this process, by a Unix socket.
// * `trace` (false): Record every timed span for `trace_json`.
//
// Options of `skip`:
//
// * `errors` (0): Samples per epoch and rank that are left out if they cannot be read or decoded; one more is an
//   error.
// * `missing` (false): Plan without the samples that lack a field without a default.
//
// Options of `world`. The environment is not read:
//
// * `rank` (0): Number of this process among all processes.
// * `world_size` (1): Number of processes.
// * `local_rank` (0): Number of this process on its node.
// * `local_world_size` (1): Number of processes of one node.
//
// A field is an object with its `kind` and, except for `joint` and `mix`, the `column` that it reads:
//
// * `image`: `ops` (none), a list of operations; `dtype` ("uint8"), or "float16", "bfloat16", "float32"; `layout`
//   ("NCHW"), or "NHWC"; `tolerant` (false) of damaged JPEGs; `apply_exif_orientation` (false); `scaled_decode`
//   (false): decode JPEGs at a half, a quarter or an eighth if the first resize reduces both sides by at least that
//   factor. This is not exact; pictures that a CUDA device decodes are exact. `views` (null: one, without a
//   dimension for it), pictures with different draws of each sample; `mode` ("RGB"), or "L", "RGBA",
//   "I;16" (`dtype` "uint16", "int32" or a float).
// * `mask`: labels; `ops` (none); `dtype` ("int64").
// * `boxes`, in a `joint` alone: an array of four numbers per box; `format` ("xyxy"), or "xywh", "cxcywh"; `path`
//   (null) in a document; `of` (null: the first picture), the name of the picture; `to` (null: `format`), the format
//   in the batch; `min_size` (null), pixels of the smallest sides, and of the smallest area without `min_area` (null).
//   `box_labels`: their values; `path` (null), `dtype` (null: the column's), `of` (null: the
//   first boxes).
// * `object_masks`, in a `joint` alone: masks by COCO's polygons and run lengths, an array [objects, height, width];
//   `path` (null) in a document to their list, `size` ("size") to [height, width] of the annotated picture, `of`
//   (null: the first boxes), the name of the boxes of the same objects. `class_map`: the class of each pixel; `path`,
//   `size`, `of` (null: the first picture), `labels`, the path to the objects' classes; `background` (0), `overlap`
//   (null: the last object's class), `dtype` ("uint8").
// * `key_points`, in a `joint` alone: an array of two or three numbers per point of each object: column, row,
//   visibility; `path` (null); `flip` (`[]`), pairs of left and right points; `points` (null), their number;
//   `of` (null: the first picture); `boxes` (null: the first boxes, if there are some), with which objects are left
//   out.
// * `scalar`: a number; `dtype` (null: the column's).
// * `tokens`: `length` (null: rows of their own length); `dtype` ("int64"); `pad` (null), the id that fills short
//   rows; `stored` (null), the type of the ids in a column of bytes; `truncate` (false), keep the first ids of a
//   longer sample.
//   `fim` (null) of `tokens` and `tokenize`: fill-in-the-middle, an object with `rate`, the probability that a
//   document is rearranged; `spm_rate` (0.5), the probability that its suffix is first; the ids `prefix`, `middle`
//   and `suffix`; `bos` and `eod` (null), ids that stay at the ends.
//   `mask` (null) of the same: masked language modelling, which adds an output `labels`; an object with the id
//   `mask`; `vocab_size`, above every random id; `probability` (0.15) that a token is drawn; `mask_replace` (0.8) and
//   `random_replace` (0.1), the parts of the drawn tokens that become the mask or a random id; `special` (`[]`), ids
//   that are never drawn; `continues` (`[]`), ids of tokens that continue the word before them: words are drawn.
// * `chat`: token ids of messages, with an output `labels`; `tokenizer`, the text of a `tokenizer.json`; `template`
//   (null), a chat template in Jinja, with `template_name` ("chat template") for errors, `variables` (none) and `date`
//   (null), the day that it sees; `train_on` ("assistant"), or "last", "flag"; columns `tools`, `prompt` and `against`
//   (null); `part` ("ids"), or "prompt", "completion", "pair": the prompt of a preference pair, with outputs
//   `chosen_ids` and `rejected_ids`, and `prompt_max` (null), its most tokens; `length`, `dtype`, `pad` and `truncate`
//   as of `tokens`.
// * `length`: number of elements of an array along its first dimension; `stored` (null), their type in a column of
//   bytes, which are counted without it.
// * `array`: `dtype` (null: the column's); `shape` (null: the column's). Columns of bytes are files of numpy.
// * `text`, `bytes`: the stored value.
// * `json`: a value inside a document; `path` (null: the document), such as `"meta.boxes[0]"`, or a list of keys and
//   positions; `dtype` (null: "str", "json" for the document), the type of numbers, or "json", any value as text;
//   `shape` (null) of nested lists of numbers, with null for lengths that differ from sample to sample.
//
// `scalar`, `array`, `text`, `bytes` and `json` have a `default` (null: none), the value of samples that lack it: a
// number, "nan", text, or nested lists; bytes are a list of numbers.
//
// A field `joint` has `fields`, images, masks, boxes and key points as above, which share their random draws. A field
// `mix` has `fields`, images of one size and fields `one_hot` (`classes`; `dtype` ("float32"); `smoothing` (0.0)), a
// class as probabilities, or `multi_hot`, several (the same, with `path` (null)); `by`, a list of
// `{"op": "mix_up", "alpha": 1.0}` and `{"op": "cut_mix", "alpha": 1.0}` (`minmax` (null); `keeps_share` (false)), of
// which one is drawn for each batch, by `weights` (null); `p` (1.0); `mode` ("previous"), or "batch", "pair", "elem",
// "half".
//
// An operation is an object with its `op`; sizes are `[height, width]` in pixels:
//
// * `random_resized_crop`: `size`, `scale` (`[0.08, 1.0]`), `ratio` (`[0.75, 1.3333]`), `interpolation` ("bilinear"),
//   or "bicubic", "nearest".
// * `random_horizontal_flip`: `p` (0.5).
// * `random_crop`: `size`, `padding` (`[0, 0, 0, 0]`: left, top, right, bottom), `pad_if_needed` (false), and as
//   `pad`.
// * `pad`: `padding`; `fill` (`[0, 0, 0]`), the colour; `padding_mode` ("constant"), or "edge", "reflect",
//   "symmetric".
// * `resize`: `size`, where one number is the shorter side; `max_size` (null) of the longer one; `interpolation`.
//   `random_resize`: `min_size` and `max_size` of the shorter side, the second one exclusive; `interpolation`.
// * `center_crop`: `size`. `five_crop`, `ten_crop`: `size` of the crops, which are views with the same draws.
//   `grayscale`.
// * `random_zoom_out`: `side_range` (`[1.0, 4.0]`), `p` (0.5), `fill`. `random_iou_crop`, in a `joint` with `boxes`:
//   `min_scale` (0.3), `max_scale` (1.0), `min_aspect_ratio` (0.5), `max_aspect_ratio` (2.0), `sampler_options`
//   (`[0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]`), `trials` (40).
// * `scale_jitter`: `target_size`, width and height; `scale_range` (`[0.1, 2.0]`), `interpolation`.
//   `random_shortest_size`: `min_size`, a list of lengths; `max_size` (null), `interpolation`.
// * `fixed_size_crop`, `pad_if_smaller`: `size`, `fill`. `center_crop_or_pad`, `random_crop_or_pad`: `size`, as `pad`.
//   `resize_keep_ratio`: `size`, `longest` (0.0), `interpolation`, `random_scale_prob` (0.0), `random_scale_range`
//   (`[0.85, 1.05]`), `random_scale_area` (false), `random_aspect_prob` (0.0), `random_aspect_range` (`[0.9, 1.11]`).
// * `normalize`, the last but for `linear_transformation` and `random_erasing`: `mean` and `std`, three numbers each
//   for values from 0 to 1.
// * `linear_transformation`: `transformation_matrix` and `mean_vector`, base64 of little-endian float32.
//   `trim_border`: `border_size`.
// * `random_erasing`: `p` (0.5), `scale` (`[0.02, 0.33]`), `ratio` (`[0.3, 3.3]`), `value` (`[0, 0, 0]`; null: noise).
// * `color_jitter`: `brightness`, `contrast`, `saturation`, `hue`, each the smallest and the largest factor (null).
//   `random_photometric_distort`: likewise, each with a default, and `p` (0.5). `random_channel_permutation`.
// * `random_grayscale`: `p` (0.1). `random_invert`, `random_autocontrast`, `random_equalize`, `random_vertical_flip`:
//   `p` (0.5). `random_posterize`: `bits`, `p`. `random_solarize`: `threshold`, `p`. `random_adjust_sharpness`:
//   `sharpness_factor`, `p`. `gaussian_blur`: `kernel_size`, columns and rows; `sigma` (`[0.1, 2.0]`).
//   `gaussian_noise`: `mean` (0.0), `sigma` (0.1), `clip` (true). `jpeg`: `quality`, smallest and largest.
// * `random_rotation`: `degrees`, smallest and largest; `expand` (false), `center` (null). `random_affine`: `degrees`,
//   `translate`, `scale`, `shear` (null; four numbers), `center`. `random_perspective`: `distortion_scale` (0.5), `p`
//   (0.5). These and the policies have `interpolation` ("nearest"; "bilinear" for perspectives and `aug_mix`) and
//   `fill` (`[0, 0, 0]`).
// * `trivial_augment_wide`: `num_magnitude_bins` (31). `rand_augment`: `num_ops` (2), `magnitude` (9),
//   `num_magnitude_bins` (31). `auto_augment`: `policy` ("imagenet", or "cifar10", "svhn"). `aug_mix`: `severity` (3),
//   `mixture_width` (3), `chain_depth` (-1), `alpha` (1.0), `all_ops` (true).
// * `random_apply`: `transforms`, a list of those after `random_erasing` here, of flips and of `grayscale`; `p` (0.5).
//   `random_choice`: `transforms`, `p` (null: one weight each). `random_order`: `transforms`.
//
// Threads: any.
//
// # Safety
//
// `config` and `device` are null or end in a NUL; `loader` is null or may be written.
ForebayStatus forebay_loader_new(const char *config,
                                 const char *device,
                                 struct ForebayLoader **loader);

// Ends the current epoch and frees the loader. Delivered batches stay valid. NULL is fine, and so is a freed handle. A
// call in progress on a different thread ends with FOREBAY_STATUS_CLOSED. In a forked child nothing is freed.
//
// Threads: any.
void forebay_loader_free(struct ForebayLoader *loader);

// Ends the current epoch, if there is one, and starts the next, or resumes the loaded position.
//
// Threads: any.
ForebayStatus forebay_loader_start_epoch(const struct ForebayLoader *loader);

// Ends the current epoch at once; `forebay_loader_start_epoch` starts the one after it. Without an epoch nothing
// happens.
//
// Threads: any. A call of `forebay_loader_next` in progress ends with FOREBAY_STATUS_CLOSED.
ForebayStatus forebay_loader_end_epoch(const struct ForebayLoader *loader);

// Waits for the next batch, which `forebay_batch_free` frees. At the end of the epoch returns FOREBAY_STATUS_END and
// writes NULL to `batch`.
//
// Threads: any; each batch goes to one of the callers.
//
// # Safety
//
// `batch` is null or may be written.
ForebayStatus forebay_loader_next(const struct ForebayLoader *loader,
                                  struct ForebayBatch **batch);

// Like `forebay_loader_next`, but after about `timeout_ms` milliseconds without a batch returns FOREBAY_STATUS_PENDING
// and writes NULL to `batch`. A timeout of 0 returns a batch only if one is finished.
//
// Threads: any; each batch goes to one of the callers.
//
// # Safety
//
// `batch` is null or may be written.
ForebayStatus forebay_loader_next_within(const struct ForebayLoader *loader,
                                         uint64_t timeout_ms,
                                         struct ForebayBatch **batch);

// Writes the epoch that the next `forebay_loader_start_epoch` starts or resumes.
//
// Threads: any.
//
// # Safety
//
// `epoch` is null or may be written.
ForebayStatus forebay_loader_epoch(const struct ForebayLoader *loader, uint64_t *epoch);

// Writes the number of batches of a whole epoch for this rank.
//
// Threads: any.
//
// # Safety
//
// `batches` is null or may be written.
ForebayStatus forebay_loader_batches(const struct ForebayLoader *loader, uint64_t *batches);

// Writes the number of samples of the data set, before any weights.
//
// Threads: any.
//
// # Safety
//
// `samples` is null or may be written.
ForebayStatus forebay_loader_samples(const struct ForebayLoader *loader, uint64_t *samples);

// Writes the position after the batches delivered so far, as JSON for `forebay_loader_load_state`.
//
// Threads: any.
//
// # Safety
//
// `state` is null or may be written.
ForebayStatus forebay_loader_state(const struct ForebayLoader *loader, char **state);

// Ends the current epoch and makes the next one resume `state`. With `strict` 1, arguments that would change the order
// give FOREBAY_STATUS_STATE; with 0 they are a warning in the log. Any further value of `strict` is an error.
//
// Threads: any.
//
// # Safety
//
// `state` is null or ends in a NUL.
ForebayStatus forebay_loader_load_state(const struct ForebayLoader *loader,
                                        const char *state,
                                        uint32_t strict);

// Writes the figures so far as JSON, as Python's `Loader.stats`: `bottleneck`, one line about the limit of the
// rate, and `limit`, its short name; `elapsed_s`; `threads`; by name in `stages`, `busy_s`, `input_s` and `output_s`
// in seconds, `items` and `bytes`; `counters` by name; `notes`.
//
// Threads: any.
//
// # Safety
//
// `stats` is null or may be written.
ForebayStatus forebay_loader_stats(const struct ForebayLoader *loader,
                                   char **stats);

// Writes the figures so far as Prometheus text, with the label `rank`.
//
// Threads: any.
//
// # Safety
//
// `metrics` is null or may be written.
ForebayStatus forebay_loader_metrics(const struct ForebayLoader *loader, char **metrics);

// Writes the trace in Chrome's format, which Perfetto opens. Without `engine.trace` the call fails with
// FOREBAY_STATUS_CONFIG.
//
// Threads: any.
//
// # Safety
//
// `trace` is null or may be written.
ForebayStatus forebay_loader_trace(const struct ForebayLoader *loader,
                                   char **trace);

// Frees a batch. NULL is fine, and so is a handle that has been freed.
//
// Threads: any.
void forebay_batch_free(struct ForebayBatch *batch);

// Writes position and size of a batch to `info`.
//
// Threads: any.
//
// # Safety
//
// `info` is null or may be written.
ForebayStatus forebay_batch_info(const struct ForebayBatch *batch,
                                 struct ForebayBatchInfo *info);

// Writes the number of the output `name` to `output`.
//
// Threads: any.
//
// # Safety
//
// `name` is null or ends in a NUL; `output` is null or may be written.
ForebayStatus forebay_batch_find(const struct ForebayBatch *batch,
                                 const char *name,
                                 size_t *output);

// Writes name and kind of an output, each if its pointer is not NULL. The name is valid until the batch is freed.
//
// Threads: any.
//
// # Safety
//
// `name` and `kind` are null or may be written.
ForebayStatus forebay_batch_output(const struct ForebayBatch *batch,
                                   size_t output,
                                   const char **name,
                                   ForebayKind *kind);

// Writes an output as a DLPack tensor, which shares the batch's memory and outlives the batch and the loader. The
// caller calls its deleter once. `stream` is DLPack's number of the stream that will read it, 0 for its default, -1
// for none; it is ignored for host memory.
//
// Threads: any.
//
// # Safety
//
// `tensor` is null or may be written.
ForebayStatus forebay_batch_tensor(const struct ForebayBatch *batch,
                                   size_t output,
                                   int64_t stream,
                                   struct DLManagedTensorVersioned **tensor);

// Writes where an output's elements are. They are valid until the batch is freed. On a CUDA device they are valid for
// work that comes after `forebay_batch_tensor` for its stream.
//
// Threads: any.
//
// # Safety
//
// `view` is null or may be written.
ForebayStatus forebay_batch_view(const struct ForebayBatch *batch,
                                 size_t output,
                                 struct ForebayTensorView *view);

// Writes one row of an output that is not a tensor. The bytes are valid until the batch is freed.
//
// Threads: any.
//
// # Safety
//
// `data` and `len` are null or may be written.
ForebayStatus forebay_batch_row(const struct ForebayBatch *batch,
                                size_t output,
                                size_t row,
                                const uint8_t **data,
                                size_t *len);

// Opens a data set to read single samples in any order. `config` is as in `forebay_loader_new`; only `streams`,
// `cache_limit` and `fetch` count. Every source of a loader is read, tars among them. Indexes are fetched or made as a
// loader does; shards are fetched and unpacked into the streams' folders when their first sample is read. A sample has
// the columns that are stored for it; a null of a table is none.
//
// Threads: any.
//
// # Safety
//
// `config` is null or ends in a NUL; `reader` is null or may be written.
ForebayStatus forebay_reader_new(const char *config,
                                 struct ForebayReader **reader);

// Frees a reader. NULL is fine, and so is a handle that has been freed.
//
// Threads: any. A call in progress on a different thread ends as usual.
void forebay_reader_free(struct ForebayReader *reader);

// Writes the number of samples of all streams.
//
// Threads: any.
//
// # Safety
//
// `samples` is null or may be written.
ForebayStatus forebay_reader_samples(const struct ForebayReader *reader, uint64_t *samples);

// Reads sample `number`, counted from 0 through the streams in their order, which `forebay_sample_free` frees.
//
// Threads: any; several can read at once.
//
// # Safety
//
// `sample` is null or may be written.
ForebayStatus forebay_reader_sample(const struct ForebayReader *reader,
                                    uint64_t number,
                                    struct ForebaySample **sample);

// Frees a sample. NULL is fine, and so is a handle that has been freed.
//
// Threads: any.
void forebay_sample_free(struct ForebaySample *sample);

// Writes the number of columns of a sample.
//
// Threads: any.
//
// # Safety
//
// `columns` is null or may be written.
ForebayStatus forebay_sample_columns(const struct ForebaySample *sample, size_t *columns);

// Writes the number of the column `name`.
//
// Threads: any.
//
// # Safety
//
// `name` is null or ends in a NUL; `column` is null or may be written.
ForebayStatus forebay_sample_find(const struct ForebaySample *sample,
                                  const char *name,
                                  size_t *column);

// Writes the value of a column. Its pointers are valid until the sample is freed.
//
// Threads: any.
//
// # Safety
//
// `value` is null or may be written.
ForebayStatus forebay_sample_value(const struct ForebaySample *sample,
                                   size_t column,
                                   struct ForebayValue *value);

// Starts a writer of MDS shards and their index, byte for byte as MosaicML streaming writes them. `config` is a JSON
// object, for example:
//
// ```json
// {"out": "/data/set", "columns": {"image": "jpeg", "class": "int"}, "hashes": ["xxh64"]}
// ```
//
// The default of each option is in brackets. Unknown names are an error.
//
// Options of a writer, the same as in Python's `MDSWriter`:
//
// * `out` (required): Folder to write to, new or empty: a path, or a folder of a store such as "s3://bucket/train".
// * `columns` (required): Encoding of each column by name, such as "bytes", "str", "int", "float32",
//   "ndarray:uint16:2048" or "jpeg".
// * `compression` (null): "zstd", "gz", "bz2", "br" or "snappy", optionally with a level ("zstd:7"). null: raw shards.
// * `hashes` ([]): Hashes to record, such as ["xxh64"]. Without one, damaged downloads are not noticed.
// * `size_limit` (67108864): Largest raw shard, in bytes or as "64mb". null: one shard.
// * `exist_ok` (false): Empty the folder if it is not empty, instead of an error.
// * `threads` (null): Threads that compress and write. null: the CPUs of this process.
// * `jpeg_row_index` (false): Append to each shard the positions of the rows of every JPEG in "jpeg" columns, for
//   faster crops.
// * `jpeg_transcode` (false): Rewrite progressive JPEGs of "jpeg" columns as baseline JPEGs with the same pixels and
//   markers.
//
// Threads: any.
//
// # Safety
//
// `config` is null or ends in a NUL; `writer` is null or may be written.
ForebayStatus forebay_writer_new(const char *config,
                                 struct ForebayWriter **writer);

// Frees a writer. NULL is fine, and so is a handle that has been freed. Without `forebay_writer_finish` the folder has
// no index, so it is not a data set.
//
// Threads: any. A call in progress on a different thread ends as usual.
void forebay_writer_free(struct ForebayWriter *writer);

// Adds a sample: `count` values, one for each column, in any order. Their memory is the caller's and is not used after
// the call. After FOREBAY_STATUS_INVALID or FOREBAY_STATUS_CONFIG the sample is not added, and writing can continue.
// After an error with a different status nothing more can be written.
//
// Threads: any; samples are added one at a time.
//
// # Safety
//
// `values` is null or points to `count` values, with pointers that are null or valid for the sizes of the values.
ForebayStatus forebay_writer_write(const struct ForebayWriter *writer,
                                   const struct ForebayValue *values,
                                   size_t count);

// Writes the last shard and the index. No sample can be written after it.
//
// Threads: any.
ForebayStatus forebay_writer_finish(const struct ForebayWriter *writer);

// Passes log lines up to `level`, a ForebayLogLevel, to `callback`; NULL ends that. When the call returns, the
// callback before it is not running and is not called again. A forked child has no callback until it sets one.
//
// The callback runs on the thread that logs, which is often a thread of the library, one call at a time. It must
// return soon, must not throw or `longjmp`, and must not wait for a thread that is in a call of this library.
// Functions of this library that it calls fail with FOREBAY_STATUS_INVALID.
//
// Threads: any.
//
// # Safety
//
// `callback` is null, or it and `context` are valid until the next callback is set, on all threads.
ForebayStatus forebay_log_set(uint32_t level,
                              ForebayLogCallback callback,
                              void *context);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FOREBAY_H */
