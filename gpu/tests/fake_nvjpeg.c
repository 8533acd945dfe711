/* Fake nvJPEG in host memory, for tests only, on the fake driver of fake_cuda.c. Its two backends read files and
 * write pixels when their stream advances. But the engines overwrite the memory of the pixels during the call, before
 * earlier work on their stream, and a call with more pictures than they queue returns only when these are decoded.
 * Engines reject small pictures. One bad picture fails its batch. Misuse that the library would not detect aborts the
 * process.
 *
 * Pixels come from a function of the test, or from the files that the test has added. A text in a file changes its
 * decoding: a picture with REJECTED is rejected, and one with NOMEMORY as out of memory; one with UNDECODED is
 * accepted and never decoded, and of one with CUTSHORT only the upper half is. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID_PARAMETER = 2, BAD_JPEG = 3, NOT_SUPPORTED = 4, OUT_OF_MEMORY = 5, EXECUTION_FAILED = 6, ARCH_MISMATCH = 7 };
enum { IMPLEMENTATION_NOT_SUPPORTED = 9 };
enum { CORES = 2, ENGINES = 3, RGB_INTERLEAVED = 5 };
/* Smallest side of pictures that engines accept, and pictures that each engine queues before a call blocks. */
enum { SIDE_MIN = 64, QUEUE = 5 };

typedef struct Handle { int backend; unsigned flags; } Handle;
typedef struct State { Handle *of; int prepared, in_flight; } State;
typedef struct Params { int x, y, w, h; } Params;
typedef struct Header { int code, w, h; } Header;
typedef struct Image { unsigned char *channel[4]; size_t pitch[4]; } Image;
typedef int (*Decode)(const unsigned char *file, size_t len, int x, int y, int w, int h, unsigned char *out, size_t pitch);

int fake_cuda_has_context(void), fake_cuda_is_lost(void);
int fake_cuda_is_pinned(const void *at, size_t len);
void fake_cuda_call_later(void *stream, void (*call)(void *), void *argument, double seconds);
void fake_cuda_finish(void *stream);
int fake_cuda_is_on_device(const void *at, size_t len);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { char function[64]; int calls_left, code; } fault;
static int decode_added(const unsigned char *, size_t, int, int, int, int, unsigned char *, size_t);
static Decode decode = decode_added;
static int live, engines = 2, by_engines, by_cores;
static int engines_us, cores_us, cores_first_us;
/* Backend with wrong pixels, or 0, and whether only pictures with an odd width have them. */
static int wrong_backend, only_odd;
/* Modes of the engines, one bit for each: regions and whole pictures with interpolated chroma, then both with
 * replicated chroma. */
static int modes = 15;

static void must(int holds, const char *what) {
    if (!holds) { fprintf(stderr, "fake nvJPEG: %s\n", what); abort(); }
}
static int injected(const char *function) {
    if (fake_cuda_is_lost()) return EXECUTION_FAILED;
    pthread_mutex_lock(&lock);
    int hit = !strcmp(fault.function, function) && (fault.calls_left < 0 || (fault.calls_left > 0 && --fault.calls_left == 0));
    pthread_mutex_unlock(&lock);
    return hit ? fault.code : 0;
}
#define ENTER do { int code = injected(__func__); if (code) return code; must(fake_cuda_has_context(), "no context is current"); } while (0)
static int add(int *count, int n) { return __atomic_add_fetch(count, n, __ATOMIC_SEQ_CST); }
static void *make(size_t size) { add(&live, 1); return calloc(1, size); }
static int end(void *object) { add(&live, -1); free(object); return 0; }

/* Files that a test has added, with their pixels. */
typedef struct File { struct File *next; unsigned char *bytes, *rgb; size_t len; int w; } File;
static File *files;
static int decode_added(const unsigned char *bytes, size_t len, int x, int y, int w, int h, unsigned char *out, size_t pitch) {
    for (File *f = files; f; f = f->next) {
        if (f->len != len || memcmp(f->bytes, bytes, len)) continue;
        for (int row = 0; row < h; row++) memcpy(out + row * pitch, f->rgb + ((size_t)(y + row) * f->w + x) * 3, w * 3);
        return 0;
    }
    return 1;
}

