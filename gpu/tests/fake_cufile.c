/* Fake cuFile in host memory, for tests only, with the device memory of fake_cuda.c. A read overwrites its target at
 * once, and writes the bytes of the file when it ends, which a test may delay. Reads belong to no stream: work of any
 * stream that uses the target, queued before the read or meanwhile, aborts the process, as does misuse that the
 * library would not detect. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { INVALID_FILE_OPEN_FLAG = 5019 };
enum { COMPATIBLE, NVIDIA_FS, PEER_TO_PEER };

typedef struct Error { unsigned err, cu_err; } Error;
typedef struct Description { int type; union { int fd; void *handle; } handle; const void *fs_ops; } Description;
/* `plain` is the file without O_DIRECT, which also works after the file was unlinked. */
typedef struct Handle { int fd, plain, reads; } Handle;
typedef struct Properties {
    struct { unsigned major, minor; size_t poll, direct; unsigned status, control; } nvfs;
    unsigned features, cache, buffer, pinned, batch, timeout;
} Properties;

int fake_cuda_has_context(void), fake_cuda_is_lost(void);
int fake_cuda_is_idle(const void *at, size_t len);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct { char function[64]; int calls_left, code; } fault;
static int live, mode = NVIDIA_FS, reads, held, waiting, halves, opened;

static void must(int holds, const char *what) {
    if (!holds) { fprintf(stderr, "fake cuFile: %s\n", what); abort(); }
}
static int injected(const char *function) {
    if (fake_cuda_is_lost()) return EIO;
    pthread_mutex_lock(&lock);
    int hit = !strcmp(fault.function, function) && (fault.calls_left < 0 || (fault.calls_left > 0 && --fault.calls_left == 0));
    pthread_mutex_unlock(&lock);
    return hit ? fault.code : 0;
}
static int add(int *count, int n) { return __atomic_add_fetch(count, n, __ATOMIC_SEQ_CST); }
static Error ok(void) { return (Error){0, 0}; }
#define ENTER do { int code = injected(__func__); if (code) return (Error){code, 0}; } while (0)

/* Interface for tests. */
/* Makes the `nth` call of `function` return `code`, or every call if `nth` is negative. Codes of reads below 5000 are
 * error numbers of the system. */
void fake_cufile_fail(const char *function, int nth, int code) {
    pthread_mutex_lock(&lock);
    snprintf(fault.function, sizeof fault.function, "%s", function);
    fault.calls_left = nth;
    fault.code = code;
    pthread_mutex_unlock(&lock);
}
void fake_cufile_mode(int which) { mode = which; }
/* Sets whether a read of more than a page returns half of it. */
void fake_cufile_halves(int on) { halves = on; }
/* Sets whether reads are delayed. */
void fake_cufile_hold(int on) {
    pthread_mutex_lock(&lock);
    held = on;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
/* Waits until `count` reads are delayed. Returns 0 after 10 seconds without that. */
int fake_cufile_await_reads(int count) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += 10;
    int late = 0;
    pthread_mutex_lock(&lock);
    while (waiting < count && !late) late = pthread_cond_timedwait(&changed, &lock, &at);
    pthread_mutex_unlock(&lock);
    return !late;
}
/* Number of registered files; of reads since the last call; of openings of the driver. */
int fake_cufile_live(void) { return add(&live, 0); }
int fake_cufile_reads(void) { return __atomic_exchange_n(&reads, 0, __ATOMIC_SEQ_CST); }
int fake_cufile_opened(void) { return add(&opened, 0); }

Error cuFileDriverOpen(void) {
    ENTER;
    must(fake_cuda_has_context(), "no context is current");
    add(&opened, 1);
    return ok();
}
Error cuFileDriverGetProperties(Properties *p) {
    ENTER;
    *p = (Properties){.nvfs = {.major = mode == NVIDIA_FS ? 2 : 0, .minor = mode == NVIDIA_FS ? 25 : 0}};
    if (mode == PEER_TO_PEER) p->nvfs.status = 1u << 11;
    return ok();
}
Error cuFileGetVersion(int *version) { ENTER; *version = 1141; return ok(); }
Error cuFileHandleRegister(Handle **handle, Description *description) {
    ENTER;
    int fd = description->handle.fd;
    must(description->type == 1 && !description->fs_ops, "the description of a file is not supported");
    if (!(fcntl(fd, F_GETFL) & O_DIRECT)) return (Error){INVALID_FILE_OPEN_FLAG, 0};
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    Handle *h = *handle = calloc(1, sizeof(Handle));
    *h = (Handle){.fd = fd, .plain = open(name, O_RDONLY | O_CLOEXEC)};
    must(h->plain >= 0, "a registered file cannot be opened");
    add(&live, 1);
    return ok();
}
void cuFileHandleDeregister(Handle *h) {
    must(add(&h->reads, 0) == 0, "a file is deregistered while it is read");
    must(fcntl(h->fd, F_GETFL) & O_DIRECT, "a file was closed before it was deregistered");
    close(h->plain);
    free(h);
    add(&live, -1);
}
ssize_t cuFileRead(Handle *h, char *base, size_t size, off_t offset, off_t at) {
    int code = injected(__func__);
    if (code >= 5000) return -code;
    if (code) { errno = code; return -1; }
    must(fake_cuda_has_context(), "no context is current");
    char *to = base + at;
    must(fake_cuda_is_idle(to, size), "a stream has work for the target of a read");
    add(&h->reads, 1);
    memset(to, 0xBB, size);
    pthread_mutex_lock(&lock);
    waiting++;
    pthread_cond_broadcast(&changed);
    while (held) pthread_cond_wait(&changed, &lock);
    waiting--;
    pthread_mutex_unlock(&lock);
    must(fake_cuda_is_idle(to, size), "work for the target of a read was queued on a stream during the read");
    ssize_t read = pread(h->plain, to, halves && size > 4096 ? size / 2 : size, offset);
    /* A direct read leaves nothing in the page cache. */
    posix_fadvise(h->plain, 0, 0, POSIX_FADV_DONTNEED);
    add(&reads, 1);
    add(&h->reads, -1);
    return read;
}
