/* The log callback: log CONFIG.json, with the data of interface.c. */
#include "check.h"
#include <stdatomic.h>

static atomic_uint lines, rejected;

static void counts(void *context, ForebayLogLevel level, const char *message) {
    CHECK(context == &lines);
    CHECK(level >= FOREBAY_LOG_LEVEL_ERROR && level <= FOREBAY_LOG_LEVEL_WARN);
    CHECK(strstr(message, "different plan") != NULL);
    lines++;
    /* The library cannot be called from here. */
    if (forebay_log_set(1, NULL, NULL) == FOREBAY_STATUS_INVALID && strstr(forebay_last_error(), "log callback") != NULL) {
        rejected++;
    }
}

/* Loads a state of a different order, which is a warning. */
static void warns(const char *config) {
    ForebayLoader *loader = NULL;
    OK(forebay_loader_new(config, NULL, &loader));
    char *state = NULL;
    OK(forebay_loader_state(loader, &state));
    char *seed = strstr(state, "\"augment_seed\":9176");
    CHECK(seed != NULL);
    memcpy(seed, "\"augment_seed\":9175", 19);
    FAILS(forebay_loader_load_state(loader, state, 1), FOREBAY_STATUS_STATE, "");
    OK(forebay_loader_load_state(loader, state, 0));
    forebay_string_free(state);
    forebay_loader_free(loader);
}

static atomic_uint skipped;

static void counts_skipped(void *context, ForebayLogLevel level, const char *message) {
    CHECK(context == NULL && level == FOREBAY_LOG_LEVEL_WARN);
    if (strstr(message, "skipped") != NULL) {
        skipped++;
    }
}

/* Returns `text` with `to` instead of `from`, and frees `text`. */
static char *replaced(char *text, const char *from, const char *to) {
    char *found = strstr(text, from);
    char *out = calloc(1, strlen(text) + strlen(to) + 1);
    CHECK(found != NULL && out != NULL);
    sprintf(out, "%.*s%s%s", (int)(found - text), text, to, found + strlen(from));
    free(text);
    return out;
}

/* Lines from threads of the library: every sample is skipped, because it is longer than its field. */
static void skips(const char *path) {
    char *config = replaced(text_of(path), "\"skip\":{\"errors\":0", "\"skip\":{\"errors\":50");
    config = replaced(config, "\"fields\":null",
                      "\"fields\":[[\"x\",{\"kind\":\"tokens\",\"column\":\"tokens\",\"length\":4}]]");
    ForebayLoader *loader = NULL;
    ForebayBatch *batch = NULL;
    OK(forebay_log_set(FOREBAY_LOG_LEVEL_WARN, counts_skipped, NULL));
    OK(forebay_loader_new(config, NULL, &loader));
    OK(forebay_loader_start_epoch(loader));
    CHECK(forebay_loader_next(loader, &batch) == FOREBAY_STATUS_END);
    CHECK(skipped >= 1);
    forebay_loader_free(loader);
    OK(forebay_log_set(FOREBAY_LOG_LEVEL_WARN, NULL, NULL));
    free(config);
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    char *config = text_of(argv[1]);
    warns(config);
    CHECK(lines == 0);
    OK(forebay_log_set(FOREBAY_LOG_LEVEL_WARN, counts, (void *)&lines));
    warns(config);
    CHECK(lines == 1 && rejected == 1);
    OK(forebay_log_set(FOREBAY_LOG_LEVEL_ERROR, counts, (void *)&lines));
    warns(config);
    CHECK(lines == 1);
    OK(forebay_log_set(FOREBAY_LOG_LEVEL_WARN, NULL, NULL));
    warns(config);
    CHECK(lines == 1);
    free(config);
    skips(argv[1]);
    return 0;
}
