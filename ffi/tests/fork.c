/* A forked child: fork CONFIG.json FOLDER, with the data of interface.c. Its parent's objects are errors, new ones work,
 * and it ends with exit, which runs handlers and destructors. FOLDER is an empty folder to write to. */
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

/* Children of a process with more threads in calls, which may hold the library's locks during the fork. */
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
            exit(0);
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    is_over = 1;
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

static ForebayStatus writes(ForebayWriter *writer, int64_t n) {
    const ForebayValue value = {.column = "n", .kind = FOREBAY_VALUE_KIND_INT, .integer = n};
    return forebay_writer_write(writer, &value, 1);
}

/* The integers in the folder `name` are those from 0. */
static void contains(const char *folder, const char *name, uint64_t count) {
    char options[1 << 12];
    snprintf(options, sizeof options, "{\"streams\": [{\"local\": \"%s/%s\"}]}", folder, name);
    ForebayReader *reader = NULL;
    uint64_t samples = 0;
    OK(forebay_reader_new(options, &reader));
    OK(forebay_reader_samples(reader, &samples));
    CHECK(samples == count);
    for (uint64_t i = 0; i < count; i++) {
        ForebaySample *sample = NULL;
        ForebayValue value;
        OK(forebay_reader_sample(reader, i, &sample));
        OK(forebay_sample_value(sample, 0, &value));
        CHECK(value.integer == (int64_t)i);
        forebay_sample_free(sample);
    }
    forebay_reader_free(reader);
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

/* A thread of the child. Its last error ends with it. */
static void *fails(void *of_parent) {
    FAILS(forebay_loader_end_epoch(of_parent), FOREBAY_STATUS_CLOSED, "belongs to the process that made it");
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    char *config = text_of(argv[1]);
    ForebayLoader *loader = NULL;
    ForebayBatch *batch = NULL, *other = NULL;
    ForebayReader *reader = NULL;
    ForebaySample *sample = NULL, *of_child = NULL;
    struct DLManagedTensorVersioned *tensor = NULL;
    OK(forebay_loader_new(config, NULL, &loader));
    OK(forebay_loader_start_epoch(loader));
    OK(forebay_loader_next(loader, &batch));
    OK(forebay_batch_tensor(batch, 0, 0, &tensor));
    OK(forebay_reader_new(config, &reader));
    OK(forebay_reader_sample(reader, 0, &sample));
    ForebayWriter *writer = writer_to(argv[2], "parent");
    OK(writes(writer, 0));

    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        const char *why = "belongs to the process that made it";
        ForebayBatchInfo info;
        FAILS(forebay_loader_next(loader, &other), FOREBAY_STATUS_CLOSED, why);
        FAILS(forebay_loader_start_epoch(loader), FOREBAY_STATUS_CLOSED, why);
        FAILS(forebay_batch_info(batch, &info), FOREBAY_STATUS_CLOSED, why);
        FAILS(forebay_reader_sample(reader, 0, &of_child), FOREBAY_STATUS_CLOSED, why);
        size_t columns = 0;
        FAILS(forebay_sample_columns(sample, &columns), FOREBAY_STATUS_CLOSED, why);
        FAILS(writes(writer, 1), FOREBAY_STATUS_CLOSED, why);
        FAILS(forebay_writer_finish(writer), FOREBAY_STATUS_CLOSED, why);
        forebay_batch_free(batch);
        forebay_loader_free(loader);
        forebay_reader_free(reader);
        forebay_sample_free(sample);
        forebay_writer_free(writer);
        tensor->deleter(tensor);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, fails, loader) == 0 && pthread_join(thread, NULL) == 0);

        ForebayLoader *own = NULL;
        OK(forebay_loader_new(config, NULL, &own));
        CHECK(own != loader);
        OK(forebay_loader_start_epoch(own));
        CHECK(rows_of_epoch(own) == 50);
        forebay_loader_free(own);
        FAILS(forebay_loader_start_epoch(own), FOREBAY_STATUS_INVALID, "freed");
        OK(forebay_reader_new(config, &reader));
        OK(forebay_reader_sample(reader, 49, &of_child));
        forebay_sample_free(of_child);
        forebay_reader_free(reader);
        ForebayWriter *finished = writer_to(argv[2], "child");
        OK(writes(finished, 0));
        OK(forebay_writer_finish(finished));
        contains(argv[2], "child", 1);

        /* The child ends while it has objects and threads. */
        OK(forebay_loader_new(config, NULL, &own));
        OK(forebay_loader_start_epoch(own));
        OK(writes(writer_to(argv[2], "unfinished"), 0));
        exit(7);
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
    size_t columns = 0;
    OK(forebay_sample_columns(sample, &columns));
    CHECK(columns == 1);
    forebay_sample_free(sample);
    OK(forebay_reader_sample(reader, 0, &sample));
    forebay_sample_free(sample);
    forebay_reader_free(reader);
    OK(writes(writer, 1));
    OK(forebay_writer_finish(writer));
    forebay_writer_free(writer);
    contains(argv[2], "parent", 2);
    free(config);
    return 0;
}
