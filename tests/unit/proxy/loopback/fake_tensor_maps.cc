// Tensor maps of the fake GPU contain their parameters: the address, the kind (1: tiled, 2:
// im2col), the rank, and the last size and box, or the channels and pixels.
#include <cstring>

#include "tests/unit/proxy/loopback/fake_gpu_parts.h"

namespace cuspan::proxy {

void FakeGpu::InstallTensorMaps() {
  driver_.cuTensorMapEncodeTiled = [](CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank,
                                      void* address, const cuuint64_t* sizes, const cuuint64_t*,
                                      const cuuint32_t* box, const cuuint32_t*,
                                      CUtensorMapInterleave, CUtensorMapSwizzle,
                                      CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    const std::scoped_lock lock(fake->mutex_);
    fake->log_.push_back("tensor map");
    const std::uint64_t words[] = {reinterpret_cast<std::uintptr_t>(address), 1, rank,
                                   sizes[rank - 1], box[rank - 1]};
    std::memcpy(map->opaque, words, sizeof words);
    return fake->Refusal("cuTensorMapEncodeTiled");
  };
  driver_.cuTensorMapEncodeIm2col =
      [](CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* address, const cuuint64_t*,
         const cuuint64_t*, const int*, const int*, cuuint32_t channels, cuuint32_t pixels,
         const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
         CUtensorMapFloatOOBfill) {
        const std::uint64_t words[] = {reinterpret_cast<std::uintptr_t>(address), 2, rank, channels,
                                       pixels};
        std::memcpy(map->opaque, words, sizeof words);
        return CUDA_SUCCESS;
      };
  driver_.cuTensorMapReplaceAddress = [](CUtensorMap* map, void* address) {
    map->opaque[0] = reinterpret_cast<std::uintptr_t>(address);
    return CUDA_SUCCESS;
  };
}

}  // namespace cuspan::proxy
