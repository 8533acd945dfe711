/* Every wrong call gets a status and a message: mistakes CONFIG.json FOLDER, with the data of interface.c. FOLDER is
 * an empty folder to write to. */
#include "check.h"

#define INVALID(call, text) FAILS(call, FOREBAY_STATUS_INVALID, text)

static const char *config;

/* Every function with the handle `bad`, which the message describes as `text`. */
static void every_function(void *bad, ForebayStatus status, const char *text) {
    ForebayBatch *batch = NULL;
    ForebaySample *sample = NULL;
    ForebayBatchInfo info;
    ForebayTensorView view;
    ForebayValue value;
    ForebayKind kind;
    const char *name = NULL;
    char *out = NULL;
    const uint8_t *data = NULL;
    size_t n = 0;
    uint64_t number = 0;
    struct DLManagedTensorVersioned *tensor = NULL;
    FAILS(forebay_loader_start_epoch(bad), status, text);
    FAILS(forebay_loader_end_epoch(bad), status, text);
    FAILS(forebay_loader_next(bad, &batch), status, text);
    FAILS(forebay_loader_next_within(bad, 0, &batch), status, text);
    FAILS(forebay_loader_epoch(bad, &number), status, text);
    FAILS(forebay_loader_batches(bad, &number), status, text);
    FAILS(forebay_loader_samples(bad, &number), status, text);
    FAILS(forebay_loader_state(bad, &out), status, text);
    FAILS(forebay_loader_load_state(bad, "{}", 1), status, text);
    FAILS(forebay_loader_stats(bad, &out), status, text);
    FAILS(forebay_loader_metrics(bad, &out), status, text);
    FAILS(forebay_loader_trace(bad, &out), status, text);
    FAILS(forebay_batch_info(bad, &info), status, text);
    FAILS(forebay_batch_find(bad, "tokens", &n), status, text);
    FAILS(forebay_batch_output(bad, 0, &name, &kind), status, text);
    FAILS(forebay_batch_view(bad, 0, &view), status, text);
    FAILS(forebay_batch_tensor(bad, 0, 0, &tensor), status, text);
    FAILS(forebay_batch_row(bad, 0, 0, &data, &n), status, text);
    FAILS(forebay_reader_samples(bad, &number), status, text);
    FAILS(forebay_reader_sample(bad, 0, &sample), status, text);
    FAILS(forebay_sample_columns(bad, &n), status, text);
    FAILS(forebay_sample_find(bad, "tokens", &n), status, text);
    FAILS(forebay_sample_value(bad, 0, &value), status, text);
    FAILS(forebay_writer_write(bad, NULL, 0), status, text);
    FAILS(forebay_writer_finish(bad), status, text);
    CHECK(batch == NULL && sample == NULL && out == NULL && tensor == NULL && name == NULL && data == NULL);
    forebay_loader_free(bad);
    forebay_batch_free(bad);
    forebay_reader_free(bad);
    forebay_sample_free(bad);
    forebay_writer_free(bad);
}

static void wrong_handles(void) {
    every_function(NULL, FOREBAY_STATUS_INVALID, "NULL");
    int garbage = 0;
    every_function(&garbage, FOREBAY_STATUS_INVALID, "not a live");
    every_function((void *)~(uintptr_t)0, FOREBAY_STATUS_INVALID, "not a live");
    every_function((void *)(uintptr_t)1, FOREBAY_STATUS_INVALID, "not a live");
    forebay_string_free(NULL);
}

