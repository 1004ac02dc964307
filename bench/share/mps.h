// NVIDIA's MPS, set up manually.
#pragma once

#include <memory>
#include <utility>

#include "bench/common/temporary_folder.h"
#include "common/status.h"
#include "launcher/host/environment.h"

namespace cuspan::bench::share {

// A control daemon in a folder of its own. It ends with this object.
class MpsDaemon {
 public:
  // Processes started in `environment` afterwards are its clients.
  static Result<std::unique_ptr<MpsDaemon>> Start(Environment& environment);
  ~MpsDaemon();
  MpsDaemon(const MpsDaemon&) = delete;

 private:
  explicit MpsDaemon(TemporaryFolder folder) : folder_(std::move(folder)) {}
  const TemporaryFolder folder_;
};

}  // namespace cuspan::bench::share
