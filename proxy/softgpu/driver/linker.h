// Link states (cuLink*): the PTX added, and the image made of it.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "proxy/softgpu/driver/context.h"
#include "proxy/softgpu/driver/jit_options.h"

namespace cuspan::softgpu {

struct LinkState {
  std::shared_ptr<Context> context;
  std::mutex mutex;  // Guards the members below.
  JitOptions options;
  std::chrono::duration<float, std::milli> spent{};
  std::vector<std::string> texts;
  std::string image;  // Empty until completed.
};

}  // namespace cuspan::softgpu
