// Stands in for libnvidia-ml.so.1: knows GPU-01000000-… with 5 bytes free, and the part of a GPU
// MIG-02000000-… with 3.
#include <cstring>
#include <string>

namespace {
struct Memory {
  unsigned long long total, free, used;
};
int g_started = 0;
int g_gpu = 5;
int g_part = 3;
}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int nvmlInit_v2() {
  ++g_started;
  return 0;
}
EXPORT int nvmlShutdown() {
  --g_started;
  return 0;
}
EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  const std::string rest = "-0000-0000-0000-000000000000";
  if (g_started != 1) return 1;
  if (uuid == "GPU-01000000" + rest) {
    *device = &g_gpu;
  } else if (uuid == "MIG-02000000" + rest) {
    *device = &g_part;
  } else {
    return 6;  // NVML_ERROR_NOT_FOUND
  }
  return 0;
}
EXPORT int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  *memory = {9, static_cast<unsigned long long>(*static_cast<int*>(device)), 4};
  return 0;
}
