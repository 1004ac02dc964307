// Creates the graphs for batches of launches (objects/launch_chains.h) while the device has no
// work: all at once, in some 2 ms.
#pragma once

#include <chrono>

#include "proxy/session/device_session.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

// Threads: the receiving thread.
class GraphMaker {
 public:
  // The session outlives it.
  explicit GraphMaker(DeviceSession& session) : session_(session) {}

  // True if graphs are wanted and can be created now. Call it often; then MakeIfIdle.
  bool MayMake() const CUSPAN_REQUIRES(receiving_thread);
  void MakeIfIdle() CUSPAN_REQUIRES(receiving_thread);
  // Call after each frame. A program launching without waits leaves the device no pause. Then its
  // launches are held back, at times, until the device has completed those before.
  void AfterFrame() CUSPAN_REQUIRES(receiving_thread);

 private:
  // Number of frames between two attempts. It doubles while kernels run for long.
  static constexpr unsigned kFirstPatience = 64;
  static constexpr unsigned kLongestPatience = 1 << 20;
  // A stream has at most 256 launches on the device. Short ones, which need batches, take less.
  static constexpr std::chrono::milliseconds kLongestHold{1};

  // Waits until the device has no work, for at most kLongestHold.
  bool HoldLaunches() CUSPAN_REQUIRES(receiving_thread);

  DeviceSession& session_;
  unsigned frames_ = 0;
  unsigned patience_ = kFirstPatience;
};

}  // namespace cuspan::proxy
