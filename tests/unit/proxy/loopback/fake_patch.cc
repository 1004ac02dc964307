// Implements the kernel of proxy/gpu/patch_kernel.cc on the fake GPU.
#include <cstring>

#include "tests/unit/proxy/loopback/fake_gpu_parts.h"

namespace cuspan::proxy {

CUresult FakePatch::Launch(std::size_t threads, CUstream stream, void** arguments) {
  std::uint64_t address = 0;
  std::memcpy(&address, arguments[0], sizeof address);
  const auto* const masks = static_cast<const unsigned char*>(arguments[1]);
  const auto* const bytes = static_cast<const std::byte*>(arguments[2]);
  return fake->Enqueue(
      stream, "patch",
      [&lost = fake->StreamOf(stream).context->lost, mapped = fake->Mapped(address, 8 * threads),
       to = fake->Memory(address), mask = std::vector(masks, masks + threads),
       data = std::vector(bytes, bytes + 8 * threads)] {
        if (!mapped) lost = CUDA_ERROR_ILLEGAL_ADDRESS;
        for (std::size_t i = 0; mapped && i < data.size(); ++i)
          if ((mask[i / 8] >> (i % 8) & 1) != 0) to[i] = data[i];
      });
}

}  // namespace cuspan::proxy
