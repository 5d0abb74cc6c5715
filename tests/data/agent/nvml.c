/* A stand-in for libnvidia-ml.so.1 with the calls that the agent makes. Signatures and codes are those of nvml.h.
   Each value comes from the environment: NVML_GPUS, NVML_INIT, NVML_ECC and so on; NVML_AT selects the GPU that differs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int nvmlReturn_t;
typedef void *nvmlDevice_t;
#define NOT_SUPPORTED 3
#define GPU_IS_LOST 15

static int slots[16];
static long value(const char *name, long usual) { const char *text = getenv(name); return text ? atol(text) : usual; }
static int at(nvmlDevice_t d) { return *(int *)d; }
static long of(nvmlDevice_t d, const char *name, long usual) { return at(d) == value("NVML_AT", 0) ? value(name, usual) : usual; }

nvmlReturn_t nvmlInitWithFlags(unsigned flags) { if (getenv("NVML_HANGS")) for (;;) pause(); return value("NVML_INIT", 0); }
const char *nvmlErrorString(nvmlReturn_t code) {
    return code == 9 ? "Driver Not Loaded" : code == GPU_IS_LOST ? "GPU is lost" : code == 13 ? "Function Not Found" : "another error";
}
nvmlReturn_t nvmlSystemGetDriverVersion(char *to, unsigned size) { snprintf(to, size, "550.163.01"); return 0; }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) { *count = value("NVML_GPUS", 8); return 0; }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *d) {
    if (index >= 16) return 2;
    slots[index] = index; *d = &slots[index];
    return index == value("NVML_LOST", -1) ? GPU_IS_LOST : 0;
}
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, struct pci *to) {
    memset(to, 0, sizeof *to); to->bus = 0x10 + at(d); return 0;
}
nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t d, char *to, unsigned size) { 
    /* GPUs of one board have its serial number. */
    snprintf(to, size, "165402300000%d", getenv("NVML_BOARD") ? 0 : at(d)); return 0;
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *to, unsigned size) {
    snprintf(to, size, "GPU-00000000-0000-0000-0000-00000000000%d", at(d)); return 0;
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *to, unsigned size) { snprintf(to, size, "NVIDIA H100 80GB HBM3"); return 0; }
nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t d, char *to, unsigned size) { snprintf(to, size, "96.00.89.00.01"); return 0; }
#ifndef OLD_DRIVER
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, int type, int counter, unsigned long long *to) {
    *to = type == 1 && counter == 0 ? of(d, "NVML_ECC", 0) : 0; return 0;
}
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t d, unsigned *cor, unsigned *unc, unsigned *pending, unsigned *failed) {
    *cor = *unc = 0; *pending = of(d, "NVML_PENDING", 0); *failed = of(d, "NVML_FAILED", 0); return 0;
}
#endif
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d, unsigned long long *to) { *to = of(d, "NVML_REASONS", 1); return 0; }
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t d, unsigned long long *to) { *to = of(d, "NVML_REASONS", 1); return 0; }
nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned link, unsigned *active) {
    if (link >= 18) return NOT_SUPPORTED;
    *active = link >= of(d, "NVML_LINKS_DOWN", 0); return 0;
}
struct fabric { unsigned version; unsigned char cluster[16]; nvmlReturn_t status; unsigned clique; unsigned char state; unsigned health; };
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t d, struct fabric *to) {
    to->state = of(d, "NVML_FABRIC", 3); to->status = of(d, "NVML_FABRIC_STATUS", 0); return 0;
}
struct process { unsigned pid; unsigned long long memory; unsigned instance, compute; };
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *count, struct process *to) {
    const char *busy = getenv("NVML_BUSY_FILE");
    unsigned used = at(d) == 0 && busy && access(busy, F_OK) == 0;
    if (used && *count < 1) { *count = 1; return 7; }
    if (used) { memset(to, 0, sizeof *to); to[0].pid = 4242; }
    *count = used; return 0;
}
