/* The C interface of forebay. Generated from ffi/src; do not edit. */

#ifndef FOREBAY_H
#define FOREBAY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Defined in dlpack.h, which is needed only to access a tensor's fields. */
struct DLManagedTensorVersioned;

// Result of a call. Every status except OK and END has a message in `forebay_last_error`.
typedef enum ForebayStatus {
  // Done.
  FOREBAY_STATUS_OK = 0,
  // End of the epoch.
  FOREBAY_STATUS_END = 1,
  // A null pointer, a handle that is not live, text that is not UTF-8, or a number out of range.
  FOREBAY_STATUS_INVALID = 2,
  // An argument or a combination of arguments is wrong.
  FOREBAY_STATUS_CONFIG = 3,
  // A file, object or sample does not exist.
  FOREBAY_STATUS_NOT_FOUND = 4,
  // The store or the file system refuses access.
  FOREBAY_STATUS_PERMISSION = 5,
  // The network failed.
  FOREBAY_STATUS_NETWORK = 6,
  // Too few bytes arrived within `download_timeout`, or nothing changed for `stall_timeout`.
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
  // A system call failed for another reason.
  FOREBAY_STATUS_IO = 15,
  // The loader is closed, no epoch is in progress, or this is a forked child.
  FOREBAY_STATUS_CLOSED = 16,
  // A bug in the library: please report it.
  FOREBAY_STATUS_INTERNAL = 17,
} ForebayStatus;

// Kind of an output.
typedef enum ForebayKind {
  // Rows of equal shape, stacked: `forebay_batch_tensor`.
  FOREBAY_KIND_TENSOR = 0,
  // UTF-8 text of each row, without a NUL at its end: `forebay_batch_row`.
  FOREBAY_KIND_TEXT = 1,
  // Bytes of each row: `forebay_batch_row`.
  FOREBAY_KIND_BYTES = 2,
  // An array with its own shape for each row, in the encoding of an MDS `ndarray`: `forebay_batch_row`.
  FOREBAY_KIND_RAGGED = 3,
} ForebayKind;

// One batch. Free it with `forebay_batch_free`; tensors taken from it outlive it.
typedef struct ForebayBatch ForebayBatch;

// A loader. Its functions may be called from any thread; free it with `forebay_loader_free`.
typedef struct ForebayLoader ForebayLoader;

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

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Message of this thread's last failed call; "" before the first. Valid until this thread's next failure.
const char *forebay_last_error(void);

