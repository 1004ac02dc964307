// TCP between hosts: addresses, connections, and waits that another thread can interrupt.
//
// Threads: any. An Interrupt may be raised while other threads wait with it.
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

// An address to connect to, in the form sent between processes of one architecture.
struct Address {
  std::uint16_t family = 0;  // AF_INET or AF_INET6.
  std::uint16_t port = 0;    // Network byte order, as `bytes`.
  std::uint8_t bytes[16] = {};
};
static_assert(std::is_trivially_copyable_v<Address>);

// "10.0.0.1:4242", "[fd00::1]:4242"
std::string Text(const Address& address);
// Without the port: "10.0.0.1", "fd00::1"
std::string HostText(const Address& address);
// Inverse of Text; otherwise kInvalid.
Result<Address> ParseAddress(std::string_view text);
bool IsLoopback(const Address& address);

// Ends waits permanently, from any thread.
class Interrupt {
 public:
  // `why` is the message of interrupted waits. kExhausted if there is no free descriptor.
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

// Waits until poll() reports `events` for the descriptor. kUnavailable if interrupted or late.
using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNever = Deadline::max();
Status AwaitEvents(int fd, short events, const Interrupt& interrupt, Deadline deadline);

// Transfers all bytes through a non-blocking socket. kUnavailable if the other side is gone.
Status SendAll(int fd, const void* data, std::size_t bytes, const Interrupt& interrupt,
               Deadline deadline);
Status ReceiveAll(int fd, void* data, std::size_t bytes, const Interrupt& interrupt,
                  Deadline deadline);

// A listening socket for communicators, on a free port of this host's address. The interface is the
// first match of NCCL_SOCKET_IFNAME (name prefixes; "=name": exact; "^": all others). If it is not
// set, the order is: an interface that is up, but neither loopback nor docker; a docker interface;
// the loopback. (NCCL's documentation, "NCCL_SOCKET_IFNAME")
class Listener {
 public:
  static Result<Listener> Open(int backlog);
  // The same on all addresses of this host.
  static Result<Listener> OpenOnAll(int backlog);
  // The listening address. For a listener on all addresses, only the port is meaningful.
  const Address& address() const { return address_; }
  int fd() const { return fd_.get(); }
  // A non-blocking connection; invalid if none is waiting. kExhausted if there is no free
  // descriptor.
  Result<UniqueFd> Accept() const;

 private:
  static Result<Listener> OpenAt(const Address& address, int backlog);

  UniqueFd fd_;
  Address address_;
};

// Addresses of this host's interfaces that are up, with that port (in network byte order); the
// loopback last. kInternal if they can not be listed.
Result<std::vector<Address>> OwnAddresses(std::uint16_t port);

// A non-blocking connection. kUnavailable if refused, interrupted, or late; kInvalid for an unknown
// address family.
Result<UniqueFd> Connect(const Address& address, const Interrupt& interrupt, Deadline deadline);
// The deadline as the timeout argument of poll().
int PollTimeout(Deadline deadline);

}  // namespace cuspan::net
