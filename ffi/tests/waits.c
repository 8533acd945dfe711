/* Objects that are freed while threads wait in a call: waits CONFIG.json, where the store holds the shards back.
 * The program prints "reading" before it reads a sample, and gets a line when the store has been asked for it. It prints
 * "freed" when the reader is freed; then the store answers this request alone. */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { THREADS = 4 };

static void print_line(const char *line) {
    CHECK(puts(line) >= 0 && fflush(stdout) == 0);
}

static void *reads_a_sample(void *reader) {
    ForebaySample *sample = NULL;
    ForebayValue value;
    OK(forebay_reader_sample(reader, 0, &sample));
    OK(forebay_sample_value(sample, 0, &value));
    CHECK(value.len == 16);
    forebay_sample_free(sample);
    return NULL;
}

static void a_reader_is_freed(const char *config) {
    ForebayReader *reader = NULL;
    ForebaySample *sample = NULL;
    pthread_t thread;
    OK(forebay_reader_new(config, &reader));
    print_line("reading");
    CHECK(pthread_create(&thread, NULL, reads_a_sample, reader) == 0);
    char line[8];
    CHECK(fgets(line, sizeof line, stdin) != NULL);
    forebay_reader_free(reader);
    FAILS(forebay_reader_sample(reader, 0, &sample), FOREBAY_STATUS_INVALID, "freed");
    print_line("freed");
    CHECK(pthread_join(thread, NULL) == 0);
}

static atomic_uint closed;

static void *waits(void *loader) {
    ForebayBatch *batch = NULL;
    ForebayStatus status = forebay_loader_next(loader, &batch);
    CHECK(status == FOREBAY_STATUS_CLOSED || status == FOREBAY_STATUS_INVALID);
    CHECK(batch == NULL);
    closed += status == FOREBAY_STATUS_CLOSED;
    return NULL;
}

/* The seconds that calls of forebay_loader_next have waited. A call adds to them about once per second, and returns
 * only with a batch or an error. */
static double seconds_waited(ForebayLoader *loader) {
    char *text = NULL;
    OK(forebay_loader_stats(loader, &text));
    const char *next = strstr(text, "\"next\":{");
    const char *input = next == NULL ? NULL : strstr(next, "\"input_s\":");
    const double seconds = input == NULL ? 0 : strtod(input + strlen("\"input_s\":"), NULL);
    forebay_string_free(text);
    return seconds;
}

/* Calls `ends` when at least one thread waits. */
static void a_wait_ends(const char *config, void (*ends)(ForebayLoader *)) {
    ForebayLoader *loader = NULL;
    pthread_t threads[THREADS];
    closed = 0;
    OK(forebay_loader_new(config, NULL, &loader));
    OK(forebay_loader_start_epoch(loader));
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, waits, loader) == 0);
    }
    while (seconds_waited(loader) == 0) {
        sched_yield();
    }
    ends(loader);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK(closed >= 1);
    forebay_loader_free(loader);
}

static void ends_the_epoch(ForebayLoader *loader) {
    OK(forebay_loader_end_epoch(loader));
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    char *config = text_of(argv[1]);
    a_reader_is_freed(config);
    a_wait_ends(config, ends_the_epoch);
    a_wait_ends(config, forebay_loader_free);
    free(config);
    return 0;
}
