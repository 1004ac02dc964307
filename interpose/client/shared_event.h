// Events of several processes (cudaEventInterprocess): their state lies in a page that all who have
// opened the event map. Each record takes the next number there and notes it when its stream
// comes to it; the event is complete when the last number is noted.
#pragma once

#include <cuda.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "common/shared_memory.h"
#include "common/unique_fd.h"
#include "interpose/client/session.h"

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

  // Of the events of this process, those that are shared: by their handles in the program.
  static void Add(std::uint64_t event, std::shared_ptr<SharedEvent> shared);
  static std::shared_ptr<SharedEvent> Find(std::uint64_t event);  // Null for all others.
  static void Remove(std::uint64_t event);

  // Nothing for one that was opened: only the process that made it gives it away.
  bool GetHandle(SharedEventHandle* handle) const;

  // What cudaEventRecord, …Query and …Synchronize do, and cudaStreamWaitEvent.
  static CUresult Record(const std::shared_ptr<SharedEvent>& event, Session& session,
                         const StreamTarget& target);
  CUresult Query();
  CUresult Synchronize();
  static CUresult Wait(const std::shared_ptr<SharedEvent>& event, const StreamTarget& target);

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
  void Reached(std::uint64_t number, CUresult result);
  // The result when record `number` is complete, or never will be since its process has ended.
  std::optional<CUresult> Over(std::uint64_t number);
  bool RecorderEnded(pid_t recorder);
  // Waits a moment, or less when something changes.
  void Pause(std::uint32_t news);

  static bool SendIfOver(struct HeldStream& held);
  static void Watch();

  Mapping mapping_;
  UniqueFd file_;  // Of the one who made it.
  std::mutex recorder_mutex_;
  // The recording process as this one knows it: its number alone might be another's some day.
  pid_t recorder_ = 0;
  UniqueFd recorder_file_;
};

}  // namespace cuspan
