/* Fake CUDA driver with two devices in host memory, for tests only. Streams are queues that advance as late as is
 * legal: when the test calls a function for it, when a consumer reads, or when the host waits for the whole device.
 * Until then nothing is copied, as on a busy device. Device memory is initialised to 0xEE. Misuse that a device would
 * not detect aborts the process.
 *
 * The kernels come from crop_resize.cu, compiled as C++ for the host and linked in. fake_nvjpeg.c queues its work
 * on these streams, and fake_cufile.c reads to this memory. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEVICES = 2, STREAMS_MAX = 1024, OPS_MAX = 1024, RANGES_MAX = 256 };
enum { OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500 };
enum { NOT_READY = 600, PINNED_ALREADY = 712, STREAM_CAPTURE_IMPLICIT = 906 };
/* Flags of events and streams. */
enum { WITHOUT_TIME = 2, NON_BLOCKING = 1 };

typedef struct Stream Stream;
/* Times are seconds of simulated time. Pictures take the time that a test sets, all remaining work takes none. The host's
 * time is the time of the work for which it has waited with fake_cuda_finish, and work that it queues starts no earlier. */
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
static pthread_cond_t advanced = PTHREAD_COND_INITIALIZER;
static Context contexts[DEVICES] = {{0, 0}, {1, 0}};
static Stream *streams[STREAMS_MAX], legacy[DEVICES];
static int stream_count, allocated, events, waiting, modules, waits_advance;
static double host_clock;
static struct { char *at; size_t len; } pinned[RANGES_MAX], on_device[RANGES_MAX];
static struct { char function[64]; int calls_left, code; } fault;
static _Thread_local Context *current[16];
static _Thread_local int depth;
/* Capture mode of the thread while a second one captures a graph: 0 forbids waits and allocations; 2 allows all calls. */
static _Thread_local int capture_mode;
static int strict_calls;
static int piece_max = 1 << 30, memory_is_held;
/* True while a graph is captured on a stream that waits for the default streams. Then work on the default streams
 * becomes part of the graph or ends the capture, and so does a wait for the device. */
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
#define NOT_THE_GRAPH_S(stream) must(!captures || (uintptr_t)(stream) > 2, "work becomes a part of a consumer's graph")
#define ENTER do { int code = injected(__func__); if (code) return code; } while (0)
#define ENTER_CONTEXT ENTER; if (!depth) return INVALID_CONTEXT
/* Marks calls that would end a second thread's capture of a graph. */
#define NOT_IN_CAPTURES do { if (capture_mode != 2) __atomic_add_fetch(&strict_calls, 1, __ATOMIC_SEQ_CST); } while (0)

static Stream *stream_of(void *s) { return (uintptr_t)s <= 2 ? &legacy[current[depth - 1]->device] : s; }

