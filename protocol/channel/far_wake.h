// Wakes the agent at the far end of a route: a client finding its own agent asleep sends it a
// datagram, so that both agents wake at the same time.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/mutex.h"

namespace cuspan {

// The datagram and its receiver, in the memory of a channel; made by the client's agent. It holds a
// secret of the receiver, and has no other effect than waking it.
struct FarWake {
  std::uint32_t address_bytes = 0;  // 0: none.
  std::uint32_t datagram_bytes = 0;
  std::byte address[sizeof(sockaddr_storage)] = {};
  std::byte datagram[96] = {};

  // Empty if one of them is too long.
  static FarWake Of(std::span<const std::byte> address, std::span<const std::byte> datagram);
};

// The client's socket for it. Threads: any.
class FarWaker {
 public:
  FarWaker() = default;
  ~FarWaker();
  FarWaker(const FarWaker&) = delete;

  // Sends the datagram, once; it may get lost. Does not block. All calls have the same receiver.
  // The first call takes longest.
  void Send(const FarWake& wake);

 private:
  void Open(const FarWake& wake) CUSPAN_REQUIRES(mutex_);
  // True if the descriptor is still this socket: a program may close descriptors of others, and get
  // their numbers for files of its own.
  bool StillOurs() const CUSPAN_REQUIRES(mutex_);

  Mutex mutex_;
  int socket_ CUSPAN_GUARDED_BY(mutex_) = -1;
  ino_t inode_ CUSPAN_GUARDED_BY(mutex_) = 0;
};

}  // namespace cuspan
