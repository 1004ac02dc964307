// What CUDA keeps per host thread: the current device, the last error, the
// configuration of a launch under way, and the thread's own default streams.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "interpose/client/base/context.h"
#include "interpose/client/base/lookup_cache.h"

namespace cuspan {

class ContextConnection;
struct CollectiveThread;
struct Event;
struct FunctionRecord;
struct LoadedKernel;
struct PythonWaiter;
struct Stream;

// One <<<…>>> between its push and its pop.
struct CallConfiguration {
  unsigned grid[3];
  unsigned block[3];
  std::size_t dynamic_shared;
  void* stream;
};

struct ThreadState {
  ContextStack contexts;  // Those that were made current.
  // The program chose it, so that a list of preferred devices no longer matters.
  bool device_chosen = false;
  // A cudaError_t for each CUDA runtime of the process that has one: natively each copy that is
  // linked into the program or a library keeps its own. Cleared by cudaGetLastError.
  struct LastError {
    std::uint64_t runtime;  // As LinkedRuntime has it.
    int error;
  };
  std::vector<LastError> last_errors;
  // A call has told it that a device is lost. Of the driver's launches before, on one that was, so
  // many have succeeded.
  bool heard_of_loss = false;
  int launches_unheard = 0;
  // Names this thread to the proxies, so that a posted op's failure finds its way back.
  std::uint32_t number;
  std::vector<CallConfiguration> configurations;
  // It came through the driver's functions, not the runtime's.
  bool in_driver_call = false;
  // It runs a function that the program put into a stream, which is of this context; null: one
  // whose device was lost.
  bool in_host_call = false;
  Context* host_call_context = nullptr;
  // It makes one of the calls that such a function may make: see HostFunctionMayCall.
  bool host_call_permitted = false;
  // Of the runtime's cudaStreamCaptureMode; 0 is its default.
  int capture_mode = 0;
  // The thread's own default stream, by the number of the connection that has it; see Streams.
  std::map<std::uint64_t, std::uint64_t> own_streams;
  // Where it waits is asked for; null until it has waited.
  std::shared_ptr<PythonWaiter> python_waiter;
  // What it has begun with ncclGroupStart; null until it has used NCCL.
  std::shared_ptr<CollectiveThread> collectives;
  // Called when the thread ends.
  std::vector<std::function<void()>> at_end;
  // Of the session's tables: see Devices::Opened, Streams::Find, Events.
  LookupCache<ContextConnection, 8> connections;
  LookupCache<const Stream, 16, std::shared_ptr> streams;
  LookupCache<Event, 16> events;
  // Of the registry: see FindFunction.
  struct KnownFunction {
    const void* stub = nullptr;
    std::uint64_t version = 0;  // The registry's, when it was looked up.
    const FunctionRecord* record = nullptr;
  };
  std::array<KnownFunction, 16> functions;
  // Of a connection's modules: see FindKernel.
  struct KnownKernel {
    const FunctionRecord* function = nullptr;
    std::uint64_t connection = 0;  // The connection's number,
    std::uint64_t version = 0;     // and the registry's, when it was looked up.
    LoadedKernel* kernel = nullptr;
  };
  std::array<KnownKernel, 16> kernels;
  // Blocks of device memory by a pointer into them: see AddressSpace::Classify.
  struct KnownBlock {
    std::uint64_t pointer = 0;
    std::uint64_t version = 0;  // ConnectionCommon::blocks_version, when it was looked up.
    int device = 0;
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
  };
  std::array<KnownBlock, 16> blocks;
  // The last copy from a device whose bytes the thread has waited for: see Streams::EndsWithCopy.
  struct FinishedCopy {
    std::uint64_t connection = 0;  // Its number; 0: none.
    std::uint64_t stream = 0;
    std::uint64_t sequence = 0;  // The op's.
  };
  FinishedCopy finished_copy;

  ThreadState();
  ~ThreadState();
};

namespace detail {
// A plain pointer, so that a destructor of the program's own thread-local objects may still call us
// after our part of the thread is gone. Every call reads it: at a fixed place of the thread, for
// which glibc keeps room also where it loads this library late.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local ThreadState* this_thread;
ThreadState& MakeThreadState();
}  // namespace detail

// The calling thread's state; made at its first use.
inline ThreadState& ThisThread() {
  ThreadState* const state = detail::this_thread;
  return state != nullptr ? *state : detail::MakeThreadState();
}

}  // namespace cuspan
