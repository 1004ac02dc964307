// What the fake GPU is made of: for its own sources.
#pragma once

#include <chrono>
#include <cstdint>

#include "tests/unit/proxy/loopback/fake_gpu.h"

namespace cuspan::proxy {

// How long a call waits for what the test is to do.
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
  double time = 0;
};

struct FakeGpu::Stream {
  int number = 0;
  Context* context = nullptr;
  bool blocking = true;
  bool held = false;
  std::size_t let = 0;  // How many may run though it is held.
  std::deque<Task> tasks;
  bool asked = false;  // Whether it is done, since it was given the last task.
};

struct FakeGpu::Function {
  std::string name;
  std::vector<std::size_t> parameters;
};

// Memory operations, each a piece of work in its stream. Waits are for a value that is equal, or
// one that is not less.
struct FakeMemoryBatch {
  static CUresult Call(CUstream stream, unsigned count, CUstreamBatchMemOpParams* operations,
                       unsigned flags);
  // CUDA_ERROR_INVALID_VALUE for what a stream would not take either; otherwise the log has each as
  // "node write-value" or "node wait-value" with bytes, address, value and flags, and "node
  // barrier".
  static CUresult CheckNode(const CUDA_BATCH_MEM_OP_NODE_PARAMS& batch);

 private:
  static CUresult CheckOperation(const CUstreamBatchMemOpParams& operation);
  template <typename T>
  static CUresult Do(const CUstreamBatchMemOpParams& operation, bool wait, CUstream stream);
};

// The proxy's own kernel, with so many threads; the caller holds the lock.
struct FakePatch {
  static CUresult Launch(std::size_t threads, CUstream stream, void** arguments);
};

// The one that is there, for the driver's functions.
extern FakeGpu* fake;
// A context is its number, from 1, so that one of an earlier test does no harm.
extern thread_local std::uintptr_t current_context;

}  // namespace cuspan::proxy
