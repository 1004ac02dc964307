// A kernel of the proxy's own that writes single bytes and leaves those between them alone, many in
// one launch. What it writes rides in its parameters, so that nothing has to live until it runs.
#pragma once

#include <cstdint>

#include "protocol/api/codec.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

// Threads: one at a time, with the device's context current. The kernel goes with the context.
class PatchKernel {
 public:
  explicit PatchKernel(const Driver& driver) : driver_(driver) {}

  // Whether the kernel is there. Loads it the first time, for which the driver may wait for what
  // runs on the device; where that fails, it says so once.
  bool Ready();
  // When it is: writes to `destination` the bytes of `data` that `mask` has bits for, in this
  // stream. Sizes and alignment are those of api/patch.h.
  CUresult Launch(std::uint64_t destination, Bytes mask, Bytes data, CUstream stream) const;

 private:
  const Driver& driver_;
  bool tried_ = false;
  CUfunction function_ = nullptr;
};

}  // namespace cuspan::proxy
