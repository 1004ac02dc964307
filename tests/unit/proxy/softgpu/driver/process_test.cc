// Tests needing a process of their own: settings, persistent failures, forks. Each test runs its
// body in a fresh copy of this program.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/unit/proxy/softgpu/driver/driver_harness.h"

namespace cuspan::softgpu {
namespace {

// Test bodies end by Finish; failed expectations are their exit status.
class ProcessTest : public testing::Test {
 protected:
  ProcessTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void InitWith(const char* name, const char* value) {
  setenv(name, value, 1);
  EXPECT_EQ(cuInit(0), CUDA_ERROR_INVALID_VALUE);
  int count = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  Finish();
}

// Expects those of three devices chosen by CUDA_VISIBLE_DEVICES, identified by their PCI addresses.
void InitSeeing(const char* choice, const std::vector<std::string>& addresses, CUresult result) {
  setenv("CUSPAN_SOFT_GPUS", "3", 1);
  setenv("CUSPAN_SOFT_VISIBLE", "chosen", 1);
  setenv("CUDA_VISIBLE_DEVICES", choice, 1);
  EXPECT_EQ(cuInit(0), result);
  std::vector<std::string> seen;
  int count = 0;
  if (result == CUDA_SUCCESS) {
    EXPECT_CUDA(cuDeviceGetCount(&count));
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    char address[32] = {};
    EXPECT_CUDA(cuDeviceGetPCIBusId(address, sizeof address, ordinal));
    seen.emplace_back(address);
  }
  EXPECT_EQ(seen, addresses);
  Finish();
}

TEST_F(ProcessTest, VisibleDevicesAreThoseThatAreChosen) {
  const std::string first = "00c0:01:00.0", second = "00c0:02:00.0", third = "00c0:03:00.0";
  EXPECT_EXIT(InitSeeing("1", {second}, CUDA_SUCCESS), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(InitSeeing("2,0", {third, first}, CUDA_SUCCESS), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(InitSeeing("1,3,0", {second}, CUDA_SUCCESS), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(InitSeeing("", {}, CUDA_ERROR_NO_DEVICE), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(InitSeeing("3", {}, CUDA_ERROR_NO_DEVICE), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(InitSeeing("1,1", {}, CUDA_ERROR_INVALID_DEVICE), testing::ExitedWithCode(0),
              "names a device twice");
}

TEST_F(ProcessTest, ByDefaultTheVariableIsAboutOtherDevices) {
  const auto see_all = [] {
    setenv("CUSPAN_SOFT_GPUS", "3", 1);
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    EXPECT_CUDA(cuInit(0));
    int count = 0;
    EXPECT_CUDA(cuDeviceGetCount(&count));
    EXPECT_EQ(count, 3);
    Finish();
  };
  EXPECT_EXIT(see_all(), testing::ExitedWithCode(0), "");
}

// cuInit fails, and one line gives the reason.
TEST_F(ProcessTest, WrongSettingsAreNamed) {
  EXPECT_EXIT(InitWith("CUSPAN_SOFT_GPUS", "0"), testing::ExitedWithCode(0), "CUSPAN_SOFT_GPUS");
  EXPECT_EXIT(InitWith("CUSPAN_SOFT_GPUS", "many"), testing::ExitedWithCode(0), "CUSPAN_SOFT_GPUS");
  for (const char* wrong : {"n1=", "n1=65", "=2", "n1=1,,2", "1,2", "n1=-1"})
    EXPECT_EXIT(InitWith("CUSPAN_SOFT_GPUS", wrong), testing::ExitedWithCode(0),
                "CUSPAN_SOFT_GPUS");
  EXPECT_EXIT(InitWith("CUSPAN_SOFT_MEMORY", "12Q"), testing::ExitedWithCode(0),
              "CUSPAN_SOFT_MEMORY");
  EXPECT_EXIT(InitWith("CUSPAN_SOFT_MEMORY", "1"), testing::ExitedWithCode(0),
              "CUSPAN_SOFT_MEMORY");
  for (const char* wrong : {"9", "9.", "9.0a", "x", "2.0", "99.9"}) {
    EXPECT_EXIT(InitWith("CUSPAN_SOFT_CAPABILITY", wrong), testing::ExitedWithCode(0),
                "CUSPAN_SOFT_CAPABILITY");
  }
  EXPECT_EXIT(InitWith("CUSPAN_SOFT_THREADS", "0"), testing::ExitedWithCode(0),
              "CUSPAN_SOFT_THREADS");
  EXPECT_EXIT(InitWith("CUSPAN_SOFT_WATCHDOG", "0"), testing::ExitedWithCode(0),
              "CUSPAN_SOFT_WATCHDOG");
  EXPECT_EXIT(InitWith("CUSPAN_SOFT_VISIBLE", "1"), testing::ExitedWithCode(0),
              "CUSPAN_SOFT_VISIBLE");
  EXPECT_EXIT(InitWith("CUSPAN_SOFT_CHECK", "yes"), testing::ExitedWithCode(0),
              "CUSPAN_SOFT_CHECK");
  for (const char* wrong : {"0", "-1", "fast", "1GB", "nan"}) {
    EXPECT_EXIT(InitWith("CUSPAN_SOFT_COPY_RATE", wrong), testing::ExitedWithCode(0),
                "CUSPAN_SOFT_COPY_RATE");
  }
  for (const char* wrong : {"0", "0.0009", "1000001", "-1", "fast", "5us", "nan", "inf"}) {
    EXPECT_EXIT(InitWith("CUSPAN_SOFT_RATE", wrong), testing::ExitedWithCode(0),
                "CUSPAN_SOFT_RATE");
  }
}

void ShowSettings() {
  setenv("CUSPAN_SOFT_GPUS", "3", 1);
  setenv("CUSPAN_SOFT_MEMORY", "96M", 1);
  setenv("CUSPAN_SOFT_NAME", "a device", 1);
  setenv("CUSPAN_SOFT_CAPABILITY", "8.6", 1);
  setenv("CUSPAN_SOFT_THREADS", "1", 1);
  EXPECT_EQ(cuInit(1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cuInit(0));
  EXPECT_CUDA(cuInit(0));
  int value = 0;
  EXPECT_CUDA(cuDeviceGetCount(&value));
  EXPECT_EQ(value, 3);
  std::size_t bytes = 0;
  EXPECT_CUDA(cuDeviceTotalMem(&bytes, 2));
  EXPECT_EQ(bytes, 96 * kMiB);
  char name[64];
  EXPECT_CUDA(cuDeviceGetName(name, sizeof(name), 1));
  EXPECT_STREQ(name, "a device");
  EXPECT_CUDA(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  EXPECT_EQ(value, 8);
  EXPECT_CUDA(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
  EXPECT_EQ(value, 6);
  Finish();
}

TEST_F(ProcessTest, SettingsShape) { EXPECT_EXIT(ShowSettings(), testing::ExitedWithCode(0), ""); }

// Number of devices for a host by its name, and for all others.
void CountOnThisHost(const char* list_format, int expected) {
  char own[256] = {};
  ASSERT_EQ(gethostname(own, sizeof(own) - 1), 0);
  char list[512];
  snprintf(list, sizeof(list), list_format, own);
  setenv("CUSPAN_SOFT_GPUS", list, 1);
  int count = 0;
  if (expected == 0) {
    EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE);
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  } else {
    EXPECT_CUDA(cuInit(0));
    EXPECT_CUDA(cuDeviceGetCount(&count));
    EXPECT_EQ(count, expected);
  }
  Finish();
}

TEST_F(ProcessTest, HostsMayHaveDifferentNumbersOfDevices) {
  EXPECT_EXIT(CountOnThisHost("no-such-host=4,%s=2,3", 2), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(CountOnThisHost("no-such-host=4,not-%s=2,3", 3), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(CountOnThisHost("no-such-host=4,not-%s=2", 1), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(CountOnThisHost("%s=0,3", 0), testing::ExitedWithCode(0), "");
}

// 20 MB at 0.2 GB/s take a tenth of a second in each direction. Directions have separate rates.
void CopySlowly() {
  setenv("CUSPAN_SOFT_COPY_RATE", "0.2", 1);
  ConfigureTestDevices();
  EXPECT_CUDA(cuInit(0));
  CUcontext context = nullptr;
  EXPECT_CUDA(cuDevicePrimaryCtxRetain(&context, 0));
  EXPECT_CUDA(cuCtxSetCurrent(context));
  constexpr std::size_t kBytes = 20'000'000;
  DeviceMemory memory(kBytes);
  std::vector<char> host(kBytes);
  CUevent events[3];
  for (CUevent& event : events) EXPECT_CUDA(cuEventCreate(&event, CU_EVENT_DEFAULT));
  EXPECT_CUDA(cuEventRecord(events[0], nullptr));
  EXPECT_CUDA(cuMemcpyHtoDAsync(memory.address(), host.data(), kBytes, nullptr));
  EXPECT_CUDA(cuEventRecord(events[1], nullptr));
  EXPECT_CUDA(cuMemcpyDtoHAsync(host.data(), memory.address(), kBytes, nullptr));
  EXPECT_CUDA(cuEventRecord(events[2], nullptr));
  EXPECT_CUDA(cuEventSynchronize(events[2]));
  for (int i = 0; i < 2; ++i) {
    float milliseconds = 0;
    EXPECT_CUDA(cuEventElapsedTime(&milliseconds, events[i], events[i + 1]));
    EXPECT_GE(milliseconds, 99.0f);
  }
  Finish();
}

TEST_F(ProcessTest, TheCopyRateHolds) { EXPECT_EXIT(CopySlowly(), testing::ExitedWithCode(0), ""); }

// Device 0 with a minimum time for each block, in microseconds.
class SlowDevice {
 public:
  explicit SlowDevice(const char* microseconds) {
    setenv("CUSPAN_SOFT_RATE", microseconds, 1);
    ConfigureTestDevices();
    EXPECT_CUDA(cuInit(0));
    CUcontext context = nullptr;
    EXPECT_CUDA(cuDevicePrimaryCtxRetain(&context, 0));
    EXPECT_CUDA(cuCtxSetCurrent(context));
  }
  static CUfunction Kernel(const char* file, const char* name) {
    CUmodule module = nullptr;
    CUfunction kernel = nullptr;
    EXPECT_CUDA(cuModuleLoadData(&module, ReadTestFile(file).data()));
    EXPECT_CUDA(cuModuleGetFunction(&kernel, module, name));
    return kernel;
  }
  // Time taken by the kernels of `launch`. Earlier launches have compiled them.
  template <typename Function>
  static double Milliseconds(Function launch) {
    EXPECT_CUDA(cuCtxSynchronize());
    const auto start = std::chrono::steady_clock::now();
    launch();
    EXPECT_CUDA(cuCtxSynchronize());
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  }
};

// All ways of executing blocks: several at once, one by one if they suspend, or all together.
void RunSlowly() {
  SlowDevice device("5000");
  DeviceMemory memory(20 * 32 * sizeof(int));
  CUdeviceptr to = memory.address(), wrong = to + 16 * sizeof(int);
  int value = 3;
  void* args[] = {&to, &value};
  for (const char* name : {"Store", "SharedAt"}) {
    const CUfunction kernel = device.Kernel("kernels.fatbin", name);
    const auto launch = [&](unsigned blocks) {
      EXPECT_CUDA(cuLaunchKernel(kernel, blocks, 1, 1, 32, 1, 1, 0, nullptr, args, nullptr));
    };
    launch(1);
    EXPECT_GE(device.Milliseconds([&] { launch(20); }), 100.0) << name;
  }
  const CUfunction grid_sync = device.Kernel("kernels.fatbin", "GridSync");
  void* sync_args[] = {&to, &wrong};
  const auto launch = [&](unsigned blocks) {
    EXPECT_CUDA(
        cuLaunchCooperativeKernel(grid_sync, blocks, 1, 1, 32, 1, 1, 0, nullptr, sync_args));
  };
  launch(1);
  EXPECT_GE(device.Milliseconds([&] { launch(4); }), 20.0);
  Finish();
}

TEST_F(ProcessTest, TheRateHolds) { EXPECT_EXIT(RunSlowly(), testing::ExitedWithCode(0), ""); }

// A tenth of a second in total, of blocks too short for a sleep each.
void RunManyBlocks() {
  SlowDevice device("0.5");
  constexpr unsigned kBlocks = 200'000;
  DeviceMemory memory(kBlocks * sizeof(int));
  CUdeviceptr to = memory.address();
  int value = 3;
  void* args[] = {&to, &value};
  const CUfunction store = device.Kernel("kernels.fatbin", "Store");
  const auto launch = [&](unsigned blocks) {
    EXPECT_CUDA(cuLaunchKernel(store, blocks, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr));
  };
  launch(1);
  EXPECT_GE(device.Milliseconds([&] { launch(kBlocks); }), 100.0);
  EXPECT_EQ(memory.Read<int>(kBlocks), std::vector<int>(kBlocks, value));
  Finish();
}

TEST_F(ProcessTest, TheRateHoldsForManyBlocks) {
  EXPECT_EXIT(RunManyBlocks(), testing::ExitedWithCode(0), "");
}

// Kernels of all streams share the device's rate.
void RunInTwoStreams() {
  SlowDevice device("5000");
  DeviceMemory memory(20 * 32 * sizeof(int));
  CUdeviceptr to[] = {memory.address(), memory.address() + 10 * 32 * sizeof(int)};
  int value = 3;
  const CUfunction store = device.Kernel("kernels.fatbin", "Store");
  TestStream streams[2];
  const auto launch = [&](unsigned blocks) {
    for (int i = 0; i < 2; ++i) {
      void* args[] = {&to[i], &value};
      EXPECT_CUDA(cuLaunchKernel(store, blocks, 1, 1, 32, 1, 1, 0, streams[i], args, nullptr));
    }
  };
  launch(1);
  EXPECT_GE(device.Milliseconds([&] { launch(10); }), 100.0);
  Finish();
}

TEST_F(ProcessTest, StreamsShareTheRate) {
  EXPECT_EXIT(RunInTwoStreams(), testing::ExitedWithCode(0), "");
}

// Each of 20 kernels launches the next.
void LaunchSlowly() {
  SlowDevice device("5000");
  DeviceMemory memory(sizeof(int));
  memory.Write(std::vector<int>{0});
  CUdeviceptr data = memory.address();
  const CUfunction again = device.Kernel("device_launch.ptx", "Again");
  const auto launch = [&](int times) {
    void* args[] = {&data, &times};
    EXPECT_CUDA(cuLaunchKernel(again, 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr));
  };
  launch(2);
  EXPECT_GE(device.Milliseconds([&] { launch(20); }), 100.0);
  Finish();
}

TEST_F(ProcessTest, TheRateHoldsForWhatKernelsLaunch) {
  EXPECT_EXIT(LaunchSlowly(), testing::ExitedWithCode(0), "");
}

void CallEarly() {
  int count = 0;
  EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreateWithPriority(&stream, 0, 0), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_ERROR_NOT_INITIALIZED);
  int version = 0;
  EXPECT_CUDA(cuDriverGetVersion(&version));
  EXPECT_GE(version, 13000);
  Finish();
}

TEST_F(ProcessTest, NothingWorksBeforeInit) {
  EXPECT_EXIT(CallEarly(), testing::ExitedWithCode(0), "");
}

void UseInChild() {
  ConfigureTestDevices();
  EXPECT_CUDA(cuInit(0));
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    const bool refused = cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                         cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  Finish();
}

TEST_F(ProcessTest, AForkedChildHasNoDriver) {
  EXPECT_EXIT(UseInChild(), testing::ExitedWithCode(0), "");
}

// Runs a failing kernel. Afterwards its context returns the error from all calls, as observed on an
// H200. The process and other devices are not affected.
void RunToFailure(const char* kernel, CUresult error) {
  ConfigureTestDevices();
  CUcontext context = nullptr;
  EXPECT_CUDA(cuInit(0));
  EXPECT_CUDA(cuDevicePrimaryCtxRetain(&context, 0));
  EXPECT_CUDA(cuCtxSetCurrent(context));
  const std::vector<char> image = ReadTestFile("kernels.fatbin");
  CUmodule module = nullptr;
  CUfunction bad = nullptr, store = nullptr;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  EXPECT_CUDA(cuModuleLoadData(&module, image.data()));
  EXPECT_CUDA(cuModuleGetFunction(&bad, module, kernel));
  EXPECT_CUDA(cuModuleGetFunction(&store, module, "Store"));
  EXPECT_CUDA(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  EXPECT_CUDA(cuEventCreate(&event, 0));
  EXPECT_CUDA(cuLaunchKernel(bad, 2, 1, 1, 64, 1, 1, 0, stream, nullptr, nullptr));
  cuEventRecord(event, stream);
  EXPECT_EQ(cuStreamSynchronize(stream), error);

  int value = 0;
  std::size_t free = 0, total = 0;
  CUstream another = nullptr;
  EXPECT_EQ(cuCtxSynchronize(), error);
  EXPECT_EQ(cuStreamQuery(stream), error);
  EXPECT_EQ(cuEventQuery(event), error);
  EXPECT_EQ(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), error);
  EXPECT_EQ(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), error);
  EXPECT_EQ(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, store), error);
  EXPECT_EQ(cuStreamCreateWithPriority(&another, 0, 0), error);
  EXPECT_EQ(cuMemGetInfo(&free, &total), error);
  EXPECT_EQ(cuModuleLoadData(&module, image.data()), error);
  EXPECT_EQ(cuStreamDestroy(stream), error);
  EXPECT_EQ(cuEventDestroy(event), error);
  // Calls without a context work.
  CUcontext current = nullptr;
  EXPECT_CUDA(cuCtxGetCurrent(&current));
  EXPECT_CUDA(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
  // The other device works.
  CUcontext other = nullptr;
  EXPECT_CUDA(cuDevicePrimaryCtxRetain(&other, 1));
  EXPECT_CUDA(cuCtxSetCurrent(other));
  EXPECT_CUDA(cuModuleLoadData(&module, image.data()));
  EXPECT_CUDA(cuModuleGetFunction(&store, module, "Store"));
  DeviceMemory memory(4, 1);
  CUdeviceptr to = memory.address();
  int stored = 12;
  void* args[] = {&to, &stored};
  EXPECT_CUDA(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr));
  EXPECT_EQ(memory.Read<int>(1)[0], 12);
  // The failed device stays failed in this process.
  EXPECT_CUDA(cuDevicePrimaryCtxRelease(0));
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), error);
  std::fflush(stderr);
}

void RunToFailureAndFinish(const char* kernel, CUresult error) {
  RunToFailure(kernel, error);
  Finish();
}

TEST_F(ProcessTest, ABadStorePoisonsItsContextOnly) {
  EXPECT_EXIT(RunToFailureAndFinish("BadStore", CUDA_ERROR_ILLEGAL_ADDRESS),
              testing::ExitedWithCode(0), "BadStore.*0x10.*CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(ProcessTest, ATrapPoisonsItsContextOnly) {
  EXPECT_EXIT(RunToFailureAndFinish("Trap", CUDA_ERROR_LAUNCH_FAILED), testing::ExitedWithCode(0),
              "Trap.*CUDA_ERROR_LAUNCH_FAILED");
}

void ReadUnmapped() {
  ConfigureTestDevices();
  CUcontext context = nullptr;
  EXPECT_CUDA(cuInit(0));
  EXPECT_CUDA(cuDevicePrimaryCtxRetain(&context, 0));
  EXPECT_CUDA(cuCtxSetCurrent(context));
  const std::vector<char> image = ReadTestFile("kernels.fatbin");
  CUmodule module = nullptr;
  CUfunction increment = nullptr;
  EXPECT_CUDA(cuModuleLoadData(&module, image.data()));
  EXPECT_CUDA(cuModuleGetFunction(&increment, module, "Increment"));
  // The address stays reserved, so nothing else is mapped there.
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle memory = 0;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  EXPECT_CUDA(cuMemCreate(&memory, 2 * kMiB, &properties, 0));
  EXPECT_CUDA(cuMemAddressReserve(&address, 2 * kMiB, 0, 0, 0));
  EXPECT_CUDA(cuMemMap(address, 2 * kMiB, 0, memory, 0));
  EXPECT_CUDA(cuMemSetAccess(address, 2 * kMiB, &access, 1));
  EXPECT_CUDA(cuMemUnmap(address, 2 * kMiB));
  EXPECT_CUDA(cuMemRelease(memory));
  void* args[] = {&address};
  EXPECT_CUDA(cuLaunchKernel(increment, 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  Finish();
}

TEST_F(ProcessTest, FreedMemoryIsNotThereForKernels) {
  EXPECT_EXIT(ReadUnmapped(), testing::ExitedWithCode(0), "CUDA_ERROR_ILLEGAL_ADDRESS");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // They handle it.
// Faults of the host program are not handled here.
void CrashOnHost() {
  ConfigureTestDevices();
  EXPECT_CUDA(cuInit(0));
  *reinterpret_cast<volatile int*>(0x20) = 1;
}

TEST_F(ProcessTest, FaultsElsewhereKillAsEver) {
  EXPECT_EXIT(CrashOnHost(), testing::KilledBySignal(SIGSEGV), "");
}
#endif

}  // namespace
}  // namespace cuspan::softgpu
