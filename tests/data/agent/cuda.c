/* A stand-in for libcuda.so.1: GPUs whose memory is 64 MiB of the process. CUDA_FORGETS selects a GPU that writes nothing. */
#include <stdlib.h>
#include <string.h>

#define TOTAL (64l << 20)
static char *memory;
static size_t used;
static int current, chosen;

static long value(const char *name, long usual) { const char *text = getenv(name); return text ? atol(text) : usual; }
/* As the driver does, CUDA shows only the GPU whose UUID is in CUDA_VISIBLE_DEVICES, here the number at its end. */
static int visible(void) { const char *uuid = getenv("CUDA_VISIBLE_DEVICES"); return strtol(uuid + strlen(uuid) - 2, 0, 16); }
int cuInit(unsigned flags) { return visible() < value("CUDA_GPUS", 8) ? 0 : 100; }
int cuDeviceGet(int *device, int index) { *device = visible(); return index ? 101 : 0; }
int cuDeviceGetUuid_v2(char *to, int device) { memset(to, 0, 16); to[15] = device; to[0] = device == value("CUDA_MIG", -1); return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) {
    chosen = device; memory = malloc(TOTAL); memset(memory, 0x77, TOTAL); used = 0; *context = &current; return 0;
}
int cuCtxSetCurrent(void *context) { return 0; }
int cuMemGetInfo_v2(size_t *left, size_t *total) { *left = TOTAL - used; *total = TOTAL; return 0; }
int cuMemAlloc_v2(unsigned long long *place, size_t size) {
    if (used + size > TOTAL - (2l << 20)) return 2;
    *place = (unsigned long long)(memory + used); used += size; return 0;
}
int cuMemsetD8_v2(unsigned long long place, unsigned char byte, size_t size) {
    if (chosen != value("CUDA_FORGETS", -1)) memset((void *)place, byte, size);
    return 0;
}
int cuMemcpyDtoH_v2(void *to, unsigned long long place, size_t size) { memcpy(to, (void *)place, size); return 0; }
