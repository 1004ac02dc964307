// A driver of functions written for tests: a device whose streams run when the test lets them.
// Memory is real, so that copied bytes can be compared.
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
#include <vector>

#include "proxy/gpu/driver.h"
#include "tests/unit/proxy/loopback/fake_graphs.h"

namespace cuspan::proxy {

// One at a time: the driver's functions find it through a global.
//
// Streams are numbered as they were created, from 1; 0 is the legacy stream. Work of it and of
// streams that were not made with CU_STREAM_NON_BLOCKING runs in the order in which it came.
// Whoever retains the primary context gets one with addresses, memory, streams and faults of its
// own, as each process has one; its legacy stream is numbered as the others are, but for the first.
// What a thread does concerns the context that it made current. With its release, what is pending
// in it is gone.
// Kernels of every module: "add" (u64 address, u32 count, u32 value) adds to u32
// elements; "nothing" () does nothing; "refused" () is refused with
// CUDA_ERROR_INVALID_VALUE; "faults" () loses the context when it runs; "cuspan_patch"
// does what the proxy's own kernel of that name does (proxy/gpu/patch_kernel.h). Variable:
// "variable", 64 bytes.
class FakeGpu {
 public:
  FakeGpu();
  ~FakeGpu();

  const Driver& driver() const { return driver_; }

  // From now on work of this stream stays pending, until Let.
  void Hold(int stream);
  void Let(int stream);
  // Lets the next `count` pieces of work of a stream that is held run, of those it has.
  void LetNext(int stream, std::size_t count);
  void LetAll();
  // The driver function of this name answers `result` from now on (CUDA_SUCCESS: does its work
  // again).
  void Refuse(const std::string& function, CUresult result);
  // Addresses of the device are its own from now on, whatever this process has there: each
  // reservation is where it is wanted.
  void HaveOwnAddresses();
  // What cuMemGetInfo says from now on, of twice as much.
  void HaveFree(std::uint64_t bytes);
  // cuMemSetAccess waits while this is so.
  void HoldAccess(bool hold);
  // cuModuleLoadData waits until LetModulesLoad.
  void HoldModules();
  void LetModulesLoad();

  // What was handed over, in order: "add 1", "to-device 0", "record 2", "wait 2", …. And "asked 1"
  // when the stream is asked for the first time after something else.
  std::vector<std::string> Log() const;
  // Waits until `count` entries equal to `entry` are there; false when that takes too long.
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
    std::uint64_t number;  // Counts all of them.
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
  // Of the calling thread.
  Context& Current() const;
  bool Mapped(CUdeviceptr address, std::size_t bytes) const;
  // Where the memory of a device's address lies in this process.
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
  bool has_own_addresses_ = false;
  std::vector<std::string> log_;
  std::vector<std::byte> variable_ = std::vector<std::byte>(64);
  unsigned long long objects_ = 0;  // Textures and surfaces made so far.
  std::uint64_t tasks_ = 0;         // Handed over so far.
  bool modules_held_ = false;
  bool access_held_ = false;
  std::uint64_t free_bytes_ = 1 << 20;
};

}  // namespace cuspan::proxy