/* Interface for tests. */
/* Adds a file with its pixels. Must be called before the first decoding. */
void fake_nvjpeg_add(const unsigned char *bytes, size_t len, int w, int h, const unsigned char *rgb) {
    size_t pixels = (size_t)w * h * 3;
    File *f = malloc(sizeof *f);
    *f = (File){files, memcpy(malloc(len), bytes, len), memcpy(malloc(pixels), rgb, pixels), len, w};
    files = f;
}
void fake_nvjpeg_decode_with(Decode function) { decode = function; }
void fake_nvjpeg_engines(int count) { engines = count; }
/* Sets the microseconds per picture of engines and cores, and of the cores before the first picture of a batch. */
void fake_nvjpeg_set_times(int engine, int core, int cores_first) {
    engines_us = engine, cores_us = core, cores_first_us = cores_first;
}
void fake_nvjpeg_set_wrong(int backend) { wrong_backend = backend & 15, only_odd = backend & 16; }
void fake_nvjpeg_set_modes(int mask) { modes = mask; }
/* Makes the `nth` call of `function` return `code`, or every call if `nth` is negative. The functions "engines" and
 * "cores" mean decoding by one of the backends. */
void fake_nvjpeg_fail(const char *function, int nth, int code) {
    pthread_mutex_lock(&lock);
    snprintf(fault.function, sizeof fault.function, "%s", function);
    fault.calls_left = nth;
    fault.code = code;
    pthread_mutex_unlock(&lock);
}
/* Number of live handles of all kinds; pictures that each backend has decoded since the last call. */
int fake_nvjpeg_live(void) { return add(&live, 0); }
int fake_nvjpeg_by_engines(void) { return __atomic_exchange_n(&by_engines, 0, __ATOMIC_SEQ_CST); }
int fake_nvjpeg_by_cores(void) { return __atomic_exchange_n(&by_cores, 0, __ATOMIC_SEQ_CST); }

/* Parses a file up to its frame header. */
static int parse(const unsigned char *file, size_t len, Header *header) {
    if (len < 4 || file[0] != 0xff || file[1] != 0xd8) return BAD_JPEG;
    for (size_t at = 2; at + 9 < len && file[at] == 0xff;) {
        int code = file[at + 1];
        if (code >= 0xc0 && code <= 0xcf && code != 0xc4 && code != 0xc8 && code != 0xcc) {
            *header = (Header){code, file[at + 7] << 8 | file[at + 8], file[at + 5] << 8 | file[at + 6]};
            return 0;
        }
        at += 2 + (file[at + 2] << 8 | file[at + 3]);
    }
    return BAD_JPEG;
}

