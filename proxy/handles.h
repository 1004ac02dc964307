// What the client's handles stand for in this proxy.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"
#include "common/scheduling/pairs.h"
#include "common/status.h"
#include "proxy/completion.h"
#include "proxy/gpu/driver.h"
#include "proxy/gpu/jit.h"
#include "proxy/gpu/memory_account.h"
#include "proxy/sharing/kernel_slices.h"
#include "proxy/sharing/kernel_time.h"

namespace cuspan::proxy {

// Objects by the handle that the client minted. Threads: any; an object lives as
// long as somebody holds it, also after it was removed.
template <typename T>
class HandleTable {
 public:
  // `what` one is, for messages.
  explicit HandleTable(const char* what) : what_(what) {}

  // kInvalid when the handle is taken or 0.
  Status CheckNew(std::uint64_t handle) const {
    if (handle != 0 && Find(handle) == nullptr) return Status::Ok();
    return Status::Invalid("{} 0x{:x} is no new handle", what_, handle);
  }
  // False when the handle is taken or 0.
  bool Add(std::uint64_t handle, std::shared_ptr<T> object) {
    const MutexLock lock(mutex_);
    return handle != 0 && objects_.emplace(handle, std::move(object)).second;
  }
  // Null when there is none.
  std::shared_ptr<T> Find(std::uint64_t handle) const {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  // kInvalid when there is none.
  Result<std::shared_ptr<T>> Get(std::uint64_t handle) const {
    std::shared_ptr<T> object = Find(handle);
    if (object == nullptr) return None(handle);
    return object;
  }
  // The same, and takes it out.
  Result<std::shared_ptr<T>> Take(std::uint64_t handle) {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return None(handle);
    std::shared_ptr<T> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  void Remove(std::uint64_t handle) {
    const MutexLock lock(mutex_);
    objects_.erase(handle);
  }
  template <typename Predicate>
  void RemoveIf(Predicate&& predicate) {
    const MutexLock lock(mutex_);
    std::erase_if(objects_, [&](const auto& entry) { return predicate(*entry.second); });
  }
  // Calls use(object) for all. `use` does not touch the table.
  template <typename Use>
  void ForEach(Use&& use) const {
    const MutexLock lock(mutex_);
    for (const auto& [handle, object] : objects_) use(*object);
  }

 private:
  Status None(std::uint64_t handle) const {
    return Status::Invalid("{} 0x{:x} does not exist", what_, handle);
  }

  const char* const what_;
  mutable Mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<T>> objects_ CUSPAN_GUARDED_BY(mutex_);
};

class LaunchBatches;

// A stream. Of the receiving thread.
struct Stream {
  CUstream driver = nullptr;
  CUresult broken = CUDA_SUCCESS;  // Why the driver made none.
  bool blocking = true;            // Keeps order with the legacy stream.
  StreamQueue* queue = nullptr;    // Valid until the stream is retired.
  bool leaving = false;            // It was destroyed, and may still have ops that wait.
  std::shared_ptr<Completer::Lane> lane = std::make_shared<Completer::Lane>();
  // What the driver took, in units of DeviceSession::Submitted, and how much of it when last
  // marked.
  std::uint64_t submitted = 0;
  std::uint64_t marked = 0;
  // How much that was when its last chunk began its way to the client.
  std::uint64_t chunk_behind = 0;
  std::uint64_t found_done = 0;  // How much that was when the driver said that all of it is done.
  std::uint64_t turn =
      0;  // When it was given its last op: DeviceSession::Submitted counts for all.
  std::shared_ptr<AskedStream> asked;  // Made when it is needed.
  // The same, when so many launches have come that were worth one.
  std::shared_ptr<LaunchBatches> batches;
  unsigned worth_batches = 0;

  bool Idle() const { return lane->completed() == submitted; }
};

// An event: what is known of its records. Of the receiving thread.
struct Event {
  std::uint32_t flags = 0;
  std::uint64_t records = 0;  // The number of the last one that arrived.
  // By number: the last one, those that are not complete, and those that are
  // waited for and have not arrived (of two threads of the app the waiting one
  // may post first).
  std::map<std::uint64_t, std::shared_ptr<EventRecordState>> live;
};

// A module. The pieces are collected by the receiving thread; then it belongs to the worker.
struct Module {
  std::vector<std::byte> image;  // Until it is loaded.
  std::uint64_t total = 0;
  bool load_asked = false;
  ModulePtx ptx;  // Of one that was loaded, where the GPU may be shared.
  CUmodule driver = nullptr;
  CUresult result = CUDA_ERROR_NOT_INITIALIZED;     // Of loading it.
  std::uint64_t hash = 0;                           // ModuleHash, where kernel times are kept.
  std::optional<std::vector<std::string>> kernels;  // Their names, once they were asked for.
};

// A linker of device code. The pieces of its next input are collected by the receiving thread; the
// rest is the worker's.
struct Linker {
  explicit Linker(const Driver& of) : driver(of) {}
  Linker(const Linker&) = delete;
  ~Linker() {
    if (state != nullptr) driver.cuLinkDestroy(state);
  }

  const Driver& driver;
  std::vector<std::byte> input;
  std::uint64_t input_total = 0;
  JitArguments jit;  // The driver writes into it until the state is destroyed.
  CUlinkState state = nullptr;
  CUresult result = CUDA_ERROR_NOT_INITIALIZED;  // Of making the state.
  std::span<const std::byte> image;              // The state's, once it is complete.
};

// A kernel: constant once its handle is in the table, but for what is said to be another's.
struct Kernel {
  CUfunction driver = nullptr;
  std::uint64_t module = 0;  // The handle.
  std::string name;          // As the module has it.
  std::vector<std::uint32_t> parameter_bytes;
  std::uint64_t argument_bytes = 0;  // Their sum.
  std::shared_ptr<KernelTime> time = std::make_shared<KernelTime>();
  std::atomic<scheduling::Limits> limits = scheduling::Limits::kUnknown;  // Any thread.
  // The receiving thread's: what its launches took since then, by predictions (ns), and whether it
  // has been asked what limits it.
  double had = 0;
  bool limits_asked = false;
  std::shared_ptr<KernelSlices> slices;  // The receiving thread's: made when they are wanted.
  // The receiving thread's: its launches are not handed over with others, since the driver refuses
  // that, or may not do it rightly, or since its module goes.
  bool launched_alone = false;
};

// An array, a mipmapped array, or one level of such.
struct Array {
  CUarray driver = nullptr;  // An array or a level.
  CUmipmappedArray mipmap = nullptr;
  std::shared_ptr<Array> whole;  // Of a level: what it belongs to.
  MemoryAccount::Taken taken;    // Of all of it.
};

// A graph that the client records, or a body of one of its conditional nodes. Of the receiving
// thread, but for what is said to be the worker's; it ends in a thread with the device's context.
struct Graph {
  Graph() = default;
  explicit Graph(const Driver& functions) : functions(&functions) {}
  ~Graph() {
    if (functions != nullptr && driver != nullptr) functions->cuGraphDestroy(driver);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const Driver* functions = nullptr;  // Of a whole graph, which goes with what was made of it.
  CUgraph driver = nullptr;
  std::shared_ptr<Graph> whole;    // Of a body: the graph that it is a part of.
  std::vector<CUgraphNode> nodes;  // In the order in which they were recorded.
  // Of a whole graph.
  CUresult failure = CUDA_SUCCESS;    // The first of its nodes that could not be made.
  std::vector<std::uint64_t> bodies;  // Their handles.
  std::uint64_t life = 0;             // Counts the times that its nodes went.
  // Tasks that the worker has for it: the driver has one thread at a time work on a graph.
  std::atomic<unsigned> tasks = 0;
  CUresult unclean = CUDA_SUCCESS;  // The worker's: why not all of its nodes could be removed.
};

// What was instantiated of a graph. It goes with the last launch that waits for its turn; of
// threads with the device's context.
struct GraphExec {
  GraphExec(const Driver& functions, std::shared_ptr<Graph> graph, std::uint64_t life)
      : functions(functions), graph(std::move(graph)), life(life) {}
  ~GraphExec() {
    if (driver != nullptr) functions.cuGraphExecDestroy(driver);
  }
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;

  const Driver& functions;
  const std::shared_ptr<Graph> graph;
  const std::uint64_t life;  // Of the graph, when this was instantiated.
  CUgraphExec driver = nullptr;
  const std::shared_ptr<KernelTime> time = std::make_shared<KernelTime>();  // Of all that it does.
  // Of the receiving thread: why a node could not be changed.
  CUresult failure = CUDA_SUCCESS;
};

// Known by the driver's own handles, which kernels use.
struct Texture {
  CUtexObject driver;
};
struct Surface {
  CUsurfObject driver;
};

}  // namespace cuspan::proxy
