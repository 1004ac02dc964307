// Liveness of a communicator's ranks. NCCL does not detect the loss of a rank connected by NVLink,
// and waits forever for a rank never started.
//
// The proxy creating a communicator's id starts a liveness server. It writes the server's address
// into unused bytes of the id. The proxies of all ranks connect to it before they call NCCL. The
// server reports the arrival of all ranks, different releases of NCCL, and lost ranks. A rank
// ending normally sends a message first.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "common/mutex.h"
#include "common/status.h"
#include "common/unique_fd.h"
#include "ops.gen.h"
#include "protocol/network/sockets.h"

namespace cuspan::proxy {

// Address of a liveness server.
struct LivenessAddress {
  // Last digit: version of the format.
  static constexpr std::uint64_t kMagic = 0x6375'7370'616e'0001;
  std::uint64_t magic = 0;
  std::uint64_t key = 0;  // Other connections are refused.
  net::Address address;
};

// Ranks forming a communicator after a split. All ranks use the same key for the same split; 0 is
// the first communicator, with all ranks.
struct WatchGroup {
  std::uint64_t key = 0;
  std::int64_t color = 0;
  auto operator<=>(const WatchGroup&) const = default;
};

// Starts a liveness server for a communicator's ranks and writes its address into `id`. Fails if
// NCCL uses these bytes. The server ends with the last connected rank.
Status OpenLivenessServer(RankId& id);
// Removes the address from the id and returns it; restores NCCL's original id. Returns nullopt
// without an address.
std::optional<LivenessAddress> ExtractLivenessAddress(RankId& id);

// Connection of one rank to the liveness server. Threads: any.
class Watch {
 public:
  // Connects as one of `size` ranks. `version` is the proxy's NCCL version.
  static Result<std::shared_ptr<Watch>> Join(const LivenessAddress& place, int rank, int size,
                                             int version);
  // Reports a normal end, except after GiveUp.
  ~Watch();
  Watch(const Watch&) = delete;

  // Waits until all ranks have arrived. kUnavailable if a rank is lost, or after GiveUp; kInvalid
  // if the ranks' NCCL releases differ.
  Status AwaitAll();

  // Calls lost(rank, problem) for each lost rank, including ranks lost before, until Forget
  // returns. The call comes a second after the loss: work not depending on the rank is complete by
  // then. Called by the watch's thread.
  using Lost = std::function<void(int rank, const std::string& problem)>;
  std::uint64_t OnLost(Lost lost);
  void Forget(std::uint64_t listener);

  // Announce: this rank is in the group. IsMember tells if a rank, lost later, was in it.
  void Announce(const WatchGroup& group);
  bool IsMember(const WatchGroup& group, int rank);

  // Makes this rank's end abnormal: the others are notified when the connection closes.
  void GiveUp();

 private:
  Watch(UniqueFd fd, std::shared_ptr<net::Interrupt> interrupt)
      : fd_(std::move(fd)), interrupt_(std::move(interrupt)) {}
  void Interrupt();
  void Listen();
  // Receives the server's next message. Returns false if there will be no more.
  bool Receive();
  void Notify(int rank, const std::string& problem);

  const UniqueFd fd_;
  const std::shared_ptr<net::Interrupt> interrupt_;
  std::atomic<bool> gave_up_{false};
  Mutex mutex_;
  std::condition_variable changed_;
  bool all_here_ CUSPAN_GUARDED_BY(mutex_) = false;
  Status failure_ CUSPAN_GUARDED_BY(mutex_);      // Result of AwaitAll.
  int host_rank_ CUSPAN_GUARDED_BY(mutex_) = -1;  // Rank in the server's process; -1: none.
  std::map<int, std::string> lost_ CUSPAN_GUARDED_BY(mutex_);
  std::map<WatchGroup, std::set<int>> groups_ CUSPAN_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Lost> listeners_ CUSPAN_GUARDED_BY(mutex_);
  std::uint64_t next_listener_ CUSPAN_GUARDED_BY(mutex_) = 1;
  Mutex notifying_;                                   // Held while listeners are called.
  std::chrono::steady_clock::time_point last_grace_;  // Owner: thread_.
  std::thread thread_;
};

}  // namespace cuspan::proxy
