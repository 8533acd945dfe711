/* A CUDA driver in host memory, for tests only, with two devices. Streams are queues that move as late as is legal: when
 * the test says so, when a consumer reads, or when the host waits for the whole device. Until then nothing is copied, as
 * on a device that is busy. Device memory starts as 0xEE. Whatever a device would not forgive aborts.
 *
 * Its kernels are those of crop_resize.cu, compiled as C++ for the host and linked in. fake_nvjpeg.c does its work on these streams, and
 * fake_cufile.c reads to this memory. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEVICES = 2, STREAMS_MAX = 1024, OPS_MAX = 1024, RANGES_MAX = 256 };
enum { OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_PTX = 218, NOT_FOUND = 500, NOT_READY = 600, INVALID_CONTEXT = 201, STREAM_CAPTURE_IMPLICIT = 906, INVALID_HANDLE = 400, PINNED_ALREADY = 712, WITHOUT_TIME = 2, NON_BLOCKING = 1 };

typedef struct Stream Stream;
/* Seconds of the device's own time: pictures take what a test says, everything else nothing. The host has the time of what it has
 * waited for with fake_cuda_finish, and what it queues begins no earlier. */
typedef struct Event { int device, asked, fired, is_timed; double at; Stream *on; } Event;
typedef struct Op {
    enum { COPY, RECORD, WAIT, CALL } kind;
    int ticket;
    Event *event;
    void *to;
    const void *from;
    size_t len;
    void (*call)(void *);
    double seconds, earliest;
} Op;
struct Stream { int device; Op ops[OPS_MAX]; long first, last; double clock; };
typedef struct Context { int device, retained; } Context;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static Context contexts[DEVICES] = {{0, 0}, {1, 0}};
static Stream *streams[STREAMS_MAX], legacy[DEVICES];
static int stream_count, allocated, events, waiting, modules, waits_move;
static double host_clock;
static struct { char *at; size_t len; } pinned[RANGES_MAX], on_device[RANGES_MAX];
static struct { char function[64]; int calls_left, code; } fault;
static _Thread_local Context *current[16];
static _Thread_local int depth;
/* What the thread may do while another one captures a graph: 0, nothing that waits or allocates; 2, anything. */
static _Thread_local int capture_mode;
static int strict_calls;
static int piece_max = 1 << 30, memory_is_held;
/* Whether a graph is captured on a stream that waits for the default ones: then what these are given is the graph's, or ends the
 * capture, as does whoever waits for the device. */
static int captures;

static void must(int holds, const char *what) {
    if (!holds) { fprintf(stderr, "fake CUDA driver: %s\n", what); abort(); }
}
static int injected(const char *function) {
    pthread_mutex_lock(&lock);
    int hit = 0;
    if (!strcmp(fault.function, function) || !strcmp(fault.function, "*")) {
        hit = fault.calls_left == 1 || fault.calls_left == -1;
        if (fault.calls_left > 0) fault.calls_left--;
        if (fault.calls_left < -1) fault.calls_left++;
    }
    pthread_mutex_unlock(&lock);
    return hit ? fault.code : 0;
}
#define NOT_THE_GRAPH_S(stream) must(!captures || (uintptr_t)(stream) > 2, "something becomes a part of somebody's graph")
#define ENTER do { int code = injected(__func__); if (code) return code; } while (0)
#define ENTER_CONTEXT ENTER; if (!depth) return INVALID_CONTEXT
/* A call that would end another thread's capture of a graph. */
#define NOT_IN_CAPTURES do { if (capture_mode != 2) __atomic_add_fetch(&strict_calls, 1, __ATOMIC_SEQ_CST); } while (0)

static Stream *stream_of(void *s) { return (uintptr_t)s <= 2 ? &legacy[current[depth - 1]->device] : s; }

