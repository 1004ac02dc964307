// What kernels print, and what the driver says of failed assertions, on its way to the program.
//
// A driver writes both with stdio: to the standard output of its process when somebody waits for
// something (cuEventSynchronize does it even for an event that is complete), and to its standard
// error when it finds the failure. This process has no use for either, so both are streams that
// become frames to the client, which come before the answer to whoever waited.
//
// After work such a wait takes some 1.5 µs (measured on an H200), which each answer would have to
// bear: so it is done only once a module was loaded that can print, or of which that can not be
// told.
#pragma once

#include <cstddef>
#include <span>

#include "protocol/channel/channel.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

class KernelOutput {
 public:
  // Makes the process's stdout and stderr streams to the client of `channel`, which lives as long
  // as the process. What was logged by name before (SetLogName) goes on to the real standard error.
  static Status Install(Channel& channel);

  // To be called with each image before it is loaded. Any thread.
  static void Expect(std::span<const std::byte> image);

  // What was printed before some work that is complete is on its way to the client. `reached` is an
  // event that is complete, or null: then only what the driver has written already. Any thread.
  static void Flush(const Driver& driver, CUevent reached);
};

}  // namespace cuspan::proxy
