// Processes that run tasks: the software GPU takes its settings from the environment
// once in a process, so each combination of settings has a process of its own.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>

#include "bench/soft/tasks.h"
#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan::bench::soft {

enum class Side : std::uint32_t { kGpu, kHost };

struct ServerOptions {
  unsigned threads = 1;
  std::string model;         // CUSPAN_SOFT_MODEL
  std::string cache_folder;  // CUSPAN_SOFT_CACHE
  std::string tier = {};     // CUSPAN_SOFT_TIER
  auto operator<=>(const ServerOptions&) const = default;
};

// One such process; ended with this object. One thread calls.
class Server {
 public:
  // Forks: to be called while this process has one thread.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Runs a task once, on one side; its first call also prepares it and ends the one before.
  Result<double> Run(TaskId task, Side side);

 private:
  Server(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}
  const pid_t pid_;
  const UniqueFd socket_;
};

}  // namespace cuspan::bench::soft
