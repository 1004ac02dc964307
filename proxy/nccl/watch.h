// Who of a communicator is still there. NCCL itself does not notice that a rank is gone whose GPU
// it reaches by NVLink, and a rank that never comes it awaits for ever.
//
// The proxy that makes an id opens a house, and writes where it is into bytes of the id that NCCL
// does not use. The proxies of all ranks connect to it before they call NCCL: so it can say when
// all have come, that their releases of NCCL differ, and that one was lost. A rank that ends in
// good order says so.
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

// Where a house is.
struct LivenessAddress {
  static constexpr std::uint64_t kMagic = 0x6375'7370'616e'0001;  // The last digit counts forms.
  std::uint64_t magic = 0;
  std::uint64_t key = 0;  // Who does not know it is a stranger.
  net::Address address;
};

// Ranks of a communicator that go on together in one that was made of it. All ranks have the same
// key for the same split; 0 is the first communicator, which has them all.
struct WatchGroup {
  std::uint64_t key = 0;
  std::int64_t color = 0;
  auto operator<=>(const WatchGroup&) const = default;
};

// Opens a house for a communicator's ranks, which lives as long as somebody of them is there, and
// writes its place into `id`, unless NCCL uses those bytes of it.
Status OpenLivenessServer(RankId& id);
// Takes it out of the id, which is as NCCL made it then. Nothing where it has none.
std::optional<LivenessAddress> ExtractLivenessAddress(RankId& id);

// One rank's connection to the house. Threads: any.
class Watch {
 public:
  // As a rank of `size` whose proxy uses NCCL `version`.
  static Result<std::shared_ptr<Watch>> Join(const LivenessAddress& place, int rank, int size,
                                             int version);
  // In good order, unless a rank was given up.
  ~Watch();
  Watch(const Watch&) = delete;

  // Waits until all ranks have come and their releases of NCCL agree. kUnavailable where one was
  // lost, or this one gives up; kInvalid where they do not agree.
  Status AwaitAll();

  // lost(rank, what happened) is called for each rank that is lost, also for those that were
  // before; by a thread of the watch's, until Forget returns. A second later, so that what needs
  // the rank no more is done by then.
  using Lost = std::function<void(int rank, const std::string& problem)>;
  std::uint64_t OnLost(Lost lost);
  void Forget(std::uint64_t listener);

  // This rank is in the group. Who is lost later is known to be in it, or not.
  void Announce(const WatchGroup& group);
  bool IsMember(const WatchGroup& group, int rank);

  // This rank does not end in good order: the others are told when the connection closes.
  void GiveUp();

 private:
  Watch(UniqueFd fd, std::shared_ptr<net::Interrupt> interrupt)
      : fd_(std::move(fd)), interrupt_(std::move(interrupt)) {}
  void Interrupt();
  void Listen();
  // What the house has said; false when it says no more.
  bool Hear();
  void Tell(int rank, const std::string& problem);

  const UniqueFd fd_;
  const std::shared_ptr<net::Interrupt> interrupt_;
  std::atomic<bool> gave_up_{false};
  Mutex mutex_;
  std::condition_variable changed_;
  bool all_here_ CUSPAN_GUARDED_BY(mutex_) = false;
  Status failure_ CUSPAN_GUARDED_BY(mutex_);      // Of AwaitAll.
  int host_rank_ CUSPAN_GUARDED_BY(mutex_) = -1;  // Of the house's own process; -1: none.
  std::map<int, std::string> lost_ CUSPAN_GUARDED_BY(mutex_);
  std::map<WatchGroup, std::set<int>> groups_ CUSPAN_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Lost> listeners_ CUSPAN_GUARDED_BY(mutex_);
  std::uint64_t next_listener_ CUSPAN_GUARDED_BY(mutex_) = 1;
  Mutex telling_;                                     // Held while listeners are called.
  std::chrono::steady_clock::time_point last_grace_;  // The thread's.
  std::thread thread_;
};

}  // namespace cuspan::proxy
