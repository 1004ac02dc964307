// Tests lookups of kernels and variables.
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using CallTest = ServerTest;
using ::testing::ElementsAre;

TEST_F(CallTest, KernelsAndVariables) {
  const KernelFind::Reply found = client.Call(KernelFind{module(), 5000, "add"});
  EXPECT_EQ(found.result, CUDA_SUCCESS);
  EXPECT_THAT(found.parameter_bytes, ElementsAre(8, 4, 4));
  EXPECT_EQ(found.parameter_offsets.size(), 3U);
  ASSERT_EQ(found.attributes.size(), static_cast<std::size_t>(CU_FUNC_ATTRIBUTE_MAX));
  EXPECT_EQ(found.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK], 1024);
  EXPECT_EQ(client.Call(KernelFind{module(), 5001, "missing"}).result, CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(client.Call(KernelFind{module(), 5001, "nothing"}).result, CUDA_SUCCESS)
      << "the handle was not used up";
  EXPECT_EQ(client.Call(KernelSetAttribute{5000, 8, 100}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Call(KernelSetAttribute{5000, 8, -1}).result, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(client.Call(KernelOccupancy{5000, 128, 0, 0}).blocks, 3);
  EXPECT_EQ(client.Call(KernelAvailableShared{5000, 1, 128}).bytes, 4096U);
  EXPECT_EQ(client.Call(VariableFind{module(), "missing"}).result, CUDA_ERROR_NOT_FOUND);
  const VariableFind::Reply variable = client.Call(VariableFind{module(), "variable"});
  ASSERT_EQ(variable.bytes, 64U);
  const std::uint32_t word = 6;
  client.Post(CopyToDeviceInline{0, variable.address + 60, std::as_bytes(std::span(&word, 1))});
  EXPECT_EQ(ReadWord(0, variable.address + 60), 6U);
  client.Post(Memset{0, variable.address + 60, 0, 1, 5});  // Beyond its end.
  client.Post(ModuleUnload{module()});
  EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);  // The worker has unloaded the module.
  client.Post(Memset{0, variable.address, 0, 1, 1});          // The variable is gone.
  EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Now().failures.size(), 2U);
}

}  // namespace
}  // namespace cuspan::proxy
