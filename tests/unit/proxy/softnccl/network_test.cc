#include "proxy/softnccl/network.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace cuspan::softnccl {
namespace {

// NCCL_SOCKET_IFNAME for one test.
class Interfaces {
 public:
  explicit Interfaces(const char* names) { setenv("NCCL_SOCKET_IFNAME", names, 1); }
  ~Interfaces() { unsetenv("NCCL_SOCKET_IFNAME"); }
};

TEST(Network, TheNamedInterfaceIsTaken) {
  for (const char* const names : {"lo", "=lo", "nosuch,lo", "l"}) {
    const Interfaces interfaces(names);
    const Result<Listener> listener = Listener::Open(1);
    ASSERT_TRUE(listener.ok()) << names << ": " << listener.status().message();
    EXPECT_EQ(Text(listener->address()).substr(0, 10), "127.0.0.1:") << names;
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

TEST(Network, ExcludedInterfacesAreNotTaken) {
  const Interfaces interfaces("^nosuch");
  EXPECT_TRUE(Listener::Open(1).ok());
}

TEST(Network, NobodyThereIsAnError) {
  const Interrupt never;
  Address address;
  {
    const Result<Listener> listener = Listener::Open(1);
    ASSERT_TRUE(listener.ok());
    address = listener->address();
  }
  const Result<UniqueFd> fd = Connect(address, never, kNever);
  ASSERT_FALSE(fd.ok());
  EXPECT_NE(fd.status().message().find(Text(address)), std::string::npos);
}

TEST(Network, WaitingEndsInTime) {
  const Interrupt never;
  const Result<Listener> listener = Listener::Open(1);
  ASSERT_TRUE(listener.ok());
  const Deadline past = std::chrono::steady_clock::now();
  EXPECT_EQ(listener->Accept(never, past).status().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace cuspan::softnccl
