// Commands to NVIDIA's MPS control daemon in a pair folder, sent by its control program.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/status.h"
#include "protocol/sharing/pair_folder.h"

namespace cuspan::proxy {

// Threads: any.
class MpsControl {
 public:
  // `program`: from FindMpsControl. `gpu`: as in CUDA_VISIBLE_DEVICES.
  MpsControl(std::string program, const PairFolder& folder, const std::string& gpu);

  const std::string& program() const { return program_; }
  // Environment of the daemon and of the control program, NAME=VALUE each.
  const std::vector<std::string>& environment() const { return environment_; }

  // The daemon's answer. kUnavailable if there is no answer within `limit`, or if the command
  // fails.
  Result<std::string> Ask(const std::string& command, std::chrono::milliseconds limit) const;

 private:
  std::string program_;
  std::vector<std::string> environment_;
};

}  // namespace cuspan::proxy
