// Tests initialisation, devices, contexts, modules and names of errors.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>

#include "proxy/softgpu/placed_variables.h"
#include "tests/unit/proxy/softgpu/driver/driver_harness.h"

namespace cuspan::softgpu {
namespace {

using DeviceTest = DriverTest;

int Attribute(CUdevice_attribute attribute, int device = 0) {
  int value = -1;
  EXPECT_CUDA(cuDeviceGetAttribute(&value, attribute, device));
  return value;
}

TEST_F(DeviceTest, AttributesAreConsistent) {
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE), 32);
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK), 1024);
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK), 48 * 1024);
  EXPECT_GE(Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
            Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) +
                Attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK));
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING), 1);
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
  EXPECT_GE(Attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT), 2);
  EXPECT_GE(Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 1);
  int value = 0;
  EXPECT_EQ(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(0), 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(9999), 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 999),
            CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(DeviceTest, DevicesHaveIdentities) {
  int count = 0;
  ASSERT_CUDA(cuDeviceGetCount(&count));
  CUdevice device = -1;
  EXPECT_EQ(cuDeviceGet(&device, count), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
  std::vector<std::string> uuids, buses;
  for (int i = 0; i < count; ++i) {
    ASSERT_CUDA(cuDeviceGet(&device, i));
    CUuuid uuid = {}, again = {};
    ASSERT_CUDA(cuDeviceGetUuid(&uuid, device));
    ASSERT_CUDA(cuDeviceGetUuid(&again, device));
    EXPECT_EQ(std::memcmp(&uuid, &again, sizeof(uuid)), 0);
    uuids.emplace_back(uuid.bytes, sizeof(uuid.bytes));
    char bus[32] = {};
    ASSERT_CUDA(cuDeviceGetPCIBusId(bus, sizeof(bus), device));
    EXPECT_THAT(bus, testing::MatchesRegex("[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\\.0"));
    unsigned domain = 0, number = 0;
    ASSERT_EQ(std::sscanf(bus, "%x:%x", &domain, &number), 2);
    EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, i), static_cast<int>(domain));
    EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i), static_cast<int>(number));
    buses.emplace_back(bus);
  }
  for (auto* list : {&uuids, &buses}) {
    std::sort(list->begin(), list->end());
    EXPECT_EQ(std::unique(list->begin(), list->end()), list->end());
  }
  char name[256] = {}, cut[4] = {'x', 'x', 'x', 'x'};
  ASSERT_CUDA(cuDeviceGetName(name, sizeof(name), 0));
  ASSERT_CUDA(cuDeviceGetName(cut, sizeof(cut), 0));
  EXPECT_EQ(std::string(cut), std::string(name).substr(0, 3));
}

