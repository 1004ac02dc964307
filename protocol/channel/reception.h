// The door of a listening socket. Whoever is on the node can connect to one; what strangers do
// there costs a run nothing but a moment (docs/security.md):
//
// - processes of other users are dropped and counted, with one line a minute;
// - a process of the same user has kProofLimit to send its first message, in which the owner of
//   the door looks for the run's secret;
// - of those that have not sent it no more than kMaxUnproven are kept, nor more than a quarter of
//   the descriptors that this process may have: the oldest gives way;
// - where there are no more descriptors even so, whoever comes is told so.
//
// Accepting goes on whatever happens.
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

// One thread at a time.
class Reception {
 public:
  static constexpr std::chrono::milliseconds kProofLimit{5'000};
  static constexpr std::size_t kMaxUnproven = 64;

  // kInvalid when the address is taken.
  static Result<Reception> Listen(const std::string& address);

  // For poll and epoll: readable when Next has something to do.
  int fd() const { return events_.get(); }

  // A process of this user, and the first message that it sent.
  struct Arrival {
    ControlSocket socket;
    ControlSocket::Message first;
  };
  // The next arrival; nothing when none is there, or after a bounded amount of work: fd() stays
  // readable while there is more. Never waits.
  std::optional<Arrival> Next();

  // Hangs up, having told the arrival why if it reads that.
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
  void TakeTimer();
  void SetTimer();
  void CountForeign(const Status& who);

  ControlListener listener_;
  UniqueFd events_;     // An epoll instance: of the listener, the guests and the timer.
  UniqueFd timer_;      // For the oldest guest, and for a listener that rests.
  UniqueFd spare_;      // Given up for a moment where there is no other descriptor.
  bool rests_ = false;  // Not even that: accepting goes on when the timer rings.
  std::map<std::uint64_t, Guest> guests_;  // By the order in which they came.
  std::uint64_t last_guest_ = 0;
  std::uint64_t foreign_ = 0;  // Connections of others since the last line about them.
  Clock::time_point foreign_told_;
};

}  // namespace cuspan
