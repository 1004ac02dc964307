#include "proxy/gpu/patch_kernel.h"

#include <algorithm>
#include <array>

#include "common/log.h"
#include "protocol/api/patch.h"

namespace cuspan::proxy {
namespace {

constexpr const char* kName = "cuspan_patch";

// Each thread handles a byte of the mask and its 8 bytes. PTX version and target are the oldest
// ones accepted by the drivers of all supported GPUs.
constexpr const char* kText = R"(
.version 6.0
.target sm_50
.address_size 64

.visible .entry cuspan_patch(
  .param .u64 destination,
  .param .align 8 .b8 mask[256],
  .param .align 8 .b8 data[2048]
)
{
  .reg .pred %p<3>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<6>;

  mov.u32 %r1, %tid.x;
  cvt.u64.u32 %rd1, %r1;
  mov.b64 %rd2, mask;
  add.s64 %rd2, %rd2, %rd1;
  ld.param.u8 %r2, [%rd2];
  shl.b64 %rd1, %rd1, 3;
  mov.b64 %rd3, data;
  add.s64 %rd3, %rd3, %rd1;
  ld.param.u64 %rd4, [%rd3];
  ld.param.u64 %rd5, [destination];
  cvta.to.global.u64 %rd5, %rd5;
  add.s64 %rd5, %rd5, %rd1;
  setp.ne.u32 %p1, %r2, 255;
  @%p1 bra BYTES;
  st.global.u64 [%rd5], %rd4;
  ret;
BYTES:
  setp.eq.u32 %p1, %r2, 0;
  @%p1 bra DONE;
  and.b32 %r3, %r2, 1;
  setp.eq.u32 %p2, %r3, 0;
  @%p2 bra NEXT;
  st.global.u8 [%rd5], %rd4;
NEXT:
  shr.u32 %r2, %r2, 1;
  shr.u64 %rd4, %rd4, 8;
  add.s64 %rd5, %rd5, 1;
  bra BYTES;
DONE:
  ret;
}
)";

}  // namespace

bool PatchKernel::Ready() {
  if (tried_) return function_ != nullptr;
  tried_ = true;
  CUmodule module = nullptr;
  CUresult result = driver_.cuModuleLoadData(&module, kText);
  if (result == CUDA_SUCCESS) result = driver_.cuModuleGetFunction(&function_, module, kName);
  if (result == CUDA_SUCCESS) return true;
  function_ = nullptr;
  LogWarn(
      "the driver cannot load the kernel for scattered writes to memory shared by host and "
      "kernels: {}; each run of bytes is copied separately, more slowly",
      driver_.Describe(result));
  return false;
}

CUresult PatchKernel::Launch(std::uint64_t destination, Bytes mask, Bytes data,
                             CUstream stream) const {
  // The driver copies parameters of this size before it returns.
  std::array<std::byte, kMaxPatchBytes / kPatchWordBytes> masks;
  std::array<std::byte, kMaxPatchBytes> bytes;
  std::copy(mask.begin(), mask.end(), masks.begin());
  std::copy(data.begin(), data.end(), bytes.begin());
  void* parameters[] = {&destination, masks.data(), bytes.data()};
  return driver_.cuLaunchKernel(function_, 1, 1, 1, static_cast<unsigned>(mask.size()), 1, 1, 0,
                                stream, parameters, nullptr);
}

}  // namespace cuspan::proxy
