#include "proxy/gpu/nvml.h"

#include <dlfcn.h>

#include <cstring>
#include <string>

namespace cuspan::proxy {

std::unique_ptr<Nvml> Nvml::Load() {
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  std::unique_ptr<Nvml> nvml(new Nvml(library));
  auto* const init = nvml->Function<int()>("nvmlInit_v2");
  if (init == nullptr || nvml->Symbol("nvmlShutdown") == nullptr || init() != nvml::kSuccess) {
    // Skip the destructor: nvmlShutdown without nvmlInit is wrong.
    static_cast<void>(nvml.release());
    return nullptr;
  }
  return nvml;
}

Nvml::~Nvml() { Function<int()>("nvmlShutdown")(); }

void* Nvml::Symbol(const char* name) const { return ::dlsym(library_, name); }

nvml::Device Nvml::Find(const std::array<std::uint8_t, 16>& uuid, bool* mig) const {
  auto* const find = Function<int(const char*, nvml::Device*)>("nvmlDeviceGetHandleByUUID");
  if (find == nullptr) return nullptr;
  for (const bool part : {false, true}) {
    nvml::Device device = nullptr;
    if (find(nvml::UuidText(part, uuid).c_str(), &device) != nvml::kSuccess) continue;
    *mig = part;
    return device;
  }
  return nullptr;
}

void AskNvml(const Nvml& nvml, std::vector<DeviceDescription>& devices) {
  std::string release;
  char text[80] = "";
  auto* const version = nvml.Function<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
  if (version != nullptr && version(text, sizeof text) == nvml::kSuccess)
    release.assign(text, ::strnlen(text, sizeof text));
  auto* const memory = nvml.Function<int(nvml::Device, nvml::Memory*)>("nvmlDeviceGetMemoryInfo");
  for (DeviceDescription& device : devices) {
    device.driver_release = release;
    nvml::Device handle = nvml.Find(device.uuid, &device.mig);
    if (handle == nullptr) continue;
    nvml::Memory bytes{};
    if (memory != nullptr && memory(handle, &bytes) == nvml::kSuccess)
      device.free_bytes = bytes.free;
  }
}

}  // namespace cuspan::proxy
