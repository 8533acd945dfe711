/* Time of finished batches through the C interface: next CONFIG ROUNDS BATCHES. Prints a JSON object with the nanoseconds
 * per batch of each round, for `view` and `dlpack`, and the sum of the first bytes of the batches of `view`. */
#include "forebay.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The beginning of DLManagedTensorVersioned. */
struct DLManagedTensorVersioned {
    uint32_t version[2];
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    void *data;
};

static void must(ForebayStatus status) {
    if (status != FOREBAY_STATUS_OK) {
        fprintf(stderr, "%s (status %d)\n", forebay_last_error(), (int)status);
        exit(1);
    }
}

/* Waits until `batches` batches are finished in total. */
static void wait_for(ForebayLoader *loader, unsigned long long batches) {
    static const char line[] = "forebay_stage_items_total{stage=\"place\"";
    for (;;) {
        char *metrics = NULL;
        must(forebay_loader_metrics(loader, &metrics));
        const char *found = strstr(metrics, line);
        const char *value = found ? strchr(found, '}') : NULL;
        const unsigned long long finished = value ? strtoull(value + 1, NULL, 10) : 0;
        forebay_string_free(metrics);
        if (finished >= batches) {
            return;
        }
        usleep(1000);
    }
}

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        return 2;
    }
    const int rounds = atoi(argv[2]), batches = atoi(argv[3]);
    ForebayLoader *loader = NULL;
    must(forebay_loader_new(argv[1], "cpu", &loader));
    unsigned long long finished = 0, sum = 0, ignored = 0;
    printf("{\"ns\": {");
    for (int dlpack = 0; dlpack < 2; dlpack++) {
        printf("%s\"%s\": [", dlpack ? ", " : "", dlpack ? "dlpack" : "view");
        for (int round = 0; round < rounds; round++) {
            must(forebay_loader_start_epoch(loader));
            finished += (unsigned long long)batches;
            wait_for(loader, finished);
            const double start = now_ns();
            for (int i = 0; i < batches; i++) {
                ForebayBatch *batch = NULL;
                size_t output = 0;
                must(forebay_loader_next(loader, &batch));
                must(forebay_batch_find(batch, "x", &output));
                if (dlpack) {
                    struct DLManagedTensorVersioned *tensor = NULL;
                    must(forebay_batch_tensor(batch, output, 0, &tensor));
                    forebay_batch_free(batch);
                    ignored += *(const volatile unsigned char *)tensor->data;
                    tensor->deleter(tensor);
                } else {
                    ForebayTensorView view;
                    must(forebay_batch_view(batch, output, &view));
                    sum += *(const unsigned char *)view.data;
                    forebay_batch_free(batch);
                }
            }
            printf("%s%.1f", round ? ", " : "", (now_ns() - start) / batches);
        }
        printf("]");
    }
    printf("}, \"sum\": %llu}\n", sum);
    (void)ignored;
    forebay_loader_free(loader);
    return 0;
}
