#include "proxy/gpu/linking.h"

#include <array>
#include <cstring>
#include <vector>

#include "common/log.h"
#include "protocol/fatbin/fatbin.h"

namespace cuspan::proxy {
namespace {

using Objects = std::vector<std::span<const std::uint8_t>>;

// The objects behind a linked image.
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

CUresult Link(const Driver& driver, const Objects& objects, CUmodule* module) {
  std::array<char, 4096> complaint{};
  std::array options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values = {complaint.data(), reinterpret_cast<void*>(complaint.size() - 1)};
  CUlinkState state = nullptr;
  CUresult result = driver.cuLinkCreate(options.size(), options.data(), values.data(), &state);
  if (result != CUDA_SUCCESS) return result;
  for (const std::span<const std::uint8_t> object : objects) {
    if (result != CUDA_SUCCESS) break;
    // The driver only reads it, though its type does not say so.
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
             driver.Describe(result), complaint.data());
  }
  driver.cuLinkDestroy(state);
  return result;
}

}  // namespace

CUresult LoadImage(const Driver& driver, std::span<std::byte> image, JitArguments& jit,
                   CUmodule* module) {
  const Objects objects = ObjectsOf(image);
  // The driver knows nothing of our entries.
  if (!objects.empty()) fatbin::HideObjects(image);
  const CUresult result =
      jit.count() == 0
          ? driver.cuModuleLoadData(module, image.data())
          : driver.cuModuleLoadDataEx(module, image.data(), jit.count(), jit.names(), jit.values());
  if (objects.empty() || result != CUDA_ERROR_NO_BINARY_FOR_GPU) return result;
  return Link(driver, objects, module);
}

}  // namespace cuspan::proxy
