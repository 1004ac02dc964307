// Memory registered by the program and used by its kernels. Its pages belong to the program and
// cannot be placed at the devices' addresses. Kernels therefore get memory of the shared region
// beside it. Both are kept equal as CUDA promises: writes of the program are visible to its next
// launch, writes of kernels after a synchronisation. A running kernel sees writes of the program
// when the program waits or queries. In small memory, each side soon sees the other's writes.
//
// A difference from the last common contents is a write of one side. Only differences are copied,
// so both may write different bytes at once.
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

// Threads: any except the receiver's; the region's memory may have to be fetched.
class RegisteredMemory {
 public:
  explicit RegisteredMemory(SharedRegion* region) : region_(region) {}
  RegisteredMemory(const RegisteredMemory&) = delete;

  // Returns the kernels' address of `memory`, a part of the registered [base, base + bytes). The
  // first call allocates it; no copies from and to it may be in flight, they would not be in order
  // with kernels. CUDA_ERROR_OUT_OF_MEMORY if no memory is left.
  CUresult Expose(const std::byte* base, std::size_t bytes, const void* memory,
                  std::uint64_t* address);
  // True if any is exposed.
  bool any() const { return any_.load(std::memory_order_acquire); }
  // The address of [memory, memory + bytes) if it is exposed.
  std::optional<std::uint64_t> DeviceAddress(const void* memory, std::uint64_t bytes = 1) const;
  // Called when it is unregistered. The devices must have finished their work on it.
  void Forget(const std::byte* base);

  // Called before work that may read or write any of it is posted.
  void BeforeWork() {
    if (any()) [[unlikely]]
      Exchange(Direction::kToDevices, kAll, false);
  }
  // Called before and after a copy or a set of these bytes, by the kernels' address, is posted.
  // BeforeCopy returns false if they are not in registered memory. `writes`: the bytes are the
  // target. Connection::Worked of the executing devices is called before AfterCopy.
  bool BeforeCopy(std::uint64_t address, std::uint64_t bytes);
  void AfterCopy(std::uint64_t address, std::uint64_t bytes, bool writes);
  // Called after work was posted.
  void AfterWork();
  // Called before the program waits, or only queries (`asks`).
  void BeforeWait(bool asks);
  // Called before the program is notified of completed work.
  void Synchronized() {
    if (any()) [[unlikely]]
      Exchange(Direction::kToProgram, kAll, false);
  }

  // True if work was posted since the last call.
  bool ConsumeWorked() { return worked_.exchange(false); }
  // Exchanges small memory while devices work, and once more when they no longer do. Returns the
  // time of the next call. Threads: only one.
  std::optional<Refresher::Time> Refresh(bool worked, bool at_work);

 private:
  static constexpr std::size_t kAll = SIZE_MAX;
  enum class Direction { kToDevices, kToProgram };
  // Bytes of a range.
  struct Part {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  struct Range {
    std::byte* base;
    std::byte* devices;           // Copy in the region.
    std::vector<std::byte> last;  // Last common contents.
    Part copied;                  // Written by copies since the devices were idle.

    Part all() const { return {0, last.size()}; }
  };
  // Exchanges all ranges of at most `most_bytes`.
  void Exchange(Direction direction, std::size_t most_bytes, bool at_work);
  void Exchange(Range& range, Part part, Direction direction, bool at_work)
      CUSPAN_REQUIRES(exchanging_);
  // Calls use(Range&, Part) for the range with these bytes at the kernels' address. False if there
  // is none.
  template <typename Use>
  bool WithPart(std::uint64_t address, std::uint64_t bytes, Use&& use);

  SharedRegion* const region_;
  std::atomic<bool> any_{false};
  std::atomic<bool> worked_{false};
  bool was_at_work_ = false;  // At the last call of Refresh.
  // Contents of the ranges. An exchange may take long.
  Mutex exchanging_;
  // Taken after exchanging_.
  mutable SharedMutex mutex_;
  std::map<const std::byte*, Range> ranges_ CUSPAN_GUARDED_BY(mutex_);  // Keyed by base.
};

}  // namespace cuspan
