// NVIDIA's MPS, as one would set it up by hand.
#pragma once

#include <memory>
#include <utility>

#include "bench/common/temporary_folder.h"
#include "common/status.h"
#include "launcher/host/environment.h"

namespace cuspan::bench::share {

// A control daemon in a folder of its own, which ends with this.
class MpsDaemon {
 public:
  // What starts in `environment` from then on is a client of it.
  static Result<std::unique_ptr<MpsDaemon>> Start(Environment& environment);
  ~MpsDaemon();
  MpsDaemon(const MpsDaemon&) = delete;

 private:
  explicit MpsDaemon(TemporaryFolder folder) : folder_(std::move(folder)) {}
  const TemporaryFolder folder_;
};

}  // namespace cuspan::bench::share
