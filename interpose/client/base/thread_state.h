// CUDA's state per host thread: the current device, the last error, the configuration of the next
// launch, and the thread's own default streams.
#pragma once

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "interpose/client/base/context.h"
#include "interpose/client/base/lookup_cache.h"

namespace cuspan {

class ContextConnection;
class WaitMarks;
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
  ContextStack contexts;  // Contexts made current.
  // True if the program chose a device: a list of preferred devices no longer matters.
  bool device_chosen = false;
  // A cudaError_t for each CUDA runtime used: natively each copy linked into the program or a
  // library keeps its own. Cleared by cudaGetLastError.
  struct LastError {
    std::uint64_t runtime;  // From LinkedRuntime.
    int error;
  };
  std::vector<LastError> last_errors;
  // True if a call has reported a lost device to this thread. launches_since_loss: launches on a
  // lost device answered with success before this report, see AnswerUnlessLost.
  bool loss_reported = false;
  int launches_since_loss = 0;
  // Names this thread to the proxies, for returning failures of posted ops to it.
  std::uint32_t number;
  std::vector<CallConfiguration> configurations;
  // True within a call of the driver API, not of the runtime.
  bool in_driver_call = false;
  // True while it runs a host function of a stream. host_call_context: the stream's context; null
  // if its device was lost.
  bool in_host_call = false;
  Context* host_call_context = nullptr;
  // True within a call permitted to host functions: see HostFunctionMayCall.
  bool host_call_permitted = false;
  // Value of the runtime's cudaStreamCaptureMode; 0 is its default.
  int capture_mode = 0;
  // The thread's own default stream.
  struct OwnStream {
    std::uint64_t stream = 0;
    std::uint64_t completed = 0;  // Stream::completed.
  };
  // Own streams by the numbers of their ContextConnections; see Streams.
  std::map<std::uint64_t, OwnStream> own_streams;
  // The thread's marks in the channels of connections: see WaitMarks.
  struct WaitMark {
    std::weak_ptr<WaitMarks> owner;
    std::uint64_t connection = 0;  // Connection::number().
    std::uint32_t number = 0;      // Number of the mark.
    std::uint32_t last = 0;        // Last value asked for.
    // The thread's last launch, until it waits for a stream. behind_launch: value asked for with
    // it, or 0.
    std::uint64_t stream = 0;
    std::uint64_t sequence = 0;
    std::uint32_t behind_launch = 0;
    // Value asked for and not awaited, or 0. It may be written at any time.
    std::uint32_t in_vain = 0;
    // Number of its last launches with nothing between them and a wait, up to a maximum.
    unsigned awaited_launches = 0;
  };
  std::vector<WaitMark> wait_marks;
  bool returns_marks = false;  // True if at_end returns them.
  std::string file_problem;    // Text of cuspanFileLastMessage.
  // Wait state, read by PythonWaits; null until its first wait.
  std::shared_ptr<PythonWaiter> python_waiter;
  // Group begun with ncclGroupStart; null until the first use of NCCL.
  std::shared_ptr<CollectiveThread> collectives;
  // Functions called when the thread ends.
  std::vector<std::function<void()>> at_end;
  // Caches of the session's tables: see Devices::Opened, Streams::Find, Events.
  LookupCache<ContextConnection, 8> connections;
  LookupCache<const Stream, 16, std::shared_ptr> streams;
  LookupCache<Event, 16> events;
  // Cache of the registry: see FindFunction.
  struct KnownFunction {
    const void* stub = nullptr;
    std::uint64_t version = 0;  // Registry::version() at the lookup.
    const FunctionRecord* record = nullptr;
  };
  std::array<KnownFunction, 16> functions;
  // Cache of loaded modules' kernels: see FindKernel.
  struct KnownKernel {
    const FunctionRecord* function = nullptr;
    std::uint64_t connection = 0;  // ContextConnection::number().
    std::uint64_t version = 0;     // Registry::version() at the lookup.
    LoadedKernel* kernel = nullptr;
  };
  std::array<KnownKernel, 16> kernels;
  // Cache of device memory blocks by a pointer into them: see AddressSpace::Classify.
  struct KnownBlock {
    std::uint64_t pointer = 0;
    std::uint64_t version = 0;  // ConnectionCommon::blocks_version at the lookup.
    int device = 0;
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
  };
  std::array<KnownBlock, 16> blocks;
  // The last copy from a device awaited by the thread: see Streams::EndsWithCopy.
  struct FinishedCopy {
    std::uint64_t connection = 0;  // ContextConnection::number(); 0: none.
    std::uint64_t stream = 0;
    std::uint64_t sequence = 0;  // Sequence of the copy's op.
  };
  FinishedCopy finished_copy;

  ThreadState();
  ~ThreadState();
};

namespace detail {
// A plain pointer: destructors of the program's own thread-local objects may still call CUDA after
// this state is gone. initial-exec, since every call reads it: glibc reserves TLS space even for
// libraries loaded late.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local ThreadState* this_thread;
ThreadState& MakeThreadState();
}  // namespace detail

// Returns the calling thread's state, created at its first use.
inline ThreadState& ThisThread() {
  ThreadState* const state = detail::this_thread;
  return state != nullptr ? *state : detail::MakeThreadState();
}

}  // namespace cuspan
