/* dlclose: unload CONFIG.json LIBFOREBAY.so, with the data of interface.c. The program is not linked with the library.
 * Everything that it got from the library works after dlclose: tensors, a loader's threads, the ends of threads that
 * called it, fork and exit. */
#include "forebay.h"
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #what);                                   \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define OK(call) CHECK((call) == FOREBAY_STATUS_OK)
/* Declares a pointer to the function `name` of the library at `handle`. POSIX gives functions as data pointers. */
#define FUNCTION(handle, name)                                                                                         \
    __typeof__(&forebay_##name) name;                                                                                  \
    *(void **)&name = dlsym(handle, "forebay_" #name);                                                                 \
    CHECK(name != NULL)

/* The part of DLManagedTensorVersioned that precedes its tensor. */
struct DLManagedTensorVersioned {
    uint32_t version[2];
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *);
};

static const char *library, *config;

static void *opened(void) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL);
    return handle;
}

/* Returns a tensor of the first batch. The loader lives on if `loader` is not NULL. */
static struct DLManagedTensorVersioned *first_tensor(void *handle, ForebayLoader **loader) {
    FUNCTION(handle, loader_new);
    FUNCTION(handle, loader_start_epoch);
    FUNCTION(handle, loader_next);
    FUNCTION(handle, loader_free);
    FUNCTION(handle, batch_tensor);
    FUNCTION(handle, batch_free);
    ForebayLoader *own = NULL;
    ForebayBatch *batch = NULL;
    struct DLManagedTensorVersioned *tensor = NULL;
    OK(loader_new(config, NULL, &own));
    OK(loader_start_epoch(own));
    OK(loader_next(own, &batch));
    OK(batch_tensor(batch, 0, 0, &tensor));
    batch_free(batch);
    if (loader != NULL) {
        *loader = own;
    } else {
        loader_free(own);
    }
    return tensor;
}

/* Returns the tensor of a loader that is freed. */
static void *takes_a_tensor(void *handle) {
    return first_tensor(handle, NULL);
}

static sem_t has_called, may_end;

/* A thread that has an error of the library, and ends after dlclose. */
static void *fails(void *handle) {
    FUNCTION(handle, loader_start_epoch);
    FUNCTION(handle, last_error);
    CHECK(loader_start_epoch(NULL) == FOREBAY_STATUS_INVALID && strstr(last_error(), "NULL") != NULL);
    sem_post(&has_called);
    while (sem_wait(&may_end) != 0) {
    }
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    char *text = calloc(1, 1 << 14);
    FILE *file = fopen(argv[1], "rb");
    CHECK(text != NULL && file != NULL && fread(text, 1, (1 << 14) - 1, file) > 0);
    fclose(file);
    config = text;
    library = argv[2];

    CHECK(dlopen(library, RTLD_NOLOAD | RTLD_NOW) == NULL);
    /* A library that can be unloaded would be now: no thread is left that has run its code. */
    pthread_t thread;
    void *taken = NULL, *handle = opened();
    CHECK(pthread_create(&thread, NULL, takes_a_tensor, handle) == 0 && pthread_join(thread, &taken) == 0);
    CHECK(dlclose(handle) == 0);
    struct DLManagedTensorVersioned *tensor = taken;
    tensor->deleter(tensor);

    handle = opened();
    ForebayLoader *loader = NULL;
    tensor = first_tensor(handle, &loader);
    CHECK(sem_init(&has_called, 0, 0) == 0 && sem_init(&may_end, 0, 0) == 0);
    CHECK(pthread_create(&thread, NULL, fails, handle) == 0);
    while (sem_wait(&has_called) != 0) {
    }
    CHECK(dlclose(handle) == 0);
    CHECK(sem_post(&may_end) == 0 && pthread_join(thread, NULL) == 0);
    tensor->deleter(tensor);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        exit(7);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);

    /* The same library, with the same objects. */
    handle = opened();
    FUNCTION(handle, loader_next);
    FUNCTION(handle, batch_free);
    ForebayBatch *batch = NULL;
    OK(loader_next(loader, &batch));
    batch_free(batch);
    CHECK(dlclose(handle) == 0);
    free(text);
    return 0;
}
