// A driver made of test functions, for a device with streams run under the test's control. Memory
// is real, so copied bytes can be compared.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "proxy/gpu/driver.h"
#include "tests/unit/proxy/loopback/fake_graphs.h"

namespace cuspan::proxy {

// Only one exists at a time: the driver functions find it through a global.
//
// Streams are numbered in order of creation, from 1; 0 is the legacy stream. As in CUDA, the legacy
// stream and blocking streams wait for each other's earlier work. Each retain of the primary
// context creates a context with its own addresses, memory, streams and faults, as in separate
// processes. Its legacy stream has a number like other streams, except that of the first context.
// Calls use the calling thread's current context. Releasing a context discards its pending work.
//
// Kernels of every module: "add" (u64 address, u32 count, u32 value) adds to u32 elements;
// "nothing" () does nothing; "refused" () fails with CUDA_ERROR_INVALID_VALUE; "faults" () loses
// the context when it runs; "cuspan_patch" works like the proxy's own kernel
// (proxy/gpu/patch_kernel.h). Variable: "variable", 64 bytes.
class FakeGpu {
 public:
  FakeGpu();
  ~FakeGpu();

  const Driver& driver() const { return driver_; }

  // From now on, work of this stream stays pending until Let.
  void Hold(int stream);
  void Let(int stream);
  // Runs the next `count` tasks of a held stream, at most those pending now.
  void LetNext(int stream, std::size_t count);
  void LetAll();
  // Makes the driver function, or the work with this name in the log, return `result`. CUDA_SUCCESS
  // restores it.
  void Refuse(const std::string& function, CUresult result);
  // Separates device addresses from the addresses of this process: each reservation gets the
  // requested address.
  void HaveOwnAddresses();
  // Sets the free memory reported by cuMemGetInfo. The total is twice this.
  void HaveFree(std::uint64_t bytes);
  // If true, cuMemSetAccess blocks until this is false again.
  void HoldAccess(bool hold);
  // Makes cuModuleLoadData block until LetModulesLoad.
  void HoldModules();
  void LetModulesLoad();

  // Submitted work in order, each with its stream: "add 1", "to-device 0", "record 2", "wait 2", ….
  // "asked 1" is the first query of stream 1 after other work.
  std::vector<std::string> Log() const;
  // Number of threads that called cuLaunchKernel.
  std::size_t LaunchingThreads() const;
  // Waits until the log has `count` entries equal to `entry`; false after a time-out.
  bool WaitForLog(const std::string& entry, std::size_t count = 1) const;

  struct Context;
  struct Stream;
  struct Event;
  struct Function;

 private:
  friend struct FakeCalls;
  friend struct FakeMemoryBatch;
  friend struct FakePatch;
  struct Task {
    std::function<bool()> ready;
    std::function<void()> run;
    std::uint64_t number;  // Unique in all streams.
  };
  void InstallCalls();
  void InstallTensorMaps();
  Stream* AddStream(Context* context, bool blocking);
  Stream& StreamOf(CUstream stream) const;
  CUresult Enqueue(CUstream stream, std::string entry, std::function<void()> run,
                   std::function<bool()> ready = nullptr);
  void LogAsked(Stream& stream);
  void RunAll();
  bool MayRun(const Stream& stream) const;
  // Context of the calling thread.
  Context& Current() const;
  bool Mapped(CUdeviceptr address, std::size_t bytes) const;
  // Converts a device address to an address in this process.
  std::byte* Memory(CUdeviceptr address) const;
  CUresult Refusal(const char* function) const;

  Driver driver_;
  FakeGraphs graphs_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::set<Event*> events_;
  std::vector<std::unique_ptr<Function>> functions_;
  std::map<std::string, CUresult> refusals_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::map<CUdeviceptr, std::size_t> host_memory_;  // Registered: bytes by address.
  bool has_own_addresses_ = false;
  std::vector<std::string> log_;
  std::set<std::thread::id> launching_threads_;
  std::vector<std::byte> variable_ = std::vector<std::byte>(64);
  unsigned long long objects_ = 0;  // Number of textures and surfaces created.
  std::uint64_t tasks_ = 0;         // Number of tasks submitted.
  double timed_records_ = 0;        // Number of events with times recorded.
  bool modules_held_ = false;
  bool access_held_ = false;
  std::uint64_t free_bytes_ = 1 << 20;
};

}  // namespace cuspan::proxy
