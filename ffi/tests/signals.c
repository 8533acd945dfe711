/* Signals: signals CONFIG.json FOLDER OUT, with the data of interface.c, and a folder of a store to write to. The library
 * changes no handler and no mask of the program, its threads block the signals, and a store that closes the connection
 * does not end a program that has the default action of SIGPIPE. */
#include "check.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SIGNALS = 65, SAMPLE_BYTES = 1 << 20 };

/* Writes of many bytes to sockets that find the connection closed, from now on. */
static atomic_int closed;

/* The library calls this function instead of libc's. On a closed connection it does as the kernel does. */
ssize_t writev(int file, const struct iovec *parts, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; i++) {
        bytes += parts[i].iov_len;
    }
    int type = 0;
    socklen_t len = sizeof type;
    if (bytes > 1 << 16 && getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && closed > 0) {
        closed--;
        CHECK(pthread_kill(pthread_self(), SIGPIPE) == 0);
        errno = EPIPE;
        return -1;
    }
    return syscall(SYS_writev, file, parts, count);
}

/* Actions of the process and mask of the calling thread. */
typedef struct {
    struct sigaction actions[SIGNALS];
    sigset_t mask;
} State;

static void observe(State *state) {
    memset(state, 0, sizeof *state);
    for (int i = 1; i < SIGNALS; i++) {
        /* glibc keeps two signals for itself. */
        (void)sigaction(i, NULL, &state->actions[i]);
    }
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &state->mask) == 0);
}

static void is_unchanged(const State *before) {
    State after;
    observe(&after);
    for (int i = 1; i < SIGNALS; i++) {
        CHECK(after.actions[i].sa_handler == before->actions[i].sa_handler);
        CHECK(after.actions[i].sa_flags == before->actions[i].sa_flags);
        CHECK(sigismember(&after.mask, i) == sigismember(&before->mask, i));
    }
}

/* The signals below 32 that threads of the library block, as bits: all that can be blocked, but for their own faults. */
static uint64_t library_mask(void) {
    const int others[] = {SIGKILL, SIGSTOP, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
    uint64_t mask = 0x7fffffff;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        mask &= ~(UINT64_C(1) << (others[i] - 1));
    }
    return mask;
}

/* The blocked signals of a thread of this process, as bits; the bits of a thread that has ended are the library's. */
static uint64_t blocked(const char *thread) {
    char path[512], line[512];
    uint64_t mask = library_mask();
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        sscanf(line, "SigBlk: %" SCNx64, &mask);
    }
    if (file != NULL) {
        fclose(file);
    }
    return mask;
}

/* Number of threads of the library. Waits until each of them has its mask. */
static int threads_that_block(void) {
    int count = 0;
    DIR *threads = opendir("/proc/self/task");
    CHECK(threads != NULL);
    char own[32];
    snprintf(own, sizeof own, "%d", (int)getpid());
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, own) == 0) {
            continue;
        }
        /* A new thread is about to get its mask. */
        while ((blocked(entry->d_name) & 0x7fffffff) != library_mask()) {
            sched_yield();
        }
        count++;
    }
    closedir(threads);
    return count;
}

/* Writes a sample to a store that closes the connection once. */
static void writes_to(const char *out) {
    char options[1 << 12];
    snprintf(options, sizeof options, "{\"out\": \"%s\", \"columns\": {\"data\": \"bytes\"}, \"size_limit\": null}", out);
    uint8_t *data = calloc(1, SAMPLE_BYTES);
    CHECK(data != NULL);
    const ForebayValue value = {.column = "data", .data = data, .len = SAMPLE_BYTES};
    ForebayWriter *writer = NULL;
    OK(forebay_writer_new(options, &writer));
    closed = 1;
    OK(forebay_writer_write(writer, &value, 1));
    CHECK(threads_that_block() > 0);
    OK(forebay_writer_finish(writer));
    CHECK(closed == 0);
    forebay_writer_free(writer);
    free(data);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    struct sigaction action;
    CHECK(sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    State before;
    observe(&before);
    CHECK(sigismember(&before.mask, SIGPIPE) == 0);
    char *config = text_of(argv[1]);

    ForebayLoader *loader = NULL;
    ForebayBatch *batch = NULL;
    OK(forebay_loader_new(config, NULL, &loader));
    OK(forebay_loader_start_epoch(loader));
    OK(forebay_loader_next(loader, &batch));
    CHECK(threads_that_block() > 0);
    is_unchanged(&before);
    forebay_batch_free(batch);
    ForebayReader *reader = NULL;
    ForebaySample *sample = NULL;
    OK(forebay_reader_new(config, &reader));
    OK(forebay_reader_sample(reader, 0, &sample));
    writes_to(argv[3]);
    is_unchanged(&before);
    forebay_sample_free(sample);
    forebay_reader_free(reader);
    forebay_loader_free(loader);
    is_unchanged(&before);
    free(config);
    return 0;
}
