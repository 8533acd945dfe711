/* nvJPEG in host memory, for tests only, over the driver of fake_cuda.c. Two backends read files and write pixels as late as
 * their stream moves; but engines begin to write when they are called, whatever their stream has to do before: what was there
 * is gone at once, and with more pictures than they take at once the call comes back when these are decoded. They do not take
 * small pictures. One bad picture fails its batch. Whatever the library would not forgive aborts.
 *
 * Pixels come from a function that the test gives, or are those of the files that it made known. A picture
 * whose file holds the text REFUSED is refused, and one with NOMEMORY for want of memory; one with LEFTOUT is taken and never decoded,
 * and of one with CUTSHORT only the upper half is. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID_PARAMETER = 2, BAD_JPEG = 3, NOT_SUPPORTED = 4, OUT_OF_MEMORY = 5, EXECUTION_FAILED = 6, ARCH_MISMATCH = 7 };
enum { IMPLEMENTATION_NOT_SUPPORTED = 9 };
enum { CORES = 2, ENGINES = 3, RGB_INTERLEAVED = 5 };
/* The smallest side of the engines' pictures, and how many each of them takes before a call blocks. */
enum { SIDE_MIN = 64, QUEUE = 5 };

typedef struct Handle { int backend; unsigned flags; } Handle;
typedef struct State { Handle *of; int prepared, under_way; } State;
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
static int known(const unsigned char *, size_t, int, int, int, int, unsigned char *, size_t);
static Decode decode = known;
static int live, engines = 2, by_engines, by_cores;
static int engines_us, cores_us, cores_first_us;
/* A backend whose pixels are others', or 0, and whether only those of pictures with an odd width are; the ways in which engines decode, a bit for each: parts with chroma blended, wholes so,
 * parts as they are stored, wholes so. */
static int spoiled, only_odd, ways = 15;

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

/* The files that a test made known, and their pixels. */
typedef struct File { struct File *next; unsigned char *bytes, *rgb; size_t len; int w; } File;
static File *files;
static int known(const unsigned char *bytes, size_t len, int x, int y, int w, int h, unsigned char *out, size_t pitch) {
    for (File *f = files; f; f = f->next) {
        if (f->len != len || memcmp(f->bytes, bytes, len)) continue;
        for (int row = 0; row < h; row++) memcpy(out + row * pitch, f->rgb + ((size_t)(y + row) * f->w + x) * 3, w * 3);
        return 0;
    }
    return 1;
}

/* For tests. */
/* Makes a file known, before anything is decoded. */
void fake_nvjpeg_add(const unsigned char *bytes, size_t len, int w, int h, const unsigned char *rgb) {
    size_t pixels = (size_t)w * h * 3;
    File *f = malloc(sizeof *f);
    *f = (File){files, memcpy(malloc(len), bytes, len), memcpy(malloc(pixels), rgb, pixels), len, w};
    files = f;
}
void fake_nvjpeg_decode_with(Decode function) { decode = function; }
void fake_nvjpeg_engines(int count) { engines = count; }
/* Microseconds: of a picture, by whom, and of a batch before the cores begin with its first. */
void fake_nvjpeg_take(int engine, int core, int cores_first) { engines_us = engine, cores_us = core, cores_first_us = cores_first; }
void fake_nvjpeg_spoil(int backend) { spoiled = backend & 15, only_odd = backend & 16; }
void fake_nvjpeg_ways(int mask) { ways = mask; }
/* From now on, the `nth` call of `function` answers `code`, or every one if `nth` is below 0. Decoding by one of the backends
 * goes by the names of `engines` and `cores`. */
void fake_nvjpeg_fail(const char *function, int nth, int code) {
    pthread_mutex_lock(&lock);
    snprintf(fault.function, sizeof fault.function, "%s", function);
    fault.calls_left = nth;
    fault.code = code;
    pthread_mutex_unlock(&lock);
}
/* Handles of all kinds that are alive; pictures that were decoded by either backend since this was last asked. */
int fake_nvjpeg_live(void) { return add(&live, 0); }
int fake_nvjpeg_by_engines(void) { return __atomic_exchange_n(&by_engines, 0, __ATOMIC_SEQ_CST); }
int fake_nvjpeg_by_cores(void) { return __atomic_exchange_n(&by_cores, 0, __ATOMIC_SEQ_CST); }

