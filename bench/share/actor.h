// A program running beside others. It starts on command and prints its measurements.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"
#include "launcher/host/environment.h"

namespace cuspan::bench::share {

// Threads: one.
class Actor {
 public:
  static Result<std::unique_ptr<Actor>> Start(const std::vector<std::string>& words,
                                              const Environment& environment);
  // Kills it, if it is still running.
  ~Actor();
  Actor(const Actor&) = delete;

  // Waits until it reports to be ready. kUnavailable after kLongestStart.
  static constexpr std::chrono::milliseconds kLongestStart{120'000};
  Status AwaitReady();
  Status Go();
  // Waits for its end and returns all its output. A failure has its exit status.
  Result<std::string> AwaitEnd();
  // Its output since the last read. Does not block.
  std::string ReadSoFar() const;
  // True if it has ended. Does not block.
  bool HasEnded();
  // Kills it and returns its output so far.
  std::string Stop();

 private:
  Actor(std::string name, pid_t pid, UniqueFd in, UniqueFd out)
      : name_(std::move(name)), pid_(pid), in_(std::move(in)), out_(std::move(out)) {}
  std::string ReadAll() const;
  Status Ended();

  const std::string name_;
  pid_t pid_;
  UniqueFd in_;
  UniqueFd out_;
};

}  // namespace cuspan::bench::share
