/* Epochs from C: interface CONFIG.json, where the data is 50 samples of 8 uint16 tokens, batches of 16. Prints the sum
 * of all tokens. */
#include "check.h"

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

    ForebayTensorView view;
    OK(forebay_batch_view(batch, output, &view));
    CHECK(view.ndim == 2 && view.shape[0] == (int64_t)info.rows && view.shape[1] == 8);
    CHECK(view.dtype_code == 1 && view.dtype_bits == 16 && view.device_type == 1 && view.device_id == 0);
    CHECK(view.bytes == info.rows * 8 * 2);
    struct DLManagedTensorVersioned *tensor = NULL;
    OK(forebay_batch_tensor(batch, output, 0, &tensor));
    CHECK(tensor->tensor.data == view.data);
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
    tensor->deleter(NULL);
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

/* One batch, or NULL at the end of the epoch, with polls instead of waits. */
static ForebayBatch *polled(ForebayLoader *loader) {
    for (;;) {
        ForebayBatch *batch = (ForebayBatch *)loader;
        ForebayStatus status = forebay_loader_next_within(loader, 0, &batch);
        CHECK(status == FOREBAY_STATUS_OK || status == FOREBAY_STATUS_PENDING || status == FOREBAY_STATUS_END);
        CHECK((status == FOREBAY_STATUS_OK) == (batch != NULL));
        if (status != FOREBAY_STATUS_PENDING) {
            return batch;
        }
    }
}

static void contains(ForebayLoader *loader, ForebayStatus (*text_of)(const ForebayLoader *, char **), const char *part) {
    char *text = NULL;
    OK(text_of(loader, &text));
    CHECK(strstr(text, part) != NULL);
    forebay_string_free(text);
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    CHECK(forebay_abi_version() == (FOREBAY_ABI_MAJOR << 16 | FOREBAY_ABI_MINOR));
    CHECK(strchr(forebay_version(), '.') != NULL);
    char *config = text_of(argv[1]);
    ForebayLoader *loader = NULL;
    OK(forebay_loader_new(config, NULL, &loader));
    uint64_t epoch = 9, batches = 0, samples = 0;
    OK(forebay_loader_epoch(loader, &epoch));
    OK(forebay_loader_batches(loader, &batches));
    OK(forebay_loader_samples(loader, &samples));
    CHECK(epoch == 0 && batches == 4 && samples == 50);

    OK(forebay_loader_start_epoch(loader));
    ForebayBatch *batch = NULL;
    OK(forebay_loader_next(loader, &batch));
    size_t rows = 0;
    uint64_t sum = sum_of(batch, &rows);
    char *state = NULL;
    OK(forebay_loader_state(loader, &state));
    contains(loader, forebay_loader_stats, "{\"bottleneck\":\"");
    contains(loader, forebay_loader_metrics, "forebay_stage_items_total{stage=\"next\",rank=\"0\"} 1");
    contains(loader, forebay_loader_trace, "traceEvents");
    size_t left = 0;
    uint64_t expected = rest_of_epoch(loader, &left);
    CHECK(rows == 16 && left == 34);

    /* The next epoch, with a timeout, ended in its middle. */
    OK(forebay_loader_start_epoch(loader));
    size_t polled_rows = 0;
    uint64_t polled_sum = 0;
    while ((batch = polled(loader)) != NULL) {
        polled_sum += sum_of(batch, &polled_rows);
    }
    CHECK(polled_rows == 50 && polled_sum == sum + expected);
    OK(forebay_loader_start_epoch(loader));
    OK(forebay_loader_next_within(loader, UINT64_MAX, &batch));
    forebay_batch_free(batch);
    OK(forebay_loader_end_epoch(loader));
    FAILS(forebay_loader_next(loader, &batch), FOREBAY_STATUS_CLOSED, "closed before its end");
    OK(forebay_loader_epoch(loader, &epoch));
    CHECK(epoch == 3);
    forebay_loader_free(loader);

    /* A second loader resumes at the state of the first. */
    OK(forebay_loader_new(config, NULL, &loader));
    OK(forebay_loader_load_state(loader, state, 1));
    forebay_string_free(state);
    OK(forebay_loader_start_epoch(loader));
    size_t again = 0;
    CHECK(rest_of_epoch(loader, &again) == expected && again == left);

    /* A batch and a tensor outlive their loader. */
    OK(forebay_loader_start_epoch(loader));
    OK(forebay_loader_next(loader, &batch));
    struct DLManagedTensorVersioned *tensor = NULL;
    OK(forebay_batch_tensor(batch, 0, 0, &tensor));
    ForebayTensorView view;
    OK(forebay_batch_view(batch, 0, &view));
    forebay_loader_free(loader);
    uint64_t of_view = 0, of_tensor = 0;
    for (size_t i = 0; i < view.bytes / 2; i++) {
        of_view += ((const uint16_t *)view.data)[i];
    }
    forebay_batch_free(batch);
    for (size_t i = 0; i < 16 * 8; i++) {
        of_tensor += ((const uint16_t *)tensor->tensor.data)[i];
    }
    CHECK(of_view == of_tensor && of_view > 0);
    tensor->deleter(tensor);
    free(config);
    printf("%llu\n", (unsigned long long)(sum + expected));
    return 0;
}
