/* What every part of the library asks: the state of a card, and how a member of it becomes a number, a word, a code. */
#ifndef FAKE_NVML_STATE_H
#define FAKE_NVML_STATE_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "json.h"

#ifndef DRIVER
#define DRIVER 580
#endif

#define MOST 64
#define MIB 1048576.0
#define EXPORT __attribute__((visibility("default")))

typedef unsigned ret;
enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    VERSION_MISMATCH = 25, UNKNOWN = 999
};

typedef struct slot { int gpu, mig; } slot;  /* what a device handle points to; mig -1: the card itself */
typedef slot *device;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_info;

extern json *state;
extern int started;
extern slot cards[MOST], slices[MOST][8];
extern pthread_mutex_t lock;

void reread(void);                                  /* the state file, when it has changed */
ret code_of(const char *words);
ret failed(json *v);                                /* {"error": words} as a return code; OK for anything else */
json *card_of(device d);
ret told(const char *function);                     /* what a function is told to return, whatever the card */
ret find(device d, const char *function, const char *key, json **out);
ret number(device d, const char *function, const char *key, double scale, double *out);
ret uint_of(device d, const char *function, const char *key, double scale, unsigned *out);
ret ull_of(device d, const char *function, const char *key, double scale, unsigned long long *out);
ret text_of(device d, const char *function, const char *key, char *out, unsigned length);
ret word_of(device d, const char *function, const char *key, const char *const *words, unsigned *out);
ret pci_of(const char *text, pci_info *out);

#define GUARDED(expression) \
    ret r; \
    pthread_mutex_lock(&lock); \
    r = (expression); \
    pthread_mutex_unlock(&lock); \
    return r

#define UINT(function, key, scale) \
    EXPORT ret function(device d, unsigned *out) { GUARDED(uint_of(d, #function, key, scale, out)); }
#define ULL(function, key, scale) \
    EXPORT ret function(device d, unsigned long long *out) { GUARDED(ull_of(d, #function, key, scale, out)); }
#define WORD(function, key, ...) \
    EXPORT ret function(device d, unsigned *out) { \
        static const char *const words[] = {__VA_ARGS__, NULL}; \
        GUARDED(word_of(d, #function, key, words, out)); \
    }

#endif
