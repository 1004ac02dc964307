#include "proxy/network/sockets.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "proxy/network/entrance.h"
#include "tests/unit/proxy/network/interrupts.h"

namespace cuspan::net {
namespace {

// NCCL_SOCKET_IFNAME for one test.
class Interfaces {
 public:
  explicit Interfaces(const char* names) { setenv("NCCL_SOCKET_IFNAME", names, 1); }
  ~Interfaces() { unsetenv("NCCL_SOCKET_IFNAME"); }
};

// Whether the address is one of the loopback's.
bool IsLoopback(const Address& address) {
  if (address.family == AF_INET) return address.bytes[0] == 127;
  return std::all_of(address.bytes, address.bytes + 15, [](auto byte) { return byte == 0; }) &&
         address.bytes[15] == 1;
}

TEST(Network, TheNamedInterfaceIsTaken) {
  for (const char* const names : {"lo", "=lo", "nosuch,lo", "l", "=nosuch,lo", "^nosuch"}) {
    const Interfaces interfaces(names);
    const Result<Listener> listener = Listener::Open(1);
    ASSERT_TRUE(listener.ok()) << names << ": " << listener.status().message();
    EXPECT_TRUE(names[0] == '^' || IsLoopback(listener->address())) << names;
  }
}

TEST(Network, ExcludedInterfacesAreNotTaken) {
  for (const char* const names : {"^lo", "^=lo", "^l"}) {
    const Interfaces interfaces(names);
    // A host may have no other.
    const Result<Listener> listener = Listener::Open(1);
    EXPECT_TRUE(!listener.ok() || !IsLoopback(listener->address())) << names;
  }
}

TEST(Network, AnInterfaceThatIsNotThereIsNamed) {
  for (const char* const names : {"nosuch", "=l", "=nosuch,none"}) {
    const Interfaces interfaces(names);
    const Result<Listener> listener = Listener::Open(1);
    ASSERT_FALSE(listener.ok()) << names;
    EXPECT_EQ(listener.status().message(),
              Format("no network interface of this host is one of NCCL_SOCKET_IFNAME={}", names));
  }
}

TEST(Network, NobodyThereIsAnError) {
  const auto never = NewInterrupt();
  Address address;
  {
    const Result<Listener> listener = Listener::Open(1);
    ASSERT_TRUE(listener.ok());
    address = listener->address();
  }
  const Result<UniqueFd> fd = Connect(address, *never, kNever);
  ASSERT_FALSE(fd.ok());
  EXPECT_NE(fd.status().message().find(Text(address)), std::string::npos);
}

TEST(Network, WaitingEndsInTime) {
  const auto never = NewInterrupt();
  const Result<Listener> listener = Listener::Open(1);
  ASSERT_TRUE(listener.ok());
  Entrance entrance(*listener, *never, 8);
  EXPECT_EQ(entrance.Next({}, std::chrono::steady_clock::now()).status().code(),
            StatusCode::kUnavailable);
}

TEST(Network, WhoIsWatchedEndsAWait) {
  const auto never = NewInterrupt(), watched = NewInterrupt();
  const Result<Listener> listener = Listener::Open(1);
  ASSERT_TRUE(listener.ok());
  watched->Raise();
  Entrance entrance(*listener, *never, 8);
  const int fd = watched->fd();
  const Result<Entrance::Guest> guest = entrance.Next({&fd, 1}, kNever);
  ASSERT_TRUE(guest.ok()) << guest.status().message();
  EXPECT_FALSE(guest->fd.valid());
}

}  // namespace
}  // namespace cuspan::net
