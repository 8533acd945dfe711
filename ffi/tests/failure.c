/* The first failure of an epoch: failure CONFIG.json [BYTES], where files of more than BYTES cannot be written. Prints
 * forebay_last_error_json, or the rows of a complete epoch. */
#include "check.h"
#include <signal.h>
#include <sys/resource.h>

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    char *config = text_of(argv[1]);
    if (argc == 3) {
        const rlim_t bytes = strtoul(argv[2], NULL, 10);
        const struct rlimit limit = {bytes, bytes};
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        /* The signal of that limit, which a program gets for every write. */
        CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    }
    ForebayLoader *loader = NULL;
    ForebayStatus status = forebay_loader_new(config, NULL, &loader);
    size_t rows = 0;
    if (status == FOREBAY_STATUS_OK) {
        status = forebay_loader_start_epoch(loader);
    }
    while (status == FOREBAY_STATUS_OK) {
        ForebayBatch *batch = NULL;
        status = forebay_loader_next(loader, &batch);
        ForebayBatchInfo info = {0};
        if (status == FOREBAY_STATUS_OK) {
            OK(forebay_batch_info(batch, &info));
        }
        CHECK((status == FOREBAY_STATUS_OK) == (batch != NULL));
        rows += info.rows;
        forebay_batch_free(batch);
    }
    if (status == FOREBAY_STATUS_END) {
        printf("%zu\n", rows);
    } else {
        /* A failed epoch stays failed. */
        ForebayBatch *batch = NULL;
        CHECK(loader == NULL || forebay_loader_next(loader, &batch) == status);
        CHECK(forebay_last_status() == status);
        printf("%s\n", forebay_last_error_json());
    }
    forebay_loader_free(loader);
    free(config);
    return 0;
}