/* All of these with the lock held. */
static int step(Stream *s) {
    if (s->first == s->last) return 0;
    Op *op = &s->ops[s->first % OPS_MAX];
    if (op->kind == WAIT && op->event->fired < op->ticket) return 0;
    if (s->clock < op->earliest) s->clock = op->earliest;
    if (op->kind == COPY) memcpy(op->to, op->from, op->len);
    if (op->kind == RECORD) op->event->fired = op->ticket, op->event->at = s->clock;
    if (op->kind == WAIT && s->clock < op->event->at) s->clock = op->event->at;
    if (op->kind == CALL) op->call(op->to), s->clock += op->seconds;
    s->first++;
    return 1;
}
/* Moves `s` up to `position`, and of the other streams only what that waits for. */
static void reach(Stream *s, long position) {
    while (s->first < position) {
        if (step(s)) continue;
        Event *awaited = s->ops[s->first % OPS_MAX].event;
        must(awaited->on && awaited->on->first < awaited->on->last, "a stream waits for what was never queued");
        reach(awaited->on, awaited->on->first + 1);
    }
    pthread_cond_broadcast(&moved);
}
static void run_all(void) {
    for (int again = 1; again;) {
        again = 0;
        for (int d = 0; d < DEVICES; d++) again |= step(&legacy[d]);
        for (int i = 0; i < stream_count; i++) again |= step(streams[i]);
    }
    pthread_cond_broadcast(&moved);
}
static int is_pinned(const char *at, size_t len) {
    for (int i = 0; i < RANGES_MAX; i++)
        if (pinned[i].at && at >= pinned[i].at && at + len <= pinned[i].at + pinned[i].len) return 1;
    return 0;
}
static long push(Stream *s, Op op) {
    must(s->last - s->first < OPS_MAX, "a stream is full");
    if (op.kind == RECORD) op.ticket = ++op.event->asked, op.event->on = s;
    if (op.kind == WAIT) op.ticket = op.event->asked;
    op.earliest = host_clock;
    s->ops[s->last % OPS_MAX] = op;
    return ++s->last;
}

/* For tests. */
void fake_cuda_capture(void) { captures = 1; }
void fake_cuda_end_capture(void) { captures = 0; }
void fake_cuda_run(void) {
    pthread_mutex_lock(&lock);
    run_all();
    pthread_mutex_unlock(&lock);
}
/* Everything but the default streams and `besides`, where consumers are. */
void fake_cuda_run_copies(void *besides) {
    pthread_mutex_lock(&lock);
    for (int again = 1; again;) {
        again = 0;
        for (int i = 0; i < stream_count; i++) again |= streams[i] != besides && step(streams[i]);
    }
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
}
/* A consumer's read on `stream` (0: the default stream of `device`); comes back before it has been done. */
static Stream *consumer(int device, void *stream) { return (uintptr_t)stream <= 2 ? &legacy[device] : stream; }
void fake_cuda_read_later(int device, void *stream, const void *from, void *to, size_t len) {
    pthread_mutex_lock(&lock);
    push(consumer(device, stream), (Op){.kind = COPY, .to = to, .from = from, .len = len});
    pthread_mutex_unlock(&lock);
}
/* The same, done, and no other stream moved further than that needs. */
void fake_cuda_read(int device, void *stream, const void *from, void *to, size_t len) {
    Stream *s = consumer(device, stream);
    pthread_mutex_lock(&lock);
    reach(s, push(s, (Op){.kind = COPY, .to = to, .from = from, .len = len}));
    pthread_mutex_unlock(&lock);
}
void *fake_cuda_stream(int device) {
    Stream *s = calloc(1, sizeof(Stream));
    s->device = device;
    pthread_mutex_lock(&lock);
    must(stream_count < STREAMS_MAX, "too many streams");
    streams[stream_count++] = s;
    pthread_mutex_unlock(&lock);
    return s;
}
/* From now on, the `nth` call of `function`, "*" for any, answers `code`; if `nth` is below 0, every one from the -`nth`-th on. */
void fake_cuda_fail(const char *function, int nth, int code) {
    pthread_mutex_lock(&lock);
    snprintf(fault.function, sizeof fault.function, "%s", function);
    fault.calls_left = nth;
    fault.code = code;
    pthread_mutex_unlock(&lock);
}
/* Whether every call of any function fails by now. */
int fake_cuda_is_lost(void) {
    pthread_mutex_lock(&lock);
    int lost = !strcmp(fault.function, "*") && fault.calls_left == -1;
    pthread_mutex_unlock(&lock);
    return lost;
}
/* Pieces of device memory have at most so many bytes from now on. */
void fake_cuda_piece_max(int bytes) { __atomic_store_n(&piece_max, bytes, __ATOMIC_SEQ_CST); }
/* Memory of the device is waited for until it is let go. */
int fake_cuda_hold_memory(void) { return __atomic_exchange_n(&memory_is_held, 1, __ATOMIC_SEQ_CST); }
int fake_cuda_let_memory_go(void) {
    pthread_mutex_lock(&lock);
    memory_is_held = 0;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
    return 0;
}
/* The two below give up when what they wait for does not come about, and say so with 0. */
static struct timespec give_up_at(void) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += 10;
    return at;
}
/* From now on, a host that waits moves the device, as far as it can go; whoever waits already is helped as well. What it did
 * before. */
