// Accepts connections of a listening socket. Any process of the node can connect. Limits protect
// the run from processes of others (docs/security.md):
//
// - Processes of other users are dropped and counted, with one log line a minute.
// - A process of the same user has kProofLimit to send its first message. The caller checks it for
//   the run's secret.
// - At most kMaxUnproven connections without a message are kept, and at most a quarter of this
//   process's descriptor limit. Beyond this limit the oldest is closed.
// - If descriptors are exhausted even then, the new process gets a refusal.
//
// Errors of a connection never end accepting.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/status.h"
#include "common/unique_fd.h"
#include "protocol/channel/socket.h"

namespace cuspan {

// Threads: one at a time.
class Reception {
 public:
  static constexpr std::chrono::milliseconds kProofLimit{5'000};
  static constexpr std::size_t kMaxUnproven = 64;

  // kInvalid if the address is in use.
  static Result<Reception> Listen(const std::string& address);

  // Descriptor for poll and epoll: readable if Next has work to do.
  int fd() const { return events_.get(); }

  // A process of this user, and its first message.
  struct Arrival {
    ControlSocket socket;
    ControlSocket::Message first;
  };
  // The next arrival. Nothing if there is no arrival yet, or after a bounded amount of work; fd()
  // stays readable while more is pending. Never blocks.
  std::optional<Arrival> Next();

  // Sends the reason to the arrival and closes the connection.
  static void Refuse(Arrival arrival, const std::string& reason);

 private:
  using Clock = std::chrono::steady_clock;
  struct Guest {
    ControlSocket socket;
    Clock::time_point came;
  };
  Reception(ControlListener listener, UniqueFd events, UniqueFd timer, UniqueFd spare)
      : listener_(std::move(listener)),
        events_(std::move(events)),
        timer_(std::move(timer)),
        spare_(std::move(spare)) {}
  std::optional<Arrival> Accept();
  void DropOldest();
  void TurnAwayForWantOfDescriptors();
  void Rest();
  std::optional<Arrival> Read(std::map<std::uint64_t, Guest>::iterator guest);
  void HandleTimer();
  void SetTimer();
  void CountForeign(const Status& who);

  ControlListener listener_;
  UniqueFd events_;     // The epoll instance with the listener, the guests and the timer.
  UniqueFd timer_;      // Deadline of the oldest guest, or end of a pause in accepting.
  UniqueFd spare_;      // Closed for a moment if descriptors are exhausted.
  bool rests_ = false;  // Accepting is paused until the timer expires.
  std::map<std::uint64_t, Guest> guests_;  // Ordered by arrival.
  std::uint64_t last_guest_ = 0;
  std::uint64_t foreign_ = 0;  // Other users' connections since the last log line.
  Clock::time_point foreign_reported_;
};

}  // namespace cuspan
