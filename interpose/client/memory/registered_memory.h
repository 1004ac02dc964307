// Memory that the program registered and that its kernels use. Its pages are the program's own and
// can not be put where devices have them, so kernels get memory of the shared region beside it, and
// the two are kept equal as CUDA lets one see them: what the program wrote is there for what it
// launches next, and what kernels wrote is there after a synchronisation. A kernel that runs sees
// what the program wrote when that waits or asks; of small memory each side sees soon what the
// other one wrote.
//
// What differs from the contents on which both agreed last is what one of them wrote; only that
// is copied, so both may write different bytes at once.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/memory/refresher.h"

namespace cuspan {

class SharedRegion;

// Any thread, but not the receiver's: the region's memory may have to be fetched.
class RegisteredMemory {
 public:
  explicit RegisteredMemory(SharedRegion* region) : region_(region) {}
  RegisteredMemory(const RegisteredMemory&) = delete;

  // Where kernels find `memory`, which lies in the registered [base, base + bytes); gives it
  // its place if it has none. CUDA_ERROR_OUT_OF_MEMORY when there is no room.
  CUresult Expose(const std::byte* base, std::size_t bytes, const void* memory,
                  std::uint64_t* address);
  // The same for memory that has its place; nothing for others.
  std::optional<std::uint64_t> DeviceAddress(const void* memory) const;
  // It is not registered any more. The devices have done all that was to be done with it.
  void Forget(const std::byte* base);

  // A kernel is about to be launched.
  void BeforeLaunch() {
    if (any_.load(std::memory_order_acquire)) [[unlikely]]
      Exchange(Direction::kToDevices, kAll, false);
  }
  // Work was posted.
  void AfterWork();
  // The program is about to wait, or only asks.
  void BeforeWait(bool asks);
  // The program is about to hear that work is complete.
  void Synchronized() {
    if (any_.load(std::memory_order_acquire)) [[unlikely]]
      Exchange(Direction::kToProgram, kAll, false);
  }

  // Whether work was posted since this was asked last.
  bool TakeWorked() { return worked_.exchange(false); }
  // Exchanges what is small while devices work, and once more when they no longer do; returns when
  // to do so again. By one thread.
  std::optional<Refresher::Time> Refresh(bool worked, bool at_work);

 private:
  static constexpr std::size_t kAll = SIZE_MAX;
  enum class Direction { kToDevices, kToProgram };
  struct Range {
    std::byte* base;
    std::byte* devices;           // In the region.
    std::vector<std::byte> last;  // What both had.
  };
  // Of all that is not larger.
  void Exchange(Direction direction, std::size_t most_bytes, bool at_work);
  void Exchange(Range& range, Direction direction, bool at_work);

  SharedRegion* const region_;
  std::atomic<bool> any_{false};
  std::atomic<bool> worked_{false};
  bool was_at_work_ = false;  // When Refresh was called last.
  mutable Mutex mutex_;
  std::map<const std::byte*, Range> ranges_ CUSPAN_GUARDED_BY(mutex_);  // By base.
};

}  // namespace cuspan