int fake_cuda_waits_move(int on) {
    pthread_mutex_lock(&lock);
    int before = waits_move;
    waits_move = on;
    if (on) run_all();
    pthread_mutex_unlock(&lock);
    return before;
}
/* The same, and each wait moves the device only as far as it waits for. Nobody else is helped, now or when it ends, by the answer of
 * this function. */
int fake_cuda_waits_move_little(int mode) {
    pthread_mutex_lock(&lock);
    int before = waits_move;
    waits_move = mode;
    pthread_mutex_unlock(&lock);
    return before;
}
/* Comes back when so many threads wait for events that have not fired. */
int fake_cuda_await_waiters(int count) {
    struct timespec at = give_up_at();
    int late = 0;
    pthread_mutex_lock(&lock);
    while (waiting < count && !late) late = pthread_cond_timedwait(&moved, &lock, &at);
    pthread_mutex_unlock(&lock);
    return !late;
}
/* Comes back when a thread waits for an event that has not fired. */
int fake_cuda_await_waiter(void) { return fake_cuda_await_waiters(1); }
/* Runs everything, again and again, until nobody holds a context. */
int fake_cuda_await_release(void) {
    struct timespec at = give_up_at();
    int late = 0;
    pthread_mutex_lock(&lock);
    for (run_all(); (contexts[0].retained || contexts[1].retained) && !late; run_all())
        late = pthread_cond_timedwait(&moved, &lock, &at);
    pthread_mutex_unlock(&lock);
    return !late;
}
/* Operations that have not run. */
int fake_cuda_queued(void) {
    int count = 0;
    pthread_mutex_lock(&lock);
    for (int d = 0; d < DEVICES; d++) count += legacy[d].last - legacy[d].first;
    for (int i = 0; i < stream_count; i++) count += streams[i]->last - streams[i]->first;
    pthread_mutex_unlock(&lock);
    return count;
}
/* Microseconds of the stream that is furthest; from now on all are there. */
int fake_cuda_clock(void) {
    double clock = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < stream_count; i++)
        if (clock < streams[i]->clock) clock = streams[i]->clock;
    for (int i = 0; i < stream_count; i++) streams[i]->clock = clock;
    pthread_mutex_unlock(&lock);
    return (int)(clock * 1e6);
}
int fake_cuda_retained(int device) { return __atomic_load_n(&contexts[device].retained, __ATOMIC_SEQ_CST); }
int fake_cuda_modules(void) { return __atomic_load_n(&modules, __ATOMIC_SEQ_CST); }
/* Calls that would have ended a capture, and this thread's mode. */
int fake_cuda_strict_calls(void) { return __atomic_load_n(&strict_calls, __ATOMIC_SEQ_CST); }
int fake_cuda_capture_mode(void) { return capture_mode; }
int fake_cuda_allocated(void) { return __atomic_load_n(&allocated, __ATOMIC_SEQ_CST); }
int fake_cuda_events(void) { return __atomic_load_n(&events, __ATOMIC_SEQ_CST); }
int fake_cuda_registered(void) {
    int count = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < RANGES_MAX; i++) count += pinned[i].at != NULL;
    pthread_mutex_unlock(&lock);
    return count;
}

