/* Clocks, power, heat, load, memory and its errors. */
#include "state.h"

/* -- clocks, power, heat, load -------------------------------------------------------------------------------------- */

#define CLOCKS(function, graphics, sm, memory) \
    EXPORT ret function(device d, unsigned kind, unsigned *out) { \
        static const char *const keys[] = {graphics, sm, memory}; \
        GUARDED(kind > 2 ? (ret)INVALID_ARGUMENT : uint_of(d, #function, keys[kind], 1, out)); \
    }
CLOCKS(nvmlDeviceGetClockInfo, "clocks.gr", "clocks.sm", "clocks.mem")
CLOCKS(nvmlDeviceGetMaxClockInfo, "clocks.max.sm", "clocks.max.sm", "clocks.max.mem")
CLOCKS(nvmlDeviceGetApplicationsClock, "clocks.applications.gr", "clocks.applications.gr", "clocks.applications.mem")

#if DRIVER >= 535
ULL(nvmlDeviceGetCurrentClocksEventReasons, "clocks_event_reasons.active", 1)
ULL(nvmlDeviceGetSupportedClocksEventReasons, "clocks_event_reasons.supported", 1)
#endif
ULL(nvmlDeviceGetCurrentClocksThrottleReasons, "clocks_event_reasons.active", 1)
ULL(nvmlDeviceGetSupportedClocksThrottleReasons, "clocks_event_reasons.supported", 1)

UINT(nvmlDeviceGetPowerUsage, "power.draw", 1000)
UINT(nvmlDeviceGetPowerManagementLimit, "power.limit", 1000)
UINT(nvmlDeviceGetPowerManagementDefaultLimit, "power.default_limit", 1000)
UINT(nvmlDeviceGetEnforcedPowerLimit, "enforced.power.limit", 1000)
ULL(nvmlDeviceGetTotalEnergyConsumption, "nvml.energy_mj", 1)

static ret constraints(device d, unsigned *least, unsigned *most) {
    const char *name = "nvmlDeviceGetPowerManagementLimitConstraints";
    ret r = uint_of(d, name, "power.min_limit", 1000, least);
    return r ? r : uint_of(d, name, "power.max_limit", 1000, most);
}

EXPORT ret nvmlDeviceGetPowerManagementLimitConstraints(device d, unsigned *least, unsigned *most) {
    GUARDED(constraints(d, least, most));
}

EXPORT ret nvmlDeviceGetTemperature(device d, unsigned sensor, unsigned *out) {
    GUARDED(sensor ? (ret)INVALID_ARGUMENT : uint_of(d, "nvmlDeviceGetTemperature", "temperature.gpu", 1, out));
}

#if DRIVER >= 560
typedef struct { unsigned version; int celsius; } margin_temperature;

static ret margin(device d, margin_temperature *out) {
    double n;
    ret r;
    if (out->version != (sizeof *out | 1u << 24)) return VERSION_MISMATCH;
    if (!(r = number(d, "nvmlDeviceGetMarginTemperature", "temperature.gpu.tlimit", 1, &n))) out->celsius = (int)n;
    return r;
}

EXPORT ret nvmlDeviceGetMarginTemperature(device d, margin_temperature *out) { GUARDED(margin(d, out)); }
#endif

UINT(nvmlDeviceGetFanSpeed, "fan.speed", 1)

typedef struct { unsigned gpu, memory; } utilization;

static ret busy(device d, utilization *out) {
    const char *name = "nvmlDeviceGetUtilizationRates";
    ret r = uint_of(d, name, "utilization.gpu", 1, &out->gpu);
    return r ? r : uint_of(d, name, "utilization.memory", 1, &out->memory);
}

EXPORT ret nvmlDeviceGetUtilizationRates(device d, utilization *out) { GUARDED(busy(d, out)); }

/* -- memory --------------------------------------------------------------------------------------------------------- */

typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;

static ret memory(device d, const char *name, memory_v2 *out) {
    ret r = ull_of(d, name, "memory.total", MIB, &out->total);
    if (!r) r = ull_of(d, name, "memory.used", MIB, &out->used);
    if (!r) r = ull_of(d, name, "memory.free", MIB, &out->free);
    if (!r && ull_of(d, name, "memory.reserved", MIB, &out->reserved)) out->reserved = 0;
    return r;
}

static ret memory_old(device d, memory_v1 *out) {
    memory_v2 all = {0};
    ret r = memory(d, "nvmlDeviceGetMemoryInfo", &all);
    /* what the driver keeps for itself counts as used here */
    if (!r) *out = (memory_v1){all.total, all.free, all.used + all.reserved};
    return r;
}

EXPORT ret nvmlDeviceGetMemoryInfo(device d, memory_v1 *out) { GUARDED(memory_old(d, out)); }

#if DRIVER >= 510
EXPORT ret nvmlDeviceGetMemoryInfo_v2(device d, memory_v2 *out) {
    GUARDED(out->version != (sizeof *out | 2u << 24) ? (ret)VERSION_MISMATCH
                                                     : memory(d, "nvmlDeviceGetMemoryInfo_v2", out));
}
#endif

static ret bar1(device d, memory_v1 *out) {
    ret r = ull_of(d, "nvmlDeviceGetBAR1MemoryInfo", "nvml.bar1_total", MIB, &out->total);
    if (!r) out->free = out->total, out->used = 0;
    return r;
}

EXPORT ret nvmlDeviceGetBAR1MemoryInfo(device d, memory_v1 *out) { GUARDED(bar1(d, out)); }

/* -- errors of memory ----------------------------------------------------------------------------------------------- */

EXPORT ret nvmlDeviceGetTotalEccErrors(device d, unsigned error, unsigned counter, unsigned long long *out) {
    static const char *const keys[2][2] = {
        {"ecc.errors.corrected.volatile.total", "ecc.errors.corrected.aggregate.total"},
        {"ecc.errors.uncorrected.volatile.total", "ecc.errors.uncorrected.aggregate.total"},
    };
    GUARDED(error > 1 || counter > 1 ? (ret)INVALID_ARGUMENT
                                     : ull_of(d, "nvmlDeviceGetTotalEccErrors", keys[error][counter], 1, out));
}

static ret remapped(device d, unsigned *out[4]) {
    static const char *const keys[] = {"remapped_rows.correctable", "remapped_rows.uncorrectable", "remapped_rows.pending",
                                       "remapped_rows.failure"};
    ret r = OK;
    for (int i = 0; i < 4 && !r; i++) r = uint_of(d, "nvmlDeviceGetRemappedRows", keys[i], 1, out[i]);
    return r;
}

EXPORT ret nvmlDeviceGetRemappedRows(device d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failure) {
    unsigned *out[] = {corrected, uncorrected, pending, failure};
    GUARDED(remapped(d, out));
}

