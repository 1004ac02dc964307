#include "launcher/run/host_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cuspan {
namespace {

struct NamedNode {
  std::string name;
};

std::string HostFoundIn(std::vector<NamedNode> nodes, std::string_view host) {
  const NamedNode* const found = FindHost(nodes, host);
  return found == nullptr ? "none" : found->name;
}

TEST(HostNames, OfThisHost) {
  EXPECT_TRUE(IsThisHost("localhost", "n1"));
  EXPECT_TRUE(IsThisHost("127.0.0.1", "n1"));
  EXPECT_TRUE(IsThisHost("n1", "n1"));
  EXPECT_FALSE(IsThisHost("n1.cluster.org", "n1"));
  EXPECT_FALSE(IsThisHost("n1", "n1.cluster.org"));
}

TEST(HostNames, AFullNameAndItsShortFormMayBeOneHost) {
  EXPECT_TRUE(MayBeSameHost("n1", "n1"));
  EXPECT_TRUE(MayBeSameHost("n1.cluster.org", "n1"));
  EXPECT_TRUE(MayBeSameHost("n1", "n1.cluster.org"));
  EXPECT_FALSE(MayBeSameHost("n1.other.org", "n1.cluster.org"));
  EXPECT_FALSE(MayBeSameHost("n1.cluster", "n1.cluster.org"));
  EXPECT_FALSE(MayBeSameHost("n1", "n10"));
}

TEST(HostNames, AreFoundInAListIfTheyMeanOneNode) {
  EXPECT_EQ(HostFoundIn({{"n1.a"}, {"n1.b"}, {"n1"}}, "n1"), "n1");
  EXPECT_EQ(HostFoundIn({{"n1.a"}, {"n2.b"}}, "n1"), "n1.a");
  EXPECT_EQ(HostFoundIn({{"n1"}, {"n2"}}, "n1.a"), "n1");
  EXPECT_EQ(HostFoundIn({{"n1.a"}, {"n1.b"}}, "n1"), "none");
  EXPECT_EQ(HostFoundIn({{"n1.a"}, {"n1.b"}}, "n1.b"), "n1.b");
  EXPECT_EQ(HostFoundIn({{"n1.a"}}, "n1.b"), "none");
}

TEST(HostNames, OfThisHostAreRenamed) {
  std::vector<HostRequest> hosts = {{"here", 1}, {"127.0.0.1", 2}, {"other", 3}};
  RenameThisHost(hosts, "here");
  EXPECT_THAT(hosts, testing::ElementsAre(HostRequest{"localhost", 1}, HostRequest{"localhost", 2},
                                          HostRequest{"other", 3}));
  std::vector<HostRequest> elsewhere = {{"10.77.0.1", 1}};
  RenameThisHost(elsewhere, "10");
  EXPECT_EQ(elsewhere[0].host, "10.77.0.1");
}

TEST(HostNames, LeadApartIfTheyShareNoAddress) {
  EXPECT_FALSE(LeadApart("localhost", "localhost"));
  EXPECT_FALSE(LeadApart("127.0.0.1", "127.0.0.1"));
  EXPECT_TRUE(LeadApart("127.0.0.1", "127.0.0.2"));
}

}  // namespace
}  // namespace cuspan
