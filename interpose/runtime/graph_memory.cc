// Memory that graphs allocate.
#include <algorithm>
#include <array>

#include "interpose/client/pools.h"
#include "interpose/runtime/graph.h"

namespace cuspan {
namespace {

// By device; what graphs have allocated, now and at most.
struct Use {
  std::uint64_t now = 0;
  std::uint64_t most = 0;
};
std::mutex use_mutex;
std::map<int, Use>& Uses() {
  static auto* const uses = new std::map<int, Use>;  // Never destroyed, as the session.
  return *uses;
}

Error CheckDevice(int device) {
  return WithSession([&](Session& session) -> Error {
    return device >= 0 && device < session.device_count() ? cudaSuccess : cudaErrorInvalidDevice;
  });
}

bool IsHigh(cudaGraphMemAttributeType attribute) {
  return attribute == cudaGraphMemAttrUsedMemHigh || attribute == cudaGraphMemAttrReservedMemHigh;
}
bool IsCurrent(cudaGraphMemAttributeType attribute) {
  return attribute == cudaGraphMemAttrUsedMemCurrent ||
         attribute == cudaGraphMemAttrReservedMemCurrent;
}

// How often nodes of a graph allocate some memory, and free it before a new node runs.
struct Turns {
  std::shared_ptr<GraphMemory> memory;
  unsigned allocated = 0;
  unsigned freed = 0;
};

// By address.
std::map<std::uint64_t, Turns> TurnsBefore(const NewNode& place) {
  std::map<std::uint64_t, Turns> turns;
  for (const auto& node : place.graph->nodes) {
    const auto* const work = std::get_if<AllocateWork>(&node->work);
    if (work == nullptr) continue;
    Turns& of_memory = turns[work->memory->address];
    of_memory.memory = work->memory;
    ++of_memory.allocated;
  }
  for (const GraphNode* node : WithAncestors(place.dependencies)) {
    const auto* const work = std::get_if<FreeWork>(&node->work);
    if (work == nullptr) continue;
    const auto known = turns.find(NumberOf(work->memory));
    if (known != turns.end()) ++known->second.freed;
  }
  return turns;
}

// The smallest memory of the graph that is large enough and no longer used when the node runs; null
// where there is none. So a graph needs no more memory than is in use at a time, however often it
// allocates, and addresses repeat as they do with CUDA.
std::shared_ptr<GraphMemory> FreedBefore(const NewNode& place, int device, std::uint64_t bytes) {
  std::shared_ptr<GraphMemory> best;
  for (auto& [address, turns] : TurnsBefore(place)) {
    if (turns.freed != turns.allocated || turns.memory->device != device ||
        turns.memory->bytes < bytes) {
      continue;
    }
    if (best == nullptr || turns.memory->bytes < best->bytes) best = std::move(turns.memory);
  }
  return best;
}

}  // namespace

Error DescribeAllocation(const NewNode& place, cudaMemAllocNodeParams* parameters, Work* work) {
  if (parameters->bytesize == 0) return cudaErrorInvalidValue;
  if (parameters->poolProps.allocType != cudaMemAllocationTypePinned ||
      parameters->poolProps.location.type != cudaMemLocationTypeDevice) {
    return cudaErrorInvalidValue;
  }
  return WithSession([&](Session& session) -> Error {
    const int device = parameters->poolProps.location.id;
    if (device < 0 || device >= session.device_count()) return cudaErrorInvalidDevice;
    std::shared_ptr<GraphMemory> memory = FreedBefore(place, device, parameters->bytesize);
    if (memory == nullptr) {
      memory = std::make_shared<GraphMemory>();
      CUSPAN_RETURN_IF_FAILED(memory->Allocate(session, device, parameters->bytesize));
    }
    parameters->dptr = HandleOf<void*>(memory->address);
    *work = AllocateWork{*parameters, std::move(memory)};
    return cudaSuccess;
  });
}

Error DescribeFree(const NewNode& place, void* memory, Work* work) {
  if (!Pools::Get().IsKept(NumberOf(memory))) return cudaErrorInvalidValue;
  // At most once in a graph, wherever it was allocated.
  const auto turns = TurnsBefore(place);
  const auto known = turns.find(NumberOf(memory));
  const unsigned allocated = known == turns.end() ? 1 : known->second.allocated;
  const auto frees =
      std::count_if(place.graph->nodes.begin(), place.graph->nodes.end(), [&](const auto& node) {
        const auto* const other = std::get_if<FreeWork>(&node->work);
        return other != nullptr && other->memory == memory;
      });
  if (frees >= allocated) return cudaErrorInvalidValue;
  *work = FreeWork{memory};
  return cudaSuccess;
}

Error GraphMemory::Allocate(Session& session, int on, std::uint64_t size) {
  std::shared_ptr<Link> link;
  CUSPAN_RETURN_IF_FAILED(session.OpenLink(on, &link));
  std::uint64_t made = 0;
  CUSPAN_RETURN_IF_FAILED(link->memory().Allocate(size, &made));
  device = on;
  address = made;
  bytes = size;
  link_number = link->number();
  Pools::Get().Keep(address, true);
  std::lock_guard lock(use_mutex);
  Use& use = Uses()[device];
  use.now += bytes;
  use.most = std::max(use.most, use.now);
  return cudaSuccess;
}

GraphMemory::~GraphMemory() {
  if (address == 0) return;
  {
    std::lock_guard lock(use_mutex);
    Uses()[device].now -= bytes;
  }
  Session* const session = Session::IfStarted();
  if (session == nullptr) return;
  // A device that was reset has no such memory any more, but perhaps other at that address.
  const std::shared_ptr<Link> link = session->OpenedLink(device);
  if (link == nullptr || link->number() != link_number) return;
  Pools::Get().Keep(address, false);
  static_cast<void>(session->Free(address));
}

}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT cudaError_t cudaDeviceGetGraphMemAttribute(int device,
                                                         cudaGraphMemAttributeType attribute,
                                                         void* value) {
  return Answer([&]() -> Error {
    if (value == nullptr || (!IsHigh(attribute) && !IsCurrent(attribute)))
      return cudaErrorInvalidValue;
    CUSPAN_RETURN_IF_FAILED(CheckDevice(device));
    std::lock_guard lock(use_mutex);
    const Use& use = Uses()[device];
    *static_cast<std::uint64_t*>(value) = IsHigh(attribute) ? use.most : use.now;
    return cudaSuccess;
  });
}

// Only the highest values can be set, to 0: they start anew.
CUSPAN_EXPORT cudaError_t cudaDeviceSetGraphMemAttribute(int device,
                                                         cudaGraphMemAttributeType attribute,
                                                         void* value) {
  return Answer([&]() -> Error {
    if (value == nullptr || !IsHigh(attribute) || *static_cast<std::uint64_t*>(value) != 0)
      return cudaErrorInvalidValue;
    CUSPAN_RETURN_IF_FAILED(CheckDevice(device));
    std::lock_guard lock(use_mutex);
    Use& use = Uses()[device];
    use.most = use.now;
    return cudaSuccess;
  });
}

// What no graph has goes back by itself.
CUSPAN_EXPORT cudaError_t cudaDeviceGraphMemTrim(int device) {
  return Answer([&] { return CheckDevice(device); });
}
