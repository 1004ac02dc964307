// This process's use of the run's devices, with one member per subject.
//
// The session starts at the program's first real use of CUDA and ends with the process. Results are
// the driver's; `runtime` and `driver` convert them. Threads: any.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

#include "interpose/client/address_space.h"
#include "interpose/client/arrays.h"
#include "interpose/client/base/session_tables.h"
#include "interpose/client/communicators.h"
#include "interpose/client/copies.h"
#include "interpose/client/devices.h"
#include "interpose/client/events.h"
#include "interpose/client/graph_blocks.h"
#include "interpose/client/host_calls.h"
#include "interpose/client/ipc_memory.h"
#include "interpose/client/libraries.h"
#include "interpose/client/memory/host_memory.h"
#include "interpose/client/peer_copies.h"
#include "interpose/client/peer_memory.h"
#include "interpose/client/pools.h"
#include "interpose/client/python_waits.h"
#include "interpose/client/sets.h"
#include "interpose/client/streams.h"
#include "interpose/client/virtual_memory.h"

namespace cuspan {

class Session {
 public:
  // Returns the session of this process, started if necessary. If it cannot start, returns null,
  // sets *result to the reason and logs one line.
  static Session* Get(CUresult* result);
  // Get for queries allowed before CUDA is initialised; does not initialise it.
  static Session* Prepare(CUresult* result);
  // Returns the session if it was started and was not inherited by fork; null otherwise.
  static Session* IfStarted();
  // Starts the session with the devices of `opener`; their proxies ring `bell`. Null if it was
  // started already.
  static Session* StartWith(std::unique_ptr<DeviceOpener> opener, Bell bell,
                            std::vector<DeviceDescription> devices);

  Devices& devices() { return devices_; }
  const Devices& devices() const { return devices_; }
  Streams& streams() { return streams_; }
  const Streams& streams() const { return streams_; }
  Events& events() { return events_; }
  HostCalls& host_calls() { return host_calls_; }
  AddressSpace& addresses() { return addresses_; }
  HostMemory& host_memory() { return host_memory_; }
  SharedRegion& region() { return region_; }
  ManagedVariables& managed_variables() { return managed_variables_; }
  Pools& pools() { return pools_; }
  GraphBlocks& graph_blocks() { return graph_blocks_; }
  IpcMemory& ipc_memory() { return ipc_memory_; }
  PeerMemory& peer_memory() { return peer_memory_; }
  Arrays& arrays() { return arrays_; }
  Copies& copies() { return copies_; }
  Sets& sets() { return sets_; }
  Libraries& libraries() { return libraries_; }
  VirtualMemory& virtual_memory() { return virtual_memory_; }
  Communicators& communicators() { return communicators_; }

  // Number of capturing streams, kept by interpose/calls/graph. Every call with a stream reads it:
  // faster here than in a table.
  std::atomic<std::size_t>& capturing_streams() { return capturing_streams_; }

  // Returns a table of a higher layer, one per type. Created at the first use. A ContextTable is
  // notified of ended contexts. Threads: any; without a lock except at the first use.
  template <typename Table>
  Table& TableOf() {
    return tables_.Of<Table>([this]([[maybe_unused]] Table& made) {
      if constexpr (std::is_base_of_v<ContextTable, Table>) devices_.AddTable(&made);
    });
  }

 private:
  Session(std::unique_ptr<DeviceOpener> opener, Bell bell, std::vector<DeviceDescription> devices);
  // The caller holds start_mutex.
  static Session* Make(CUresult* result);
  static Session* Begin(std::unique_ptr<DeviceOpener> opener, Bell bell,
                        std::vector<DeviceDescription> devices);

  // Each member uses those above it.
  SessionTables tables_;
  std::atomic<std::size_t> capturing_streams_{0};
  ConnectionCommon common_{PythonWaits::Start()};
  SharedRegion region_{[this] { return devices_.Connections(); }};
  ManagedVariables managed_variables_{&region_};
  HostMemory host_memory_{&region_};
  PeerMemory peer_memory_{[this] { return devices_.ContextConnections(); }};
  Devices devices_;
  PeerCopies peer_copies_{[this](std::uint32_t join, const Context& first, const Context& second) {
    return devices_.Join(join, first, second);
  }};
  Arrays arrays_;
  Libraries libraries_;
  IpcMemory ipc_memory_{&devices_};
  Pools pools_{&devices_, &ipc_memory_};
  GraphBlocks graph_blocks_;
  Events events_{&devices_};
  Streams streams_{&devices_, &peer_copies_};
  HostCalls host_calls_{&events_};
  Communicators communicators_;
  VirtualMemory virtual_memory_{&devices_, &peer_memory_};
  AddressSpace addresses_{{&common_, &devices_, &region_, &host_memory_, &peer_memory_,
                           &ipc_memory_, &pools_, &graph_blocks_, &virtual_memory_}};
  Copies copies_{{&addresses_, &host_memory_, &managed_variables_, &events_, &streams_,
                  &host_calls_, &peer_copies_}};
  Sets sets_{&addresses_, &events_};
};

}  // namespace cuspan
