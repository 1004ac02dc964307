// TCP between hosts: addresses, connections, and waiting that another thread can end.
//
// Threads: any; an Interrupt may be raised while others wait with it.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/status.h"
#include "common/unique_fd.h"

namespace cuspan::net {

// Where a process listens, as it crosses between processes of one architecture.
struct Address {
  std::uint16_t family = 0;  // AF_INET or AF_INET6.
  std::uint16_t port = 0;    // In the network's order, as `bytes`.
  std::uint8_t bytes[16] = {};
};
static_assert(std::is_trivially_copyable_v<Address>);

// "10.0.0.1:4242", "[fd00::1]:4242"
std::string Text(const Address& address);
// Without the port: "10.0.0.1", "fd00::1"
std::string HostText(const Address& address);
// kInvalid for what Text would not write.
Result<Address> ParseAddress(std::string_view text);
bool IsLoopback(const Address& address);

// Ends waiting for good, from any thread.
class Interrupt {
 public:
  // `why` is what those who wait then say. kExhausted where there is no descriptor for it.
  static Result<std::shared_ptr<Interrupt>> Make(std::string why);
  void Raise();
  bool raised() const;
  int fd() const { return fd_.get(); }
  const std::string& why() const { return why_; }

 private:
  Interrupt(int fd, std::string why) : fd_(fd), why_(std::move(why)) {}
  UniqueFd fd_;
  const std::string why_;
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
// those), else of the first one that is up, no loopback and no docker's, else of a docker's, else
// of the loopback. (NCCL's documentation, "NCCL_SOCKET_IFNAME")
class Listener {
 public:
  static Result<Listener> Open(int backlog);
  // The same on all addresses of this host.
  static Result<Listener> OpenOnAll(int backlog);
  // Where it listens; on all addresses, the port of each.
  const Address& address() const { return address_; }
  int fd() const { return fd_.get(); }
  // A connection, which does not block; an invalid one when nobody waits. kExhausted where there is
  // no descriptor for it.
  Result<UniqueFd> Accept() const;

 private:
  static Result<Listener> OpenAt(const Address& address, int backlog);

  UniqueFd fd_;
  Address address_;
};

// Those of this host's interfaces that are up, with that port (in the network's order), the
// loopback's last. kInternal where they can not be listed.
Result<std::vector<Address>> OwnAddresses(std::uint16_t port);

// A connection that does not block. kUnavailable when nobody is there, interrupted, or late;
// kInvalid for an address of no family that there is.
Result<UniqueFd> Connect(const Address& address, const Interrupt& interrupt, Deadline deadline);
// What it and others that wait give poll() as its last argument.
int PollTimeout(Deadline deadline);

}  // namespace cuspan::net
