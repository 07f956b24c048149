/* PCIe, NVLink, the NVLink fabric, and the values that are asked for by number. */
#include "state.h"

/* -- links ---------------------------------------------------------------------------------------------------------- */

UINT(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.link.gen.current", 1)
UINT(nvmlDeviceGetCurrPcieLinkWidth, "pcie.link.width.current", 1)
UINT(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.link.gen.max", 1)
UINT(nvmlDeviceGetMaxPcieLinkWidth, "pcie.link.width.max", 1)
#if DRIVER >= 515
UINT(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie.link.gen.gpumax", 1)
#endif
UINT(nvmlDeviceGetPcieReplayCounter, "nvml.pcie_replay", 1)

/* a member of one NVLink */
static ret link_of(device d, const char *function, unsigned link, const char *key, json **out) {
    json *links, *v;
    ret r = find(d, function, "nvml.nvlink", &links);
    if (r) return r;
    if (!(v = json_at(links, link))) return INVALID_ARGUMENT;
    if (!(v = json_get(v, key))) return NOT_SUPPORTED;
    if ((r = failed(v))) return r;
    *out = v;
    return OK;
}

static ret link_uint(device d, const char *function, unsigned link, const char *key, unsigned *out) {
    json *v;
    ret r = link_of(d, function, link, key, &v);
    if (!r) *out = (unsigned)v->number;
    return r;
}

EXPORT ret nvmlDeviceGetNvLinkState(device d, unsigned link, unsigned *out) {
    GUARDED(link_uint(d, "nvmlDeviceGetNvLinkState", link, "active", out));
}
EXPORT ret nvmlDeviceGetNvLinkVersion(device d, unsigned link, unsigned *out) {
    GUARDED(link_uint(d, "nvmlDeviceGetNvLinkVersion", link, "version", out));
}

static ret link_errors(device d, unsigned link, unsigned counter, unsigned long long *out) {
    static const char *const keys[] = {"replay", "recovery", "crc_flit", "crc_data"};
    json *v;
    ret r = counter > 3 ? (ret)INVALID_ARGUMENT : link_of(d, "nvmlDeviceGetNvLinkErrorCounter", link, keys[counter], &v);
    if (!r) *out = (unsigned long long)v->number;
    return r;
}

EXPORT ret nvmlDeviceGetNvLinkErrorCounter(device d, unsigned link, unsigned counter, unsigned long long *out) {
    GUARDED(link_errors(d, link, counter, out));
}

/* "switch", or the bus id of the card at the other end */
static ret link_type(device d, unsigned link, unsigned *out) {
    json *v;
    ret r = link_of(d, "nvmlDeviceGetNvLinkRemoteDeviceType", link, "remote", &v);
    if (!r) *out = !strcmp(v->text, "switch") ? 2 : 0;
    return r;
}

static ret link_pci(device d, unsigned link, pci_info *out) {
    json *v;
    ret r = link_of(d, "nvmlDeviceGetNvLinkRemotePciInfo_v2", link, "remote", &v);
    return r ? r : pci_of(!strcmp(v->text, "switch") ? "00000000:C0:00.0" : v->text, out);
}

EXPORT ret nvmlDeviceGetNvLinkRemoteDeviceType(device d, unsigned link, unsigned *out) { GUARDED(link_type(d, link, out)); }
EXPORT ret nvmlDeviceGetNvLinkRemotePciInfo_v2(device d, unsigned link, pci_info *out) { GUARDED(link_pci(d, link, out)); }

#if DRIVER >= 520
typedef struct { unsigned char cluster[16]; ret status; unsigned clique, state; } fabric_v1;

static ret fabric(device d, const char *name, ret *status, unsigned *now) {
    static const char *const words[] = {"Not Supported", "Not Started", "In Progress", "Completed", NULL};
    json *v;
    ret r = word_of(d, name, "fabric.state", words, now);
    if (r == NOT_SUPPORTED) { *now = 0; *status = OK; return OK; } /* a card without fabric says so in the structure */
    if (!r && !(r = find(d, name, "fabric.status", &v))) *status = code_of(v->text);
    else if (r == NOT_SUPPORTED) *status = OK, r = OK; /* while it is in progress the status means nothing */
    return r;
}

static ret fabric_old(device d, fabric_v1 *out) {
    memset(out, 0, sizeof *out);
    return fabric(d, "nvmlDeviceGetGpuFabricInfo", &out->status, &out->state);
}

EXPORT ret nvmlDeviceGetGpuFabricInfo(device d, fabric_v1 *out) { GUARDED(fabric_old(d, out)); }
#endif
#if DRIVER >= 545
typedef struct { unsigned version; unsigned char cluster[16]; ret status; unsigned clique, state, health; } fabric_v2;

static ret fabric_new(device d, fabric_v2 *out) {
    if (out->version != (sizeof *out | 2u << 24)) return VERSION_MISMATCH;
    return fabric(d, "nvmlDeviceGetGpuFabricInfoV", &out->status, &out->state);
}

EXPORT ret nvmlDeviceGetGpuFabricInfoV(device d, fabric_v2 *out) { GUARDED(fabric_new(d, out)); }
#endif

/* -- values by number ----------------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t id, scope;
    int64_t time, latency;
    uint32_t type, result;
    union { double d; unsigned u; unsigned long long ull; long long sll; } value;
} field_value;

enum { AS_UINT = 1, AS_ULL = 3 };
static const struct { unsigned id; const char *key; double scale; unsigned type, since; } FIELDS[] = {
    {74, "clocks_event_reasons_counters.sw_power_cap", 1000, AS_ULL, 0},
    {76, "clocks_event_reasons_counters.sync_boost", 1000, AS_ULL, 0},
    {82, "temperature.memory", 1, AS_UINT, 0},
    {186, "power.draw.instant", 1000, AS_UINT, 530},
    {269, "clocks_event_reasons_counters.sw_thermal_slowdown", 1000, AS_ULL, 560},
    {270, "clocks_event_reasons_counters.hw_thermal_slowdown", 1000, AS_ULL, 560},
    {271, "clocks_event_reasons_counters.hw_power_brake_slowdown", 1000, AS_ULL, 560},
};
/* these stand once for every link; the scope says which */
static const struct { unsigned id; const char *key; unsigned type; } LINK_FIELDS[] = {
    {164, "speed_mb_s", AS_UINT},      {208, "receive_errors", AS_ULL},   {211, "integrity_errors", AS_ULL},
    {213, "recovered", AS_ULL},        {214, "recovery_failed", AS_ULL},  {219, "effective_errors", AS_ULL},
    {221, "symbol_errors", AS_ULL},
};

static ret field(device d, field_value *f) {
    static const char *const actions[] = {"None", "Reset", "Reboot", "Drain P2P", "Drain and Reset", NULL};
    const char *name = "nvmlDeviceGetFieldValues";
    double n = 0;
    json *v;
    ret r;
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
        if (FIELDS[i].id != f->id || FIELDS[i].since > DRIVER) continue;
        f->type = FIELDS[i].type;
        if ((r = number(d, name, FIELDS[i].key, FIELDS[i].scale, &n))) return r;
        if (f->type == AS_UINT) f->value.u = (unsigned)(n + 0.5);
        else f->value.ull = (unsigned long long)(n + 0.5);
        return OK;
    }
    for (size_t i = 0; i < sizeof LINK_FIELDS / sizeof *LINK_FIELDS; i++) {
        if (LINK_FIELDS[i].id != f->id) continue;
        f->type = LINK_FIELDS[i].type;
        if ((r = link_of(d, name, f->scope, LINK_FIELDS[i].key, &v))) return r;
        if (f->type == AS_UINT) f->value.u = (unsigned)v->number;
        else f->value.ull = (unsigned long long)v->number;
        return OK;
    }
    if (f->id == 230 && DRIVER >= 560) {
        f->type = AS_UINT;
        return word_of(d, name, "gpu_recovery_action", actions, &f->value.u);
    }
    return NOT_SUPPORTED;
}

static ret fields(device d, int many, field_value *out) {
    json *card;
    if (!started) return UNINITIALIZED;
    reread();
    card = card_of(d);
    if (failed(card)) return failed(card);
    if (told("nvmlDeviceGetFieldValues")) return told("nvmlDeviceGetFieldValues");
    for (int i = 0; i < many; i++) out[i].result = field(d, &out[i]);
    return OK;
}

EXPORT ret nvmlDeviceGetFieldValues(device d, int many, field_value *out) { GUARDED(fields(d, many, out)); }

