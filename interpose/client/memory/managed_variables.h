// __managed__ variables. Each has one address for the program and for its kernels' pointers. Beside
// it, each driver has allocated memory for the variable at the load of its module; kernels access
// this memory by the variable's name.
//
// The software GPU of the program's node can place a variable at the program's address. Other
// drivers cannot, so both memories are kept equal as CUDA promises. Host writes go to the driver's
// memory before a launch, and kernel writes come back at a synchronisation. A kernel reading a
// variable by name does not see writes through its address since the last synchronisation, nor the
// other way round.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/base/registry.h"
#include "interpose/client/memory/block_allocator.h"

namespace cuspan {

class Connection;
class SharedRegion;

// Threads: any.
class ManagedVariables {
 public:
  explicit ManagedVariables(SharedRegion* region) : region_(region) {}

  // Called after `connection` has loaded the module. The first call gives its managed variables
  // their addresses; the device gets their contents. Repeated calls have no effect.
  CUresult Loaded(Connection& connection, const FatbinRecord& fatbin);
  // Calls around a kernel on the device.
  CUresult BeforeLaunch(Connection& connection);
  void AfterLaunch(Connection& connection);
  // Sends the program's writes to the device.
  CUresult SendUpdates(Connection& connection);
  // Called when the program is notified of completed work of the device: all of it, or some.
  CUresult Synchronized(Connection& connection, bool all);
  // Called when the device, or the library containing the variables, is gone.
  void Forget(const Connection& connection);
  void Unload(const FatbinRecord& fatbin);
  // Returns the variable containing `address`.
  std::optional<BlockAllocator::Range> At(std::uint64_t address) const;
  bool Contains(std::uint64_t address) const { return At(address).has_value(); }

 private:
  struct Copy {
    std::weak_ptr<Connection> connection;
    std::uint64_t number;         // Number of the connection.
    std::uint64_t address;        // Address chosen by its driver.
    std::vector<std::byte> last;  // Contents at our last read or write; empty: none yet.
    bool check = true;            // The program may have written since.
    bool ran = false;             // Kernels may have written.
  };
  struct Variable {
    const FatbinRecord* fatbin;
    std::uint64_t address;
    std::uint64_t bytes;
    std::list<Copy> places;
  };
  // Another device with possible kernel writes, and its number of launches.
  struct DeviceThatRan {
    std::shared_ptr<Connection> connection;
    std::uint64_t launches;
  };
  std::vector<DeviceThatRan> OthersThatRan(const Connection& connection) CUSPAN_REQUIRES(mutex_);
  Variable* Find(const FatbinRecord& fatbin, const ManagedRecord& record) CUSPAN_REQUIRES(mutex_);
  static bool Has(const Variable& variable, const Connection& connection);
  // Returns true if kernels of the device have the variable at `address` from now on.
  static bool PlaceAt(Connection& connection, const FatbinRecord& fatbin,
                      const ManagedRecord& record, std::uint64_t address);
  CUresult Read(Connection& connection, std::uint64_t address, std::vector<std::byte>* bytes);
  CUresult Write(Connection& connection, std::uint64_t address,
                 const std::vector<std::byte>& bytes);
  CUresult Pull(Variable& variable, Copy& place, Connection& connection);
  CUresult Push(Variable& variable, Copy& place, Connection& connection);

  SharedRegion* const region_;
  std::atomic<bool> any_{false};
  // Never held while waiting for a device: its work may wait for the program's own functions, and
  // those need this mutex.
  mutable Mutex mutex_;
  std::list<Variable> variables_ CUSPAN_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::uint64_t> launches_
      CUSPAN_GUARDED_BY(mutex_);  // Keyed by connection number.
};

}  // namespace cuspan
