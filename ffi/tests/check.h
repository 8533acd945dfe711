/* Parts that the test programs share. */
#ifndef CHECK_H
#define CHECK_H

#include "forebay.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A part of dlpack.h, so that the tests need no further header. */
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
            fprintf(stderr, "%s:%d: %s does not hold; last error: %s\n", __FILE__, __LINE__, #what,                    \
                    forebay_last_error());                                                                             \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define OK(call) CHECK((call) == FOREBAY_STATUS_OK)
#define ERROR_CONTAINS(text) CHECK(strstr(forebay_last_error(), text) != NULL)
/* The call fails with the status, which the last error has too, and a message that contains the text. */
#define FAILS(call, expected, text)                                                                                    \
    do {                                                                                                               \
        CHECK((call) == (expected));                                                                                   \
        CHECK(forebay_last_status() == (expected));                                                                    \
        ERROR_CONTAINS(text);                                                                                          \
    } while (0)

/* The text of a file, which the caller frees. */
static inline char *text_of(const char *path) {
    char *text = calloc(1, 1 << 14);
    FILE *file = fopen(path, "rb");
    CHECK(text != NULL && file != NULL && fread(text, 1, (1 << 14) - 1, file) > 0);
    fclose(file);
    return text;
}

/* A writer of integers, in small shards, to the folder `name` in `folder`. */
static inline ForebayWriter *writer_to(const char *folder, const char *name) {
    char options[1 << 12];
    snprintf(options, sizeof options, "{\"out\": \"%s/%s\", \"columns\": {\"n\": \"int\"}, \"size_limit\": 200}", folder, name);
    ForebayWriter *writer = NULL;
    OK(forebay_writer_new(options, &writer));
    return writer;
}

#endif
