// Parts of the fake GPU, for its own sources.
#pragma once

#include <chrono>
#include <cstdint>

#include "tests/unit/proxy/loopback/fake_gpu.h"

namespace cuspan::proxy {

// Maximum time a call waits for an action of the test.
inline constexpr std::chrono::seconds kPatience{20};

struct FakeGpu::Context {
  struct Reserved {
    std::size_t bytes;
    std::byte* memory;
  };
  Stream* legacy = nullptr;
  bool retained = false;
  CUresult lost = CUDA_SUCCESS;
  std::map<CUdeviceptr, Reserved> reserved;
  std::map<CUdeviceptr, std::size_t> mapped;
};

struct FakeGpu::Event {
  Context* context = nullptr;
  bool pending = false;
  bool timed = true;
  double time = 0;  // Units of 2.5 ms: one passes between two records with times.
};

struct FakeGpu::Stream {
  int number = 0;
  Context* context = nullptr;
  bool blocking = true;
  bool held = false;
  std::size_t let = 0;  // Tasks allowed to run though held.
  std::deque<Task> tasks;
  bool asked = false;  // True if queried since the last task.
};

struct FakeGpu::Function {
  std::string name;
  std::vector<std::size_t> parameters;
};

// Memory operations, each a task of its stream. Waits are for an equal value, or for one not less.
struct FakeMemoryBatch {
  static CUresult RegisterHost(void* memory, std::size_t bytes, unsigned);
  static CUresult UnregisterHost(void* memory);
  static CUresult Call(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations,
                       unsigned flags);
  // Returns CUDA_ERROR_INVALID_VALUE for operations invalid in a stream, too. Logs the others as
  // "node write-value" or "node wait-value" with bytes, address, value and flags, or as "node
  // barrier".
  static CUresult CheckNode(const CUDA_BATCH_MEM_OP_NODE_PARAMS& batch);

 private:
  static CUresult CheckOperation(const CUstreamBatchMemOpParams& operation);
  template <typename T>
  static CUresult Do(const CUstreamBatchMemOpParams& operation, bool wait, CUstream stream);
};

// The proxy's own kernel. `threads` is its block size. The caller holds the lock.
struct FakePatch {
  static CUresult Launch(std::size_t threads, CUstream stream, void** arguments);
};

// The existing instance, used by the driver functions.
extern FakeGpu* fake;
// A context is its number, from 1. Thus a stale context of an earlier test does no harm.
extern thread_local std::uintptr_t current_context;

}  // namespace cuspan::proxy
