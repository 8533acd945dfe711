/* The C interface of forebay. Generated from ffi/src; do not edit. */

#ifndef FOREBAY_H
#define FOREBAY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Of dlpack.h, which only those who look into a tensor need. */
struct DLManagedTensorVersioned;

// How a call went. Everything but OK and END has a message in `forebay_last_error`.
typedef enum ForebayStatus {
  // Done.
  FOREBAY_STATUS_OK = 0,
  // The epoch is over.
  FOREBAY_STATUS_END = 1,
  // A null pointer, a handle that is not alive, text that is not UTF-8, or a number out of range.
  FOREBAY_STATUS_INVALID = 2,
  // An argument or a combination of arguments is wrong: change it.
  FOREBAY_STATUS_CONFIG = 3,
  // A file, object or sample does not exist.
  FOREBAY_STATUS_NOT_FOUND = 4,
  // The store or the file system refuses access.
  FOREBAY_STATUS_PERMISSION = 5,
  // The network failed.
  FOREBAY_STATUS_NETWORK = 6,
  // Nothing arrived for longer than the time that was set.
  FOREBAY_STATUS_TIMEOUT = 7,
  // Bytes do not match their recorded size or hash.
  FOREBAY_STATUS_CHECKSUM = 8,
  // Bytes are not what their format says.
  FOREBAY_STATUS_FORMAT = 9,
  // A sample cannot be decoded into the fields that were asked for.
  FOREBAY_STATUS_DECODE = 10,
  // Something that this build or this machine does not have.
  FOREBAY_STATUS_UNSUPPORTED = 11,
  // No room: disk, memory limit, locked-memory limit.
  FOREBAY_STATUS_FULL = 12,
  // A checkpoint does not belong to this data set and these arguments.
  FOREBAY_STATUS_STATE = 13,
  // The remote index changed since the cache was filled.
  FOREBAY_STATUS_STALE = 14,
  // A system call failed for another reason.
  FOREBAY_STATUS_IO = 15,
  // The loader was closed, no epoch is under way, or this is a forked child.
  FOREBAY_STATUS_CLOSED = 16,
  // A fault of the library: please report it.
  FOREBAY_STATUS_INTERNAL = 17,
} ForebayStatus;

// What an output holds.
typedef enum ForebayKind {
  // Rows of equal shape, stacked: `forebay_batch_tensor`.
  FOREBAY_KIND_TENSOR = 0,
  // UTF-8 text of each row, without a NUL at its end: `forebay_batch_row`.
  FOREBAY_KIND_TEXT = 1,
  // Bytes of each row: `forebay_batch_row`.
  FOREBAY_KIND_BYTES = 2,
  // An array of its own shape for each row, in the encoding of an MDS `ndarray`: `forebay_batch_row`.
  FOREBAY_KIND_RAGGED = 3,
} ForebayKind;

// One batch. Free it with `forebay_batch_free`; tensors taken from it live on their own.
typedef struct ForebayBatch ForebayBatch;

// A loader. All its functions may be called from any thread; free it with `forebay_loader_free`.
typedef struct ForebayLoader ForebayLoader;

// What stands for a batch, and what one output is called and holds.
typedef struct ForebayBatchInfo {
  // Epoch it belongs to.
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

// What went wrong in this thread's last call that failed; "" before the first. Valid until this thread's next failure.
const char *forebay_last_error(void);

// Frees a string that a `char **` of this interface received. NULL is fine.
//
// # Safety
//
// `string` is null or comes from this library and has not been freed.
void forebay_string_free(char *string);

// Opens a data set. `config` is a JSON object whose names, meanings and defaults are those of the Python `Loader`:
// `{"streams": [{"remote": "s3://bucket/set", "local": "/cache"}], "batch_size": 256, "shuffle": true}`.
// `device` is where batches go: NULL or "cpu", "cuda:0" for that CUDA device, "cuda" for the one of the world's local rank.
//
// # Safety
//
// `config` and `device` are null or end in a NUL; `loader` is null or may be written.
enum ForebayStatus forebay_loader_new(const char *config,
                                      const char *device,
                                      struct ForebayLoader **loader);

// Ends the epoch under way and frees the loader. Batches that were handed out stay valid. NULL is fine, and so is a
// handle that has been freed.
void forebay_loader_free(struct ForebayLoader *loader);

// Ends the epoch under way, if there is one, and begins the next, or the position that was loaded.
enum ForebayStatus forebay_loader_start_epoch(const struct ForebayLoader *loader);

// Waits for the next batch, which `forebay_batch_free` frees. At the epoch's end the answer is FOREBAY_STATUS_END and
// `batch` receives NULL.
//
// # Safety
//
// `batch` is null or may be written.
enum ForebayStatus forebay_loader_next(const struct ForebayLoader *loader,
                                       struct ForebayBatch **batch);

// The position after the batches handed out so far, as JSON that `forebay_loader_load_state` takes.
//
// # Safety
//
// `state` is null or may be written.
enum ForebayStatus forebay_loader_state(const struct ForebayLoader *loader, char **state);

// Makes the next epoch resume `state`, and ends the epoch under way. With `strict`, arguments that would change the
// order are refused with FOREBAY_STATUS_STATE.
//
// # Safety
//
// `state` is null or ends in a NUL.
enum ForebayStatus forebay_loader_load_state(const struct ForebayLoader *loader,
                                             const char *state,
                                             bool strict);

// The figures so far as JSON: `elapsed` and, for each of `stages`, `busy`, `input` and `output` in seconds, `items` and
// `bytes`; `counters` by name; `notes`.
//
// # Safety
//
// `stats` is null or may be written.
enum ForebayStatus forebay_loader_stats(const struct ForebayLoader *loader,
                                        char **stats);

// Frees a batch. NULL is fine, and so is a handle that has been freed.
void forebay_batch_free(struct ForebayBatch *batch);

// What batch this is and how large.
//
// # Safety
//
// `info` is null or may be written.
enum ForebayStatus forebay_batch_info(const struct ForebayBatch *batch,
                                      struct ForebayBatchInfo *info);

// The number of the output called `name`.
//
// # Safety
//
// `name` is null or ends in a NUL; `output` is null or may be written.
enum ForebayStatus forebay_batch_find(const struct ForebayBatch *batch,
                                      const char *name,
                                      size_t *output);

// Name and kind of an output, each if its place is not NULL. The name is valid until the batch is freed.
//
// # Safety
//
// `name` and `kind` are null or may be written.
enum ForebayStatus forebay_batch_output(const struct ForebayBatch *batch,
                                        size_t output,
                                        const char **name,
                                        enum ForebayKind *kind);

// An output as a DLPack tensor, which shares the batch's memory and outlives the batch and the loader. The caller
// calls its deleter once. `stream` is DLPack's number of the stream that will read it, 0 for its default, -1 for none;
// host memory does not look at it.
//
// # Safety
//
// `tensor` is null or may be written.
enum ForebayStatus forebay_batch_tensor(const struct ForebayBatch *batch,
                                        size_t output,
                                        int64_t stream,
                                        struct DLManagedTensorVersioned **tensor);

// One row of an output that is not a tensor. The bytes are valid until the batch is freed.
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
