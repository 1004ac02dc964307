// Output of kernels (printf) and the driver's messages about failed assertions, on their way to the
// program.
//
// The driver writes both with stdio. Kernel output goes to stdout when a call synchronises
// (cuEventSynchronize does so even for a complete event). Messages go to stderr when the driver
// finds the failure. This process does not need either, so both streams are replaced: their content
// is sent to the client in frames, before the reply to the synchronising call.
//
// Synchronising after work takes some 1.5 µs (measured on an H200) for each reply. It is therefore
// done only while kernels possibly printing are submitted and not known to be complete.
#pragma once

#include <string_view>

#include "protocol/channel/channel.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

class KernelOutput {
 public:
  // The function of the driver called by printf in device code.
  static constexpr std::string_view kFunction = "vprintf";

  // Replaces the process's stdout and stderr by streams to the client of `channel`. `channel` must
  // exist until the process ends. The log opened before (SetLogName) still uses the real stderr.
  static Status Install(Channel& channel);

  // Begin is called before work with kernels possibly printing is submitted; End after it is
  // complete and Flush was called. Threads: any.
  static void Begin();
  static void End();
  // True if there may be output not sent yet. Threads: any.
  static bool Expected();

  // Sends output printed before completed work to the client. `reached` is a complete event. If it
  // is null, only output already written by the driver is sent. Threads: any.
  static void Flush(const Driver& driver, CUevent reached);
};

}  // namespace cuspan::proxy