/* Options in a wrong object or with a wrong name: the message has the document to write. */
static void options_elsewhere(void) {
    static const struct {
        const char *config, *message;
    } cases[] = {
        {"{\"remote\": \"x\"}", "`remote` is an option of a stream, as in {\"streams\": [{\"remote\": ...}]}"},
        {"{\"shuffle_algo\": \"py1s\"}", "`shuffle_algo` is an option of `order`, as in {\"order\": {\"shuffle_algo\": ...}}"},
        {"{\"memory\": 1}", "`memory` is an option of `engine`, as in {\"engine\": {\"memory\": ...}}"},
        {"{\"rank\": 1}", "`rank` is an option of `world`, as in {\"world\": {\"rank\": ...}}"},
        {"{\"order\": {\"keep_zip\": true}}", "`keep_zip` is an option of `fetch`, as in {\"fetch\": {\"keep_zip\": ...}}"},
        {"{\"engine\": {\"batch_size\": 1}}", "`batch_size` is an option of the loader itself, as in {\"batch_size\": ...}"},
        {"{\"streams\": [{\"subset\": \"0:9\"}]}",
         "`subset` is an option of `select`, as in {\"streams\": [{\"select\": {\"subset\": ...}}]}"},
        {"{\"shuffle_seed\": 1}", "`shuffle_seed` is not an option: write {\"seed\": ...}"},
        {"{\"mark_repeats\": true}", "`mark_repeats` is not an option: write {\"extra\": [\"repeat\"]}"},
        {"{\"window_stride\": 8}", "`window_stride` is not an option: write {\"window\": {\"tokens\": ..., \"stride\": ...}}"},
        {"{\"download_retry\": 1}", "`download_retry` is not an option: write {\"fetch\": {\"retry\": ...}}"},
        {"{\"on_error\": \"skip\"}", "`on_error` is not an option: write {\"skip\": {\"errors\": ...}}"},
        {"{\"order\": {\"shufle_algo\": 1}}", "order.shufle_algo: unknown field `shufle_algo`: did you mean `shuffle_algo`?"},
        {"{\"skip\": {\"errors\": \"many\"}}", "skip.errors: invalid type"},
        {"{\"extra\": [\"keys\"]}", "extra[0]: unknown variant `keys`, expected one of `repeat`"},
        {"{\"window\": \"long\"}", "window: invalid type: string \"long\", expected a number of tokens, or an object"},
    };
    ForebayLoader *loader = NULL;
    ForebayReader *reader = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FAILS(forebay_loader_new(cases[i].config, NULL, &loader), FOREBAY_STATUS_CONFIG, cases[i].message);
        FAILS(forebay_reader_new(cases[i].config, &reader), FOREBAY_STATUS_CONFIG, cases[i].message);
    }
    CHECK(loader == NULL && reader == NULL);
}

