// NVIDIA's management library together with CUDA: the same devices with the same names, their
// memory in use, and results for invalid arguments.
//
//   nvml
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"

namespace {

int failures = 0;

// Declarations of nvml.h used here: toolkits may not contain this header.
using Device = struct DeviceOfNvml*;
constexpr int kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3,
              kNotFound = 6, kInsufficientSize = 7;
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct Memory {
  unsigned long long total, free, used;
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};

// Loaded as by NCCL and others.
void* Function(const char* name) {
  static void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  void* const function = library != nullptr ? dlsym(library, name) : nullptr;
  if (function == nullptr) {
    std::fprintf(stderr, "nvml: no %s: %s\n", name, dlerror());
    std::exit(EXIT_FAILURE);
  }
  return function;
}

template <typename... Arguments>
int Call(const char* name, Arguments... arguments) {
  return reinterpret_cast<int (*)(Arguments...)>(Function(name))(arguments...);
}

std::string UuidText(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits;
  }
  return text;
}

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(c));
  return text;
}

// Returns the handle of CUDA's device, found by its UUID.
Device CheckNames(int device) {
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, device));
  const std::string uuid = UuidText(properties.uuid);
  Device handle = nullptr;
  const int found = Call("nvmlDeviceGetHandleByUUID", uuid.c_str(), &handle);
  EXPECT(found == kSuccess, "device %d, %s: %d", device, uuid.c_str(), found);
  if (found != kSuccess) return nullptr;
  char text[96] = "";
  EXPECT(Call("nvmlDeviceGetName", handle, text, 96U) == kSuccess, "device %d", device);
  EXPECT(std::strcmp(text, properties.name) == 0, "%s, not %s", text, properties.name);
  EXPECT(Call("nvmlDeviceGetUUID", handle, text, 96U) == kSuccess, "device %d", device);
  EXPECT(text == uuid, "%s, not %s", text, uuid.c_str());
  EXPECT(Call("nvmlDeviceGetUUID", handle, text, 8U) == kInsufficientSize, "device %d", device);
  int major = 0, minor = 0;
  EXPECT(Call("nvmlDeviceGetCudaComputeCapability", handle, &major, &minor) == kSuccess, "%d",
         device);
  EXPECT(major == properties.major && minor == properties.minor, "%d.%d", major, minor);

  PciInfo pci{};
  char bus[32] = "";
  CHECK(cudaDeviceGetPCIBusId(bus, sizeof bus, device));
  EXPECT(Call("nvmlDeviceGetPciInfo_v3", handle, &pci) == kSuccess, "device %d", device);
  EXPECT(Lower(pci.bus_id_legacy) == Lower(bus), "%s, not %s", pci.bus_id_legacy, bus);
  EXPECT(pci.bus == static_cast<unsigned>(properties.pciBusID), "%u", pci.bus);
  EXPECT(pci.domain == static_cast<unsigned>(properties.pciDomainID), "%u", pci.domain);
  Device same = nullptr;
  EXPECT(Call("nvmlDeviceGetHandleByPciBusId_v2", static_cast<const char*>(pci.bus_id), &same) ==
             kSuccess,
         "%s", pci.bus_id);
  unsigned index = 99, count = 0;
  EXPECT(Call("nvmlDeviceGetIndex", handle, &index) == kSuccess, "device %d", device);
  EXPECT(Call("nvmlDeviceGetCount_v2", &count) == kSuccess && index < count, "%u", index);
  EXPECT(Call("nvmlDeviceGetHandleByIndex_v2", index, &same) == kSuccess && same == handle, "%u",
         index);
  return handle;
}

void CheckMemory(int device, Device handle) {
  constexpr std::size_t kBytes = 64 << 20;
  Memory before{}, after{};
  CHECK(cudaSetDevice(device));
  CHECK(cudaFree(nullptr));
  EXPECT(Call("nvmlDeviceGetMemoryInfo", handle, &before) == kSuccess, "device %d", device);
  EXPECT(before.total == before.free + before.used, "%llu", before.total);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, kBytes));
  CHECK(cudaMemset(memory, 0, kBytes));
  CHECK(cudaDeviceSynchronize());
  EXPECT(Call("nvmlDeviceGetMemoryInfo", handle, &after) == kSuccess, "device %d", device);
  EXPECT(after.used >= before.used + kBytes / 2, "%llu, before %llu", after.used, before.used);

  ProcessInfo processes[64];
  unsigned count = 64;
  EXPECT(Call("nvmlDeviceGetComputeRunningProcesses_v3", handle, &count, processes) == kSuccess,
         "device %d", device);
  // NVML in a container reports no process, or those of another namespace.
  EXPECT(count <= 64, "%u", count);
  CHECK(cudaFree(memory));
}

// Current values may be unavailable, with the matching error.
void CheckLive(Device handle) {
  unsigned number = 0, pair[2] = {};
  for (const int result : {Call("nvmlDeviceGetTemperature", handle, 0U, &number),
                           Call("nvmlDeviceGetPowerUsage", handle, &number),
                           Call("nvmlDeviceGetClockInfo", handle, 1U, &number),
                           Call("nvmlDeviceGetUtilizationRates", handle, pair)})
    EXPECT(result == kSuccess || result == kNotSupported, "%d", result);
}

void CheckRefusals() {
  Device handle = nullptr;
  unsigned number = 0;
  EXPECT(Call("nvmlDeviceGetHandleByUUID", "GPU-00000000-0000-0000-0000-000000000000", &handle) ==
             kNotFound,
         "a UUID that is nobody's");
  EXPECT(Call("nvmlDeviceGetHandleByIndex_v2", 4711U, &handle) == kInvalidArgument, "an index");
  EXPECT(Call("nvmlDeviceGetCount_v2", static_cast<unsigned*>(nullptr)) == kInvalidArgument,
         "no room");
  EXPECT(Call("nvmlDeviceGetTemperature", Device{}, 0U, &number) == kInvalidArgument, "no device");
  EXPECT(Call("nvmlInitWithFlags", 0U) == kSuccess, "once more");
  EXPECT(Call("nvmlShutdown") == kSuccess, "once");
  EXPECT(Call("nvmlDeviceGetCount_v2", &number) == kSuccess, "still there");
  EXPECT(Call("nvmlShutdown") == kSuccess, "twice");
  EXPECT(Call("nvmlDeviceGetCount_v2", &number) == kUninitialized, "over");
  EXPECT(Call("nvmlShutdown") == kUninitialized, "over");
}

}  // namespace

int main() {
  EXPECT(Call("nvmlInit_v2") == kSuccess, "nvmlInit_v2");
  const int devices = DeviceCount();
  unsigned count = 0;
  EXPECT(Call("nvmlDeviceGetCount_v2", &count) == kSuccess, "the count");
  EXPECT(count >= static_cast<unsigned>(devices), "%u for %d", count, devices);
  int version = 0, driver = 0;
  EXPECT(Call("nvmlSystemGetCudaDriverVersion_v2", &version) == kSuccess, "the version");
  CHECK(cudaDriverGetVersion(&driver));
  EXPECT(version == driver, "%d, not %d", version, driver);
  for (int device = 0; device < devices; ++device) {
    const Device handle = CheckNames(device);
    if (handle == nullptr) continue;
    CheckMemory(device, handle);
    CheckLive(handle);
  }
  CheckRefusals();
  std::printf("nvml: %d %s: %s\n", devices, Devices(devices), Verdict(failures));
  return ExitStatus(failures);
}
