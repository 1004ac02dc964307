// Interprocess events (cudaEventInterprocess). Their state is in a page mapped by all processes
// using the event. Each record takes the next number from the page and notes it there when its
// stream reaches the record. The event is complete when the last number is noted.
#pragma once

#include <cuda.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"
#include "common/shared_memory.h"
#include "common/unique_fd.h"
#include "interpose/client/context_connection.h"

namespace cuspan {

// Contents of a handle of cudaIpcGetEventHandle: the creating process, its file descriptor of the
// page, and the token at the start of the page.
struct SharedEventHandle {
  std::uint64_t magic;
  std::uint32_t process;
  std::int32_t file;
  std::array<std::uint64_t, 2> token;
  std::array<std::uint64_t, 4> unused;
};
static_assert(sizeof(SharedEventHandle) == 64);

// Threads: any.
class SharedEvent {
 public:
  // Creates an event; null if there is no memory.
  static std::shared_ptr<SharedEvent> Create();
  // Opens an event of another process; null if the handle is invalid or the process has ended.
  static std::shared_ptr<SharedEvent> Open(const SharedEventHandle& handle);

  // False for an opened event: only its creator exports it.
  bool GetHandle(SharedEventHandle* handle) const;

  // Returns the number of a record about to be posted.
  std::uint64_t BeginRecord();
  // Notes a record as reached by its stream of this process, or as never to be reached.
  void Reached(std::uint64_t number, CUresult result);
  // Number of the last record.
  std::uint64_t recorded() const { return page().recorded.load(); }
  // Returns the result of record `number` once it is complete, or can no longer be because its
  // process has ended.
  std::optional<CUresult> Over(std::uint64_t number);

  // Implement cudaEventQuery and cudaEventSynchronize.
  CUresult Query();
  CUresult Synchronize();

 private:
  struct Page {
    std::array<std::uint64_t, 2> token;
    std::atomic<std::uint64_t> recorded;
    // Last record reached and its result, packed by PackReached; earlier results are superseded.
    std::atomic<std::uint64_t> reached;
    std::atomic<std::uint32_t> change_count;  // Futex; changes with `reached`.
    std::atomic<std::uint32_t> recorder;      // Pid of the last record's process.
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  SharedEvent(Mapping mapping, UniqueFd file)
      : mapping_(std::move(mapping)), file_(std::move(file)) {}
  Page& page() const { return *reinterpret_cast<Page*>(mapping_.data()); }
  bool RecorderEnded(pid_t recorder);
  // Sleeps a moment, or less if something changes.
  void Pause(std::uint32_t change_count);

  Mapping mapping_;
  UniqueFd file_;  // Valid in the creator only.
  Mutex recorder_mutex_;
  // Pid and pidfd of the recording process: the pid alone may be reused.
  pid_t recorder_ CUSPAN_GUARDED_BY(recorder_mutex_) = 0;
  UniqueFd recorder_file_ CUSPAN_GUARDED_BY(recorder_mutex_);
};

// The interprocess events of this process, by their handles in the program, and the streams waiting
// for them. Threads: any. Lives as long as the process.
class SharedEvents {
 public:
  void Add(std::uint64_t event, std::shared_ptr<SharedEvent> shared);
  std::shared_ptr<SharedEvent> Find(std::uint64_t event) const;  // Null for all others.
  void Remove(std::uint64_t event);
  // Makes the stream of `connection` wait until the last record, as of now, is reached.
  CUresult Hold(const std::shared_ptr<SharedEvent>& event,
                const std::shared_ptr<ContextConnection>& connection, std::uint64_t stream);
  // True if a stream may be waiting for another process, which may write the memory of later
  // copies.
  bool holding() const { return holds_.load(std::memory_order_acquire) != 0; }

 private:
  // A stream waiting for a record.
  struct Held {
    std::shared_ptr<SharedEvent> event;
    std::uint64_t number;
    std::weak_ptr<ContextConnection> connection;
    std::uint64_t signal;
  };
  static bool SendIfOver(const Held& held);
  void Watch();

  std::atomic<std::size_t> count_{0};
  std::atomic<std::size_t> holds_{0};
  mutable SharedMutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<SharedEvent>> events_ CUSPAN_GUARDED_BY(mutex_);
  Mutex held_mutex_;
  std::condition_variable arrived_;
  std::vector<Held> held_ CUSPAN_GUARDED_BY(held_mutex_);
  std::thread watcher_ CUSPAN_GUARDED_BY(held_mutex_);
};

}  // namespace cuspan