// Frees a string that a `char **` of this interface received. NULL is fine.
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
//   "memory": "64mb",
//   "world": {"rank": 0, "world_size": 1, "local_rank": 0, "local_world_size": 1}
// }
// ```
//
// The default of each option is in brackets. Unknown names are an error. An error contains its place in the document,
// such as `streams[0].choose`. Sizes are bytes, as a number or as text such as `"2gb"` in powers of 1,024. The options
// are those of the Python `Loader`, which makes this document.
//
// Data and batches:
//
// * `streams` (required): a list of objects, each with `remote` (null), a URL or path, `local` (null), a folder on
//   disk, or both; `split` (null), a sub-folder of both; at most one of `proportion` (null), `repeat` (null) and
//   `choose` (null), the weight in the mix; and `download_retry` (null), `download_timeout` (null), `validate_hash`
//   (null) and `keep_zip` (null) where they are not the loader's.
// * `fields` (null): a list of pairs of an output's name and a field, in the outputs' order; null is every column
//   under its own name.
// * `batch_size` (required): Rows of a batch on each device.
// * `drop_last` (false): Leave out a last batch that is not full.
// * `mark_repeats` (false): Add a bool output `repeat`, true for rows that only make ranks equally long.
// * `device_decode` (false): Decode baseline JPEGs on the CUDA device (nvJPEG), whose grey levels may differ by a few.
// * `share_decode` (false): With `device_decode`, idle decode threads take pictures too; grey levels may vary between
//   runs.
// * `gpu_direct_storage` (false): Read stored rows of 4 KiB or more from local disk into CUDA memory (cuFile).
// * `on_error` ("raise"): Reaction to a sample that cannot be read or decoded: "raise", or "skip" to leave it out.
// * `max_errors` (0): Samples per epoch and rank that "skip" may leave out.
// * `allow_unsafe_types` (false): Accept columns of Python pickles; they are delivered as bytes.
//
// Order, equal on all ranks:
//
// * `shuffle` (false): Shuffle samples, differently in each epoch.
// * `shuffle_seed` (9176): Seed of the order.
// * `augment_seed` (null): Seed of random crops and flips. null: `shuffle_seed`.
// * `shuffle_algo` ("py1e"): Shuffle algorithm: "py1e", "py1br", "py1s", "py2s" or "naive".
// * `shuffle_block_size` (null): Samples that are shuffled together. null: max(4,000,000 / canonical nodes, 262,144).
// * `partition_algo` ("relaxed"): Partition algorithm: "relaxed" or "orig".
// * `num_canonical_nodes` (null): Nodes that define the order. null: this job's nodes, or 64 times as many for py1s
//   and py2s.
// * `epoch_size` (null): Samples of an epoch. null: the sum of the streams' shares.
// * `sampling_method` ("balanced"): Sampling of stream shares: "balanced" draws again in each epoch, "fixed" draws
//   once.
// * `sampling_granularity` (1): Samples that are drawn together.
// * `batching_method` ("random"): Mix of streams in a batch: "random", "stratified", "per_stream" or
//   "device_per_stream".
// * `replication` (null): Number of consecutive ranks that get the same samples.
// * `world`: this process, `rank` (0) of `world_size` (1), and on its node `local_rank` (0) of `local_world_size` (1).
//   The environment is not read.
//
// Threads, memory and disk:
//
// * `threads` (null): Decode threads. null: the CPUs of this process, shared with the node's other ranks.
// * `pin_threads` (false): Bind each decode thread to one CPU.
// * `prefetch` (null): Batches made ahead. null: 3, and more of batches below 2 MiB: as many as 8 MiB hold, at most
//   31.
// * `predownload` (null): Samples whose shards are fetched ahead. null: enough for `prefetch` batches, at least 8
//   batches.
// * `memory` (null): Bytes for batches and encoded samples, as a number or "2gb". null: a share of the machine's
//   memory.
// * `sample_bytes_max` (1073741824): Largest sample that is read, in bytes or as "1gb".
// * `mmap` (false): Copy samples of up to 16 KiB from memory maps; a failing disk then ends the process with SIGBUS.
// * `cache_limit` (null): Bytes on disk of the shards and indexes of all streams, as a number or "100gb". null: no limit.
// * `keep_zip` (false): Keep compressed shards next to the unpacked ones.
// * `validate_hash` (null): Hash to match when a shard is fetched or unpacked, such as "xxh64". null: the cheapest in the index.
// * `fetch_threads` (null): Threads that talk to the store. null: one per 4 CPUs.
// * `download_retry` (2): Total attempts per download.
// * `download_timeout` (60.0): Seconds for an answer to begin, and for each 16 KiB of it, before an attempt fails.
// * `stall_timeout` (600.0): Seconds without progress before the next batch fails with an error.
// * `trace` (false): Record every timed span for `trace_json`.
//
// A field is an object with its `kind` and, except for `joint`, the `column` that it reads:
//
// * `image`: `ops` (none), a list of operations; `dtype` ("uint8"), or "float16", "bfloat16", "float32"; `layout`
//   ("NCHW"), or "NHWC"; `tolerant` (false) of damaged JPEGs; `apply_exif_orientation` (false); `scaled_decode`
//   (false): decode JPEGs at a half, a quarter or an eighth if the first resize reduces both sides by at least that
//   factor. This is not exact; pictures that a CUDA device decodes are exact.
// * `mask`: labels; `ops` (none); `dtype` ("int64").
// * `scalar`: a number; `dtype` (null: the column's).
// * `tokens`: `length` (required); `dtype` ("int64"); `pad` (null), the id that fills short rows; `stored` (null), the
//   type of the ids in a column of bytes.
// * `array`: `dtype` (null: the column's).
// * `text`, `json`, `bytes`: the stored value.
// * `joint`: `fields`, images and masks as above, which share their random draws.
//
// An operation is an object with its `op`; sizes are `[height, width]` in pixels:
//
// * `random_resized_crop`: `size`, `scale` (`[0.08, 1.0]`), `ratio` (`[0.75, 1.3333]`).
// * `random_horizontal_flip`: `p` (0.5).
// * `resize`: `size`, where one number is the shorter side. `center_crop`: `size`.
// * `normalize`, the last: `mean` and `std`, three numbers each for values from 0 to 1.
//
// # Safety
//
// `config` and `device` are null or end in a NUL; `loader` is null or may be written.
enum ForebayStatus forebay_loader_new(const char *config,
                                      const char *device,
                                      struct ForebayLoader **loader);

