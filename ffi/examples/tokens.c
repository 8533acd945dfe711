/* Reads one epoch of a data set: tokens CONFIG.json
 *
 *     make install PREFIX=...
 *     cc ffi/examples/tokens.c $(pkg-config --cflags --libs forebay) -o tokens
 *     echo '{"streams": [{"local": "data/train"}], "batch_size": 64, "engine": {"memory": "1gb"}}' > config.json
 *     ./tokens config.json
 *
 * forebay.h lists all options of the configuration, in groups such as `engine`.
 */
#include "forebay.h"
#include <stdio.h>
#include <stdlib.h>

static void must(ForebayStatus status) {
    if (status > FOREBAY_STATUS_END) {
        fprintf(stderr, "forebay: %s (status %d)\n", forebay_last_error(), (int)status);
        exit(1);
    }
}

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    char *text = calloc(1, 1 << 16);
    if (!text || fread(text, 1, (1 << 16) - 1, file) == 0) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    return text;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s CONFIG.json\n", argv[0]);
        return 2;
    }
    char *config = read_file(argv[1]);
    ForebayLoader *loader = NULL;
    must(forebay_loader_new(config, NULL, &loader));
    free(config);
    must(forebay_loader_start_epoch(loader));

    size_t rows = 0;
    ForebayBatch *batch = NULL;
    for (;;) {
        ForebayStatus status = forebay_loader_next(loader, &batch);
        must(status);
        if (status == FOREBAY_STATUS_END) {
            break;
        }
        ForebayBatchInfo info;
        must(forebay_batch_info(batch, &info));
        rows += info.rows;
        forebay_batch_free(batch);
    }
    printf("%zu rows\n", rows);
    forebay_loader_free(loader);
    return 0;
}
