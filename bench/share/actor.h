// A program that runs beside others, begins when it is told, and says what it measured.
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

// One thread.
class Actor {
 public:
  static Result<std::unique_ptr<Actor>> Start(const std::vector<std::string>& words,
                                              const Environment& environment);
  // Ends it, if it still runs.
  ~Actor();
  Actor(const Actor&) = delete;

  // Until it has said that it is ready; kUnavailable if it does not for so long.
  static constexpr std::chrono::milliseconds kLongestStart{120'000};
  Status AwaitReady();
  Status Go();
  // All that it prints until it ends. A failure says how it ended.
  Result<std::string> AwaitEnd();
  // What it has printed since it was read from last; waits for nothing.
  std::string ReadSoFar() const;
  // Whether it has ended; waits for nothing.
  bool HasEnded();
  // Ends it: what it has printed until then.
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
