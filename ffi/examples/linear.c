/* A training job in C: linear FOLDER
 *
 *     cc linear.c $(pkg-config --cflags --libs forebay) -o linear && ./linear data
 *
 * Writes a data set of points y = x0 - 2 x1 + 3 x2 + x3 / 2 + 1 / 4 into FOLDER, fits a linear model to it in ten epochs,
 * and resumes from a checkpoint in the middle of one. The examples of this name in other languages do the same.
 */
#include "forebay.h"
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 1000, INPUTS = 4, EPOCHS = 10, CHECKPOINT_AFTER = 110 };

/* Ends the program if a call has failed. */
static ForebayStatus must(ForebayStatus status) {
    if (status != FOREBAY_STATUS_OK && status != FOREBAY_STATUS_END) {
        fprintf(stderr, "forebay: %s (status %d)\n", forebay_last_error(), (int)status);
        exit(1);
    }
    return status;
}

static void write_data(const char *folder) {
    char config[4096];
    snprintf(config, sizeof config,
             "{\"out\": \"%s\", \"columns\": {\"x\": \"ndarray:float32:4\", \"y\": \"float32\"}, \"hashes\": [\"xxh64\"]}", folder);
    ForebayWriter *writer = NULL;
    must(forebay_writer_new(config, &writer));
    const uint64_t shape[] = {INPUTS};
    uint32_t seed = 1;
    for (int i = 0; i < SAMPLES; i++) {
        float x[INPUTS];
        for (int k = 0; k < INPUTS; k++) {
            seed = seed * 1664525U + 1013904223U;
            x[k] = (float)(seed >> 8) / (1 << 23) - 1;
        }
        const ForebayValue values[] = {
            {.column = "x", .kind = FOREBAY_VALUE_KIND_ARRAY, .type_name = "float32", .data = (const uint8_t *)x,
             .len = sizeof x, .shape = shape, .ndim = 1},
            {.column = "y", .kind = FOREBAY_VALUE_KIND_FLOAT, .number = x[0] - 2 * x[1] + 3 * x[2] + x[3] / 2 + 0.25},
        };
        must(forebay_writer_write(writer, values, 2));
    }
    must(forebay_writer_finish(writer));
    forebay_writer_free(writer);
}

/* The output `name` of a batch, which is in host memory. */
static ForebayTensorView view(const ForebayBatch *batch, const char *name) {
    size_t output = 0;
    ForebayTensorView view;
    must(forebay_batch_find(batch, name, &output));
    must(forebay_batch_view(batch, output, &view));
    return view;
}

/* One step of gradient descent. The last weight is the intercept. */
static void train_step(double weights[INPUTS + 1], const ForebayBatch *batch) {
    const ForebayTensorView x = view(batch, "x"), y = view(batch, "y");
    const int64_t rows = x.shape[0];
    double gradient[INPUTS + 1] = {0};
    for (int64_t row = 0; row < rows; row++) {
        const float *input = (const float *)x.data + row * INPUTS;
        double error = weights[INPUTS] - ((const float *)y.data)[row];
        for (int k = 0; k < INPUTS; k++) {
            error += weights[k] * input[k];
        }
        for (int k = 0; k < INPUTS; k++) {
            gradient[k] += error * input[k];
        }
        gradient[INPUTS] += error;
    }
    for (int k = 0; k <= INPUTS; k++) {
        weights[k] -= gradient[k] / (double)rows;
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    write_data(argv[1]);
    char config[4096];
    snprintf(config, sizeof config, "{\"streams\": [{\"local\": \"%s\"}], \"batch_size\": 50, \"shuffle\": true}", argv[1]);
    ForebayLoader *loader = NULL;
    must(forebay_loader_new(config, "cpu", &loader));

    double weights[INPUTS + 1] = {0};
    int batches = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        must(forebay_loader_start_epoch(loader));
        ForebayBatch *batch = NULL;
        while (must(forebay_loader_next(loader, &batch)) == FOREBAY_STATUS_OK) {
            train_step(weights, batch);
            forebay_batch_free(batch);
            if (++batches == CHECKPOINT_AFTER) {
                /* A new loader continues after this batch. */
                char *state = NULL;
                must(forebay_loader_state(loader, &state));
                forebay_loader_free(loader);
                must(forebay_loader_new(config, "cpu", &loader));
                must(forebay_loader_load_state(loader, state, 1));
                must(forebay_loader_start_epoch(loader));
                forebay_string_free(state);
            }
        }
    }
    forebay_loader_free(loader);
    printf("%d batches, w = %.3f %.3f %.3f %.3f, b = %.3f\n", batches, weights[0], weights[1], weights[2], weights[3],
           weights[4]);
    return 0;
}
