#include "launcher/run/secure_network.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "launcher/host/route.h"

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
  // The user's choice has precedence.
  const SecurePolicy named{true, {"eth0"}};
  EXPECT_TRUE(Encrypts("eth0", named, folder));
  EXPECT_FALSE(Encrypts("wg0", named, folder));
  std::filesystem::remove_all(folder);
}

TEST(SecureNetwork, ThisHostNeedsNone) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3"}) {
    const Result<SecureHosts> hosts = FindSecureHosts({host}, {true, {}});
    ASSERT_TRUE(hosts.ok()) << hosts.status().message();
    EXPECT_TRUE(hosts->empty());
  }
}

TEST(SecureNetwork, AHostThatIsNotKnownIsNamed) {
  const Result<SecureHosts> hosts = FindSecureHosts({"no.such.host.invalid"}, {true, {}});
  EXPECT_EQ(hosts.status().code(), StatusCode::kNotFound);
  EXPECT_NE(
      hosts.status().message().find("the name of host no.such.host.invalid cannot be resolved"),
      std::string::npos)
      << hosts.status().message();
}

TEST(SecureNetwork, AgentsAreToldTheAddresses) {
  const SecureHosts hosts = {{"10.8.0.1"}, {"10.8.0.2", "fd00::2"}};
  EXPECT_EQ(SecureHostsText(hosts), "10.8.0.1;10.8.0.2,fd00::2");
  EXPECT_EQ(ParseSecureHosts(SecureHostsText(hosts)), hosts);
  EXPECT_TRUE(ParseSecureHosts("").empty());
}

TEST(SecureNetwork, OneOfThisHostsAddressesIsEnough) {
  // The other address belongs to no host, or to a network without encryption.
  const Result<std::set<std::string>> interfaces =
      SecureInterfaces({{"127.0.0.1", "192.0.2.1"}}, {true, {"none"}});
  ASSERT_TRUE(interfaces.ok()) << interfaces.status().message();
  EXPECT_TRUE(interfaces->empty());
}

TEST(SecureNetwork, WithoutADemandAnyInterfaceWillDo) {
  ::setenv(kSecureHostsVariable, "192.0.2.1", 1);
  const Result<std::set<std::string>> interfaces = SecureInterfacesOfRun();
  ::unsetenv(kSecureHostsVariable);
  ASSERT_TRUE(interfaces.ok());
  EXPECT_TRUE(interfaces->empty());
}

TEST(SecureNetwork, NetworksAreThoseOfTheAddresses) {
  const Result<std::vector<std::string>> loopback = NetworksOf("lo");
  ASSERT_TRUE(loopback.ok());
  EXPECT_EQ(*loopback, (std::vector<std::string>{"127.0.0.0/8"}));
  EXPECT_EQ(NetworksOf("no-such-one").status().code(), StatusCode::kRefused);
}

TEST(Route, ThisHostsOwnAddressesHaveNone) {
  const Result<std::vector<Route>> routes = RoutesTowards("127.0.0.1");
  ASSERT_TRUE(routes.ok()) << routes.status().message();
  ASSERT_EQ(routes->size(), 1U);
  EXPECT_EQ(routes->front().address, "127.0.0.1");
  EXPECT_EQ(routes->front().interface, "");
}

TEST(Route, AnAddressHasItsInterface) {
  net::Address loopback{AF_INET, 0, {127, 0, 0, 1}};
  EXPECT_EQ(InterfaceWith(loopback), "");
  EXPECT_EQ(net::HostText(loopback), "127.0.0.1");
}

}  // namespace
}  // namespace cuspan
