/* The state file, read anew when it changes, and the words of the return codes. */
#include "state.h"

#include <sys/stat.h>
#include <unistd.h>

/* the library's own words, which nvidia-smi prints too */
static const struct { ret code; const char *words; } WORDS[] = {
    {0, "Success"}, {1, "Uninitialized"}, {2, "Invalid Argument"}, {3, "Not Supported"},
    {4, "Insufficient Permissions"}, {6, "Not Found"}, {7, "Insufficient Size"}, {8, "Insufficient External Power"},
    {9, "Driver Not Loaded"}, {10, "Timeout"}, {12, "NVML Shared Library Not Found"}, {13, "Function Not Found"},
    {14, "Corrupted infoROM"}, {15, "GPU is lost"}, {16, "GPU requires reset"},
    {17, "GPU access blocked by the operating system"}, {18, "Driver/library version mismatch"}, {20, "Insufficient Memory"},
    {21, "No data"}, {25, "Argument version mismatch"}, {26, "Requested functionality has been deprecated"},
    {27, "System is not ready"}, {999, "Unknown Error"},
};

EXPORT const char *nvmlErrorString(ret code) {
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (WORDS[i].code == code) return WORDS[i].words;
    return "Unknown Error";
}

slot cards[MOST], slices[MOST][8];
json *state;
int started;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stat seen;

void reread(void) {
    const char *path = getenv("FAKE_NVML_STATE");
    struct stat now;
    FILE *f;
    char *text;
    const char *at;
    if (!path || stat(path, &now)) return;
    if (state && now.st_ino == seen.st_ino && now.st_size == seen.st_size && now.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec)
        return;
    if (!(f = fopen(path, "rb"))) return;
    text = calloc(1, (size_t)now.st_size + 1);
    if (fread(text, 1, (size_t)now.st_size, f) == (size_t)now.st_size) {
        json_free(state);
        at = text;
        state = json_value(&at);
        seen = now;
    }
    free(text);
    fclose(f);
}

ret code_of(const char *words) {
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        if (!strcmp(WORDS[i].words, words)) return WORDS[i].code;
    return UNKNOWN;
}

/* {"error": words} as a return code; OK for anything else */
ret failed(json *v) {
    json *words = json_get(v, "error");
    return words && words->text ? code_of(words->text) : OK;
}

json *card_of(device d) { return json_at(json_get(state, "gpus"), (unsigned)d->gpu); }

/* what a function is told to return for every card: {"returns": {"nvmlDeviceGetApplicationsClock": "…"}} */
ret told(const char *function) {
    json *words = json_get(json_get(state, "returns"), function);
    return words && words->text ? code_of(words->text) : OK;
}

/* a member of a card, or of its `nvml` part */
ret find(device d, const char *function, const char *key, json **out) {
    json *card, *v, *hangs;
    ret r;
    if (!started) return UNINITIALIZED;
    if (!d) return INVALID_ARGUMENT;
    reread();
    if ((hangs = json_get(state, "hangs")) && !strcmp(hangs->text, function)) sleep(60);
    if ((r = told(function))) return r;
    card = card_of(d);
    if ((r = failed(card))) return r;
    if (d->mig >= 0) card = json_at(json_get(json_get(card, "nvml"), "mig_devices"), (unsigned)d->mig);
    v = !strncmp(key, "nvml.", 5) ? json_get(json_get(card, "nvml"), key + 5) : json_get(card, key);
    if (!v) return NOT_SUPPORTED;
    if ((r = failed(v))) return r;
    *out = v;
    return OK;
}

ret number(device d, const char *function, const char *key, double scale, double *out) {
    json *v;
    ret r = find(d, function, key, &v);
    if (r) return r;
    /* a mask is written as text */
    *out = v->kind == JSON_TEXT ? (double)strtoull(v->text, NULL, 0) : v->number * scale;
    return OK;
}

ret uint_of(device d, const char *function, const char *key, double scale, unsigned *out) {
    double n;
    ret r = number(d, function, key, scale, &n);
    if (!r) *out = (unsigned)(n < 0 ? n - 0.5 : n + 0.5);
    return r;
}

ret ull_of(device d, const char *function, const char *key, double scale, unsigned long long *out) {
    double n;
    ret r = number(d, function, key, scale, &n);
    if (!r) *out = (unsigned long long)(n + 0.5);
    return r;
}

ret text_of(device d, const char *function, const char *key, char *out, unsigned length) {
    json *v;
    ret r = find(d, function, key, &v);
    if (r) return r;
    if (!v->text) return UNKNOWN;
    if (strlen(v->text) >= length) return INSUFFICIENT_SIZE;
    strcpy(out, v->text);
    return OK;
}

/* the place of a word in a list that ends with NULL */
ret word_of(device d, const char *function, const char *key, const char *const *words, unsigned *out) {
    json *v;
    ret r = find(d, function, key, &v);
    if (r) return r;
    for (unsigned i = 0; words[i]; i++)
        if (v->text && !strcmp(words[i], v->text)) { *out = i; return OK; }
    return UNKNOWN;
}

ret pci_of(const char *text, pci_info *out) {
    memset(out, 0, sizeof *out);
    if (sscanf(text, "%x:%x:%x", &out->domain, &out->bus, &out->device) != 3) return UNKNOWN;
    snprintf(out->bus_id, sizeof out->bus_id, "%s", text);
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.0", out->domain & 0xffff, out->bus & 0xff, out->device & 0xff);
    return OK;
}
