// The software GPU's driver: its devices, contexts and handles. One exists in a
// process once cuInit succeeded; it is never destroyed, since threads may call
// while the process exits.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/status.h"
#include "proxy/softgpu/driver/configuration.h"
#include "proxy/softgpu/driver/context.h"
#include "proxy/softgpu/driver/handles.h"
#include "proxy/softgpu/driver/module.h"
#include "proxy/softgpu/rt/address_space.h"
#include "proxy/softgpu/rt/pace.h"
#include "proxy/softgpu/rt/physical.h"
#include "proxy/softgpu/rt/pool.h"
#include "proxy/softgpu/rt/queue.h"
#include "proxy/softgpu/rt/races.h"

namespace cuspan::softgpu {

// A device and its primary context.
struct Device {
  explicit Device(const Configuration& configuration)
      : to_device(configuration.copy_rate),
        from_device(configuration.copy_rate),
        blocks(configuration.block_rate) {}

  int ordinal = 0;
  int number = 0;  // On the host.
  std::shared_ptr<PhysicalMemory> memory;
  std::uint64_t context_handle = 0;  // The same each time the context is made.
  Pace to_device, from_device;       // Of its copies to and from the host.
  Pace blocks;                       // Of its kernels.

  std::mutex mutex;                  // Guards what follows.
  std::shared_ptr<Context> context;  // Null while nobody retains it.
  int retained = 0;
  bool was_retained = false;
  unsigned flags = 0;
  // Of the last context that failed: the process gets no other, as with the driver.
  CUresult failure = CUDA_SUCCESS;
};

struct ArrayEntry;  // driver/array.h
struct MipmapEntry;
struct Graph;  // driver/graph.h
struct GraphNode;
struct GraphExec;
struct LinkState;  // driver/linker.h

// Forgets the texture and surface objects of a context that has no work left. (driver/texture.cc)
void DestroyImageObjects(const std::shared_ptr<Context>& context);

// Host memory that was registered. Any thread calls.
class HostRegistry {
 public:
  CUresult Register(std::uint64_t address, std::uint64_t bytes);
  CUresult Unregister(std::uint64_t address);
  // Whether all of the range is registered, by one registration.
  bool Contains(std::uint64_t address, std::uint64_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> ranges_;
};

// A stream or event and the context that it belongs to.
struct StreamEntry {
  std::shared_ptr<Context> context;
  StreamPtr stream;
};
struct EventEntry {
  std::shared_ptr<Context> context;
  std::shared_ptr<Event> event;
};

class Driver {
 public:
  // Null before cuInit succeeded, and in a child process made by fork.
  static Driver* Get();
  // Makes the driver; later calls do nothing. kInvalid for a wrong setting.
  static Status Initialize();

  const Configuration configuration;
  AddressSpace addresses;
  RaceTable races;
  HostRegistry host_memory;
  WorkerPool pool;
  WorkerPool copies;
  WorkerPool memory_operations;
  OperationQueue queue;
  std::vector<std::unique_ptr<Device>> devices;

  HandleTable<StreamEntry> streams{HandleKind::kStream};
  HandleTable<EventEntry> events{HandleKind::kEvent};
  HandleTable<Module> modules{HandleKind::kModule};
  HandleTable<Function> functions{HandleKind::kFunction};
  HandleTable<PhysicalAllocation> memory{HandleKind::kMemory};
  HandleTable<ArrayEntry> arrays{HandleKind::kArray};
  HandleTable<MipmapEntry> mipmaps{HandleKind::kMipmap};
  HandleTable<Graph> graphs{HandleKind::kGraph};
  HandleTable<GraphNode> graph_nodes{HandleKind::kGraphNode};
  HandleTable<GraphExec> graph_execs{HandleKind::kGraphExec};
  HandleTable<LinkState> link_states{HandleKind::kLinkState};
  std::atomic<std::uint64_t> next_grid{1};
  std::atomic<std::uint64_t> next_condition{1};

  // Null when there is no such device.
  Device* FindDevice(CUdevice device);
  // The calling thread's current context, whatever its state; CUDA_ERROR_INVALID_CONTEXT
  // or CUDA_ERROR_CONTEXT_IS_DESTROYED when there is none.
  CUresult CurrentContext(std::shared_ptr<Context>* context);
  // The same, and an error that the context has counts as one of the call.
  CUresult UsableContext(std::shared_ptr<Context>* context);
  // What a call with an unknown handle returns: an error of the current context comes first.
  CUresult InvalidHandle();
  // The stream of a handle (the default streams included) and its context.
  CUresult FindStream(CUstream handle, StreamEntry* entry);
  CUresult FindEvent(CUevent handle, std::shared_ptr<EventEntry>* entry);
  CUresult FindFunction(CUfunction handle, std::shared_ptr<Function>* function);
  // Ends a context: waits for its work and forgets all its handles.
  void Destroy(const std::shared_ptr<Context>& context);

 private:
  explicit Driver(const Configuration& wanted);
};

// Begins an exported function: `driver` is the driver, or the function returns.
#define CUSPAN_SOFT_ENTER(driver)       \
  Driver* const driver = Driver::Get(); \
  if (driver == nullptr) return CUDA_ERROR_NOT_INITIALIZED

}  // namespace cuspan::softgpu