static void wrong_configurations(void) {
    ForebayLoader *loader = NULL;
    INVALID(forebay_loader_new(NULL, NULL, &loader), "config is NULL");
    INVALID(forebay_loader_new(config, NULL, NULL), "loader is NULL");
    INVALID(forebay_loader_new("\xff\xfe", NULL, &loader), "not UTF-8");
    INVALID(forebay_loader_new(config, "\xff", &loader), "device is not UTF-8");
    FAILS(forebay_loader_new("", NULL, &loader), FOREBAY_STATUS_CONFIG, "EOF");
    FAILS(forebay_loader_new("{\"batch\": 1}", NULL, &loader), FOREBAY_STATUS_CONFIG, "batch");
    FAILS(forebay_loader_new("{\"batchsize\": 1}", NULL, &loader), FOREBAY_STATUS_CONFIG, "did you mean `batch_size`?");
    FAILS(forebay_loader_new("{}", NULL, &loader), FOREBAY_STATUS_CONFIG, "name at least one stream");
    FAILS(forebay_loader_new("[]", NULL, &loader), FOREBAY_STATUS_CONFIG, "expected an object");
    FAILS(forebay_loader_new("{\"streams\": [[]]}", NULL, &loader), FOREBAY_STATUS_CONFIG, "expected an object");
    FAILS(forebay_loader_new("{\"streams\": [{\"choose\": \"x\"}]}", NULL, &loader), FOREBAY_STATUS_CONFIG, "streams[0].choose");
    FAILS(forebay_loader_new("{\"streams\": [{\"local\": \"/nowhere\"}], \"batch_size\": 1}", NULL, &loader),
          FOREBAY_STATUS_NOT_FOUND, "/nowhere");
    /* The facts of the error, apart. */
    CHECK(strstr(forebay_last_error_json(), "\"status\":\"not_found\",\"code\":4") != NULL);
    CHECK(strstr(forebay_last_error_json(), "\"stream\":\"/nowhere\"") != NULL);
    FAILS(forebay_loader_new(config, "tpu", &loader), FOREBAY_STATUS_CONFIG, "tpu");
    CHECK(loader == NULL);
    ForebayReader *reader = NULL;
    INVALID(forebay_reader_new(NULL, &reader), "config is NULL");
    INVALID(forebay_reader_new(config, NULL), "reader is NULL");
    FAILS(forebay_reader_new("{}", &reader), FOREBAY_STATUS_CONFIG, "there is no data");
    FAILS(forebay_reader_new("{\"streams\": [{\"local\": \"/nowhere\"}]}", &reader), FOREBAY_STATUS_NOT_FOUND, "/nowhere");
    ForebayWriter *writer = NULL;
    INVALID(forebay_writer_new(NULL, &writer), "config is NULL");
    INVALID(forebay_writer_new("{}", NULL), "writer is NULL");
    FAILS(forebay_writer_new("{}", &writer), FOREBAY_STATUS_CONFIG, "`out` is required");
    FAILS(forebay_writer_new("{\"out\": \"ftp://b/c\", \"columns\": {\"a\": \"int\"}}", &writer), FOREBAY_STATUS_CONFIG,
          "unknown scheme");
    FAILS(forebay_writer_new("{\"out\": \"x\"}", &writer), FOREBAY_STATUS_CONFIG, "`columns` is required");
    FAILS(forebay_writer_new("{\"out\": \"x\", \"columns\": {\"a\": \"b\"}}", &writer), FOREBAY_STATUS_CONFIG, "column a");
    FAILS(forebay_writer_new("{\"out\": \"x\", \"columns\": {\"a\": \"int\"}, \"threads\": 0}", &writer),
          FOREBAY_STATUS_CONFIG, "threads");
    FAILS(forebay_writer_new("{\"out\": \"x\", \"columns\": {\"a\": \"int\"}, \"jpeg_row_index\": true}", &writer),
          FOREBAY_STATUS_CONFIG, "jpeg");
    FAILS(forebay_writer_new("{\"out\": \"x\", \"columns\": {\"a\": \"int\"}, \"size_limit\": []}", &writer),
          FOREBAY_STATUS_CONFIG, "size_limit");
    CHECK(reader == NULL && writer == NULL);
}

static void wrong_calls_of_a_loader(void) {
    ForebayLoader *loader = NULL;
    OK(forebay_loader_new(config, "cpu", &loader));
    ForebayBatch *batch = NULL;
    FAILS(forebay_loader_next(loader, &batch), FOREBAY_STATUS_CLOSED, "start_epoch");
    INVALID(forebay_loader_next(loader, NULL), "batch is NULL");
    INVALID(forebay_loader_next_within(loader, 0, NULL), "batch is NULL");
    INVALID(forebay_loader_epoch(loader, NULL), "epoch is NULL");
    INVALID(forebay_loader_batches(loader, NULL), "batches is NULL");
    INVALID(forebay_loader_samples(loader, NULL), "samples is NULL");
    INVALID(forebay_loader_state(loader, NULL), "state is NULL");
    INVALID(forebay_loader_stats(loader, NULL), "stats is NULL");
    INVALID(forebay_loader_metrics(loader, NULL), "metrics is NULL");
    INVALID(forebay_loader_trace(loader, NULL), "trace is NULL");
    INVALID(forebay_loader_load_state(loader, NULL, 1), "state is NULL");
    INVALID(forebay_loader_load_state(loader, "\xff", 1), "not UTF-8");
    INVALID(forebay_loader_load_state(loader, "{}", 2), "strict is 2: pass 0 or 1");
    FAILS(forebay_loader_load_state(loader, "{}", 1), FOREBAY_STATUS_STATE, "");
    FAILS(forebay_loader_load_state(loader, "[", 0), FOREBAY_STATUS_STATE, "");
    INVALID(forebay_batch_info((ForebayBatch *)loader, &(ForebayBatchInfo){0}), "a different kind");
    forebay_loader_free(loader);
    every_function(loader, FOREBAY_STATUS_INVALID, "freed");
}

