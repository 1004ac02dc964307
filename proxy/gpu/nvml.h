// NVIDIA's management library, which tells of GPUs without a context on them.
#pragma once

#include <memory>
#include <vector>

#include "ops.gen.h"
#include "protocol/nvml/nvml.h"
#include "protocol/sharing/share_memory.h"

namespace cuspan::proxy {

// libnvidia-ml.so.1, where the dynamic linker finds it; initialised while it lives. One thread.
class Nvml {
 public:
  // Null when there is none, or none that works.
  static std::unique_ptr<Nvml> Load();
  ~Nvml();
  Nvml(const Nvml&) = delete;

  // Null when it knows no such device. `mig` tells which kind it was found as.
  nvml::Device Find(const std::array<std::uint8_t, 16>& uuid, bool* mig) const;
  // A function of the library as `Type`, a function type; null when it has none of that name.
  template <typename Type>
  Type* Function(const char* name) const {
    return reinterpret_cast<Type*>(Symbol(name));
  }

 private:
  explicit Nvml(void* library) : library_(library) {}
  void* Symbol(const char* name) const;

  void* const library_;
};

// Fills in what NVML knows of GPUs and the driver's description lacks, by their UUIDs: free memory,
// which of them are parts of one (MIG), the kernel driver's release. What it does not tell, or all
// where it is missing, stays as it is.
void AskNvml(std::vector<DeviceDescription>& devices);

// What NVML answers to questions about one device. One thread.
class NvmlDevice {
 public:
  // `memory`: where the run shares the device, its account; what the run may not have is none of
  // the device's memory then.
  explicit NvmlDevice(const std::array<std::uint8_t, 16>& uuid,
                      std::unique_ptr<ShareMemory> memory = nullptr)
      : uuid_(uuid), memory_(std::move(memory)) {}

  // The library is loaded at the first question. kNotSupported where there is none, or where it
  // does not know the device, as no library does a software GPU; kFunctionNotFound for what is no
  // question (protocol/nvml/questions.def), or not one of this library's.
  NvmlAnswer Ask(const NvmlAsk& ask);

 private:
  void Narrow(NvmlAnswer& answer) const;

  const std::array<std::uint8_t, 16> uuid_;
  const std::unique_ptr<ShareMemory> memory_;
  bool looked_ = false;
  std::unique_ptr<Nvml> nvml_;
  nvml::Device device_ = nullptr;
};

}  // namespace cuspan::proxy