/* Reads up to the frame header. */
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
    must(!device && !pinned, "allocators are not the test's");
    if (backend == ENGINES && engines == 0) return ARCH_MISMATCH;
    must(backend == CORES || backend == ENGINES, "a backend that nobody meant");
    *handle = make(sizeof(Handle));
    (*handle)->backend = backend;
    (*handle)->flags = flags;
    return 0;
}
int nvjpegDestroy(Handle *h) { ENTER; return end(h); }
int nvjpegGetHardwareDecoderInfo(Handle *h, unsigned *count, unsigned *cores) {
    ENTER;
    must(h->backend == ENGINES, "cores are asked for engines");
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
    must(add(&state->under_way, 0) == 0, "a state ends while its batch is under way");
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
static int engines_take(const Header *header) {
    return header->code == 0xc0 && header->w >= SIDE_MIN && header->h >= SIDE_MIN;
}
int nvjpegDecodeBatchedSupportedEx(Handle *h, Header *header, Params *params, int *answer) {
    (void)params;
    ENTER;
    *answer = h->backend == ENGINES && !engines_take(header);
    return 0;
}
int nvjpegDecodeBatchedInitialize(Handle *h, State *state, int count, int threads, int format) {
    (void)threads;
    ENTER;
    must(state->of == h, "a state of another handle");
    must(add(&state->under_way, 0) == 0, "a state is used again while its batch is under way");
    if (count < 1 || format != RGB_INTERLEAVED) return INVALID_PARAMETER;
    state->prepared = count;
    return 0;
}

/* A picture on its way. */
typedef struct Job { const unsigned char *file; size_t len; int is_copy, is_spoiled; Params region; unsigned char *out; size_t pitch; } Job;
typedef struct Jobs { State *state; int count; Job list[]; } Jobs;

static int run_job(const Job *j) {
    if (j->region.h == 0) return 0;
    return decode(j->file, j->len, j->region.x, j->region.y, j->region.w, j->region.h, j->out, j->pitch);
}
/* Whether a picture can be decoded at all, without touching its place. */
static int try_job(Job job, int by_engines) {
    Header header;
    if (parse(job.file, job.len, &header)) return BAD_JPEG;
    if (by_engines && !engines_take(&header)) return NOT_SUPPORTED;
    if (memmem(job.file, job.len, "NOMEMORY", 8)) return OUT_OF_MEMORY;
    if (job.region.x + job.region.w > header.w || job.region.y + job.region.h > header.h) return INVALID_PARAMETER;
    if (memmem(job.file, job.len, "REFUSED", 7)) return NOT_SUPPORTED;
    unsigned char *aside = malloc(job.pitch * job.region.h);
    job.out = aside;
    int code = run_job(&job) ? BAD_JPEG : 0;
    free(aside);
    return code;
}
/* Moves a part by a pixel. */
static void spoil(const Job *j) {
    for (int y = 0; y < j->region.h; y++) memmove(j->out + y * j->pitch, j->out + y * j->pitch + 3, (j->region.w - 1) * 3);
}
static void finish(void *argument) {
    Jobs *jobs = argument;
    for (int i = 0; i < jobs->count; i++) {
        run_job(&jobs->list[i]);
        if (jobs->list[i].is_spoiled) spoil(&jobs->list[i]);
        if (jobs->list[i].is_copy) free((void *)jobs->list[i].file);
    }
    add(&jobs->state->under_way, -1);
    free(jobs);
}
static void write_late(void *argument) {
    Jobs *jobs = argument;
    for (int i = 0; i < jobs->count; i++)
        for (int y = 0; y < jobs->list[i].region.h; y++)
            memset(jobs->list[i].out + y * jobs->list[i].pitch, 0xBB, jobs->list[i].region.w * 3);
    free(jobs);
}
/* How many rows of a picture are written that is taken. */
static int rows_of(const unsigned char *file, size_t len, int h) {
    return memmem(file, len, "LEFTOUT", 7) ? 0 : memmem(file, len, "CUTSHORT", 8) ? h / 2 : h;
}
static int decode_batch(Handle *h, State *state, const unsigned char *const *files, const size_t *lengths, Image *out,
                        Params **params, void *stream) {
    int count = state->prepared, refused = injected(h->backend == ENGINES ? "engines" : "cores");
    must(count > 0, "a batch without preparation");
    if (refused) return refused;
    must(add(&state->under_way, 0) == 0, "a state is used again while its batch is under way");
    Jobs *jobs = malloc(sizeof(Jobs) + count * sizeof(Job));
    *jobs = (Jobs){.state = state, .count = count};
    int code = 0;
    for (int i = 0; i < count; i++) {
        must(out[i].pitch[0] >= (size_t)params[i]->w * 3, "rows overlap");
        must(fake_cuda_is_on_device(out[i].channel[0], out[i].pitch[0] * params[i]->h), "a picture's place lies outside");
        Header header = {0, 0, 0};
        parse(files[i], lengths[i], &header);
        int is_spoiled = h->backend == spoiled && (!only_odd || header.w % 2);
        jobs->list[i] = (Job){files[i], lengths[i], 0, is_spoiled, *params[i], out[i].channel[0], out[i].pitch[0]};
        if (!code) code = try_job(jobs->list[i], h->backend == ENGINES);
    }
    for (int i = 0; i < count && h->backend == ENGINES; i++)
        for (int y = 0; y < rows_of(files[i], lengths[i], params[i]->h); y++)
            memset(out[i].channel[0] + y * out[i].pitch[0], 0xBB, params[i]->w * 3);
    if (code) {
        // Engines may have begun with some of them.
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
    add(&state->under_way, 1);
    double us = h->backend == ENGINES ? (double)engines_us * count : cores_first_us + (double)cores_us * count;
    fake_cuda_call_later(stream, finish, jobs, us / 1e6);
    if (h->backend == ENGINES && count > QUEUE * engines) fake_cuda_finish(stream);
    return 0;
}
int nvjpegDecodeBatchedEx(Handle *h, State *state, const unsigned char *const *files, const size_t *lengths, Image *out,
                          Params **params, void *stream) {
    ENTER;
    if (h->backend != ENGINES) return IMPLEMENTATION_NOT_SUPPORTED;
    if (!(ways & (h->flags ? 1 : 4))) return NOT_SUPPORTED;
    return decode_batch(h, state, files, lengths, out, params, stream);
}
/* Of whole pictures. */
int nvjpegDecodeBatched(Handle *h, State *state, const unsigned char *const *files, const size_t *lengths, Image *out,
                        void *stream) {
    ENTER;
    int count = state->prepared, code = h->backend == ENGINES && !(ways & (h->flags ? 2 : 8)) ? NOT_SUPPORTED : 0;
    Params *wholes = calloc(count, sizeof(Params)), **params = calloc(count, sizeof(Params *));
    for (int i = 0; i < count && !code; i++) {
        Header header;
        code = parse(files[i], lengths[i], &header);
        params[i] = &wholes[i];
        if (!code) wholes[i] = (Params){0, 0, header.w, header.h};
    }
    if (!code) code = decode_batch(h, state, files, lengths, out, params, stream);
    free(wholes);
    free(params);
    return code;
}
