#include "proxy/softgpu/driver/state.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "proxy/softgpu/driver/array.h"
#include "proxy/softgpu/driver/device_identity.h"
#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/graph.h"
#include "proxy/softgpu/driver/linker.h"
#include "proxy/softgpu/rt/fault.h"

namespace cuspan::softgpu {
namespace {

std::atomic<Driver*> g_driver{nullptr};

// More threads do not make a copy faster.
constexpr unsigned kMaxCopyThreads = 4;

// A forked child has no worker threads, so it has no driver either.
void ForgetInChild() { g_driver.store(nullptr); }

}  // namespace

CUresult HostRegistry::Register(std::uint64_t address, std::uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const auto next = ranges_.lower_bound(address);
  const bool meets_next = next != ranges_.end() && next->first - address < bytes;
  const bool meets_previous = next != ranges_.begin() && [&] {
    const auto previous = std::prev(next);
    return address - previous->first < previous->second;
  }();
  if (meets_next || meets_previous) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  ranges_.emplace(address, bytes);
  return CUDA_SUCCESS;
}

CUresult HostRegistry::Unregister(std::uint64_t address) {
  std::lock_guard lock(mutex_);
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  --range;
  if (address - range->first >= range->second) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  if (range->first != address) return CUDA_ERROR_INVALID_VALUE;
  ranges_.erase(range);
  return CUDA_SUCCESS;
}

bool HostRegistry::Contains(std::uint64_t address, std::uint64_t bytes) const {
  std::lock_guard lock(mutex_);
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return false;
  --range;
  const std::uint64_t offset = address - range->first;
  return offset < range->second && bytes <= range->second - offset;
}

Driver* Driver::Get() { return g_driver.load(std::memory_order_acquire); }

Status Driver::Initialize() {
  static std::mutex mutex;
  static bool initialized = false;
  std::lock_guard lock(mutex);
  if (initialized) {
    if (Get() != nullptr) return Status::Ok();
    return Status::Unavailable(
        "the software GPU cannot be used in a child process created by fork");
  }
  CUSPAN_ASSIGN_OR_RETURN(Configuration configuration, ReadConfiguration());
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<int> visible, VisibleDevices(configuration.devices));
  auto driver = std::unique_ptr<Driver>(new Driver(configuration));
  for (const WorkerPool* const pool : {&driver->pool, &driver->copies, &driver->memory_operations})
    if (pool->threads() == 0) return Status::Exhausted("the software GPU could not start a thread");
  for (const int number : visible) {
    const int ordinal = static_cast<int>(driver->devices.size());
    auto device = std::make_unique<Device>(configuration);
    device->ordinal = ordinal;
    device->number = number;
    device->context_handle =
        MakeHandle(HandleKind::kContext, static_cast<std::uint64_t>(ordinal) + 1);
    CUSPAN_ASSIGN_OR_RETURN(device->memory,
                            PhysicalMemory::Create(ordinal, configuration.memory_bytes));
    driver->devices.push_back(std::move(device));
  }
  InstallFaultHandlers();
  pthread_atfork(nullptr, nullptr, &ForgetInChild);
  initialized = true;
  g_driver.store(driver.release(), std::memory_order_release);
  return Status::Ok();
}

Driver::Driver(const Configuration& wanted)
    : configuration(wanted),
      pool(wanted.threads, wanted.kernel_limit),
      copies(std::min(wanted.threads, kMaxCopyThreads)),
      memory_operations(1),
      queue(pool, copies, memory_operations) {}

Device* Driver::FindDevice(CUdevice device) {
  if (device < 0 || static_cast<std::size_t>(device) >= devices.size()) return nullptr;
  return devices[static_cast<std::size_t>(device)].get();
}

CUresult Driver::CurrentContext(std::shared_ptr<Context>* context) {
  Device* device = FindDevice(CurrentDevice());
  if (device == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard lock(device->mutex);
  if (device->context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *context = device->context;
  return CUDA_SUCCESS;
}

CUresult Driver::UsableContext(std::shared_ptr<Context>* context) {
  CUSPAN_SOFT_RETURN_IF_ERROR(CurrentContext(context));
  return (*context)->error();
}

CUresult Driver::InvalidHandle() {
  std::shared_ptr<Context> context;
  if (CurrentContext(&context) == CUDA_SUCCESS && context->error() != CUDA_SUCCESS) {
    return context->error();
  }
  return CUDA_ERROR_INVALID_HANDLE;
}

CUresult Driver::FindStream(CUstream handle, StreamEntry* entry) {
  const std::uint64_t number = Number(handle);
  if (number == 0 || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    CUSPAN_SOFT_RETURN_IF_ERROR(UsableContext(&entry->context));
    StreamSet& streams_of_context = entry->context->streams();
    entry->stream = handle == CU_STREAM_PER_THREAD ? streams_of_context.PerThread()
                                                   : streams_of_context.legacy();
    return CUDA_SUCCESS;
  }
  const std::shared_ptr<StreamEntry> found = streams.Find(number);
  if (found == nullptr) return InvalidHandle();
  *entry = *found;
  return entry->context->error();
}

CUresult Driver::FindEvent(CUevent handle, std::shared_ptr<EventEntry>* entry) {
  *entry = events.Find(Number(handle));
  if (*entry == nullptr) return InvalidHandle();
  return (*entry)->context->error();
}

CUresult Driver::FindFunction(CUfunction handle, std::shared_ptr<Function>* function) {
  *function = functions.Find(Number(handle));
  if (*function == nullptr) return InvalidHandle();
  return (*function)->module()->context()->error();
}

void Driver::Destroy(const std::shared_ptr<Context>& context) {
  const auto of_context = [&](const auto& entry) { return entry.context == context; };
  context->End();
  streams.RemoveIf(of_context);
  events.RemoveIf(of_context);
  graph_execs.RemoveIf([&](const GraphExec& exec) { return exec.context == context; });
  graph_nodes.RemoveIf([&](const GraphNode& node) { return node.tree->context == context; });
  graphs.RemoveIf([&](const Graph& graph) { return graph.tree->context == context; });
  functions.RemoveIf(
      [&](const Function& function) { return function.module()->context() == context; });
  DestroyImageObjects(context);
  arrays.RemoveIf([&](const ArrayEntry& entry) { return entry.array->context() == context; });
  mipmaps.RemoveIf([&](const MipmapEntry& entry) { return entry.array->context() == context; });
  link_states.RemoveIf([&](const LinkState& state) { return state.context == context; });
  modules.RemoveIf([&](const Module& module) { return module.context() == context; });
}

}  // namespace cuspan::softgpu
