// Graphs of a fake driver. Kernels, sets and copies run in the order of insertion. Conditional
// nodes and memory operations do nothing. Changing a node's kernel to "refused" fails.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

// Only one exists at a time: the driver functions find it through a global. A destroyed or unknown
// handle aborts the test.
class FakeGraphs {
 public:
  // Returns an error for a function meant to fail; starts a launch in its stream; checks a node's
  // memory operations.
  using Refusal = std::function<CUresult(const char* function)>;
  using Launch = std::function<CUresult(CUstream stream)>;
  using Batch = std::function<CUresult(const CUDA_BATCH_MEM_OP_NODE_PARAMS& batch)>;
  FakeGraphs(Refusal refusal, Launch launch, Batch batch);
  ~FakeGraphs();
  FakeGraphs(const FakeGraphs&) = delete;

  void Install(Driver& driver);

  struct Graph;
  struct Node;
  struct Exec;

 private:
  friend struct FakeGraphCalls;

  const Refusal refusal_;
  const Launch launch_;
  const Batch batch_;
  std::mutex mutex_;
  std::map<Graph*, std::unique_ptr<Graph>> graphs_;  // Including bodies of conditional nodes.
  std::map<void*, std::unique_ptr<Exec>> executors_;
  const Driver* driver_ = nullptr;
  unsigned long long conditions_ = 0;  // Number of conditions created.
};

}  // namespace cuspan::proxy
