#include "launcher/secure_network.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "launcher/route.h"

namespace cuspan {
namespace {

TEST(SecureNetwork, ItsWordsAreReadAndWritten) {
  for (const char* text : {"off", "auto", "wg0", "wg0,tun-1"}) {
    const Result<SecurePolicy> policy = ParseSecure(text);
    ASSERT_TRUE(policy.ok()) << text;
    EXPECT_EQ(SecureText(*policy), text);
  }
  EXPECT_EQ(*ParseSecure("wg0,tun-1"), (SecurePolicy{true, {"wg0", "tun-1"}}));
  for (const char* text :
       {"", ",", "wg0,", "a b", "../net", "a/b", "0123456789abcdef", "..", "a:1"})
    EXPECT_EQ(ParseSecure(text).status().code(), StatusCode::kInvalid) << text;
}

TEST(SecureNetwork, TheKernelTellsWhatIsWireGuard) {
  std::string folder = testing::TempDir() + "interfacesXXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  for (const auto& [name, about] : std::vector<std::pair<std::string, std::string>>{
           {"wg0", "DEVTYPE=wireguard\nINTERFACE=wg0\n"}, {"eth0", "INTERFACE=eth0\n"}}) {
    std::filesystem::create_directory(folder + "/" + name);
    std::ofstream(folder + "/" + name + "/uevent") << about;
  }
  const SecurePolicy automatic{true, {}};
  EXPECT_TRUE(Encrypts("wg0", automatic, folder));
  EXPECT_FALSE(Encrypts("eth0", automatic, folder));
  EXPECT_FALSE(Encrypts("none", automatic, folder));
  // The user's word comes first.
  const SecurePolicy named{true, {"eth0"}};
  EXPECT_TRUE(Encrypts("eth0", named, folder));
  EXPECT_FALSE(Encrypts("wg0", named, folder));
  std::filesystem::remove_all(folder);
}

TEST(SecureNetwork, ThisHostNeedsNone) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3"}) {
    const Result<std::string> interface = SecureInterfaceTowards(host, {true, {}});
    ASSERT_TRUE(interface.ok()) << interface.status().message();
    EXPECT_EQ(*interface, "");
  }
}

TEST(SecureNetwork, AHostThatIsNotKnownIsNamed) {
  const Result<std::string> interface = SecureInterfaceTowards("no.such.host.invalid", {true, {}});
  EXPECT_EQ(interface.status().code(), StatusCode::kNotFound);
  EXPECT_NE(interface.status().message().find("no.such.host.invalid is not known here"),
            std::string::npos)
      << interface.status().message();
}

TEST(SecureNetwork, NetworksAreThoseOfTheAddresses) {
  const Result<std::vector<std::string>> loopback = NetworksOf("lo");
  ASSERT_TRUE(loopback.ok());
  EXPECT_EQ(*loopback, (std::vector<std::string>{"127.0.0.0/8"}));
  EXPECT_EQ(NetworksOf("no-such-one").status().code(), StatusCode::kNotFound);
}

TEST(Route, AnAddressHasItsInterface) {
  net::Address loopback{AF_INET, 0, {127, 0, 0, 1}};
  EXPECT_EQ(InterfaceWith(loopback), "");
  EXPECT_EQ(net::HostText(loopback), "127.0.0.1");
}

}  // namespace
}  // namespace cuspan
