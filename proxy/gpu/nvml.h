// NVIDIA's management library (NVML): reports on GPUs without a context.
#pragma once

#include <memory>
#include <vector>

#include "ops.gen.h"
#include "protocol/nvml/nvml.h"
#include "protocol/sharing/share_memory.h"

namespace cuspan::proxy {

// libnvidia-ml.so.1, found by the dynamic linker; initialised until it is destroyed. Threads: one.
class Nvml {
 public:
  // Null if the library is missing or does not work.
  static std::unique_ptr<Nvml> Load();
  ~Nvml();
  Nvml(const Nvml&) = delete;

  // Returns null if NVML does not find the device. Sets `mig` if it is a MIG instance.
  nvml::Device Find(const std::array<std::uint8_t, 16>& uuid, bool* mig) const;
  // Returns the library's function `name`; `Type` is its function type. Null if it does not exist.
  template <typename Type>
  Type* Function(const char* name) const {
    return reinterpret_cast<Type*>(Symbol(name));
  }

 private:
  explicit Nvml(void* library) : library_(library) {}
  void* Symbol(const char* name) const;

  void* const library_;
};

// Adds data of NVML missing in the driver's description, by UUID: free memory, MIG instances, the
// kernel driver's release. Unknown values are left unchanged.
void AskNvml(const Nvml& nvml, std::vector<DeviceDescription>& devices);

// Answers questions about one device by NVML. Threads: one.
class NvmlDevice {
 public:
  // `memory`: account of the run, if it shares the device. Reported memory is then reduced to the
  // run's limits.
  explicit NvmlDevice(const std::array<std::uint8_t, 16>& uuid,
                      std::unique_ptr<ShareMemory> memory = nullptr)
      : uuid_(uuid), memory_(std::move(memory)) {}

  // Loads the library at the first question. kNotSupported if the library is missing or does not
  // find the device; it never finds a software GPU. kFunctionNotFound for functions not listed in
  // protocol/nvml/questions.def, or missing in the library.
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