static void wrong_calls_of_a_batch(void) {
    ForebayLoader *loader = NULL;
    ForebayBatch *batch = NULL;
    OK(forebay_loader_new(config, NULL, &loader));
    OK(forebay_loader_start_epoch(loader));
    OK(forebay_loader_next(loader, &batch));
    forebay_loader_free(loader);
    const char *name = NULL;
    const uint8_t *data = NULL;
    size_t n = 0;
    ForebayTensorView view;
    struct DLManagedTensorVersioned *tensor = NULL;
    INVALID(forebay_batch_info(batch, NULL), "info is NULL");
    INVALID(forebay_batch_find(batch, NULL, &n), "name is NULL");
    INVALID(forebay_batch_find(batch, "tokens", NULL), "output is NULL");
    INVALID(forebay_batch_find(batch, "token", &n), "there are tokens");
    INVALID(forebay_batch_find(batch, "\xff", &n), "not UTF-8");
    INVALID(forebay_batch_output(batch, 1, &name, NULL), "there is no output 1");
    OK(forebay_batch_output(batch, 0, NULL, NULL));
    INVALID(forebay_batch_view(batch, 0, NULL), "view is NULL");
    INVALID(forebay_batch_view(batch, SIZE_MAX, &view), "there is no output");
    INVALID(forebay_batch_tensor(batch, 0, 0, NULL), "tensor is NULL");
    INVALID(forebay_batch_tensor(batch, 1, 0, &tensor), "there is no output");
    INVALID(forebay_batch_row(batch, 0, 0, &data, &n), "forebay_batch_view");
    INVALID(forebay_batch_row(batch, 0, 0, NULL, &n), "data is NULL");
    INVALID(forebay_batch_row(batch, 0, 0, &data, NULL), "len is NULL");
    forebay_batch_free(batch);
    every_function(batch, FOREBAY_STATUS_INVALID, "freed");
}

static void wrong_calls_of_a_reader(void) {
    ForebayReader *reader = NULL;
    OK(forebay_reader_new(config, &reader));
    ForebaySample *sample = NULL;
    ForebayValue value;
    size_t n = 0;
    INVALID(forebay_reader_samples(reader, NULL), "samples is NULL");
    INVALID(forebay_reader_sample(reader, 0, NULL), "sample is NULL");
    FAILS(forebay_reader_sample(reader, 50, &sample), FOREBAY_STATUS_NOT_FOUND, "no such sample");
    FAILS(forebay_reader_sample(reader, UINT64_MAX, &sample), FOREBAY_STATUS_NOT_FOUND, "no such sample");
    CHECK(strstr(forebay_last_error_json(), "\"samples\":\"50\"") != NULL);
    OK(forebay_reader_sample(reader, 49, &sample));
    forebay_reader_free(reader);
    every_function(reader, FOREBAY_STATUS_INVALID, "freed");
    INVALID(forebay_sample_columns(sample, NULL), "columns is NULL");
    INVALID(forebay_sample_find(sample, NULL, &n), "name is NULL");
    INVALID(forebay_sample_find(sample, "token", &n), "there are tokens");
    INVALID(forebay_sample_find(sample, "tokens", NULL), "column is NULL");
    INVALID(forebay_sample_value(sample, 1, &value), "there is no column 1");
    INVALID(forebay_sample_value(sample, 0, NULL), "value is NULL");
    forebay_sample_free(sample);
    every_function(sample, FOREBAY_STATUS_INVALID, "freed");
}

