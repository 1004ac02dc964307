// Tests limits of the device.
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using CallTest = ServerTest;

TEST_F(CallTest, Limits) {
  EXPECT_EQ(client.Call(LimitGet{CU_LIMIT_STACK_SIZE}).value, 1024U);
  EXPECT_EQ(client.Call(LimitSet{CU_LIMIT_STACK_SIZE, 2048}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Call(LimitSet{CU_LIMIT_MAX, 1}).result, CUDA_ERROR_UNSUPPORTED_LIMIT);
}

}  // namespace
}  // namespace cuspan::proxy
