/* Objects that several threads use and free: threads CONFIG.json FOLDER, with the data of interface.c. FOLDER is an
 * empty folder to write to. Prints the sum of all tokens. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, SAMPLES = 50, LENGTH = 8 };

static pthread_barrier_t start;

/* Runs `body` on all threads at once; its argument is `shared`. */
static void on_all_threads(void *(*body)(void *), void *shared) {
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&start, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, body, shared) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(pthread_barrier_destroy(&start) == 0);
}

static uint64_t sum_of(const void *tokens, size_t bytes) {
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes / 2; i++) {
        sum += ((const uint16_t *)tokens)[i];
    }
    return sum;
}

static atomic_uint_fast64_t sum, rows;

static void *reads_batches(void *loader) {
    for (;;) {
        ForebayBatch *batch = NULL;
        ForebayStatus status = forebay_loader_next(loader, &batch);
        if (status == FOREBAY_STATUS_END) {
            return NULL;
        }
        OK(status);
        ForebayTensorView view;
        OK(forebay_batch_view(batch, 0, &view));
        sum += sum_of(view.data, view.bytes);
        rows += (uint64_t)view.shape[0];
        char *text = NULL;
        OK(forebay_loader_state(loader, &text));
        forebay_string_free(text);
        OK(forebay_loader_stats(loader, &text));
        forebay_string_free(text);
        forebay_batch_free(batch);
        /* The last error belongs to this thread. */
        CHECK(forebay_batch_info(NULL, NULL) == FOREBAY_STATUS_INVALID);
        ERROR_CONTAINS("info is NULL");
    }
}

/* Uses a batch until a second thread has freed it, and frees it as well. */
static void *shares_a_batch(void *batch) {
    pthread_barrier_wait(&start);
    for (int i = 0; i < 100; i++) {
        ForebayBatchInfo info = {0};
        struct DLManagedTensorVersioned *tensor = NULL;
        if (forebay_batch_tensor(batch, 0, 0, &tensor) != FOREBAY_STATUS_OK) {
            FAILS(forebay_batch_info(batch, &info), FOREBAY_STATUS_INVALID, "freed");
            break;
        }
        /* The tensor keeps the memory, whichever thread frees the batch. */
        CHECK(sum_of(tensor->tensor.data, 2) > 0);
        tensor->deleter(tensor);
    }
    forebay_batch_free(batch);
    return NULL;
}

static void *deletes(void *tensor) {
    ((struct DLManagedTensorVersioned *)tensor)->deleter(tensor);
    return NULL;
}

static void batches_are_shared(const char *config) {
    ForebayLoader *loader = NULL;
    ForebayBatch *batch = NULL;
    struct DLManagedTensorVersioned *tensor = NULL;
    OK(forebay_loader_new(config, NULL, &loader));
    OK(forebay_loader_start_epoch(loader));
    OK(forebay_loader_next(loader, &batch));
    on_all_threads(shares_a_batch, batch);
    OK(forebay_loader_next(loader, &batch));
    OK(forebay_batch_tensor(batch, 0, 0, &tensor));
    forebay_batch_free(batch);
    forebay_loader_free(loader);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, deletes, tensor) == 0 && pthread_join(thread, NULL) == 0);
}

static atomic_uint_fast64_t sum_of_samples;
static _Atomic(ForebaySample *) shared_sample;

/* Reads all samples, and one that all threads share; each frees both. */
static void *reads_samples(void *reader) {
    uint64_t of_thread = 0;
    pthread_barrier_wait(&start);
    for (uint64_t i = 0; i < SAMPLES; i++) {
        ForebaySample *sample = NULL;
        ForebayValue value;
        OK(forebay_reader_sample(reader, i, &sample));
        OK(forebay_sample_value(sample, 0, &value));
        of_thread += sum_of(value.data, value.len);
        forebay_sample_free(sample);
    }
    sum_of_samples += of_thread;
    for (;;) {
        size_t columns = 0;
        if (forebay_sample_columns(shared_sample, &columns) != FOREBAY_STATUS_OK) {
            ERROR_CONTAINS("freed");
            break;
        }
        CHECK(columns == 1);
        forebay_sample_free(shared_sample);
    }
    /* More threads may be reading: their calls end as usual, and further ones are errors. */
    pthread_barrier_wait(&start);
    ForebaySample *sample = NULL;
    ForebayStatus status = forebay_reader_sample(reader, 0, &sample);
    CHECK(status == FOREBAY_STATUS_OK || status == FOREBAY_STATUS_INVALID);
    forebay_sample_free(sample);
    forebay_reader_free(reader);
    FAILS(forebay_reader_sample(reader, 0, &sample), FOREBAY_STATUS_INVALID, "freed");
    return NULL;
}

