// State of the software GPU's driver: devices, contexts and handles. A process has one after cuInit
// succeeds. It is never destroyed, because threads may call while the process exits.
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
  int number = 0;  // Number on the host.
  std::shared_ptr<PhysicalMemory> memory;
  std::uint64_t context_handle = 0;  // Constant over all contexts.
  Pace to_device, from_device;       // Limits of host copies.
  Pace blocks;                       // Limit of kernels.

  std::mutex mutex;                  // Guards the members below.
  std::shared_ptr<Context> context;  // Null while not retained.
  int retained = 0;
  bool was_retained = false;
  unsigned flags = 0;
  // Error of the last failed context. The process gets no further context, as with NVIDIA's driver.
  CUresult failure = CUDA_SUCCESS;
};

struct ArrayEntry;  // driver/array.h
struct MipmapEntry;
struct Graph;  // driver/graph.h
struct GraphNode;
struct GraphExec;
struct LinkState;  // driver/linker.h

// Removes the texture and surface objects of a context without pending work. (driver/texture.cc)
void DestroyImageObjects(const std::shared_ptr<Context>& context);

// Registered host memory. Threads: any.
class HostRegistry {
 public:
  CUresult Register(std::uint64_t address, std::uint64_t bytes);
  CUresult Unregister(std::uint64_t address);
  // True if one registration covers the whole range.
  bool Contains(std::uint64_t address, std::uint64_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> ranges_;
};

// A stream or event and its context.
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
  // Returns null before cuInit succeeds, and in a forked child.
  static Driver* Get();
  // Creates the driver; later calls do nothing. Returns kInvalid for a wrong setting.
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

  // Returns null for an unknown device.
  Device* FindDevice(CUdevice device);
  // Returns the calling thread's current context, in any state. Without one, returns
  // CUDA_ERROR_INVALID_CONTEXT or CUDA_ERROR_CONTEXT_IS_DESTROYED.
  CUresult CurrentContext(std::shared_ptr<Context>* context);
  // Like CurrentContext, but also returns an error of the context.
  CUresult UsableContext(std::shared_ptr<Context>* context);
  // Called where NVIDIA's driver waits for all work of the context whenever it needs more memory of
  // its own, or unmaps memory. Meanwhile it accepts no work of other threads. (Measured on an H200:
  // at some of the streams and executable graphs created beside a running kernel.) Waits each time
  // with CUSPAN_SOFT_WAITS=on, otherwise never.
  void MayWait(Context& context) const {
    if (configuration.waits) context.streams().Drain();
  }
  // Error of a call with an unknown handle: the current context's error, if any, takes precedence.
  CUresult InvalidHandle();
  // Finds the stream of a handle (including the default streams) and its context.
  CUresult FindStream(CUstream handle, StreamEntry* entry);
  CUresult FindEvent(CUevent handle, std::shared_ptr<EventEntry>* entry);
  CUresult FindFunction(CUfunction handle, std::shared_ptr<Function>* function);
  // Ends a context: waits for its work and removes all its handles.
  void Destroy(const std::shared_ptr<Context>& context);

 private:
  explicit Driver(const Configuration& wanted);
};

// Begins an exported function: defines `driver`, or returns CUDA_ERROR_NOT_INITIALIZED.
#define CUSPAN_SOFT_ENTER(driver)       \
  Driver* const driver = Driver::Get(); \
  if (driver == nullptr) return CUDA_ERROR_NOT_INITIALIZED

}  // namespace cuspan::softgpu
