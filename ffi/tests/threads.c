/* The interface on several threads: threads CONFIG.json, with the data of interface.c. Prints the sum of all tokens. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { READERS = 4 };

static ForebayLoader *loader;
static atomic_uint_fast64_t sum, rows;

static void *reads_batches(void *unused) {
    (void)unused;
    for (;;) {
        ForebayBatch *batch = NULL;
        ForebayStatus status = forebay_loader_next(loader, &batch);
        if (status == FOREBAY_STATUS_END) {
            return NULL;
        }
        OK(status);
        ForebayTensorView view;
        OK(forebay_batch_view(batch, 0, &view));
        for (size_t i = 0; i < view.bytes / 2; i++) {
            sum += ((const uint16_t *)view.data)[i];
        }
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

static void *waits(void *of_loader) {
    /* All batches are taken and no epoch follows, or the loader is freed: each of these is the end of the wait. */
    for (;;) {
        ForebayBatch *batch = NULL;
        ForebayStatus status = forebay_loader_next(of_loader, &batch);
        if (status != FOREBAY_STATUS_OK) {
            CHECK(status == FOREBAY_STATUS_CLOSED || status == FOREBAY_STATUS_INVALID || status == FOREBAY_STATUS_END);
            return NULL;
        }
        forebay_batch_free(batch);
    }
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    char *config = text_of(argv[1]);
    OK(forebay_loader_new(config, NULL, &loader));
    OK(forebay_loader_start_epoch(loader));
    pthread_t threads[READERS];
    for (int i = 0; i < READERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, reads_batches, NULL) == 0);
    }
    for (int i = 0; i < READERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(rows == 50);
    forebay_loader_free(loader);

    /* A loader is freed while others wait for its batches. */
    for (int round = 0; round < 10; round++) {
        ForebayLoader *brief = NULL;
        OK(forebay_loader_new(config, NULL, &brief));
        OK(forebay_loader_start_epoch(brief));
        for (int i = 0; i < READERS; i++) {
            CHECK(pthread_create(&threads[i], NULL, waits, brief) == 0);
        }
        forebay_loader_free(brief);
        for (int i = 0; i < READERS; i++) {
            CHECK(pthread_join(threads[i], NULL) == 0);
        }
    }
    free(config);
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
