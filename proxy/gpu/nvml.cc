#include "proxy/gpu/nvml.h"

#include <dlfcn.h>

#include <string>

#include "common/format.h"
#include "common/log.h"

namespace cuspan::proxy {
namespace {

// As NVIDIA's "NVML API Reference Guide" has them: every call returns 0 for success; memory is
// nvmlMemory_t.
struct Memory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};
using NvmlDevice = void*;

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*find)(const char* uuid, NvmlDevice* device) = nullptr;
  int (*memory)(NvmlDevice device, Memory* memory) = nullptr;
};

template <typename Function>
bool Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

// The text by which NVML knows a device: "GPU-" or "MIG-" and the UUID in the usual groups.
std::string UuidText(const char* kind, const std::array<std::uint8_t, 16>& uuid) {
  std::string text = kind;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    AppendFormat(text, "{:02x}", uuid[i]);
  }
  return text;
}

}  // namespace

void AskNvml(std::vector<DeviceDescription>& devices) {
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  Nvml nvml;
  if (library == nullptr || !Find(library, "nvmlInit_v2", nvml.init) ||
      !Find(library, "nvmlShutdown", nvml.shutdown) ||
      !Find(library, "nvmlDeviceGetHandleByUUID", nvml.find) ||
      !Find(library, "nvmlDeviceGetMemoryInfo", nvml.memory) || nvml.init() != 0) {
    LogInfo("libnvidia-ml.so.1 not found: the free memory of the GPUs is unknown");
    return;
  }
  for (DeviceDescription& device : devices) {
    NvmlDevice handle = nullptr;
    if (nvml.find(UuidText("GPU-", device.uuid).c_str(), &handle) != 0) {
      if (nvml.find(UuidText("MIG-", device.uuid).c_str(), &handle) != 0) continue;
      device.mig = true;
    }
    Memory memory;
    if (nvml.memory(handle, &memory) == 0) device.free_bytes = memory.free;
  }
  nvml.shutdown();
}

}  // namespace cuspan::proxy
