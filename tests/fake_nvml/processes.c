/* Who uses a card, and the slices it was cut into. */
#include "state.h"

#include <time.h>

/* -- processes ------------------------------------------------------------------------------------------------------ */

typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } process;

/* asked twice: without room for the number, then for the rows */
static ret processes(device d, const char *name, unsigned *many, process *out) {
    json *rows, *p;
    unsigned i = 0, room = *many;
    ret r = find(d, name, "processes", &rows);
    if (r) return r;
    *many = (unsigned)rows->count;
    if (room < *many) return INSUFFICIENT_SIZE;
    for (p = rows->first; p && out; p = p->next, i++) {
        json *used = json_get(p, "used_memory");
        out[i] = (process){(unsigned)json_get(p, "pid")->number,
                           used ? (unsigned long long)(used->number * MIB) : 0xFFFFFFFFFFFFFFFFull, 0xFFFFFFFF, 0xFFFFFFFF};
    }
    return OK;
}

EXPORT ret nvmlDeviceGetComputeRunningProcesses_v2(device d, unsigned *many, process *out) {
    GUARDED(processes(d, "nvmlDeviceGetComputeRunningProcesses_v2", many, out));
}
#if DRIVER >= 510
EXPORT ret nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *many, process *out) {
    GUARDED(processes(d, "nvmlDeviceGetComputeRunningProcesses_v3", many, out));
}
#endif

typedef struct { unsigned pid; unsigned long long time; unsigned sm, memory, encoder, decoder; } share;

/* two samples of each process: the share itself, and one from before the time that is asked for */
static ret shares(device d, share *out, unsigned *many, unsigned long long since) {
    const char *name = "nvmlDeviceGetProcessUtilization";
    struct timespec t;
    unsigned long long now;
    json *rows, *p;
    unsigned found = 0, room = *many;
    ret r = find(d, name, "processes", &rows);
    if (r) return r;
    clock_gettime(CLOCK_REALTIME, &t);
    now = (unsigned long long)t.tv_sec * 1000000ull + (unsigned long long)t.tv_nsec / 1000;
    for (p = rows->first; p; p = p->next) {
        json *sm = json_get(p, "sm");
        if (!sm || now <= since) continue;
        if (found < room && out)
            out[found] = (share){(unsigned)json_get(p, "pid")->number, now, (unsigned)sm->number, 0, 0, 0};
        found++;
    }
    if (!found) return NOT_FOUND;
    *many = found;
    return room < found ? (ret)INSUFFICIENT_SIZE : OK;
}

EXPORT ret nvmlDeviceGetProcessUtilization(device d, share *out, unsigned *many, unsigned long long since) {
    GUARDED(shares(d, out, many, since));
}

/* -- slices of a card ----------------------------------------------------------------------------------------------- */

typedef struct {
    unsigned multiprocessors, copy, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mb;
} attributes;

static ret most_slices(device d, unsigned *out) {
    json *v;
    ret r = find(d, "nvmlDeviceGetMaxMigDeviceCount", "mig.mode.current", &v);
    *out = r ? 0 : 7;
    return r == NOT_SUPPORTED ? OK : r;
}

static ret slice(device d, unsigned index, device *out) {
    json *v;
    ret r = find(d, "nvmlDeviceGetMigDeviceHandleByIndex", "nvml.mig_devices", &v);
    if (r) return r;
    if (index >= 8 || !json_at(v, index)) return NOT_FOUND;
    *out = &slices[d->gpu][index];
    return OK;
}

static ret slice_attributes(device d, attributes *out) {
    const char *name = "nvmlDeviceGetAttributes_v2";
    ret r;
    memset(out, 0, sizeof *out);
    if (d->mig < 0) return NOT_SUPPORTED;
    r = uint_of(d, name, "multiprocessors", 1, &out->multiprocessors);
    if (!r) r = uint_of(d, name, "gpu_slices", 1, &out->gpu_slices);
    if (!r) r = uint_of(d, name, "compute_slices", 1, &out->compute_slices);
    return r ? r : ull_of(d, name, "memory_mib", 1, &out->memory_mb);
}

EXPORT ret nvmlDeviceGetMaxMigDeviceCount(device d, unsigned *out) { GUARDED(most_slices(d, out)); }
EXPORT ret nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned index, device *out) { GUARDED(slice(d, index, out)); }
EXPORT ret nvmlDeviceGetAttributes_v2(device d, attributes *out) { GUARDED(slice_attributes(d, out)); }
