// Replaces libnvidia-ml.so.1. It has GPU-01000000-… with 5 bytes free and the MIG device
// MIG-02000000-… with 3. The GPU reports 41 degrees, and further values used by tests. Variables
// set the number of GPUs (FAKE_NVML_GPUS), their compute mode (FAKE_NVML_MODE) and their division
// (FAKE_NVML_MIG).
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {
struct Memory {
  unsigned long long total, free, used;
};
int g_started = 0;
int g_gpu = 5;
int g_part = 3;

unsigned Variable(const char* name, unsigned otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<unsigned>(std::atoi(text));
}
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
EXPORT int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  if (length < 8) return 7;  // NVML_ERROR_INSUFFICIENT_SIZE
  std::strcpy(version, "580.1.2");
  return 0;
}
EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = Variable("FAKE_NVML_GPUS", 1);
  return 0;
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= Variable("FAKE_NVML_GPUS", 1)) return 2;
  *device = &g_gpu;
  return 0;
}
EXPORT int nvmlDeviceGetUUID(void*, char* uuid, unsigned length) {
  std::snprintf(uuid, length, "GPU-01000000-0000-0000-0000-000000000000");
  return 0;
}
EXPORT int nvmlDeviceGetComputeMode(void*, unsigned* mode) {
  *mode = Variable("FAKE_NVML_MODE", 0);
  return 0;
}
EXPORT int nvmlDeviceGetMigMode(void*, unsigned* mode, unsigned* pending) {
  if (std::getenv("FAKE_NVML_MIG") == nullptr) return 3;  // NVML_ERROR_NOT_SUPPORTED
  *mode = *pending = Variable("FAKE_NVML_MIG", 0);
  return 0;
}
EXPORT int nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* celsius) {
  if (device != &g_gpu) return 3;  // NVML_ERROR_NOT_SUPPORTED
  if (sensor != 0) return 2;       // NVML_ERROR_INVALID_ARGUMENT
  *celsius = 41;
  return 0;
}
EXPORT int nvmlDeviceGetUtilizationRates(void*, unsigned* percent) {
  percent[0] = 93;
  percent[1] = 17;
  return 0;
}
EXPORT int nvmlDeviceGetTotalEccErrors(void*, unsigned error, unsigned counter,
                                       unsigned long long* count) {
  *count = (1ULL << 40) + 10 * error + counter;
  return 0;
}
EXPORT int nvmlDeviceGetEncoderUtilization(void*, unsigned* percent, unsigned* microseconds) {
  *percent = 8;
  *microseconds = 167000;
  return 0;
}
EXPORT int nvmlDeviceGetP2PStatus(void* device, void* peer, unsigned ability, int* status) {
  *status = device == &g_gpu && peer == &g_part ? static_cast<int>(ability) : 6;
  return 0;
}
EXPORT int nvmlDeviceGetFieldValues(void*, int count, void* values) {
  struct Value {
    unsigned field, scope;
    long long timestamp, latency;
    int type, result;
    unsigned long long value;
  };
  auto* const value = static_cast<Value*>(values);
  if (count != 1) return 2;
  value->type = 3;
  value->result = value->field == 83 ? 0 : 3;
  value->value = 1234567890123;
  return 0;
}
EXPORT int nvmlDeviceGetMemoryInfo_v2(void*, void* memory) {
  struct MemoryV2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
  };
  auto* const told = static_cast<MemoryV2*>(memory);
  if (told->version != (2U << 24 | sizeof(MemoryV2))) return 25;
  *told = {told->version, 9, 1, 5, 3};
  return 0;
}
EXPORT int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  *memory = {9, static_cast<unsigned long long>(*static_cast<int*>(device)), 4};
  return 0;
}