/* Whether device memory has all of the range. */
int fake_cuda_is_on_device(const void *from, size_t len) {
    const char *at = from;
    int known = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < RANGES_MAX; i++)
        known |= on_device[i].at && at >= on_device[i].at && at + len <= on_device[i].at + on_device[i].len;
    pthread_mutex_unlock(&lock);
    return known;
}
/* Whether device memory has all of the range, and nothing that is queued on any stream touches it. */
int fake_cuda_is_idle(const void *from, size_t len) {
    const char *at = from;
    int known = fake_cuda_is_on_device(from, len), busy = 0;
    pthread_mutex_lock(&lock);
    for (int i = -DEVICES; i < stream_count; i++) {
        const Stream *s = i < 0 ? &legacy[i + DEVICES] : streams[i];
        for (long o = s->first; o < s->last; o++) {
            const Op *op = &s->ops[o % OPS_MAX];
            const char *to = op->to, *read = op->from;
            if (op->kind == COPY) busy |= (to < at + len && at < to + op->len) || (read < at + len && at < read + op->len);
        }
    }
    pthread_mutex_unlock(&lock);
    return known && !busy;
}
/* For other libraries of this device. `call` runs in `stream`'s order and takes so long; what it is given, it frees. */
int fake_cuda_has_context(void) { return depth > 0; }
int fake_cuda_is_pinned(const void *at, size_t len) { return is_pinned(at, len); }
void fake_cuda_call_later(void *stream, void (*call)(void *), void *argument, double seconds) {
    pthread_mutex_lock(&lock);
    push(stream_of(stream), (Op){.kind = CALL, .call = call, .to = argument, .seconds = seconds});
    pthread_mutex_unlock(&lock);
}
/* The host waits for what `stream` has been given. */
void fake_cuda_finish(void *stream) {
    Stream *s = stream_of(stream);
    pthread_mutex_lock(&lock);
    reach(s, s->last);
    if (host_clock < s->clock) host_clock = s->clock;
    pthread_mutex_unlock(&lock);
}

