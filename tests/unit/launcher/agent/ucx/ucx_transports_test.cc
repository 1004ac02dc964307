#include "launcher/agent/ucx/ucx_transports.h"

#include <gtest/gtest.h>

namespace cuspan {
namespace {

TEST(UcxTransports, ExcludeSystemVSegments) {
  EXPECT_EQ(UcxTransports(std::nullopt), "^sysv");
  EXPECT_EQ(UcxTransports("all"), "^sysv");
  EXPECT_EQ(UcxTransports("^cuda"), "^cuda,sysv");
  EXPECT_EQ(UcxTransports("tcp,self"), "tcp,self");
  EXPECT_EQ(UcxTransports("rc,sm"), "rc,posix,cma");
  EXPECT_EQ(UcxTransports("shm,tcp"), "posix,cma,tcp");
  EXPECT_EQ(UcxTransports("mm"), "posix");
}

TEST(UcxTransports, AreTheUsersWhereTheyNameThoseSegments) {
  EXPECT_EQ(UcxTransports("tcp,sysv"), "tcp,sysv");
  EXPECT_EQ(UcxTransports("^sysv,cma"), "^sysv,cma");
}

}  // namespace
}  // namespace cuspan
