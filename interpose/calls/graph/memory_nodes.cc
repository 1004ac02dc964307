#include "interpose/calls/graph/memory_nodes.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "common/mutex.h"
#include "interpose/client/graph_blocks.h"

namespace cuspan {
namespace {

// Bytes allocated by graphs of a device: current and maximum.
struct Use {
  std::uint64_t now = 0;
  std::uint64_t most = 0;
};
// One per session. Threads: any.
struct GraphMemoryUse {
  Mutex mutex;
  std::map<int, Use> by_device CUSPAN_GUARDED_BY(mutex);
};

// Calls body(Use&) for a device of the session.
template <typename Body>
Error WithUse(int device, Body&& body) {
  return WithSession([&](Session& session) -> Error {
    if (!HasDevice(session, device)) return CUDA_ERROR_INVALID_DEVICE;
    auto& uses = session.TableOf<GraphMemoryUse>();
    const MutexLock lock(uses.mutex);
    body(uses.by_device[device]);
    return CUDA_SUCCESS;
  });
}

bool IsHigh(CUgraphMem_attribute attribute) {
  return attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
         attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
}
bool IsCurrent(CUgraphMem_attribute attribute) {
  return attribute == CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT ||
         attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT;
}

void FreeAll(Session& session, const std::vector<std::uint64_t>& addresses) {
  for (const std::uint64_t address : addresses)
    static_cast<void>(session.addresses().Free(address));
}

// Memory of a graph, with its allocations and frees.
struct BlockUse {
  std::shared_ptr<GraphMemory> memory;
  unsigned allocated = 0;
  unsigned freed = 0;
  const GraphNode* last_free = nullptr;  // Newest node freeing it.
};

// Indexed by address.
using BlockUses = std::map<std::uint64_t, BlockUse>;

void AddBlockUses(const Graph& graph, bool with_children, BlockUses* block_uses) {
  for (const auto& node : graph.nodes) {
    if (const auto* const allocate = std::get_if<AllocateWork>(&node->work)) {
      BlockUse& of_memory = (*block_uses)[allocate->memory->address];
      of_memory.memory = allocate->memory;
      ++of_memory.allocated;
    } else if (const auto* const free = std::get_if<FreeWork>(&node->work)) {
      BlockUse& of_memory = (*block_uses)[NumberOf(free->memory)];
      ++of_memory.freed;
      of_memory.last_free = node.get();
    } else if (const auto* const child = std::get_if<ChildWork>(&node->work);
               child != nullptr && with_children) {
      AddBlockUses(*child->graph, true, block_uses);
    }
  }
}

BlockUses BlockUsesOf(const Graph& graph) {
  BlockUses block_uses;
  AddBlockUses(graph, false, &block_uses);
  return block_uses;
}

// Maximum preceding nodes examined for a new node, nearest first: graphs may be very large.
constexpr std::size_t kMaxExamined = 4096;

// Returns the smallest sufficient memory of the graph, no longer used when the node runs; or null.
// So a graph needs no more memory than in use at a time, even with many allocations. Addresses
// repeat as in CUDA. A node reusing memory depends on all its former users. So the memory is free
// if its last free precedes the new node.
std::shared_ptr<GraphMemory> FreedBefore(const NewNode& place, int device, std::uint64_t bytes) {
  std::unordered_map<const GraphNode*, std::shared_ptr<GraphMemory>> free_behind;
  for (const auto& [address, block_uses] : BlockUsesOf(*place.graph)) {
    if (block_uses.memory != nullptr && block_uses.freed == block_uses.allocated &&
        block_uses.memory->device == device && block_uses.memory->bytes >= bytes) {
      free_behind[block_uses.last_free] = block_uses.memory;
    }
  }
  if (free_behind.empty()) return nullptr;
  std::shared_ptr<GraphMemory> best;
  std::unordered_set<const GraphNode*> seen(place.dependencies.begin(), place.dependencies.end());
  std::vector<const GraphNode*> open(seen.begin(), seen.end());
  for (std::size_t i = 0; i < std::min(open.size(), kMaxExamined); ++i) {
    const auto found = free_behind.find(open[i]);
    if (found != free_behind.end() && (best == nullptr || found->second->bytes < best->bytes))
      best = found->second;
    for (const GraphNode* before : open[i]->dependencies)
      if (seen.insert(before).second) open.push_back(before);
  }
  return best;
}

}  // namespace

Error DescribeAllocation(const NewNode& place, CUDA_MEM_ALLOC_NODE_PARAMS* parameters, Work* work) {
  if (place.graph->child) return CUDA_ERROR_NOT_SUPPORTED;
  if (parameters->bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
  if (parameters->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      parameters->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return WithSession([&](Session& session) -> Error {
    const int device = parameters->poolProps.location.id;
    if (!HasDevice(session, device)) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<GraphMemory> memory = FreedBefore(place, device, parameters->bytesize);
    if (memory == nullptr) {
      memory = std::make_shared<GraphMemory>();
      CUSPAN_RETURN_IF_FAILED(memory->Allocate(session, device, parameters->bytesize));
    }
    parameters->dptr = memory->address;
    *work = AllocateWork{*parameters, std::move(memory)};
    return CUDA_SUCCESS;
  });
}

Error DescribeFree(const NewNode& place, void* memory, Work* work) {
  if (place.graph->child) return CUDA_ERROR_NOT_SUPPORTED;
  CUSPAN_RETURN_IF_FAILED(WithSession([&](Session& session) -> Error {
    return session.graph_blocks().BelongsToGraph(NumberOf(memory)) ? CUDA_SUCCESS
                                                                   : CUDA_ERROR_INVALID_VALUE;
  }));
  // One free per allocation; one free for memory of another graph.
  const auto block_uses = BlockUsesOf(*place.graph);
  const auto known = block_uses.find(NumberOf(memory));
  if (known != block_uses.end() && known->second.freed >= std::max(known->second.allocated, 1U))
    return CUDA_ERROR_INVALID_VALUE;
  *work = FreeWork{memory};
  return CUDA_SUCCESS;
}

bool HasMemoryNodes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    const auto* const child = std::get_if<ChildWork>(&node->work);
    return std::holds_alternative<AllocateWork>(node->work) ||
           std::holds_alternative<FreeWork>(node->work) ||
           (child != nullptr && HasMemoryNodes(*child->graph));
  });
}