/* The following functions require the lock. */
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
/* Advances `s` to `position`, and further streams only as far as it waits for them. */
static void reach(Stream *s, long position) {
    while (s->first < position) {
        if (step(s)) continue;
        Event *awaited = s->ops[s->first % OPS_MAX].event;
        must(awaited->on && awaited->on->first < awaited->on->last, "a stream waits for an event that was never recorded");
        reach(awaited->on, awaited->on->first + 1);
    }
    pthread_cond_broadcast(&advanced);
}
static void run_all(void) {
    for (int is_busy = 1; is_busy;) {
        is_busy = 0;
        for (int d = 0; d < DEVICES; d++) is_busy |= step(&legacy[d]);
        for (int i = 0; i < stream_count; i++) is_busy |= step(streams[i]);
    }
    pthread_cond_broadcast(&advanced);
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

/* Interface for tests. */
void fake_cuda_capture(void) { captures = 1; }
void fake_cuda_end_capture(void) { captures = 0; }
void fake_cuda_run(void) {
    pthread_mutex_lock(&lock);
    run_all();
    pthread_mutex_unlock(&lock);
}
/* Advances all streams except the default streams and `consumer`, which consumers use. */
void fake_cuda_run_copies(void *consumer) {
    pthread_mutex_lock(&lock);
    for (int is_busy = 1; is_busy;) {
        is_busy = 0;
        for (int i = 0; i < stream_count; i++) is_busy |= streams[i] != consumer && step(streams[i]);
    }
    pthread_cond_broadcast(&advanced);
    pthread_mutex_unlock(&lock);
}
/* Stream of a consumer; 0 is the default stream of `device`. */
static Stream *consumer_stream(int device, void *stream) { return (uintptr_t)stream <= 2 ? &legacy[device] : stream; }
/* Queues a consumer's read on `stream`. */
void fake_cuda_read_later(int device, void *stream, const void *from, void *to, size_t len) {
    pthread_mutex_lock(&lock);
    push(consumer_stream(device, stream), (Op){.kind = COPY, .to = to, .from = from, .len = len});
    pthread_mutex_unlock(&lock);
}
/* Reads on `stream`, and advances further streams only as far as it waits for them. */
void fake_cuda_read(int device, void *stream, const void *from, void *to, size_t len) {
    Stream *s = consumer_stream(device, stream);
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
/* Makes the `nth` call of `function` return `code`; "*" means any function. If `nth` is negative, all calls from the
 * -`nth`th on. */
void fake_cuda_fail(const char *function, int nth, int code) {
    pthread_mutex_lock(&lock);
    snprintf(fault.function, sizeof fault.function, "%s", function);
    fault.calls_left = nth;
    fault.code = code;
    pthread_mutex_unlock(&lock);
}
/* True if every call of any function fails. */
int fake_cuda_is_lost(void) {
    pthread_mutex_lock(&lock);
    int lost = !strcmp(fault.function, "*") && fault.calls_left == -1;
    pthread_mutex_unlock(&lock);
    return lost;
}
/* Limits the bytes of each piece of device memory. */
void fake_cuda_piece_max(int bytes) { __atomic_store_n(&piece_max, bytes, __ATOMIC_SEQ_CST); }
/* Makes allocations of device memory wait, until fake_cuda_release_memory. */
int fake_cuda_hold_memory(void) { return __atomic_exchange_n(&memory_is_held, 1, __ATOMIC_SEQ_CST); }
int fake_cuda_release_memory(void) {
    pthread_mutex_lock(&lock);
    memory_is_held = 0;
    pthread_cond_broadcast(&advanced);
    pthread_mutex_unlock(&lock);
    return 0;
}
/* Time at which the waits below give up and return 0. */
static struct timespec deadline(void) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += 10;
    return at;
}
/* Sets whether a wait on the host advances the device as far as possible, for current waits as well. Returns the
 * former mode. */
int fake_cuda_waits_advance(int on) {
    pthread_mutex_lock(&lock);
    int before = waits_advance;
    waits_advance = on;
    if (on) run_all();
    pthread_mutex_unlock(&lock);
    return before;
}
/* Sets the mode of waits without effect on current waits. In mode 2 a wait advances the device only as far as it
 * needs. Returns the former mode. */
int fake_cuda_set_wait_mode(int mode) {
    pthread_mutex_lock(&lock);
    int before = waits_advance;
    waits_advance = mode;
    pthread_mutex_unlock(&lock);
    return before;
}
/* Waits until `count` threads wait for events that have not fired. */
int fake_cuda_await_waiters(int count) {
    struct timespec at = deadline();
    int late = 0;
    pthread_mutex_lock(&lock);
    while (waiting < count && !late) late = pthread_cond_timedwait(&advanced, &lock, &at);
    pthread_mutex_unlock(&lock);
    return !late;
}
int fake_cuda_await_waiter(void) { return fake_cuda_await_waiters(1); }
/* Advances all streams until all contexts are released. */
int fake_cuda_await_release(void) {
    struct timespec at = deadline();
    int late = 0;
    pthread_mutex_lock(&lock);
    for (run_all(); (contexts[0].retained || contexts[1].retained) && !late; run_all())
        late = pthread_cond_timedwait(&advanced, &lock, &at);
    pthread_mutex_unlock(&lock);
    return !late;
}
/* Number of queued operations. */
int fake_cuda_queued(void) {
    int count = 0;
    pthread_mutex_lock(&lock);
    for (int d = 0; d < DEVICES; d++) count += legacy[d].last - legacy[d].first;
    for (int i = 0; i < stream_count; i++) count += streams[i]->last - streams[i]->first;
    pthread_mutex_unlock(&lock);
    return count;
}
/* Latest time of any stream in microseconds, to which all streams are set. */
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
/* Number of calls that would have ended a capture, and this thread's capture mode. */
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

/* True if the range is device memory. */
int fake_cuda_is_on_device(const void *from, size_t len) {
    const char *at = from;
    int known = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < RANGES_MAX; i++)
        known |= on_device[i].at && at >= on_device[i].at && at + len <= on_device[i].at + on_device[i].len;
    pthread_mutex_unlock(&lock);
    return known;
}
/* True if the range is device memory and no queued work uses it. */
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
/* Interface for the fake libraries. `call` runs in the order of `stream`, takes `seconds` and frees its argument. */
int fake_cuda_has_context(void) { return depth > 0; }
int fake_cuda_is_pinned(const void *at, size_t len) { return is_pinned(at, len); }
void fake_cuda_call_later(void *stream, void (*call)(void *), void *argument, double seconds) {
    pthread_mutex_lock(&lock);
    push(stream_of(stream), (Op){.kind = CALL, .call = call, .to = argument, .seconds = seconds});
    pthread_mutex_unlock(&lock);
}
/* Waits on the host for all work that is queued on `stream`. */
void fake_cuda_finish(void *stream) {
    Stream *s = stream_of(stream);
    pthread_mutex_lock(&lock);
    reach(s, s->last);
    if (host_clock < s->clock) host_clock = s->clock;
    pthread_mutex_unlock(&lock);
}

