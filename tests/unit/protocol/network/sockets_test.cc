#include "protocol/network/sockets.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "protocol/network/entrance.h"
#include "tests/unit/protocol/network/interrupts.h"

namespace cuspan::net {
namespace {

// Sets NCCL_SOCKET_IFNAME for one test.
class Interfaces {
 public:
  explicit Interfaces(const char* names) { setenv("NCCL_SOCKET_IFNAME", names, 1); }
  ~Interfaces() { unsetenv("NCCL_SOCKET_IFNAME"); }
};

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
    // A host may have no other interface.
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
              Format("this host has no network interface of NCCL_SOCKET_IFNAME={}", names));
  }
}

TEST(Network, AnAddressIsReadAsItIsWritten) {
  for (const char* const text : {"10.0.0.1:4242", "[fd00::1]:1", "0.0.0.0:0", "[::]:65535"}) {
    const Result<Address> read = ParseAddress(text);
    ASSERT_TRUE(read.ok()) << text;
    EXPECT_EQ(Text(*read), text);
  }
  for (const char* const bad :
       {"", ":", "1.2.3.4", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:70000", "1.2.3:1", "fd00::1:1",
        "[fd00::1]", "[]:1", "host:1", "1.2.3.4:1 "})
    EXPECT_EQ(ParseAddress(bad).status().code(), StatusCode::kInvalid) << bad;
}

TEST(Network, WhoListensOnAllAddressesIsReachedAtEach) {
  const auto never = NewInterrupt();
  const Result<Listener> listener = Listener::OpenOnAll(8);
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  const Result<std::vector<Address>> places = OwnAddresses(listener->address().port);
  ASSERT_TRUE(places.ok());
  ASSERT_FALSE(places->empty());
  EXPECT_TRUE(IsLoopback(places->back()));
  for (const Address& place : *places) {
    const Deadline soon = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    const Result<UniqueFd> connected = Connect(place, *never, soon);
    EXPECT_TRUE(connected.ok()) << Text(place) << ": " << connected.status().message();
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
