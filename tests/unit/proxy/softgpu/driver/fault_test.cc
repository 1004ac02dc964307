// Tests illegal actions of kernels, and endless kernels: the driver returns an error, and the
// process survives. Settings are read once per process. Thus each test runs its body in a fresh
// copy of this program.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "tests/unit/proxy/softgpu/driver/driver_harness.h"

namespace cuspan::softgpu {
namespace {

class FaultTest : public testing::Test {
 protected:
  FaultTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// The test kernels on device 0.
struct Session {
  Session() {
    ConfigureTestDevices();
    EXPECT_CUDA(cuInit(0));
    EXPECT_CUDA(cuDevicePrimaryCtxRetain(&context, 0));
    EXPECT_CUDA(cuCtxSetCurrent(context));
    EXPECT_CUDA(cuModuleLoadData(&module, ReadTestFile("kernels.fatbin").data()));
  }
  template <typename... Args>
  CUresult Launch(const char* name, unsigned grid, unsigned block, Args... args) {
    CUfunction function = nullptr;
    EXPECT_CUDA(cuModuleGetFunction(&function, module, name)) << name;
    void* pointers[] = {&args..., nullptr};
    return cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, nullptr, pointers, nullptr);
  }
  // Launches the kernel and waits for it.
  template <typename... Args>
  CUresult Run(const char* name, unsigned grid, unsigned block, Args... args) {
    EXPECT_CUDA(Launch(name, grid, block, args...));
    return cuCtxSynchronize();
  }
  CUcontext context = nullptr;
  CUmodule module = nullptr;
};

// The thread sanitizer delays a signal until the interrupted code makes a call. A loop in a kernel
// never does.
#if defined(__SANITIZE_THREAD__)
#define CUSPAN_SKIP_UNLESS_SIGNALS_REACH_KERNELS() \
  GTEST_SKIP() << "the thread sanitizer holds signals back"
#else
#define CUSPAN_SKIP_UNLESS_SIGNALS_REACH_KERNELS() static_cast<void>(0)
#endif

// --- Endless kernels

void WatchdogEnds(const char* kernel) {
  setenv("CUSPAN_SOFT_WATCHDOG", "1", 1);
  Session session;
  DeviceMemory memory(4);
  EXPECT_EQ(session.Run(kernel, 4, 64, memory.address()), CUDA_ERROR_LAUNCH_TIMEOUT);
  // The error persists, and the process survives.
  EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_ERROR_LAUNCH_TIMEOUT);
  Finish();
}

TEST_F(FaultTest, TheWatchdogEndsALoopWithoutMemory) {
  CUSPAN_SKIP_UNLESS_SIGNALS_REACH_KERNELS();
  EXPECT_EXIT(WatchdogEnds("Forever"), testing::ExitedWithCode(0),
              "kernel Forever: .*more than 1 s.*CUSPAN_SOFT_WATCHDOG.*LAUNCH_TIMEOUT");
}

TEST_F(FaultTest, TheWatchdogEndsALoopThatWaits) {
  EXPECT_EXIT(WatchdogEnds("WaitFor"), testing::ExitedWithCode(0), "LAUNCH_TIMEOUT");
}

TEST_F(FaultTest, TheWatchdogEndsALoopOfBarriers) {
  CUSPAN_SKIP_UNLESS_SIGNALS_REACH_KERNELS();
  EXPECT_EXIT(WatchdogEnds("MeetForever"), testing::ExitedWithCode(0), "LAUNCH_TIMEOUT");
}

void EndPrinting() {
  ASSERT_NE(std::freopen("/dev/null", "w", stdout), nullptr);
  WatchdogEnds("PrintForever");
}

TEST_F(FaultTest, TheWatchdogEndsEndlessPrinting) {
  EXPECT_EXIT(EndPrinting(), testing::ExitedWithCode(0), "LAUNCH_TIMEOUT");
}

void ShortKernelsRun() {
  setenv("CUSPAN_SOFT_WATCHDOG", "1", 1);
  Session session;
  DeviceMemory memory(4);
  for (int i = 0; i < 300; ++i) EXPECT_CUDA(session.Run("Store", 1, 1, memory.address(), i));
  Finish();
}

TEST_F(FaultTest, TheWatchdogLetsOthersRun) {
  EXPECT_EXIT(ShortKernelsRun(), testing::ExitedWithCode(0), "");
}

// A failing block ends all other blocks, including endless ones.
void OneBlockFails() {
  Session session;
  EXPECT_EQ(session.Run("TrapOrForever", 64, 64), CUDA_ERROR_LAUNCH_FAILED);
  Finish();
}

TEST_F(FaultTest, AnErrorEndsTheWholeLaunch) {
  CUSPAN_SKIP_UNLESS_SIGNALS_REACH_KERNELS();
  EXPECT_EXIT(OneBlockFails(), testing::ExitedWithCode(0), "TrapOrForever");
}

void ExitWhileRunning() {
  Session session;
  EXPECT_CUDA(session.Launch("Forever", 4, 64));
  Finish();
}

TEST_F(FaultTest, TheProcessEndsWhileAKernelRunsForEver) {
  // Memory in use by the running kernel is not a leak. The copy of this program reads the variable
  // again.
  setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
  EXPECT_EXIT(ExitWhileRunning(), testing::ExitedWithCode(0), "");
}

void ReleaseWhileRunning() {
  Session session;
  EXPECT_CUDA(session.Launch("Forever", 4, 64));
  EXPECT_CUDA(cuDevicePrimaryCtxRelease(0));
  // Another context can be created.
  Session other;
  DeviceMemory memory(4);
  EXPECT_CUDA(other.Run("Store", 1, 1, memory.address(), 5));
  EXPECT_EQ(memory.Read<int>(1)[0], 5);
  Finish();
}

TEST_F(FaultTest, AContextEndsWhileAKernelRunsForEver) {
  CUSPAN_SKIP_UNLESS_SIGNALS_REACH_KERNELS();
  EXPECT_EXIT(ReleaseWhileRunning(), testing::ExitedWithCode(0),
              "its context was destroyed while a kernel or a graph loop was still running");
}

// A kernel occupying all workers does not delay copies of other streams.
void CopyWhileRunning() {
  Session session;
  TestStream busy;
  TestStream copying;
  DeviceMemory memory(4 * kMiB);
  CUfunction function = nullptr;
  EXPECT_CUDA(cuModuleGetFunction(&function, session.module, "Forever"));
  void* none[] = {nullptr};
  EXPECT_CUDA(cuLaunchKernel(function, 256, 1, 1, 64, 1, 1, 0, busy, none, nullptr));
  std::vector<int> values(kMiB, 7);
  EXPECT_CUDA(cuMemcpyHtoDAsync(memory.address(), values.data(), 4 * kMiB, copying));
  EXPECT_CUDA(cuStreamSynchronize(copying));
  EXPECT_EQ(cuStreamQuery(busy), CUDA_ERROR_NOT_READY);
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST_F(FaultTest, CopiesGoOnWhileAKernelRunsForEver) {
  EXPECT_EXIT(CopyWhileRunning(), testing::ExitedWithCode(0), "");
}

// --- The checking mode.

// Stores an int, with thread 3 of block 1, at `offset` from the start of 2 MiB.
void StoreAt(std::int64_t offset, CUresult expected) {
  setenv("CUSPAN_SOFT_CHECK", "memory", 1);
  Session session;
  DeviceMemory memory(2 * kMiB);
  EXPECT_EQ(session.Run("StoreAt", 2, 8, memory.address(), offset), expected);
  if (expected == CUDA_SUCCESS) {
    Finish();
  }
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST_F(FaultTest, CheckedKernelsWorkAsOthers) {
  EXPECT_EXIT(StoreAt(2 * kMiB - 4, CUDA_SUCCESS), testing::ExitedWithCode(0), "");
}

TEST_F(FaultTest, CheckingNamesKernelThreadAndAddress) {
  EXPECT_EXIT(StoreAt(2 * kMiB + 8, CUDA_ERROR_ILLEGAL_ADDRESS), testing::ExitedWithCode(0),
              "kernel StoreAt: block \\(1,0,0\\), thread \\(3,0,0\\): .*PTX line [0-9]+: "
              "'st.global.u32': 4 bytes written at 0x[0-9a-f]+: 8 bytes beyond the end of the "
              "2097152 bytes at 0x[0-9a-f]+.*ILLEGAL_ADDRESS");
}

TEST_F(FaultTest, CheckingSeesAnAccessThatIsPartlyOutside) {
  EXPECT_EXIT(StoreAt(2 * kMiB - 2, CUDA_ERROR_MISALIGNED_ADDRESS), testing::ExitedWithCode(0),
              "not a multiple of 4.*MISALIGNED_ADDRESS");
}

TEST_F(FaultTest, CheckingSeesMisalignedAccesses) {
  EXPECT_EXIT(StoreAt(17, CUDA_ERROR_MISALIGNED_ADDRESS), testing::ExitedWithCode(0),
              "thread \\(3,0,0\\).*not a multiple of 4.*MISALIGNED_ADDRESS");
}

void SharedAt(int index, CUresult expected) {
  setenv("CUSPAN_SOFT_CHECK", "memory", 1);
  Session session;
  DeviceMemory memory(4);
  EXPECT_EQ(session.Run("SharedAt", 1, 32, memory.address(), index), expected);
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST_F(FaultTest, CheckingKnowsTheSizeOfSharedMemory) {
  EXPECT_EXIT(SharedAt(31, CUDA_SUCCESS), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(SharedAt(32, CUDA_ERROR_ILLEGAL_ADDRESS), testing::ExitedWithCode(0),
              "the block has 128 bytes");
  EXPECT_EXIT(SharedAt(-1, CUDA_ERROR_ILLEGAL_ADDRESS), testing::ExitedWithCode(0),
              "the block has 128 bytes");
}

// Legal accesses are not reported: local arrays, the heap, printf, variables, other devices'
// barriers.
void LegalAccesses() {
  setenv("CUSPAN_SOFT_CHECK", "memory", 1);
  Session session;
  DeviceMemory memory(4096);
  EXPECT_CUDA(session.Run("LegalAccesses", 2, 32, memory.address()));
  EXPECT_EQ(memory.Read<int>(1)[0], 64 * 6);
  Finish();
}

TEST_F(FaultTest, CheckingAllowsWhatIsLegal) {
  EXPECT_EXIT(LegalAccesses(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cuspan::softgpu
