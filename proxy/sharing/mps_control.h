// What is asked of NVIDIA's MPS control daemon in a pair folder, by its control program.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/status.h"
#include "protocol/sharing/pair_folder.h"

namespace cuspan::proxy {

// Any thread.
class MpsControl {
 public:
  // `program`: as FindMpsControl has it. `gpu`: as CUDA_VISIBLE_DEVICES names it.
  MpsControl(std::string program, const PairFolder& folder, const std::string& gpu);

  const std::string& program() const { return program_; }
  // Of the daemon and of the program that asks it, NAME=VALUE each.
  const std::vector<std::string>& environment() const { return environment_; }

  // What the daemon answers. kUnavailable if it does not within `limit`, or can not do it.
  Result<std::string> Ask(const std::string& command, std::chrono::milliseconds limit) const;

 private:
  std::string program_;
  std::vector<std::string> environment_;
};

}  // namespace cuspan::proxy
