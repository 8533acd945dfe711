/* A CUDA driver in host memory, for tests only. Streams are queues that run when the test says so:
 * fake_cuda_run() runs everything that can run, and until then nothing is copied, as on a device that is busy. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct Event { int asked, fired; } Event;
typedef struct Op { int kind, ticket; Event *event; void *to; const void *from; size_t len; } Op;
typedef struct Stream { Op ops[256]; int first, last; } Stream;
enum { COPY, RECORD, WAIT };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static Stream *streams[64], legacy;
static int stream_count, allocated, registered, waiting;

static Stream *stream_of(void *s) { return (uintptr_t)s <= 2 ? &legacy : s; }

static int step(Stream *s) {
    if (s->first == s->last) return 0;
    Op *op = &s->ops[s->first % 256];
    if (op->kind == WAIT && op->event->fired < op->ticket) return 0;
    if (op->kind == COPY) memcpy(op->to, op->from, op->len);
    if (op->kind == RECORD) op->event->fired = op->ticket;
    s->first++;
    return 1;
}
static int push(void *stream, Op op) {
    pthread_mutex_lock(&lock);
    Stream *s = stream_of(stream);
    if (op.kind == RECORD) op.ticket = ++op.event->asked;
    if (op.kind == WAIT) op.ticket = op.event->asked;
    s->ops[s->last++ % 256] = op;
    pthread_mutex_unlock(&lock);
    return 0;
}
static void run(int with_legacy) {
    pthread_mutex_lock(&lock);
    for (int again = 1; again;) {
        again = with_legacy && step(&legacy);
        for (int i = 0; i < stream_count; i++) again |= step(streams[i]);
    }
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
}
/* For tests: */
void fake_cuda_run(void) { run(1); }
/* Everything but the default stream, where the tests' consumers are. */
void fake_cuda_run_copies(void) { run(0); }
/* Threads that have begun to wait for an event, ever. */
int fake_cuda_waiting(void) { return __atomic_load_n(&waiting, __ATOMIC_SEQ_CST); }
int fake_cuda_registered(void) { return __atomic_load_n(&registered, __ATOMIC_SEQ_CST); }
int fake_cuda_allocated(void) { return __atomic_load_n(&allocated, __ATOMIC_SEQ_CST); }

int cuInit(unsigned f) { (void)f; return 0; }
int cuDeviceGet(int *d, int n) { *d = n; return n == 0 ? 0 : 101; }
int cuDeviceGetPCIBusId(char *t, int n, int d) { (void)d; strncpy(t, "0000:3b:00.0", n); return 0; }
int cuGetErrorName(int c, const char **t) { *t = c == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR"; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { (void)d; *c = &lock; return 0; }
int cuDevicePrimaryCtxRelease_v2(int d) { (void)d; return 0; }
int cuCtxPushCurrent_v2(void *c) { (void)c; return 0; }
int cuCtxPopCurrent_v2(void **c) { *c = &lock; return 0; }
int cuCtxSynchronize(void) { fake_cuda_run(); return 0; }
int cuStreamCreate(void **s, unsigned f) {
    (void)f;
    pthread_mutex_lock(&lock);
    *s = streams[stream_count++] = calloc(1, sizeof(Stream));
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuStreamDestroy_v2(void *s) { (void)s; return 0; }
int cuStreamWaitEvent(void *s, void *e, unsigned f) { (void)f; return push(s, (Op){.kind = WAIT, .event = e}); }
int cuEventCreate(void **e, unsigned f) { (void)f; *e = calloc(1, sizeof(Event)); return 0; }
int cuEventRecord(void *e, void *s) { return push(s, (Op){.kind = RECORD, .event = e}); }
int cuEventSynchronize(void *event) {
    Event *e = event;
    pthread_mutex_lock(&lock);
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    for (int asked = e->asked; e->fired < asked;) pthread_cond_wait(&moved, &lock);
    pthread_mutex_unlock(&lock);
    return 0;
}
/* Never freed: an operation may still point at it. */
int cuEventDestroy_v2(void *e) { (void)e; return 0; }
int cuMemAlloc_v2(uint64_t *p, size_t n) {
    *p = (uintptr_t)memset(malloc(n), 0xEE, n);
    __atomic_add_fetch(&allocated, 1, __ATOMIC_SEQ_CST);
    return 0;
}
int cuMemFree_v2(uint64_t p) { free((void *)(uintptr_t)p); __atomic_sub_fetch(&allocated, 1, __ATOMIC_SEQ_CST); return 0; }
int cuMemHostRegister_v2(void *p, size_t n, unsigned f) { (void)p, (void)n, (void)f; __atomic_add_fetch(&registered, 1, __ATOMIC_SEQ_CST); return 0; }
int cuMemHostUnregister(void *p) { (void)p; __atomic_sub_fetch(&registered, 1, __ATOMIC_SEQ_CST); return 0; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *s) {
    return push(s, (Op){.kind = COPY, .to = (void *)(uintptr_t)to, .from = from, .len = n});
}
