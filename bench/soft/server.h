// Processes running tasks. The software GPU reads its settings from the environment once per
// process, so each combination of settings needs its own process.
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

// One process of this kind, ended with this object. Threads: one.
class Server {
 public:
  // Forks. To be called while this process has one thread.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Runs a task once, on one side. The first call for a task also prepares it, and ends the
  // previous task.
  Result<double> Run(TaskId task, Side side);

 private:
  Server(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}
  const pid_t pid_;
  const UniqueFd socket_;
};

}  // namespace cuspan::bench::soft