static void readers_are_shared(const char *config) {
    ForebayReader *reader = NULL;
    ForebaySample *sample = NULL;
    OK(forebay_reader_new(config, &reader));
    OK(forebay_reader_sample(reader, 0, &sample));
    shared_sample = sample;
    on_all_threads(reads_samples, reader);
    CHECK(sum_of_samples == THREADS * sum);
}

static atomic_uint finished;

static void *writes_samples(void *writer) {
    pthread_barrier_wait(&start);
    for (int64_t i = 1; i <= SAMPLES; i++) {
        const ForebayValue value = {.column = "n", .kind = FOREBAY_VALUE_KIND_INT, .integer = i};
        OK(forebay_writer_write(writer, &value, 1));
    }
    pthread_barrier_wait(&start);
    /* One thread finishes it. */
    ForebayStatus status = forebay_writer_finish(writer);
    if (status == FOREBAY_STATUS_OK) {
        finished++;
    } else {
        CHECK(status == FOREBAY_STATUS_CLOSED || status == FOREBAY_STATUS_INVALID);
    }
    forebay_writer_free(writer);
    FAILS(forebay_writer_finish(writer), FOREBAY_STATUS_INVALID, "freed");
    return NULL;
}

/* Writes until a second thread has freed the writer. */
static void *writes_until_it_is_freed(void *writer) {
    pthread_barrier_wait(&start);
    for (int64_t i = 0; i < 20; i++) {
        const ForebayValue value = {.column = "n", .kind = FOREBAY_VALUE_KIND_INT, .integer = i};
        if (forebay_writer_write(writer, &value, 1) != FOREBAY_STATUS_OK) {
            ERROR_CONTAINS("freed");
            break;
        }
    }
    forebay_writer_free(writer);
    return NULL;
}

static void writers_are_shared(const char *folder) {
    on_all_threads(writes_samples, writer_to(folder, "finished"));
    CHECK(finished == 1);
    char options[1 << 12];
    snprintf(options, sizeof options, "{\"streams\": [{\"local\": \"%s/finished\"}]}", folder);
    ForebayReader *reader = NULL;
    uint64_t samples = 0;
    int64_t total = 0;
    OK(forebay_reader_new(options, &reader));
    OK(forebay_reader_samples(reader, &samples));
    CHECK(samples == THREADS * SAMPLES);
    for (uint64_t i = 0; i < samples; i++) {
        ForebaySample *sample = NULL;
        ForebayValue value;
        OK(forebay_reader_sample(reader, i, &sample));
        OK(forebay_sample_value(sample, 0, &value));
        total += value.integer;
        forebay_sample_free(sample);
    }
    CHECK(total == THREADS * SAMPLES * (SAMPLES + 1) / 2);
    forebay_reader_free(reader);
    on_all_threads(writes_until_it_is_freed, writer_to(folder, "freed"));
}

/* Takes batches until the loader is freed. */
static void *takes_batches(void *loader) {
    pthread_barrier_wait(&start);
    for (;;) {
        ForebayBatch *batch = NULL;
        ForebayStatus status = forebay_loader_next(loader, &batch);
        if (status != FOREBAY_STATUS_OK) {
            CHECK(status == FOREBAY_STATUS_CLOSED || status == FOREBAY_STATUS_INVALID || status == FOREBAY_STATUS_END);
            forebay_loader_free(loader);
            return NULL;
        }
        forebay_batch_free(batch);
        forebay_loader_free(loader);
    }
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    char *config = text_of(argv[1]);
    ForebayLoader *loader = NULL;
    OK(forebay_loader_new(config, NULL, &loader));
    OK(forebay_loader_start_epoch(loader));
    on_all_threads(reads_batches, loader);
    CHECK(rows == SAMPLES);
    forebay_loader_free(loader);

    for (int round = 0; round < 10; round++) {
        OK(forebay_loader_new(config, NULL, &loader));
        OK(forebay_loader_start_epoch(loader));
        on_all_threads(takes_batches, loader);
    }
    batches_are_shared(config);
    readers_are_shared(config);
    writers_are_shared(argv[2]);
    free(config);
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