int nvjpegGetProperty(int property, int *value) { *value = property == 0 ? 12 : 4; return 0; }
int nvjpegCreateEx(int backend, void *device, void *pinned, unsigned flags, Handle **handle) {
    ENTER;
    must(!device && !pinned, "allocators are not supported");
    if (backend == ENGINES && engines == 0) return ARCH_MISMATCH;
    must(backend == CORES || backend == ENGINES, "the backend is not supported");
    *handle = make(sizeof(Handle));
    (*handle)->backend = backend;
    (*handle)->flags = flags;
    return 0;
}
int nvjpegDestroy(Handle *h) { ENTER; return end(h); }
int nvjpegGetHardwareDecoderInfo(Handle *h, unsigned *count, unsigned *cores) {
    ENTER;
    must(h->backend == ENGINES, "the backend has no engines");
    *count = engines;
    *cores = 1;
    return 0;
}
int nvjpegJpegStateCreate(Handle *h, State **state) {
    ENTER;
    *state = make(sizeof(State));
    (*state)->of = h;
    return 0;
}
int nvjpegJpegStateDestroy(State *state) {
    ENTER;
    must(add(&state->in_flight, 0) == 0, "a state is destroyed while its batch is in flight");
    return end(state);
}
int nvjpegJpegStreamCreate(Handle *h, Header **header) { (void)h; ENTER; *header = make(sizeof(Header)); return 0; }
int nvjpegJpegStreamDestroy(Header *header) { ENTER; return end(header); }
int nvjpegJpegStreamParseHeader(Handle *h, const unsigned char *file, size_t len, Header *header) {
    (void)h;
    ENTER;
    return parse(file, len, header);
}
int nvjpegDecodeParamsCreate(Handle *h, Params **params) { (void)h; ENTER; *params = make(sizeof(Params)); return 0; }
int nvjpegDecodeParamsDestroy(Params *params) { ENTER; return end(params); }
int nvjpegDecodeParamsSetROI(Params *params, int x, int y, int w, int h) {
    ENTER;
    if (x < 0 || y < 0 || w < 1 || h < 1) return INVALID_PARAMETER;
    *params = (Params){x, y, w, h};
    return 0;
}
static int engines_accept(const Header *header) {
    return header->code == 0xc0 && header->w >= SIDE_MIN && header->h >= SIDE_MIN;
}
int nvjpegDecodeBatchedSupportedEx(Handle *h, Header *header, Params *params, int *is_rejected) {
    (void)params;
    ENTER;
    *is_rejected = h->backend == ENGINES && !engines_accept(header);
    return 0;
}
int nvjpegDecodeBatchedInitialize(Handle *h, State *state, int count, int threads, int format) {
    (void)threads;
    ENTER;
    must(state->of == h, "the state belongs to a different handle");
    must(add(&state->in_flight, 0) == 0, "a state is reused while its batch is in flight");
    if (count < 1 || format != RGB_INTERLEAVED) return INVALID_PARAMETER;
    state->prepared = count;
    return 0;
}

/* Picture in flight. */
typedef struct Job {
    const unsigned char *file;
    size_t len;
    int is_copy, is_wrong;
    Params region;
    unsigned char *out;
    size_t pitch;
} Job;
typedef struct Jobs { State *state; int count; Job list[]; } Jobs;

