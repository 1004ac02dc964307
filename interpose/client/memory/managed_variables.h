// __managed__ variables: one address for the program and its kernels' pointers, and beside it
// the memory that each driver gave the variable when it loaded the module, which is what kernels
// reach by its name.
//
// The software GPU of the program's node can have a variable at the program's address. Else a
// driver's place can not be chosen, so the two are kept equal as CUDA lets one see them: what the
// host wrote goes to the driver's memory before a launch, and what kernels wrote comes back at a
// synchronisation. Within that, a kernel that reads a variable by name does not see what was
// written through its address since the last synchronisation, nor the other way round.
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

// Any thread.
class ManagedVariables {
 public:
  explicit ManagedVariables(SharedRegion* region) : region_(region) {}

  // `connection` has loaded the module: its managed variables get their addresses, if this is the
  // first to do so, and the device their contents. Once more does no harm.
  CUresult Loaded(Connection& connection, const FatbinRecord& fatbin);
  // Around a kernel on the device.
  CUresult BeforeLaunch(Connection& connection);
  void AfterLaunch(Connection& connection);
  // What the program wrote goes to the device.
  CUresult SendUpdates(Connection& connection);
  // The program was told that work of the device is complete: all of it, or some.
  CUresult Synchronized(Connection& connection, bool all);
  // The device, or the library that holds the variables, is gone.
  void Forget(const Connection& connection);
  void Unload(const FatbinRecord& fatbin);
  // The variable that holds `address`.
  std::optional<BlockAllocator::Range> At(std::uint64_t address) const;
  bool Contains(std::uint64_t address) const { return At(address).has_value(); }

 private:
  struct Copy {
    std::weak_ptr<Connection> connection;
    std::uint64_t number;   // The connection's.
    std::uint64_t address;  // Where its driver put the variable.
    std::vector<std::byte>
        last;           // What was there when we last looked or wrote; empty: nobody looked.
    bool check = true;  // The program may have written since.
    bool ran = false;   // Kernels may have.
  };
  struct Variable {
    const FatbinRecord* fatbin;
    std::uint64_t address;
    std::uint64_t bytes;
    std::list<Copy> places;
  };
  // Another device whose kernels may have written, and how many there were.
  struct Quiet {
    std::shared_ptr<Connection> connection;
    std::uint64_t launches;
  };
  std::vector<Quiet> OthersThatRan(const Connection& connection) CUSPAN_REQUIRES(mutex_);
  Variable* Find(const FatbinRecord& fatbin, const ManagedRecord& record) CUSPAN_REQUIRES(mutex_);
  static bool Has(const Variable& variable, const Connection& connection);
  // Whether kernels of the device have the variable at `address` from now on.
  static bool PlaceAt(Connection& connection, const FatbinRecord& fatbin,
                      const ManagedRecord& record, std::uint64_t address);
  CUresult Read(Connection& connection, std::uint64_t address, std::vector<std::byte>* bytes);
  CUresult Write(Connection& connection, std::uint64_t address,
                 const std::vector<std::byte>& bytes);
  CUresult Pull(Variable& variable, Copy& place, Connection& connection);
  CUresult Push(Variable& variable, Copy& place, Connection& connection);

  SharedRegion* const region_;
  std::atomic<bool> any_{false};
  // Nobody waits under it for what a device does: that may wait for the
  // program's own functions, around which it is taken.
  mutable Mutex mutex_;
  std::list<Variable> variables_ CUSPAN_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::uint64_t> launches_
      CUSPAN_GUARDED_BY(mutex_);  // By the number of the connection.
};

}  // namespace cuspan
