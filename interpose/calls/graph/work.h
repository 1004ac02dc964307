// Work of the nodes of graphs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <variant>
#include <vector>

#include "interpose/calls/base/box.h"
#include "interpose/client/base/registry.h"
#include "interpose/client/host_calls.h"

namespace cuspan {

struct Graph;

struct KernelWork {
  std::shared_ptr<const FunctionRecord> function;
  Dim3 grid, block;
  unsigned dynamic_shared = 0;
  bool cooperative = false;
  Dim3 cluster;
  std::vector<std::vector<std::byte>> arguments;
  std::map<CUlaunchAttributeID, CUlaunchAttributeValue> hints;  // Attributes stored, not used.

  void CopyAttributes(const KernelWork& other) {
    cooperative = other.cooperative;
    cluster = other.cluster;
    hints = other.hints;
  }
};
// Any copy; a contiguous one is a box of one row.
struct CopyWork {
  BoxRequest box;
};
struct SetWork {
  CUDA_MEMSET_NODE_PARAMS parameters{};
};
struct HostWork {
  HostFunction call;
};
struct ChildWork {
  std::shared_ptr<Graph> graph;
};
struct EmptyWork {};
struct WaitWork {
  CUevent event = nullptr;
};
struct RecordWork {
  CUevent event = nullptr;
};
// Memory allocated by nodes. It is kept from the creation of the node until the graph and its execs
// are destroyed; if a launch left it to the program, also until the program's free. So its address
// is the same at each launch. Nodes allocating after its free in the graph share it.
struct GraphMemory {
  int device = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t connection_number = 0;
  // Fails if the device is out of memory (memory_nodes.cc).
  Error Allocate(Session& session, int on, std::uint64_t size);
  ~GraphMemory();
};
struct AllocateWork {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters{};  // Including the address.
  std::shared_ptr<GraphMemory> memory;
};
struct FreeWork {
  void* memory = nullptr;
};
// Memory left to the program by a launch, and memory of the program freed by it.
struct MemoryLeft {
  std::vector<std::shared_ptr<GraphMemory>> allocated;
  std::vector<std::uint64_t> freed;
};
// Consecutive waits for values in memory, and writes of values (calls/memory_batch.h).
struct MemoryBatchWork {
  CUcontext context = nullptr;  // Handle given by the program.
  int device = 0;               // The context's device.
  std::vector<CUstreamBatchMemOpParams> operations;
};
// A group of NCCL's calls on one device (calls/collective.h).
struct CollectiveWork {
  std::uint64_t connection = 0;  // Generation of the communicators' context.
  int device = 0;                // The context's device.
  std::vector<CollectiveCall> calls;
};
// Runs one of its bodies, none, or one repeatedly, depending on a number set by kernels.
struct ConditionWork {
  std::uint64_t condition = 0;  // Handle of the number on the device.
  CUgraphConditionalNodeType kind{};
  std::vector<std::shared_ptr<Graph>> bodies;
  std::shared_ptr<std::vector<CUgraph>> handles;  // Bodies' handles, read by the program.
};
// Order of CUgraphNodeType, without semaphores. NCCL's work is reported as kernels, as it is
// natively.
using Work = std::variant<KernelWork, CopyWork, SetWork, HostWork, ChildWork, EmptyWork, WaitWork,
                          RecordWork, AllocateWork, FreeWork, MemoryBatchWork, ConditionWork,
                          CollectiveWork>;

CUgraphNodeType TypeOf(const Work& work);
// True if the work waits for a value.
bool WaitsForValue(const MemoryBatchWork& work);

}  // namespace cuspan
