/* cuFile in host memory, for tests only, to the device memory of fake_cuda.c. A read spoils the place at once, and puts the
 * file's bytes there when it ends, which a test may hold back. It belongs to no stream: whatever a stream has queued that touches
 * the place, before or meanwhile, aborts, as does whatever else the library would not forgive. */
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
/* `plain` reads anywhere, also after the file was unlinked. */
typedef struct Handle { int fd, plain, reads; } Handle;
typedef struct Properties {
    struct { unsigned major, minor; size_t poll, direct; unsigned status, control; } nvfs;
    unsigned features, cache, buffer, pinned, batch, timeout;
} Properties;

int fake_cuda_has_context(void), fake_cuda_is_lost(void);
int fake_cuda_is_idle(const void *at, size_t len);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
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

/* For tests. */
/* From now on, the `nth` call of `function` answers `code`; every call, if `nth` is below 0. Of reads, codes below 5000 are the
 * system's error numbers. */
void fake_cufile_fail(const char *function, int nth, int code) {
    pthread_mutex_lock(&lock);
    snprintf(fault.function, sizeof fault.function, "%s", function);
    fault.calls_left = nth;
    fault.code = code;
    pthread_mutex_unlock(&lock);
}
void fake_cufile_mode(int which) { mode = which; }
/* Whether a read of more than a page reads half of it. */
void fake_cufile_halves(int on) { halves = on; }
/* Whether reads are held back. */
void fake_cufile_hold(int on) {
    pthread_mutex_lock(&lock);
    held = on;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
}
/* Comes back when so many reads are held back; gives up when that does not come about, and says so with 0. */
int fake_cufile_await_reads(int count) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += 10;
    int late = 0;
    pthread_mutex_lock(&lock);
    while (waiting < count && !late) late = pthread_cond_timedwait(&moved, &lock, &at);
    pthread_mutex_unlock(&lock);
    return !late;
}
/* Files that are registered; reads since this was last asked; how often the driver was opened. */
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
    must(description->type == 1 && !description->fs_ops, "a file is described in a way that nobody meant");
    if (!(fcntl(fd, F_GETFL) & O_DIRECT)) return (Error){INVALID_FILE_OPEN_FLAG, 0};
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    Handle *h = *handle = calloc(1, sizeof(Handle));
    *h = (Handle){.fd = fd, .plain = open(name, O_RDONLY | O_CLOEXEC)};
    must(h->plain >= 0, "a file is registered that cannot be opened");
    add(&live, 1);
    return ok();
}
void cuFileHandleDeregister(Handle *h) {
    must(add(&h->reads, 0) == 0, "a file is let go of while it is read");
    must(fcntl(h->fd, F_GETFL) & O_DIRECT, "a file was closed before it was let go of");
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
    must(fake_cuda_is_idle(to, size), "a place is read to that a stream has work for");
    add(&h->reads, 1);
    memset(to, 0xBB, size);
    pthread_mutex_lock(&lock);
    waiting++;
    pthread_cond_broadcast(&moved);
    while (held) pthread_cond_wait(&moved, &lock);
    waiting--;
    pthread_mutex_unlock(&lock);
    must(fake_cuda_is_idle(to, size), "a stream was given work for a place while it was read to");
    ssize_t read = pread(h->plain, to, halves && size > 4096 ? size / 2 : size, offset);
    /* A read past the page cache leaves nothing there. */
    posix_fadvise(h->plain, 0, 0, POSIX_FADV_DONTNEED);
    add(&reads, 1);
    add(&h->reads, -1);
    return read;
}