/* The driver's functions, the same as in the list of driver.rs. */
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
    pthread_cond_broadcast(&advanced);
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuCtxPushCurrent_v2(void *c) {
    ENTER;
    must(depth < 16 && ((Context *)c)->retained > 0, "a context is used after its release");
    current[depth++] = c;
    return 0;
}
int cuThreadExchangeStreamCaptureMode(int *mode) {
    ENTER;
    int before = capture_mode;
    must(*mode >= 0 && *mode <= 2, "the capture mode is invalid");
    capture_mode = *mode;
    *mode = before;
    return 0;
}
int cuCtxPopCurrent_v2(void **c) { ENTER_CONTEXT; *c = current[--depth]; return 0; }
/* Ends the captures of further threads in any mode. */
int cuCtxSynchronize(void) {
    __atomic_add_fetch(&strict_calls, 1, __ATOMIC_SEQ_CST);
    ENTER_CONTEXT;
    must(!captures, "a wait for the device ends a consumer's capture");
    fake_cuda_run();
    return 0;
}
int cuStreamIsCapturing(void *s, int *status) {
    ENTER_CONTEXT;
    *status = 0;
    // The default stream has no status while a stream that waits for it captures.
    return captures && (uintptr_t)s <= 2 ? STREAM_CAPTURE_IMPLICIT : 0;
}
int cuStreamCreate(void **s, unsigned f) {
    ENTER_CONTEXT;
    must(f == NON_BLOCKING, "a stream waits for the default stream");
    *s = fake_cuda_stream(current[depth - 1]->device);
    return 0;
}
/* The stream is not freed, since queued work is still done. */
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
    if (waits_advance == 1) run_all();
    while (waits_advance == 2 && e->fired < e->asked) reach(e->on, e->on->first + 1);
    pthread_cond_broadcast(&advanced);
    for (int asked = e->asked; e->fired < asked;) pthread_cond_wait(&advanced, &lock);
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
/* The event is not freed, since queued operations may refer to it. */
int cuEventDestroy_v2(void *e) { (void)e; ENTER_CONTEXT; __atomic_sub_fetch(&events, 1, __ATOMIC_SEQ_CST); return 0; }
int cuMemAlloc_v2(uint64_t *p, size_t n) {
    ENTER_CONTEXT;
    NOT_IN_CAPTURES;
    if (n > (size_t)__atomic_load_n(&piece_max, __ATOMIC_SEQ_CST)) return OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    waiting += memory_is_held;
    pthread_cond_broadcast(&advanced);
    for (int was_held = memory_is_held; was_held; was_held = memory_is_held) {
        pthread_cond_wait(&advanced, &lock);
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
/* Waits for the device, as the real function does. */
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
    must(i < RANGES_MAX, "unregistered memory was not registered");
    pinned[i].at = NULL;
    pthread_mutex_unlock(&lock);
    return 0;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *s) {
    ENTER_CONTEXT;
    must(to + n <= from || from + n <= to, "a copy on the device overlaps with itself");
    int are_inside = fake_cuda_is_on_device((void *)(uintptr_t)to, n) && fake_cuda_is_on_device((void *)(uintptr_t)from, n);
    must(are_inside, "a copied row is outside of device memory");
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
    must(at % 4 == 0 && fake_cuda_is_on_device((void *)(uintptr_t)at, count * 4), "the filled range is outside of device memory");
    Fill *f = malloc(sizeof *f);
    *f = (Fill){(void *)(uintptr_t)at, word, count};
    fake_cuda_call_later(s, fill, f, 0);
    return 0;
}
/* Pageable memory is read late too, as by devices that can read it directly. */
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *s) {
    ENTER_CONTEXT;
    must(fake_cuda_is_on_device((void *)(uintptr_t)to, n), "the target of a copy is outside of device memory");
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
static void run_find(void *launch) {
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
    *f = !strcmp(name, "crop_resize") ? (void *)run_kernel : !strcmp(name, "find_undecoded") ? (void *)run_find : NULL;
    return *f ? 0 : NOT_FOUND;
}
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void *stream, void **arguments, void **extra) {
    ENTER_CONTEXT;
    must((f == (void *)run_kernel || f == (void *)run_find) && !extra && !shared, "the launched function is not a kernel");
    Launch *l = malloc(sizeof *l);
    memcpy(&l->pictures, arguments[0], sizeof l->pictures);
    if (f == (void *)run_find) {
        l->count = gx;
        must(bx >= 1 && bx <= 1024 && by * bz * gy * gz == 1 && gx >= 1, "the shape of a launch exceeds the limits of devices");
        fake_cuda_call_later(stream, run_find, l, 0);
        return 0;
    }
    memcpy(&l->batch, arguments[1], sizeof l->batch);
    l->count = gz;
    must(bx * by * bz <= 1024 && bz == 1 && gz >= 1 && gz <= 65535, "the shape of a launch exceeds the limits of devices");
    must(gx * bx >= l->batch.w && gy * by >= l->batch.h, "a launch does not cover all pixels");
    fake_cuda_call_later(stream, run_kernel, l, 0);
    return 0;
}
