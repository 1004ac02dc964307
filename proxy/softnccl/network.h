// TCP between the processes of a communicator: addresses, connections, and waiting that another
// thread can end.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan::softnccl {

// Where a process listens, as it crosses between processes of one architecture.
struct Address {
  std::uint16_t family = 0;  // AF_INET or AF_INET6.
  std::uint16_t port = 0;    // In the network's order, as `bytes`.
  std::uint8_t bytes[16] = {};
  std::uint32_t scope = 0;  // Of a link-local IPv6 address.
};
static_assert(std::is_trivially_copyable_v<Address>);

// "10.0.0.1:4242"
std::string Text(const Address& address);

// Ends waiting for good, from any thread.
class Interrupt {
 public:
  Interrupt();
  void Raise();
  bool raised() const;
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

// Waits until poll() reports `events` of the descriptor. kUnavailable when interrupted or late.
using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNever = Deadline::max();
Status AwaitEvents(int fd, short events, const Interrupt& interrupt, Deadline deadline);

// All bytes, through a socket that does not block. kUnavailable when the other side is gone.
Status SendAll(int fd, const void* data, std::size_t bytes, const Interrupt& interrupt,
               Deadline deadline);
Status ReceiveAll(int fd, void* data, std::size_t bytes, const Interrupt& interrupt,
                  Deadline deadline);

// A socket that listens on a free port of this host's address for its communicators: of the first
// interface that NCCL_SOCKET_IFNAME lists (names that start so; "=name": that one; "^": all but
// those), else of the first one that is up and not the loopback, else of the loopback.
class Listener {
 public:
  static Result<Listener> Open(int backlog);
  const Address& address() const { return address_; }
  int fd() const { return fd_.get(); }
  // The next connection; it does not block.
  Result<UniqueFd> Accept(const Interrupt& interrupt, Deadline deadline) const;

 private:
  UniqueFd fd_;
  Address address_;
};

// A connection that does not block.
Result<UniqueFd> Connect(const Address& address, const Interrupt& interrupt, Deadline deadline);

}  // namespace cuspan::softnccl