TEST_F(DeviceTest, TheCurrentContextIsTheThreads) {
  CUcontext current = nullptr;
  EXPECT_CUDA(cuCtxGetCurrent(&current));
  EXPECT_EQ(current, context_);
  std::thread([&] {
    EXPECT_CUDA(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    CUstream stream = nullptr;
    EXPECT_EQ(cuStreamCreateWithPriority(&stream, 0, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_CUDA(cuCtxSetCurrent(context_));
    EXPECT_CUDA(cuCtxSynchronize());
  }).join();
  EXPECT_CUDA(cuCtxSetCurrent(nullptr));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(DeviceTest, TheLastReleaseEndsTheContext) {
  int count = 0;
  ASSERT_CUDA(cuDeviceGetCount(&count));
  const CUdevice device = count - 1;
  if (device == 0) GTEST_SKIP() << "one device, and the fixture holds it";
  CUcontext first = nullptr, second = nullptr;
  ASSERT_CUDA(cuDevicePrimaryCtxRetain(&first, device));
  ASSERT_CUDA(cuDevicePrimaryCtxRetain(&second, device));
  EXPECT_EQ(first, second);
  ASSERT_CUDA(cuCtxSetCurrent(first));
  CUstream stream = nullptr;
  ASSERT_CUDA(cuStreamCreateWithPriority(&stream, 0, 0));
  EXPECT_CUDA(cuDevicePrimaryCtxRelease(device));
  EXPECT_CUDA(cuStreamQuery(stream));
  EXPECT_CUDA(cuDevicePrimaryCtxRelease(device));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(device), CUDA_ERROR_INVALID_CONTEXT);
  // A new context has the old handle, but none of the old resources.
  ASSERT_CUDA(cuDevicePrimaryCtxRetain(&second, device));
  EXPECT_EQ(first, second);
  EXPECT_CUDA(cuCtxSynchronize());
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_CUDA(cuDevicePrimaryCtxRelease(device));
}

TEST_F(DeviceTest, LimitsAreKept) {
  std::size_t value = 0;
  EXPECT_CUDA(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  EXPECT_EQ(value, 1024u);
  EXPECT_CUDA(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192));
  EXPECT_CUDA(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  EXPECT_EQ(value, 8192u);
  EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, std::size_t{1} << 30), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 64 * kMiB));
  EXPECT_CUDA(cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
  EXPECT_EQ(value, 64 * kMiB);
  EXPECT_EQ(cuCtxGetLimit(&value, static_cast<CUlimit>(77)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC));
  EXPECT_EQ(cuDevicePrimaryCtxSetFlags(0, 0x8000), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceTest, FunctionsAndVariablesAreFoundByName) {
  CUfunction first = nullptr, second = nullptr;
  ASSERT_CUDA(cuModuleGetFunction(&first, module_, "Store"));
  ASSERT_CUDA(cuModuleGetFunction(&second, module_, "Store"));
  EXPECT_EQ(first, second);
  EXPECT_EQ(cuModuleGetFunction(&first, module_, "NoSuchKernel"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuModuleGetFunction(&first, module_, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleGetFunction(&first, nullptr, "Store"), CUDA_ERROR_INVALID_HANDLE);
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  EXPECT_CUDA(cuModuleGetGlobal(&address, &bytes, module_, "weights"));
  EXPECT_EQ(bytes, 16u);
  EXPECT_CUDA(cuModuleGetGlobal(nullptr, &bytes, module_, "weights"));
  EXPECT_CUDA(cuModuleGetGlobal(&address, nullptr, module_, "weights"));
  EXPECT_EQ(cuModuleGetGlobal(&address, &bytes, module_, "nothing"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuModuleGetGlobal(&address, &bytes, module_, "Store"), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuModuleGetGlobal(&address, &bytes, module_, "weights"));
  std::vector<float> weights(4);
  EXPECT_CUDA(cuMemcpyDtoHAsync(weights.data(), address, 16, nullptr));
  EXPECT_EQ(weights, (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(DeviceTest, EachLoadHasItsOwnVariables) {
  const std::vector<char> image = ReadTestFile("kernels.fatbin");
  CUmodule second = nullptr;
  ASSERT_CUDA(cuModuleLoadData(&second, image.data()));
  CUdeviceptr first_counter = 0, second_counter = 0;
  ASSERT_CUDA(cuModuleGetGlobal(&first_counter, nullptr, module_, "counter"));
  ASSERT_CUDA(cuModuleGetGlobal(&second_counter, nullptr, second, "counter"));
  EXPECT_NE(first_counter, second_counter);
  CUfunction function = nullptr;
  ASSERT_CUDA(cuModuleGetFunction(&function, second, "Store"));
  ASSERT_CUDA(cuModuleUnload(second));
  EXPECT_EQ(cuModuleUnload(second), CUDA_ERROR_INVALID_HANDLE);
  int value = 0;
  EXPECT_EQ(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function),
            CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuMemsetD8Async(second_counter, 0, 4, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceTest, AModuleListsItsKernels) {
  unsigned count = 0;
  ASSERT_CUDA(cuModuleGetFunctionCount(&count, module_));
  ASSERT_GT(count, 2U);
  std::vector<CUfunction> functions(count + 1, nullptr);
  ASSERT_CUDA(cuModuleEnumerateFunctions(functions.data(), count + 1, module_));
  EXPECT_EQ(functions[count], nullptr);
  std::vector<std::string> names;
  for (unsigned i = 0; i < count; ++i) {
    const char* name = nullptr;
    ASSERT_CUDA(cuFuncGetName(&name, functions[i]));
    names.emplace_back(name);
    CUfunction same = nullptr;
    ASSERT_CUDA(cuModuleGetFunction(&same, module_, name));
    EXPECT_EQ(same, functions[i]);
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"Store", "Add", "Increment"}));
  functions.assign(2, nullptr);
  ASSERT_CUDA(cuModuleEnumerateFunctions(functions.data(), 1, module_));
  EXPECT_NE(functions[0], nullptr);
  EXPECT_EQ(functions[1], nullptr);
  EXPECT_EQ(cuModuleGetFunctionCount(nullptr, module_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncGetName(nullptr, functions[0]), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceTest, AManagedVariableIsTold) {
  CUmodule module = nullptr;
  ASSERT_CUDA(cuModuleLoadData(&module,
                               ".version 8.0\n.target sm_80\n.address_size 64\n"
                               ".visible .global .attribute(.managed) .align 4 .u32 shared[2];\n"
                               ".visible .global .align 4 .u32 own;\n"));
  const auto managed = [&](const char* name, std::size_t offset) {
    CUdeviceptr address = 0;
    EXPECT_CUDA(cuModuleGetGlobal(&address, nullptr, module, name));
    unsigned value = 7;
    EXPECT_CUDA(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_IS_MANAGED, address + offset));
    return value;
  };
  EXPECT_EQ(managed("shared", 0), 1U);
  EXPECT_EQ(managed("shared", 7), 1U);
  EXPECT_EQ(managed("own", 0), 0U);
  EXPECT_CUDA(cuModuleUnload(module));
}

TEST_F(DeviceTest, AManagedVariableCanBePlacedInMemoryOfTheHost) {
  const auto place = reinterpret_cast<PlaceVariable>(::dlsym(RTLD_DEFAULT, kPlaceVariable));
  if (place == nullptr) GTEST_SKIP() << "only the software GPU's driver can";
  CUmodule module = nullptr;
  ASSERT_CUDA(cuModuleLoadData(
      &module,
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".visible .global .attribute(.managed) .align 8 .u64 shared[2] = {7, shared};\n"
      ".visible .global .attribute(.managed) .align 8 .u64 later = 3;\n"
      ".visible .global .align 8 .u64 own = shared+8;\n"
      ".visible .entry Double() {\n"
      "  .reg .b64 %v;\n"
      "  ld.global.u64 %v, [shared];\n"
      "  add.u64 %v, %v, %v;\n"
      "  st.global.u64 [shared], %v;\n"
      "  ret;\n"
      "}\n"));
  CUdeviceptr before = 0;
  ASSERT_CUDA(cuModuleGetGlobal(&before, nullptr, module, "shared"));
  alignas(8) std::array<std::uint64_t, 2> words = {50, 0};
  const auto wanted = reinterpret_cast<CUdeviceptr>(words.data());
  EXPECT_EQ(place(module, "own", wanted), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(place(module, "nothing", wanted), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(place(nullptr, "shared", wanted), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_CUDA(cuMemHostRegister(words.data(), sizeof words, CU_MEMHOSTREGISTER_PORTABLE));
  ASSERT_CUDA(place(module, "shared", wanted));

  CUdeviceptr now = 0, own = 0;
  ASSERT_CUDA(cuModuleGetGlobal(&now, nullptr, module, "shared"));
  EXPECT_EQ(now, wanted);
  ASSERT_CUDA(cuModuleGetGlobal(&own, nullptr, module, "own"));
  std::uint64_t pointer = 0;
  ASSERT_CUDA(cuMemcpyDtoHAsync(&pointer, own, sizeof pointer, nullptr));
  ASSERT_CUDA(cuCtxSynchronize());
  EXPECT_EQ(pointer, wanted + 8);
  // The caller must copy the initial value from the old address. It refers to the new address.
  std::array<std::uint64_t, 2> initial{};
  ASSERT_CUDA(cuMemcpyDtoHAsync(initial.data(), before, sizeof initial, nullptr));
  ASSERT_CUDA(cuCtxSynchronize());
  EXPECT_THAT(initial, testing::ElementsAre(7, wanted));

  CUfunction function = nullptr;
  ASSERT_CUDA(cuModuleGetFunction(&function, module, "Double"));
  ASSERT_CUDA(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  ASSERT_CUDA(cuCtxSynchronize());
  EXPECT_EQ(words[0], 100U);
  EXPECT_EQ(place(module, "later", wanted), CUDA_ERROR_NOT_PERMITTED);
  ASSERT_CUDA(cuModuleGetGlobal(&now, nullptr, module, "later"));
  EXPECT_NE(now, wanted);
  ASSERT_CUDA(cuModuleUnload(module));
  ASSERT_CUDA(cuMemHostUnregister(words.data()));
}

TEST_F(DeviceTest, ImagesThatCanNotRunAreRefused) {
  CUmodule module = nullptr;
  const auto load_file = [&](const char* name) {
    const std::vector<char> image = ReadTestFile(name);
    return cuModuleLoadData(&module, image.data());
  };
  // Compute capability 9.0 is the default.
  EXPECT_EQ(load_file("newer.fatbin"), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(load_file("newer.ptx"), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(cuModuleLoadData(&module, ".version 99.0\n.target sm_80\n.address_size 64\n"),
            CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_EQ(cuModuleLoadData(&module, "garbage"), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(cuModuleLoadData(&module, ""), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(cuModuleLoadData(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuModuleLoadData(nullptr, "x"), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuModuleLoadData(&module, ".version 8.0\n.target sm_80\n.address_size 64\n"));
  EXPECT_CUDA(cuModuleUnload(module));
}

TEST_F(DeviceTest, DamagedFatBinariesAreRefused) {
  std::vector<char> image = ReadTestFile("kernels.fatbin");
  CUmodule module = nullptr;
  image[4] = 9;  // The ELF image's version.
  EXPECT_EQ(cuModuleLoadData(&module, image.data()), CUDA_ERROR_INVALID_IMAGE);
  image = ReadTestFile("kernels.fatbin");
  image[16 + 4] = 1;  // The first entry's header size.
  EXPECT_EQ(cuModuleLoadData(&module, image.data()), CUDA_ERROR_INVALID_IMAGE);
}

TEST(ErrorTest, NamesAndTextsAreKnown) {
  const char* text = nullptr;
  EXPECT_CUDA(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  EXPECT_STREQ(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_CUDA(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  EXPECT_STREQ(text, "an illegal memory access was encountered");
  EXPECT_CUDA(cuGetErrorName(CUDA_SUCCESS, &text));
  EXPECT_STREQ(text, "CUDA_SUCCESS");
  EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(12345), &text), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(text, nullptr);
}

}  // namespace
}  // namespace cuspan::softgpu
