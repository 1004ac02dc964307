// A kernel of the proxy for writing scattered bytes in one launch; bytes between them are not
// touched. The data is part of its parameters, so no buffer must exist until it runs.
#pragma once

#include <cstdint>

#include "protocol/api/codec.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

// Threads: one at a time, with the device's context current. The context owns the kernel.
class PatchKernel {
 public:
  explicit PatchKernel(const Driver& driver) : driver_(driver) {}

  // True if the kernel is loaded. The first call loads it; the driver may wait for work on the
  // device. A failure is logged once.
  bool Ready();
  // Requires Ready(). Writes the bytes of `data` selected by the bits of `mask` to `destination`,
  // in `stream`. Sizes and alignment: see api/patch.h.
  CUresult Launch(std::uint64_t destination, Bytes mask, Bytes data, CUstream stream) const;

 private:
  const Driver& driver_;
  bool tried_ = false;
  CUfunction function_ = nullptr;
};

}  // namespace cuspan::proxy
