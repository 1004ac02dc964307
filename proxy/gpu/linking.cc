#include "proxy/gpu/linking.h"

#include <array>
#include <cstring>
#include <vector>

#include "common/log.h"
#include "protocol/fatbin/fatbin.h"

namespace cuspan::proxy {
namespace {

using Objects = std::vector<std::span<const std::uint8_t>>;

// Returns the objects stored with a linked image.
Objects ObjectsOf(std::span<const std::byte> image) {
  Objects objects;
  if (image.size() < sizeof(std::uint32_t) || !fatbin::IsContainer(image.data())) return objects;
  const Result<fatbin::Container> container =
      fatbin::ReadContainer({reinterpret_cast<const std::uint8_t*>(image.data()), image.size()});
  if (!container.ok()) return objects;
  for (const fatbin::Entry& entry : container->entries)
    if (entry.kind == fatbin::Kind::kObject) objects.push_back(entry.payload);
  return objects;
}

// Options for receiving the driver's error log.
struct Complaint {
  std::array<char, 4096> text{};
  std::array<CUjit_option, 2> names = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values = {text.data(), reinterpret_cast<void*>(text.size() - 1)};
};

CUresult Link(const Driver& driver, const Objects& objects, CUmodule* module) {
  Complaint complaint;
  CUlinkState state = nullptr;
  CUresult result = driver.cuLinkCreate(complaint.names.size(), complaint.names.data(),
                                        complaint.values.data(), &state);
  if (result != CUDA_SUCCESS) return result;
  for (const std::span<const std::uint8_t> object : objects) {
    if (result != CUDA_SUCCESS) break;
    // The driver only reads the data, although its type is not const.
    result = driver.cuLinkAddData(state, CU_JIT_INPUT_FATBINARY,
                                  const_cast<std::uint8_t*>(object.data()), object.size(), "object",
                                  0, nullptr, nullptr);
  }
  void* linked = nullptr;
  std::size_t bytes = 0;
  if (result == CUDA_SUCCESS) result = driver.cuLinkComplete(state, &linked, &bytes);
  if (result == CUDA_SUCCESS) {
    result = driver.cuModuleLoadData(module, linked);
  } else {
    LogError("the driver cannot link the {} objects of a program: {} {}", objects.size(),
             driver.Describe(result), complaint.text.data());
  }
  driver.cuLinkDestroy(state);
  return result;
}

}  // namespace

CUresult LoadImage(const Driver& driver, std::span<std::byte> image, JitArguments& jit,
                   CUmodule* module) {
  const auto load = [&](unsigned count, CUjit_option* names, void** values) {
    return count == 0 ? driver.cuModuleLoadData(module, image.data())
                      : driver.cuModuleLoadDataEx(module, image.data(), count, names, values);
  };
  const Objects objects = ObjectsOf(image);
  if (objects.empty()) return load(jit.count(), jit.names(), jit.values());
  // The driver does not understand our entries.
  fatbin::HideObjects(image);
  // Not an error if no part of the linked image fits this device: its objects may.
  Complaint complaint;
  const CUresult result = jit.count() != 0 ? load(jit.count(), jit.names(), jit.values())
                                           : load(complaint.names.size(), complaint.names.data(),
                                                  complaint.values.data());
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) return Link(driver, objects, module);
  if (complaint.text.front() != '\0') LogError("{}", complaint.text.data());
  return result;
}

}  // namespace cuspan::proxy