static int run_job(const Job *j) {
    if (j->region.h == 0) return 0;
    return decode(j->file, j->len, j->region.x, j->region.y, j->region.w, j->region.h, j->out, j->pitch);
}
/* Tries to decode a picture, without writing to its memory. */
static int try_job(Job job, int by_engines) {
    Header header;
    if (parse(job.file, job.len, &header)) return BAD_JPEG;
    if (by_engines && !engines_accept(&header)) return NOT_SUPPORTED;
    if (memmem(job.file, job.len, "NOMEMORY", 8)) return OUT_OF_MEMORY;
    if (job.region.x + job.region.w > header.w || job.region.y + job.region.h > header.h) return INVALID_PARAMETER;
    if (memmem(job.file, job.len, "REJECTED", 8)) return NOT_SUPPORTED;
    unsigned char *aside = malloc(job.pitch * job.region.h);
    job.out = aside;
    int code = run_job(&job) ? BAD_JPEG : 0;
    free(aside);
    return code;
}
/* Shifts a region by a pixel. */
static void shift(const Job *j) {
    for (int y = 0; y < j->region.h; y++) memmove(j->out + y * j->pitch, j->out + y * j->pitch + 3, (j->region.w - 1) * 3);
}
static void finish(void *argument) {
    Jobs *jobs = argument;
    for (int i = 0; i < jobs->count; i++) {
        run_job(&jobs->list[i]);
        if (jobs->list[i].is_wrong) shift(&jobs->list[i]);
        if (jobs->list[i].is_copy) free((void *)jobs->list[i].file);
    }
    add(&jobs->state->in_flight, -1);
    free(jobs);
}
static void write_late(void *argument) {
    Jobs *jobs = argument;
    for (int i = 0; i < jobs->count; i++)
        for (int y = 0; y < jobs->list[i].region.h; y++)
            memset(jobs->list[i].out + y * jobs->list[i].pitch, 0xBB, jobs->list[i].region.w * 3);
    free(jobs);
}
/* Number of rows that are decoded of an accepted picture. */
static int rows_of(const unsigned char *file, size_t len, int h) {
    return memmem(file, len, "UNDECODED", 9) ? 0 : memmem(file, len, "CUTSHORT", 8) ? h / 2 : h;
}
static int decode_batch(Handle *h, State *state, const unsigned char *const *files, const size_t *lengths, Image *out,
                        Params **params, void *stream) {
    int count = state->prepared, error = injected(h->backend == ENGINES ? "engines" : "cores");
    must(count > 0, "the state is not prepared for a batch");
    if (error) return error;
    must(add(&state->in_flight, 0) == 0, "a state is reused while its batch is in flight");
    Jobs *jobs = malloc(sizeof(Jobs) + count * sizeof(Job));
    *jobs = (Jobs){.state = state, .count = count};
    int code = 0;
    for (int i = 0; i < count; i++) {
        must(out[i].pitch[0] >= (size_t)params[i]->w * 3, "rows overlap");
        must(fake_cuda_is_on_device(out[i].channel[0], out[i].pitch[0] * params[i]->h), "the memory of a picture is outside of device memory");
        Header header = {0, 0, 0};
        parse(files[i], lengths[i], &header);
        int is_wrong = h->backend == wrong_backend && (!only_odd || header.w % 2);
        jobs->list[i] = (Job){files[i], lengths[i], 0, is_wrong, *params[i], out[i].channel[0], out[i].pitch[0]};
        if (!code) code = try_job(jobs->list[i], h->backend == ENGINES);
    }
    for (int i = 0; i < count && h->backend == ENGINES; i++)
        for (int y = 0; y < rows_of(files[i], lengths[i], params[i]->h); y++)
            memset(out[i].channel[0] + y * out[i].pitch[0], 0xBB, params[i]->w * 3);
    if (code) {
        // The engines may have started with some pictures.
        if (h->backend == ENGINES) fake_cuda_call_later(stream, write_late, jobs, 0);
        else free(jobs);
        return code;
    }
    for (int i = 0; i < count; i++) {
        Job *job = &jobs->list[i];
        job->region.h = rows_of(job->file, job->len, job->region.h);
        if (!fake_cuda_is_pinned(job->file, job->len)) {
            job->file = memcpy(malloc(job->len), job->file, job->len);
            job->is_copy = 1;
        }
    }
    add(h->backend == ENGINES ? &by_engines : &by_cores, count);
    add(&state->in_flight, 1);
    double us = h->backend == ENGINES ? (double)engines_us * count : cores_first_us + (double)cores_us * count;
    fake_cuda_call_later(stream, finish, jobs, us / 1e6);
    if (h->backend == ENGINES && count > QUEUE * engines) fake_cuda_finish(stream);
    return 0;
}
int nvjpegDecodeBatchedEx(Handle *h, State *state, const unsigned char *const *files, const size_t *lengths, Image *out,
                          Params **params, void *stream) {
    ENTER;
    if (h->backend != ENGINES) return IMPLEMENTATION_NOT_SUPPORTED;
    if (!(modes & (h->flags ? 1 : 4))) return NOT_SUPPORTED;
    return decode_batch(h, state, files, lengths, out, params, stream);
}
/* Decodes whole pictures. */
int nvjpegDecodeBatched(Handle *h, State *state, const unsigned char *const *files, const size_t *lengths, Image *out,
                        void *stream) {
    ENTER;
    int count = state->prepared, code = h->backend == ENGINES && !(modes & (h->flags ? 2 : 8)) ? NOT_SUPPORTED : 0;
    Params *whole = calloc(count, sizeof(Params)), **params = calloc(count, sizeof(Params *));
    for (int i = 0; i < count && !code; i++) {
        Header header;
        code = parse(files[i], lengths[i], &header);
        params[i] = &whole[i];
        if (!code) whole[i] = (Params){0, 0, header.w, header.h};
    }
    if (!code) code = decode_batch(h, state, files, lengths, out, params, stream);
    free(whole);
    free(params);
    return code;
}