// Ends the current epoch and frees the loader. Delivered batches stay valid. NULL is fine, and so is a freed handle.
void forebay_loader_free(struct ForebayLoader *loader);

// Ends the current epoch, if there is one, and starts the next, or resumes the loaded position.
enum ForebayStatus forebay_loader_start_epoch(const struct ForebayLoader *loader);

// Waits for the next batch, which `forebay_batch_free` frees. At the end of the epoch returns FOREBAY_STATUS_END and
// writes NULL to `batch`.
//
// # Safety
//
// `batch` is null or may be written.
enum ForebayStatus forebay_loader_next(const struct ForebayLoader *loader,
                                       struct ForebayBatch **batch);

// Writes the position after the batches delivered so far, as JSON for `forebay_loader_load_state`.
//
// # Safety
//
// `state` is null or may be written.
enum ForebayStatus forebay_loader_state(const struct ForebayLoader *loader, char **state);

// Ends the current epoch and makes the next one resume `state`. With `strict`, arguments that would change the order
// give FOREBAY_STATUS_STATE.
//
// # Safety
//
// `state` is null or ends in a NUL.
enum ForebayStatus forebay_loader_load_state(const struct ForebayLoader *loader,
                                             const char *state,
                                             bool strict);

// Writes the figures so far as JSON: `elapsed` and, for each of `stages`, `busy`, `input` and `output` in seconds,
// `items` and `bytes`; `counters` by name; `notes`.
//
// # Safety
//
// `stats` is null or may be written.
enum ForebayStatus forebay_loader_stats(const struct ForebayLoader *loader,
                                        char **stats);

// Frees a batch. NULL is fine, and so is a handle that has been freed.
void forebay_batch_free(struct ForebayBatch *batch);

// Writes position and size of a batch to `info`.
//
// # Safety
//
// `info` is null or may be written.
enum ForebayStatus forebay_batch_info(const struct ForebayBatch *batch,
                                      struct ForebayBatchInfo *info);

// Writes the number of the output `name` to `output`.
//
// # Safety
//
// `name` is null or ends in a NUL; `output` is null or may be written.
enum ForebayStatus forebay_batch_find(const struct ForebayBatch *batch,
                                      const char *name,
                                      size_t *output);

// Writes name and kind of an output, each if its pointer is not NULL. The name is valid until the batch is freed.
//
// # Safety
//
// `name` and `kind` are null or may be written.
enum ForebayStatus forebay_batch_output(const struct ForebayBatch *batch,
                                        size_t output,
                                        const char **name,
                                        enum ForebayKind *kind);

// Writes an output as a DLPack tensor, which shares the batch's memory and outlives the batch and the loader. The
// caller calls its deleter once. `stream` is DLPack's number of the stream that will read it, 0 for its default, -1
// for none; it is ignored for host memory.
//
// # Safety
//
// `tensor` is null or may be written.
enum ForebayStatus forebay_batch_tensor(const struct ForebayBatch *batch,
                                        size_t output,
                                        int64_t stream,
                                        struct DLManagedTensorVersioned **tensor);

// Writes one row of an output that is not a tensor. The bytes are valid until the batch is freed.
//
// # Safety
//
// `data` and `len` are null or may be written.
enum ForebayStatus forebay_batch_row(const struct ForebayBatch *batch,
                                     size_t output,
                                     size_t row,
                                     const uint8_t **data,
                                     size_t *len);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FOREBAY_H */
