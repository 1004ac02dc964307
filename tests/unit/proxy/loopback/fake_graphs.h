// The graphs of a fake driver. Their kernels, sets and copies run in the order in which they were
// added; conditional nodes and memory operations run as nothing. No node can become a "refused".
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

// One at a time: the driver's functions find it through a global. A handle that was given back, or
// was never one, ends the test.
class FakeGraphs {
 public:
  // What a function is to answer, if it is to fail; that a launch begins in its stream; and what is
  // said to a node's memory operations.
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
  std::map<Graph*, std::unique_ptr<Graph>> graphs_;  // With the bodies of conditional nodes.
  std::map<void*, std::unique_ptr<Exec>> executors_;
  const Driver* driver_ = nullptr;
  unsigned long long conditions_ = 0;  // Made so far.
};

}  // namespace cuspan::proxy