static void wrong_calls_of_a_writer(const char *folder) {
    char options[1 << 12];
    snprintf(options, sizeof options,
             "{\"out\": \"%s\", \"columns\": {\"array\": \"ndarray\", \"int\": \"int\", \"json\": \"json\", \"pil\": \"pil\","
             " \"u8\": \"uint8\"}}",
             folder);
    ForebayWriter *writer = NULL, *second = NULL;
    OK(forebay_writer_new(options, &writer));
    const uint64_t shape[2] = {1, 2}, huge[2] = {UINT64_MAX, 2};
    const uint8_t bytes[4] = {1, 2, 3, 4};
    const ForebayValue good[5] = {
        {.column = "int", .kind = FOREBAY_VALUE_KIND_INT, .integer = -7},
        {.column = "u8", .kind = FOREBAY_VALUE_KIND_SCALAR, .type_name = "uint8", .data = bytes, .len = 1},
        {.column = "json", .kind = FOREBAY_VALUE_KIND_JSON, .data = (const uint8_t *)"[]", .len = 2},
        {.column = "array", .kind = FOREBAY_VALUE_KIND_ARRAY, .type_name = "uint16", .ndim = 2, .shape = shape, .data = bytes, .len = 4},
        {.column = "pil", .kind = FOREBAY_VALUE_KIND_PIXELS, .type_name = "L", .ndim = 2, .shape = shape, .data = bytes, .len = 2},
    };
    INVALID(forebay_writer_write(writer, NULL, 5), "values is NULL");
    INVALID(forebay_writer_write(writer, good, SIZE_MAX), "impossible length");
    INVALID(forebay_writer_write(writer, (const ForebayValue *)((const char *)good + 1), 1), "not aligned");
    FAILS(forebay_writer_write(writer, good, 4), FOREBAY_STATUS_CONFIG, "no value (column pil)");
    FAILS(forebay_writer_write(writer, good, 0), FOREBAY_STATUS_CONFIG, "no value");
    /* Each of them replaces the good value of that number. */
    const struct { int index; ForebayStatus status; const char *text; ForebayValue value; } wrong[] = {
        {0, FOREBAY_STATUS_INVALID, "column is NULL", {.column = NULL}},
        {0, FOREBAY_STATUS_INVALID, "column is not UTF-8", {.column = "\xff"}},
        {0, FOREBAY_STATUS_CONFIG, "there is no column `x`", {.column = "x"}},
        {0, FOREBAY_STATUS_CONFIG, "two values", {.column = "u8", .kind = FOREBAY_VALUE_KIND_INT}},
        {0, FOREBAY_STATUS_INVALID, "no kind 10", {.column = "int", .kind = 10}},
        {0, FOREBAY_STATUS_CONFIG, "column int", {.column = "int", .kind = FOREBAY_VALUE_KIND_FLOAT}},
        {0, FOREBAY_STATUS_CONFIG, "column int", {.column = "int", .kind = FOREBAY_VALUE_KIND_BYTES, .data = bytes, .len = 4}},
        {0, FOREBAY_STATUS_INVALID, "data is NULL", {.column = "int", .kind = FOREBAY_VALUE_KIND_BYTES, .len = 4}},
        {0, FOREBAY_STATUS_INVALID, "impossible length", {.column = "int", .data = bytes, .len = SIZE_MAX}},
        {0, FOREBAY_STATUS_INVALID, "not UTF-8", {.column = "int", .kind = FOREBAY_VALUE_KIND_TEXT, .data = (const uint8_t *)"\xff", .len = 1}},
        {1, FOREBAY_STATUS_CONFIG, "column u8", {.column = "u8", .kind = FOREBAY_VALUE_KIND_INT, .integer = 256}},
        {1, FOREBAY_STATUS_INVALID, "type_name is NULL", {.column = "u8", .kind = FOREBAY_VALUE_KIND_SCALAR, .data = bytes, .len = 1}},
        {1, FOREBAY_STATUS_INVALID, "are not one uint8", {.column = "u8", .kind = FOREBAY_VALUE_KIND_SCALAR, .type_name = "uint8", .data = bytes, .len = 2}},
        {1, FOREBAY_STATUS_CONFIG, "`int7` is not a type", {.column = "u8", .kind = FOREBAY_VALUE_KIND_SCALAR, .type_name = "int7", .data = bytes, .len = 1}},
        {2, FOREBAY_STATUS_CONFIG, "column json", {.column = "json", .kind = FOREBAY_VALUE_KIND_JSON, .data = (const uint8_t *)"{", .len = 1}},
        {3, FOREBAY_STATUS_INVALID, "33 dimensions", {.column = "array", .kind = FOREBAY_VALUE_KIND_ARRAY, .type_name = "uint16", .ndim = 33, .shape = shape}},
        {3, FOREBAY_STATUS_INVALID, "shape is NULL", {.column = "array", .kind = FOREBAY_VALUE_KIND_ARRAY, .type_name = "uint16", .ndim = 2}},
        {3, FOREBAY_STATUS_CONFIG, "column array", {.column = "array", .kind = FOREBAY_VALUE_KIND_ARRAY, .type_name = "uint16", .ndim = 2, .shape = shape, .data = bytes, .len = 3}},
        {3, FOREBAY_STATUS_CONFIG, "column array", {.column = "array", .kind = FOREBAY_VALUE_KIND_ARRAY, .type_name = "uint16", .ndim = 2, .shape = huge, .data = bytes, .len = 4}},
        {4, FOREBAY_STATUS_INVALID, "height and width", {.column = "pil", .kind = FOREBAY_VALUE_KIND_PIXELS, .type_name = "L", .ndim = 1, .shape = shape, .data = bytes, .len = 2}},
        {4, FOREBAY_STATUS_INVALID, "pixels per side", {.column = "pil", .kind = FOREBAY_VALUE_KIND_PIXELS, .type_name = "L", .ndim = 2, .shape = huge, .data = bytes, .len = 2}},
        {4, FOREBAY_STATUS_CONFIG, "column pil", {.column = "pil", .kind = FOREBAY_VALUE_KIND_PIXELS, .type_name = "L", .ndim = 2, .shape = shape, .data = bytes, .len = 3}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ForebayValue values[5];
        memcpy(values, good, sizeof good);
        values[wrong[i].index] = wrong[i].value;
        FAILS(forebay_writer_write(writer, values, 5), wrong[i].status, wrong[i].text);
    }
    OK(forebay_writer_write(writer, good, 5));
    OK(forebay_writer_finish(writer));
    FAILS(forebay_writer_finish(writer), FOREBAY_STATUS_CLOSED, "finished");
    FAILS(forebay_writer_write(writer, good, 5), FOREBAY_STATUS_CLOSED, "finished");
    forebay_writer_free(writer);
    every_function(writer, FOREBAY_STATUS_INVALID, "freed");
    FAILS(forebay_writer_new(options, &second), FOREBAY_STATUS_CONFIG, "not empty");

    /* The sample that was written is the good one. */
    char data[1 << 12];
    snprintf(data, sizeof data, "{\"streams\": [{\"local\": \"%s\"}]}", folder);
    ForebayReader *reader = NULL;
    ForebaySample *sample = NULL;
    uint64_t samples = 0;
    size_t columns = 0;
    OK(forebay_reader_new(data, &reader));
    OK(forebay_reader_samples(reader, &samples));
    OK(forebay_reader_sample(reader, 0, &sample));
    OK(forebay_sample_columns(sample, &columns));
    CHECK(samples == 1 && columns == 5);
    for (size_t i = 0; i < 5; i++) {
        size_t column = 9;
        ForebayValue value;
        OK(forebay_sample_find(sample, good[i].column, &column));
        OK(forebay_sample_value(sample, column, &value));
        CHECK(strcmp(value.column, good[i].column) == 0 && value.kind == good[i].kind);
        CHECK(value.len == good[i].len && (value.len == 0 || memcmp(value.data, good[i].data, value.len) == 0));
        CHECK(value.ndim == good[i].ndim && (value.ndim == 0 || memcmp(value.shape, good[i].shape, value.ndim * 8) == 0));
        CHECK((value.type_name == NULL) == (good[i].type_name == NULL));
        CHECK(value.type_name == NULL || strcmp(value.type_name, good[i].type_name) == 0);
        CHECK(value.integer == (i == 1 ? 1 : good[i].integer) && value.number == (i == 1 ? 1.0 : 0.0));
    }
    forebay_sample_free(sample);
    forebay_reader_free(reader);
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    CHECK(*forebay_last_error() == 0 && *forebay_last_error_json() == 0);
    CHECK(forebay_last_status() == FOREBAY_STATUS_OK);
    char *text = text_of(argv[1]);
    config = text;
    wrong_handles();
    wrong_configurations();
    options_elsewhere();
    wrong_calls_of_a_loader();
    wrong_calls_of_a_batch();
    wrong_calls_of_a_reader();
    wrong_calls_of_a_writer(argv[2]);
    FAILS(forebay_log_set(0, NULL, NULL), FOREBAY_STATUS_INVALID, "0 is not a log level");
    FAILS(forebay_log_set(5, NULL, NULL), FOREBAY_STATUS_INVALID, "5 is not a log level");
    free(text);
    return 0;
}