MemoryLeft LeftByLaunch(const Graph& graph) {
  BlockUses block_uses;
  AddBlockUses(graph, true, &block_uses);
  MemoryLeft left;
  for (const auto& [address, of_memory] : block_uses) {
    if (of_memory.allocated > of_memory.freed) left.allocated.push_back(of_memory.memory);
    if (of_memory.allocated < of_memory.freed) left.freed.push_back(address);
  }
  return left;
}

Error HandOver(Session& session, const MemoryLeft& left, bool again) {
  GraphBlocks& blocks = session.graph_blocks();
  for (const auto& memory : left.allocated)
    if (!again && blocks.IsHanded(memory->address)) return CUDA_ERROR_INVALID_VALUE;
  for (const std::uint64_t address : left.freed)
    if (!blocks.IsHanded(address)) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& memory : left.allocated) blocks.Hand(memory->address, memory);
  for (const std::uint64_t address : left.freed) CUSPAN_RETURN_IF_FAILED(blocks.Reclaim(address));
  return CUDA_SUCCESS;
}

Error GraphMemory::Allocate(Session& session, int on, std::uint64_t size) {
  std::shared_ptr<ContextConnection> connection;
  CUSPAN_RETURN_IF_FAILED(session.devices().Open(on, &connection));
  std::uint64_t made = 0;
  CUSPAN_RETURN_IF_FAILED(connection->memory().Allocate(size, &made));
  device = on;
  address = made;
  bytes = size;
  connection_number = connection->number();
  session.graph_blocks().Add(address);
  auto& uses = session.TableOf<GraphMemoryUse>();
  const MutexLock lock(uses.mutex);
  Use& use = uses.by_device[device];
  use.now += bytes;
  use.most = std::max(use.most, use.now);
  return CUDA_SUCCESS;
}

GraphMemory::~GraphMemory() {
  Session* const session = Session::IfStarted();
  if (address == 0 || session == nullptr) return;
  {
    auto& uses = session->TableOf<GraphMemoryUse>();
    const MutexLock lock(uses.mutex);
    uses.by_device[device].now -= bytes;
  }
  // After a reset of the device the memory is gone, and its address may be in use again.
  if (session->devices().ConnectionNumbered(connection_number) == nullptr) return;
  FreeAll(*session, session->graph_blocks().End(address, bytes));
}

Error GetGraphMemory(int device, CUgraphMem_attribute attribute, std::uint64_t* value) {
  if (!IsHigh(attribute) && !IsCurrent(attribute)) return CUDA_ERROR_INVALID_VALUE;
  return WithUse(device, [&](const Use& use) { *value = IsHigh(attribute) ? use.most : use.now; });
}

Error SetGraphMemory(int device, CUgraphMem_attribute attribute, std::uint64_t value) {
  if (!IsHigh(attribute) || value != 0) return CUDA_ERROR_INVALID_VALUE;
  return WithUse(device, [](Use& use) { use.most = use.now; });
}

Error TrimGraphMemory(int device) {
  return WithSession([&](Session& session) -> Error {
    if (!HasDevice(session, device)) return CUDA_ERROR_INVALID_DEVICE;
    std::shared_ptr<ContextConnection> connection;
    CUSPAN_RETURN_IF_FAILED(session.devices().Open(device, &connection));
    FreeAll(session, session.graph_blocks().ExtractEnded(*connection));
    return CUDA_SUCCESS;
  });
}

}  // namespace cuspan
