/* The whole interface from C: interface CONFIG.json [mistakes], where the data is 50 samples of 8 uint16 tokens, batches
 * of 16. With a second argument only the mistakes, which start no epoch. */
#include "forebay.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What dlpack.h declares, written out so that the test needs no other header. */
typedef struct {
    void *data;
    struct { int32_t type, id; } device;
    int32_t ndim;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} Tensor;
struct DLManagedTensorVersioned {
    struct { uint32_t major, minor; } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    Tensor tensor;
};

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "line %d: %s does not hold; last error: %s\n", __LINE__, #what, forebay_last_error());     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define OK(call) CHECK((call) == FOREBAY_STATUS_OK)
#define ERROR_CONTAINS(text) CHECK(strstr(forebay_last_error(), text) != NULL)

static void mistakes_are_answered(const char *config) {
    ForebayLoader *loader = NULL;
    ForebayBatch *batch = NULL;
    forebay_loader_free(NULL);
    forebay_batch_free(NULL);
    forebay_string_free(NULL);
    CHECK(forebay_loader_new(NULL, NULL, &loader) == FOREBAY_STATUS_INVALID);
    ERROR_CONTAINS("config is NULL");
    CHECK(forebay_loader_new(config, NULL, NULL) == FOREBAY_STATUS_INVALID);
    CHECK(forebay_loader_new("\xff\xfe", NULL, &loader) == FOREBAY_STATUS_INVALID);
    ERROR_CONTAINS("not UTF-8");
    CHECK(forebay_loader_new("{\"batch\": 1}", NULL, &loader) == FOREBAY_STATUS_CONFIG);
    ERROR_CONTAINS("batch");
    CHECK(forebay_loader_new(config, "tpu", &loader) == FOREBAY_STATUS_CONFIG);
    CHECK(loader == NULL);
    CHECK(forebay_loader_start_epoch(NULL) == FOREBAY_STATUS_INVALID);
    CHECK(forebay_loader_next((ForebayLoader *)&loader, &batch) == FOREBAY_STATUS_INVALID);
    ERROR_CONTAINS("not a live loader");

    OK(forebay_loader_new(config, "cpu", &loader));
    CHECK(forebay_loader_next(loader, &batch) == FOREBAY_STATUS_CLOSED);
    CHECK(forebay_loader_load_state(loader, "{}", true) == FOREBAY_STATUS_STATE);
    CHECK(forebay_batch_info((ForebayBatch *)loader, NULL) == FOREBAY_STATUS_INVALID);
    forebay_loader_free(loader);
    forebay_loader_free(loader);
    CHECK(forebay_loader_start_epoch(loader) == FOREBAY_STATUS_INVALID);
    ERROR_CONTAINS("freed");
}

/* The sum of a batch's tokens, and its rows added to `rows`. */
static uint64_t sum_of(ForebayBatch *batch, size_t *rows) {
    ForebayBatchInfo info;
    OK(forebay_batch_info(batch, &info));
    CHECK(info.outputs == 1);
    size_t output = 9;
    OK(forebay_batch_find(batch, "tokens", &output));
    CHECK(forebay_batch_find(batch, "token", &output) == FOREBAY_STATUS_INVALID);
    ERROR_CONTAINS("there are tokens");
    const char *name = NULL;
    ForebayKind kind = FOREBAY_KIND_TEXT;
    OK(forebay_batch_output(batch, output, &name, &kind));
    CHECK(strcmp(name, "tokens") == 0 && kind == FOREBAY_KIND_TENSOR);
    CHECK(forebay_batch_output(batch, 1, &name, NULL) == FOREBAY_STATUS_INVALID);
    const uint8_t *data = NULL;
    size_t len = 0;
    CHECK(forebay_batch_row(batch, output, 0, &data, &len) == FOREBAY_STATUS_INVALID);

    struct DLManagedTensorVersioned *tensor = NULL;
    OK(forebay_batch_tensor(batch, output, 0, &tensor));
    /* The tensor outlives its batch. */
    forebay_batch_free(batch);
    CHECK(forebay_batch_info(batch, &info) == FOREBAY_STATUS_INVALID);
    const Tensor *t = &tensor->tensor;
    CHECK(tensor->version.major == 1 && t->device.type == 1 && t->ndim == 2);
    CHECK(t->dtype.code == 1 && t->dtype.bits == 16 && t->dtype.lanes == 1);
    CHECK(t->shape[0] == (int64_t)info.rows && t->shape[1] == 8 && t->strides[0] == 8 && t->strides[1] == 1);
    uint64_t sum = 0;
    for (int64_t i = 0; i < t->shape[0] * 8; i++) {
        sum += ((const uint16_t *)((const char *)t->data + t->byte_offset))[i];
    }
    *rows += info.rows;
    tensor->deleter(tensor);
    return sum;
}

static uint64_t rest_of_epoch(ForebayLoader *loader, size_t *rows) {
    uint64_t sum = 0;
    ForebayBatch *batch = NULL;
    ForebayStatus status;
    while ((status = forebay_loader_next(loader, &batch)) == FOREBAY_STATUS_OK) {
        sum += sum_of(batch, rows);
    }
    CHECK(status == FOREBAY_STATUS_END && batch == NULL);
    return sum;
}

int main(int argc, char **argv) {
    char config[1 << 12] = {0};
    FILE *file = argc >= 2 ? fopen(argv[1], "rb") : NULL;
    CHECK(file != NULL && fread(config, 1, sizeof config - 1, file) > 0);
    fclose(file);
    mistakes_are_answered(config);
    if (argc > 2) {
        return 0;
    }

    ForebayLoader *loader = NULL;
    OK(forebay_loader_new(config, NULL, &loader));
    OK(forebay_loader_start_epoch(loader));
    ForebayBatch *batch = NULL;
    OK(forebay_loader_next(loader, &batch));
    size_t rows = 0;
    uint64_t sum = sum_of(batch, &rows);
    char *state = NULL, *stats = NULL;
    OK(forebay_loader_state(loader, &state));
    OK(forebay_loader_stats(loader, &stats));
    CHECK(strstr(stats, "\"stages\"") != NULL && strstr(stats, "\"decode\"") != NULL);
    forebay_string_free(stats);
    size_t left = 0;
    uint64_t expected = rest_of_epoch(loader, &left);
    CHECK(rows == 16 && left == 34);
    forebay_loader_free(loader);

    /* A second loader resumes at the state of the first. */
    OK(forebay_loader_new(config, NULL, &loader));
    OK(forebay_loader_load_state(loader, state, true));
    forebay_string_free(state);
    OK(forebay_loader_start_epoch(loader));
    size_t again = 0;
    CHECK(rest_of_epoch(loader, &again) == expected && again == left);
    forebay_loader_free(loader);
    printf("%llu\n", (unsigned long long)(sum + expected));
    return 0;
}
