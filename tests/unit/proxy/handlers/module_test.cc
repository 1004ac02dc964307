// Tests loading and unloading of modules.
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using CallTest = ServerTest;
using OrderTest = ServerTest;
using ::testing::ElementsAre;

TEST_F(CallTest, AllKernelsOfAModule) {
  const ModuleKernels::Reply all = client.Call(ModuleKernels{module(), 0});
  EXPECT_EQ(all.result, CUDA_SUCCESS);
  EXPECT_TRUE(all.last);
  EXPECT_THAT(all.names, ::testing::Contains("add"));
  EXPECT_THAT(all.names, ::testing::Contains("nothing"));
  const auto count = static_cast<std::uint32_t>(all.names.size());
  const ModuleKernels::Reply rest = client.Call(ModuleKernels{module(), count - 1});
  EXPECT_THAT(rest.names, ElementsAre(all.names.back()));
  EXPECT_TRUE(rest.last);
  for (const std::uint32_t beyond : {count, UINT32_MAX}) {
    const ModuleKernels::Reply none = client.Call(ModuleKernels{module(), beyond});
    EXPECT_EQ(none.result, CUDA_SUCCESS);
    EXPECT_TRUE(none.names.empty() && none.last);
  }
}

TEST_F(CallTest, AModuleIsUnloadedWhenItsKernelsHaveRun) {
  const std::uint64_t stream = loopback.NewStream();
  const std::uint64_t nothing = loopback.FindKernel(module(), "nothing");
  client.Call(DeviceSynchronize{});
  gpu.Hold(1);
  client.Post(StreamWaitSignal{stream, 3});
  PostLaunch(stream, nothing);
  client.Post(ModuleUnload{module()});
  client.Post(Signal{3});
  ASSERT_TRUE(gpu.WaitForLog("nothing 1"));
  client.Call(MemoryInfo{});
  EXPECT_THAT(gpu.Log(), ::testing::Not(::testing::Contains("unload")));
  gpu.Let(1);
  client.Call(DeviceSynchronize{});
  client.Call(MemoryInfo{});
  EXPECT_THAT(gpu.Log(), ::testing::Contains("unload"));
}

TEST_F(CallTest, CopiesToAModulesVariablesAreDoneBeforeItIsUnloaded) {
  const std::uint64_t stream = loopback.NewStream();
  const VariableFind::Reply variable = client.Call(VariableFind{module(), "variable"});
  ASSERT_EQ(variable.result, CUDA_SUCCESS);
  const std::uint32_t word = 6;
  client.Post(StreamWaitSignal{stream, 3});
  client.Post(CopyToDeviceInline{stream, variable.address, std::as_bytes(std::span(&word, 1))});
  client.Post(ModuleUnload{module()});
  client.Post(Signal{3});
  EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
  EXPECT_EQ(client.Now().failures.size(), 0U);
  EXPECT_THAT(gpu.Log(), ::testing::Contains("unload"));
}

TEST_F(CallTest, BadModulesAreRefusedByTheirCheck) {
  const auto load = [&](const std::vector<std::byte>& image) {
    const std::uint64_t module = loopback.NewHandle();
    client.Post(ModuleImage{module, image.size(), 0, image});
    const int result = client.Call(ModuleLoad{module}).result;
    EXPECT_EQ(client.Call(KernelFind{module, loopback.NewHandle(), "add"}).result, result);
    return result;
  };
  std::vector<std::byte> open_text = AnyImage();
  open_text.pop_back();
  EXPECT_EQ(load(open_text), CUDA_ERROR_INVALID_IMAGE);
  // A fat binary with a size larger than its bytes.
  const std::uint32_t container[] = {0xba55ed50, 0x00100001, 1000, 0};
  const Bytes claimed = std::as_bytes(std::span(container));
  EXPECT_EQ(load({claimed.begin(), claimed.end()}), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(load({std::byte{0x7f}, std::byte{'E'}, std::byte{'L'}, std::byte{'F'}}),
            CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(load({std::byte{1}}), CUDA_ERROR_INVALID_IMAGE);
  gpu.Refuse("cuModuleLoadData", CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(load(AnyImage()), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST_F(OrderTest, ALongModuleLoadStopsNeitherLaunchesNorCompletions) {
  const std::uint64_t block = loopback.Map();
  const std::uint64_t stream = loopback.NewStream();
  add();
  gpu.HoldModules();
  const std::uint64_t slow = loopback.NewHandle();
  const std::vector<std::byte> image = AnyImage();
  client.Post(ModuleImage{slow, image.size(), 0, image});
  const std::uint32_t load = client.Ask(ModuleLoad{slow});
  PostAdd(stream, block, 1, 5);
  EXPECT_EQ(ReadWord(stream, block), 5U);
  EXPECT_EQ(client.Now().replies.count(load), 0U);
  gpu.LetModulesLoad();
  EXPECT_EQ(client.AwaitReply<ModuleLoad>(load).result, CUDA_SUCCESS);
}

}  // namespace
}  // namespace cuspan::proxy
