// Events of several processes (cudaEventInterprocess): their state lies in a page that all who have
// opened the event map. Each record takes the next number there and notes it when its stream
// comes to it; the event is complete when the last number is noted.
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

// What cudaIpcGetEventHandle gives away: who made the event, the number of the page's file there,
// and what the page must begin with.
struct SharedEventHandle {
  std::uint64_t magic;
  std::uint32_t process;
  std::int32_t file;
  std::array<std::uint64_t, 2> token;
  std::array<std::uint64_t, 4> unused;
};
static_assert(sizeof(SharedEventHandle) == 64);

// Any thread.
class SharedEvent {
 public:
  // A new one; null when there is no memory.
  static std::shared_ptr<SharedEvent> Create();
  // Another process's; null when the handle is none, or that process has ended.
  static std::shared_ptr<SharedEvent> Open(const SharedEventHandle& handle);

  // Nothing for one that was opened: only the process that made it gives it away.
  bool GetHandle(SharedEventHandle* handle) const;

  // A record is posted: returns its number.
  std::uint64_t BeginRecord();
  // A stream of this process has come to the record, or never will.
  void Reached(std::uint64_t number, CUresult result);
  // The number of the last record.
  std::uint64_t recorded() const { return page().recorded.load(); }
  // The result when record `number` is complete, or never will be since its process has ended.
  std::optional<CUresult> Over(std::uint64_t number);

  // What cudaEventQuery and cudaEventSynchronize do.
  CUresult Query();
  CUresult Synchronize();

 private:
  struct Page {
    std::array<std::uint64_t, 2> token;
    std::atomic<std::uint64_t> recorded;
    // The last record that was reached, and its result: what became of an earlier one is over with
    // it. As PackReached has them.
    std::atomic<std::uint64_t> reached;
    std::atomic<std::uint32_t> news;      // Changes with `reached`; a futex.
    std::atomic<std::uint32_t> recorder;  // The process of the last record.
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  SharedEvent(Mapping mapping, UniqueFd file)
      : mapping_(std::move(mapping)), file_(std::move(file)) {}
  Page& page() const { return *reinterpret_cast<Page*>(mapping_.data()); }
  bool RecorderEnded(pid_t recorder);
  // Waits a moment, or less when something changes.
  void Pause(std::uint32_t news);

  Mapping mapping_;
  UniqueFd file_;  // Of the one who made it.
  Mutex recorder_mutex_;
  // The recording process as this one knows it: its number alone might be another's some day.
  pid_t recorder_ CUSPAN_GUARDED_BY(recorder_mutex_) = 0;
  UniqueFd recorder_file_ CUSPAN_GUARDED_BY(recorder_mutex_);
};

// Of the events of this process, those that are shared, by their handles in the program; and the
// streams that wait for them. Any thread. Lives as long as the process.
class SharedEvents {
 public:
  void Add(std::uint64_t event, std::shared_ptr<SharedEvent> shared);
  std::shared_ptr<SharedEvent> Find(std::uint64_t event) const;  // Null for all others.
  void Remove(std::uint64_t event);
  // The stream of `connection` stands still until the last record, as of now, is reached.
  CUresult Hold(const std::shared_ptr<SharedEvent>& event,
                const std::shared_ptr<ContextConnection>& connection, std::uint64_t stream);

 private:
  // A stream that stands still until a record is reached.
  struct Held {
    std::shared_ptr<SharedEvent> event;
    std::uint64_t number;
    std::weak_ptr<ContextConnection> connection;
    std::uint64_t signal;
  };
  static bool SendIfOver(const Held& held);
  void Watch();

  std::atomic<std::size_t> count_{0};
  mutable SharedMutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<SharedEvent>> events_ CUSPAN_GUARDED_BY(mutex_);
  Mutex held_mutex_;
  std::condition_variable arrived_;
  std::vector<Held> held_ CUSPAN_GUARDED_BY(held_mutex_);
  std::thread watcher_ CUSPAN_GUARDED_BY(held_mutex_);
};

}  // namespace cuspan
