/* A forked child: fork CONFIG.json, with the data of interface.c. Its parent's objects are errors, new ones work. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_bool is_over;

static void *calls_all_the_time(void *batch) {
    while (!is_over) {
        ForebayBatchInfo info;
        OK(forebay_batch_info(batch, &info));
    }
    return NULL;
}

/* Children of a process whose other threads are in calls, and may hold the library's locks during the fork. */
static void forks_during_calls(ForebayBatch *batch) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, calls_all_the_time, batch) == 0);
    }
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            ForebayBatchInfo info;
            FAILS(forebay_batch_info(batch, &info), FOREBAY_STATUS_CLOSED, "belongs to the process that made it");
            forebay_batch_free(batch);
            OK(forebay_log_set(FOREBAY_LOG_LEVEL_WARN, NULL, NULL));
            _exit(0);
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    is_over = 1;
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

static size_t rows_of_epoch(ForebayLoader *loader) {
    size_t rows = 0;
    ForebayBatch *batch = NULL;
    ForebayStatus status;
    while ((status = forebay_loader_next(loader, &batch)) == FOREBAY_STATUS_OK) {
        ForebayBatchInfo info;
        OK(forebay_batch_info(batch, &info));
        rows += info.rows;
        forebay_batch_free(batch);
    }
    CHECK(status == FOREBAY_STATUS_END);
    return rows;
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    char *config = text_of(argv[1]);
    ForebayLoader *loader = NULL;
    ForebayBatch *batch = NULL, *other = NULL;
    ForebayReader *reader = NULL;
    ForebaySample *sample = NULL;
    struct DLManagedTensorVersioned *tensor = NULL;
    OK(forebay_loader_new(config, NULL, &loader));
    OK(forebay_loader_start_epoch(loader));
    OK(forebay_loader_next(loader, &batch));
    OK(forebay_batch_tensor(batch, 0, 0, &tensor));
    OK(forebay_reader_new(config, &reader));

    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        const char *why = "belongs to the process that made it";
        ForebayBatchInfo info;
        FAILS(forebay_loader_next(loader, &other), FOREBAY_STATUS_CLOSED, why);
        FAILS(forebay_loader_start_epoch(loader), FOREBAY_STATUS_CLOSED, why);
        FAILS(forebay_batch_info(batch, &info), FOREBAY_STATUS_CLOSED, why);
        FAILS(forebay_reader_sample(reader, 0, &sample), FOREBAY_STATUS_CLOSED, why);
        forebay_batch_free(batch);
        forebay_loader_free(loader);
        forebay_reader_free(reader);
        tensor->deleter(tensor);
        ForebayLoader *own = NULL;
        OK(forebay_loader_new(config, NULL, &own));
        CHECK(own != loader);
        OK(forebay_loader_start_epoch(own));
        CHECK(rows_of_epoch(own) == 50);
        forebay_loader_free(own);
        FAILS(forebay_loader_start_epoch(own), FOREBAY_STATUS_INVALID, "freed");
        OK(forebay_reader_new(config, &reader));
        OK(forebay_reader_sample(reader, 49, &sample));
        forebay_sample_free(sample);
        forebay_reader_free(reader);
        _exit(7);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);

    forks_during_calls(batch);

    /* The parent does not notice. */
    ForebayBatchInfo info;
    OK(forebay_batch_info(batch, &info));
    forebay_batch_free(batch);
    CHECK(info.rows == 16 && tensor->tensor.shape[0] == 16);
    tensor->deleter(tensor);
    CHECK(rows_of_epoch(loader) == 34);
    forebay_loader_free(loader);
    OK(forebay_reader_sample(reader, 0, &sample));
    forebay_sample_free(sample);
    forebay_reader_free(reader);
    free(config);
    return 0;
}