/* The driver: what driver.rs lists, a line each. */
int cuInit(unsigned f) { (void)f; ENTER; return 0; }
int cuGetErrorName(int c, const char **t) {
    *t = c == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_THE_TEST";
    return 0;
}
int cuDeviceGetCount(int *n) { ENTER; *n = DEVICES; return 0; }
int cuDeviceGet(int *d, int n) { ENTER; *d = n; return n >= 0 && n < DEVICES ? 0 : INVALID_DEVICE; }
int cuDeviceGetPCIBusId(char *t, int n, int d) { ENTER; snprintf(t, n, "0000:3%d:00.0", d); return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) {
    ENTER;
    *c = &contexts[d];
    __atomic_add_fetch(&contexts[d].retained, 1, __ATOMIC_SEQ_CST);
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(int d) {
    ENTER;
    pthread_mutex_lock(&lock);
    must(__atomic_sub_fetch(&contexts[d].retained, 1, __ATOMIC_SEQ_CST) >= 0, "a context is released twice");
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuCtxPushCurrent_v2(void *c) {
    ENTER;
    must(depth < 16 && ((Context *)c)->retained > 0, "a context is used that nobody holds");
    current[depth++] = c;
    return 0;
}
int cuThreadExchangeStreamCaptureMode(int *mode) {
    ENTER;
    int before = capture_mode;
    must(*mode >= 0 && *mode <= 2, "a capture mode that there is not");
    capture_mode = *mode;
    *mode = before;
    return 0;
}
int cuCtxPopCurrent_v2(void **c) { ENTER_CONTEXT; *c = current[--depth]; return 0; }
/* Ends others' captures whatever the thread's mode. */
int cuCtxSynchronize(void) {
    __atomic_add_fetch(&strict_calls, 1, __ATOMIC_SEQ_CST);
    ENTER_CONTEXT;
    must(!captures, "a wait for the device ends somebody's capture");
    fake_cuda_run();
    return 0;
}
int cuStreamIsCapturing(void *s, int *status) {
    ENTER_CONTEXT;
    *status = 0;
    // Of the default stream there is no status while one that waits for it captures.
    return captures && (uintptr_t)s <= 2 ? STREAM_CAPTURE_IMPLICIT : 0;
}
int cuStreamCreate(void **s, unsigned f) { ENTER_CONTEXT; must(f == NON_BLOCKING, "a stream waits for the default stream"); *s = fake_cuda_stream(current[depth - 1]->device); return 0; }
/* Never freed: what is queued is still done. */
int cuStreamDestroy_v2(void *s) { (void)s; ENTER_CONTEXT; return 0; }
int cuStreamWaitEvent(void *s, void *e, unsigned f) {
    (void)f;
    ENTER_CONTEXT;
    NOT_THE_GRAPH_S(s);
    pthread_mutex_lock(&lock);
    push(stream_of(s), (Op){.kind = WAIT, .event = e});
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuEventCreate(void **e, unsigned f) {
    ENTER_CONTEXT;
    Event *event = *e = calloc(1, sizeof(Event));
    event->is_timed = !(f & WITHOUT_TIME);
    event->device = current[depth - 1]->device;
    __atomic_add_fetch(&events, 1, __ATOMIC_SEQ_CST);
    return 0;
}
int cuEventRecord(void *e, void *s) {
    ENTER_CONTEXT;
    NOT_THE_GRAPH_S(s);
    if (((Event *)e)->device != stream_of(s)->device) return INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    push(stream_of(s), (Op){.kind = RECORD, .event = e});
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuEventQuery(void *event) {
    ENTER_CONTEXT;
    NOT_IN_CAPTURES;
    Event *e = event;
    pthread_mutex_lock(&lock);
    int fired = e->fired == e->asked;
    pthread_mutex_unlock(&lock);
    return fired ? 0 : NOT_READY;
}
int cuEventSynchronize(void *event) {
    ENTER_CONTEXT;
    NOT_IN_CAPTURES;
    Event *e = event;
    pthread_mutex_lock(&lock);
    waiting++;
    if (waits_move == 1) run_all();
    while (waits_move == 2 && e->fired < e->asked) reach(e->on, e->on->first + 1);
    pthread_cond_broadcast(&moved);
    for (int asked = e->asked; e->fired < asked;) pthread_cond_wait(&moved, &lock);
    waiting--;
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuEventElapsedTime(float *milliseconds, void *begun, void *ended) {
    ENTER_CONTEXT;
    Event *from = begun, *to = ended;
    pthread_mutex_lock(&lock);
    int code = !from->is_timed || !to->is_timed || !from->asked || !to->asked ? INVALID_HANDLE
               : from->fired < from->asked || to->fired < to->asked           ? NOT_READY
                                                                              : 0;
    *milliseconds = (to->at - from->at) * 1e3;
    pthread_mutex_unlock(&lock);
    return code;
}
/* Never freed: an operation may still point at it. */
int cuEventDestroy_v2(void *e) { (void)e; ENTER_CONTEXT; __atomic_sub_fetch(&events, 1, __ATOMIC_SEQ_CST); return 0; }
int cuMemAlloc_v2(uint64_t *p, size_t n) {
    ENTER_CONTEXT;
    NOT_IN_CAPTURES;
    if (n > (size_t)__atomic_load_n(&piece_max, __ATOMIC_SEQ_CST)) return OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    waiting += memory_is_held;
    pthread_cond_broadcast(&moved);
    for (int was_held = memory_is_held; was_held; was_held = memory_is_held) {
        pthread_cond_wait(&moved, &lock);
        waiting -= !memory_is_held;
    }
    pthread_mutex_unlock(&lock);
    char *at = memset(malloc(n), 0xEE, n);
    *p = (uintptr_t)at;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < RANGES_MAX && on_device[i].at) i++;
    must(i < RANGES_MAX, "too many pieces of device memory");
    on_device[i].at = at;
    on_device[i].len = n;
    pthread_mutex_unlock(&lock);
    __atomic_add_fetch(&allocated, 1, __ATOMIC_SEQ_CST);
    return 0;
}
/* As the driver's, waits for the device. */
int cuMemFree_v2(uint64_t p) {
    ENTER_CONTEXT;
    NOT_IN_CAPTURES;
    fake_cuda_run();
    pthread_mutex_lock(&lock);
    for (int i = 0; i < RANGES_MAX; i++)
        if (on_device[i].at == (char *)(uintptr_t)p) on_device[i].at = NULL;
    pthread_mutex_unlock(&lock);
    free((void *)(uintptr_t)p);
    __atomic_sub_fetch(&allocated, 1, __ATOMIC_SEQ_CST);
    return 0;
}
int cuMemHostRegister_v2(void *p, size_t n, unsigned f) {
    (void)f;
    ENTER_CONTEXT;
    NOT_IN_CAPTURES;
    if (is_pinned(p, 1)) return PINNED_ALREADY;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < RANGES_MAX && pinned[i].at) i++;
    must(i < RANGES_MAX, "too many registered ranges");
    pinned[i].at = p;
    pinned[i].len = n;
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuMemHostUnregister(void *p) {
    ENTER_CONTEXT;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < RANGES_MAX && pinned[i].at != p) i++;
    must(i < RANGES_MAX, "memory is unregistered that was not registered");
    pinned[i].at = NULL;
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *s) {
    ENTER_CONTEXT;
    must(to + n <= from || from + n <= to, "a copy on the device overlaps with itself");
    must(fake_cuda_is_on_device((void *)(uintptr_t)to, n) && fake_cuda_is_on_device((void *)(uintptr_t)from, n), "a row lies outside");
    pthread_mutex_lock(&lock);
    push(stream_of(s), (Op){.kind = COPY, .to = (void *)(uintptr_t)to, .from = (void *)(uintptr_t)from, .len = n});
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *s) {
    ENTER_CONTEXT;
    pthread_mutex_lock(&lock);
    push(stream_of(s), (Op){.kind = COPY, .to = to, .from = (void *)(uintptr_t)from, .len = n});
    pthread_mutex_unlock(&lock);
    return 0;
}
typedef struct Fill { uint32_t *at, word; size_t count; } Fill;
static void fill(void *argument) {
    Fill *f = argument;
    for (size_t i = 0; i < f->count; i++) f->at[i] = f->word;
    free(f);
}
int cuMemsetD32Async(uint64_t at, unsigned word, size_t count, void *s) {
    ENTER_CONTEXT;
    must(at % 4 == 0 && fake_cuda_is_on_device((void *)(uintptr_t)at, count * 4), "memory outside is filled");
    Fill *f = malloc(sizeof *f);
    *f = (Fill){(void *)(uintptr_t)at, word, count};
    fake_cuda_call_later(s, fill, f, 0);
    return 0;
}
/* Ordinary memory is read late as well as registered memory, as by devices that can read it. */
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *s) {
    ENTER_CONTEXT;
    must(fake_cuda_is_on_device((void *)(uintptr_t)to, n), "a copy goes outside");
    pthread_mutex_lock(&lock);
    push(stream_of(s), (Op){.kind = COPY, .to = (void *)(uintptr_t)to, .from = from, .len = n});
    pthread_mutex_unlock(&lock);
    return 0;
}

/* The kernels, and the argument that is passed by value. */
struct Picture;
typedef struct Batch { void *out; unsigned w, h, dtype, interleaved; float scale[3], offset[3]; } Batch;
void crop_resize_on_host(const struct Picture *pictures, const Batch *batch, unsigned count);
void find_undecoded_on_host(const struct Picture *pictures, unsigned count);
typedef struct Launch { const struct Picture *pictures; Batch batch; unsigned count; } Launch;
static void run_kernel(void *launch) {
    Launch *l = launch;
    crop_resize_on_host(l->pictures, &l->batch, l->count);
    free(l);
}
static void run_look(void *launch) {
    Launch *l = launch;
    find_undecoded_on_host(l->pictures, l->count);
    free(l);
}
int cuModuleLoadData(void **m, const void *image) {
    ENTER_CONTEXT;
    if (!strstr(image, ".visible .entry crop_resize(")) return INVALID_PTX;
    *m = calloc(1, 1);
    __atomic_add_fetch(&modules, 1, __ATOMIC_SEQ_CST);
    return 0;
}
int cuModuleUnload(void *m) { ENTER_CONTEXT; free(m); __atomic_sub_fetch(&modules, 1, __ATOMIC_SEQ_CST); return 0; }
int cuModuleGetFunction(void **f, void *m, const char *name) {
    (void)m;
    ENTER_CONTEXT;
    *f = !strcmp(name, "crop_resize") ? (void *)run_kernel : !strcmp(name, "find_undecoded") ? (void *)run_look : NULL;
    return *f ? 0 : NOT_FOUND;
}
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **arguments, void **extra) {
    ENTER_CONTEXT;
    must((f == (void *)run_kernel || f == (void *)run_look) && !extra && !shared, "a kernel is launched that is none");
    Launch *l = malloc(sizeof *l);
    memcpy(&l->pictures, arguments[0], sizeof l->pictures);
    if (f == (void *)run_look) {
        l->count = gx;
        must(bx >= 1 && bx <= 1024 && by * bz * gy * gz == 1 && gx >= 1, "a launch has a shape that no device takes");
        fake_cuda_call_later(stream, run_look, l, 0);
        return 0;
    }
    memcpy(&l->batch, arguments[1], sizeof l->batch);
    l->count = gz;
    must(bx * by * bz <= 1024 && bz == 1 && gz >= 1 && gz <= 65535, "a launch has a shape that no device takes");
    must(gx * bx >= l->batch.w && gy * by >= l->batch.h, "a launch leaves pixels out");
    fake_cuda_call_later(stream, run_kernel, l, 0);
    return 0;
}
