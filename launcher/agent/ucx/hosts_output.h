// Output of the agents on other hosts and of their remote shells, kept apart for each host. An
// error message can then quote the output of its own host.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan {

// Threads: any; a thread of its own reads. The destructor passes on the remaining output if PassOn
// was called, and drops it otherwise.
class HostsOutput {
 public:
  // `writing`: returns a writing end for each host; the caller gives them to children and closes
  // them. kExhausted if descriptors or threads are used up.
  static Result<std::unique_ptr<HostsOutput>> Start(std::size_t hosts,
                                                    std::vector<UniqueFd>& writing);
  ~HostsOutput();
  HostsOutput(const HostsOutput&) = delete;
  HostsOutput& operator=(const HostsOutput&) = delete;

  // Writes all lines to this process's own output from now on, those kept so far first.
  void PassOn();
  // Last line written by cuspan on a host, without its name prefix; if there is none, the host's
  // last line. Waits up to 200 ms for the end of the output. Empty without lines.
  std::string LastWords(std::size_t host);

 private:
  struct Host {
    UniqueFd reading;
    std::string line;  // Incomplete last line.
    std::string last;
    std::string last_own;
    std::string kept;  // Complete lines.
    bool ended = false;
  };
  HostsOutput() = default;
  void Run();
  // Reads all available output.
  void Read(Host& host) CUSPAN_REQUIRES(mutex_);
  void AddLine(Host& host, const std::string& line) CUSPAN_REQUIRES(mutex_);

  Mutex mutex_;
  std::condition_variable ended_;
  std::vector<Host> hosts_ CUSPAN_GUARDED_BY(mutex_);
  bool passing_ CUSPAN_GUARDED_BY(mutex_) = false;
  UniqueFd stop_;  // An eventfd; written to end the thread.
  std::thread thread_;
};

}  // namespace cuspan
