// What the agents on other hosts, and the shells that reach them, write: apart for each host, so
// that a failure has the words of its own host.
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

// A thread of its own reads. Any thread may call. Destroying it passes on what is there, if PassOn
// was called, and drops it otherwise.
class HostsOutput {
 public:
  // `writing`: the ends for so many hosts, which the caller gives to children and closes.
  // kExhausted: there are no more descriptors, or threads.
  static Result<std::unique_ptr<HostsOutput>> Start(std::size_t hosts,
                                                    std::vector<UniqueFd>& writing);
  ~HostsOutput();
  HostsOutput(const HostsOutput&) = delete;
  HostsOutput& operator=(const HostsOutput&) = delete;

  // From now on lines go where this process writes: those that were kept, and each that comes.
  void PassOn();
  // The last line of cuspan's own that a host has written, without the name before it, else its
  // last line. Waits a moment for the end of what it writes. Empty without lines.
  std::string LastWords(std::size_t host);

 private:
  struct Host {
    UniqueFd reading;
    std::string line;  // The part that has come.
    std::string last;
    std::string last_own;
    std::string kept;  // Whole lines.
    bool ended = false;
  };
  HostsOutput() = default;
  void Run();
  // Takes what has come.
  void Read(Host& host) CUSPAN_REQUIRES(mutex_);
  void Take(Host& host, const std::string& line) CUSPAN_REQUIRES(mutex_);

  Mutex mutex_;
  std::condition_variable ended_;
  std::vector<Host> hosts_ CUSPAN_GUARDED_BY(mutex_);
  bool passing_ CUSPAN_GUARDED_BY(mutex_) = false;
  UniqueFd stop_;  // Written to for the end.
  std::thread thread_;
};

}  // namespace cuspan
