/* A libnvidia-ml.so.1 without a driver: it answers from the state file that FAKE_NVML_STATE names.
 *
 * The state's cards are written as gpu.json has them (tests/fake_nvml/states.py): nvidia-smi's names and units, null or
 * nothing for "not supported", {"error": "GPU is lost"} for a read that fails. Here they become what NVML gives: bytes,
 * milliwatts, nanoseconds, enumerations, versioned structures, return codes. A card that is only {"error": ...} gives
 * no handle. The file is read anew when it changes, so that a card can be lost in the middle of a run.
 *
 * Structures and numbers are those of NVML's public interface. A function exists from the driver on that brought it:
 * compile with -DDRIVER=470 for a library that lacks what came later.
 */
#include "state.h"

static ret begin(void) {
    json *init;
    reread();
    if (!state) return 9; /* driver not loaded */
    if ((init = json_get(state, "init")) && failed(init)) return failed(init);
    started = 1;
    for (int i = 0; i < MOST; i++) {
        cards[i] = (slot){i, -1};
        for (int j = 0; j < 8; j++) slices[i][j] = (slot){i, j};
    }
    return OK;
}

EXPORT ret nvmlInitWithFlags(unsigned flags) { (void)flags; GUARDED(begin()); }
EXPORT ret nvmlInit_v2(void) { GUARDED(begin()); }
EXPORT ret nvmlShutdown(void) { started = 0; return OK; }

static ret system_text(const char *key, char *out, unsigned length) {
    json *v;
    if (!started) return UNINITIALIZED;
    reread();
    v = json_get(state, key);
    if (!v) return NOT_SUPPORTED;
    if (failed(v)) return failed(v);
    if (strlen(v->text) >= length) return INSUFFICIENT_SIZE;
    strcpy(out, v->text);
    return OK;
}

EXPORT ret nvmlSystemGetDriverVersion(char *out, unsigned length) { GUARDED(system_text("driver_version", out, length)); }

static ret cuda(int *out) {
    char text[32];
    int major = 0, minor = 0;
    ret r = system_text("cuda_version", text, sizeof text);
    if (r) return r;
    sscanf(text, "%d.%d", &major, &minor);
    *out = major * 1000 + minor * 10;
    return OK;
}

EXPORT ret nvmlSystemGetCudaDriverVersion_v2(int *out) { GUARDED(cuda(out)); }

static ret count(unsigned *out) {
    json *gpus;
    if (!started) return UNINITIALIZED;
    reread();
    gpus = json_get(state, "gpus");
    *out = gpus ? (unsigned)gpus->count : 0;
    return told("nvmlDeviceGetCount_v2");
}

EXPORT ret nvmlDeviceGetCount_v2(unsigned *out) { GUARDED(count(out)); }

static ret handle(unsigned index, device *out) {
    unsigned n;
    ret r = count(&n);
    if (r) return r;
    if (index >= n || index >= MOST) return INVALID_ARGUMENT;
    if ((r = failed(json_at(json_get(state, "gpus"), index)))) return r;
    *out = &cards[index];
    return OK;
}

EXPORT ret nvmlDeviceGetHandleByIndex_v2(unsigned index, device *out) { GUARDED(handle(index, out)); }

#define TEXT(function, key) \
    EXPORT ret function(device d, char *out, unsigned length) { GUARDED(text_of(d, #function, key, out, length)); }
TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetVbiosVersion, "vbios_version")
#if DRIVER >= 510
EXPORT ret nvmlDeviceGetGspFirmwareVersion(device d, char *out) {
    GUARDED(text_of(d, "nvmlDeviceGetGspFirmwareVersion", "nvml.gsp_firmware", out, 64));
}
#endif

static ret pci(device d, pci_info *out) {
    json *v;
    ret r = find(d, "nvmlDeviceGetPciInfo_v3", "pci.bus_id", &v);
    return r ? r : pci_of(v->text, out);
}

EXPORT ret nvmlDeviceGetPciInfo_v3(device d, pci_info *out) { GUARDED(pci(d, out)); }

static ret capability(device d, int *major, int *minor) {
    json *v;
    ret r = find(d, "nvmlDeviceGetCudaComputeCapability", "compute_cap", &v);
    if (!r && sscanf(v->text, "%d.%d", major, minor) != 2) r = UNKNOWN;
    return r;
}

EXPORT ret nvmlDeviceGetCudaComputeCapability(device d, int *major, int *minor) { GUARDED(capability(d, major, minor)); }

#if DRIVER >= 530
static ret numa(device d, int *out) {
    double n;
    ret r = number(d, "nvmlDeviceGetNumaNodeId", "nvml.numa_node", 1, &n);
    if (!r) *out = (int)n;
    return r;
}

EXPORT ret nvmlDeviceGetNumaNodeId(device d, int *out) { GUARDED(numa(d, out)); }
#endif

WORD(nvmlDeviceGetPersistenceMode, "persistence_mode", "Disabled", "Enabled")
WORD(nvmlDeviceGetComputeMode, "compute_mode", "Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")
WORD(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pages.pending", "No", "Yes")
WORD(nvmlDeviceGetVirtualizationMode, "nvml.virtualization", "None", "Pass-Through", "VGPU", "Host VGPU", "Host VSGA")
WORD(nvmlDeviceGetPerformanceState, "pstate", "P0", "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8")

/* current and pending are the same here */
#define MODE(function, key) \
    EXPORT ret function(device d, unsigned *now, unsigned *pending) { \
        static const char *const words[] = {"Disabled", "Enabled", NULL}; \
        ret r; \
        pthread_mutex_lock(&lock); \
        r = word_of(d, #function, key, words, now); \
        if (!r) *pending = *now; \
        pthread_mutex_unlock(&lock); \
        return r; \
    }
MODE(nvmlDeviceGetMigMode, "mig.mode.current")
MODE(nvmlDeviceGetEccMode, "ecc.mode.current")

#if DRIVER >= 570
typedef struct { unsigned version, value; } addressing_mode;

static ret addressing(device d, addressing_mode *out) {
    static const char *const words[] = {"None", "HMM", "ATS", NULL};
    if (out->version != (sizeof *out | 1u << 24)) return VERSION_MISMATCH;
    return word_of(d, "nvmlDeviceGetAddressingMode", "addressing_mode", words, &out->value);
}

EXPORT ret nvmlDeviceGetAddressingMode(device d, addressing_mode *out) { GUARDED(addressing(d, out)); }
#endif

