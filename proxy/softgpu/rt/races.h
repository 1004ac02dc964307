// CUSPAN_SOFT_CHECK=races: reports accesses of two threads to the same memory, at least one of them
// a write, without synchronization between them. The actual order of the accesses does not matter.
// Races with a correct result by chance are therefore found, too.
//
// Within a block, order comes from barriers, warp-wide operations, atomics and volatile accesses.
// Between blocks of a launch, the purpose of a fence or an atomic is unknown. Two accesses count as
// unordered there only in two cases: the first block has made no strong access to global memory
// since, or the second block has made none at all. Two atomics or volatile accesses are no race,
// nor is an atomic with an ordinary read, nor a write of an unchanged value. A volatile write and a
// volatile read by lanes of one warp are a race if no fence, barrier or other operation orders
// them: CUDA does not promise lock step.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "proxy/softgpu/rt/race_clocks.h"

namespace cuspan::softgpu {

class AddressSpace;

// An access of one thread.
struct RaceAccess {
  const char* where = nullptr;
  std::uint32_t launch = 0;  // 0: no access.
  std::uint32_t block = 0;
  std::uint32_t time = 0;     // Time of the thread (RaceClocks).
  std::uint32_t signals = 0;  // Signals of its block so far.
  std::uint16_t thread = 0;
  std::uint8_t bytes = 0;   // One bit for each of the four.
  bool strong : 1 = false;  // An atomic, or volatile.
  bool is_volatile : 1 = false;
  bool writes : 1 = false;
};
static_assert(sizeof(RaceAccess) == 32);

// The latest accesses to four bytes.
struct RaceCell {
  RaceAccess write, strong_write;
  std::array<RaceAccess, 2> reads;  // Reads of two threads.
};

// Latest accesses to memory shared by all blocks, and the races reported. Threads: any.
class RaceTable {
 public:
  // Calls `check(cell)` for the four bytes at `word`, a multiple of 4, under a lock.
  template <typename Check>
  void At(std::uint64_t word, Check check) {
    const std::uint64_t page = word / kPageBytes;
    Part& part = parts_[page * 0x9e3779b97f4a7c15U >> (64 - kPartBits)];
    std::lock_guard lock(part.mutex);
    if (part.last_cells == nullptr || part.last_page != page) Find(part, page);
    check((*part.last_cells)[word % kPageBytes / 4]);
  }
  // Logs `text()` for a race, once for each pair of code locations, in the order of the accesses.
  template <typename Text>
  void Report(const char* first, const char* second, Text text) {
    if (IsNew(first, second)) Log(text());
  }

 private:
  static constexpr int kPartBits = 8;
  static constexpr std::uint64_t kPageBytes = 4096;
  // Maximum of each part. If exceeded, its recorded accesses are dropped. 1 GB in all.
  static constexpr std::size_t kMaxPages = 32;
  static constexpr std::size_t kMaxReports = 100;
  using Cells = std::array<RaceCell, kPageBytes / 4>;
  struct Part {
    std::mutex mutex;
    std::unordered_map<std::uint64_t, std::unique_ptr<Cells>> pages;
    std::uint64_t last_page = 0;
    Cells* last_cells = nullptr;
  };
  static void Find(Part& part, std::uint64_t page);
  bool IsNew(const char* first, const char* second);
  void Log(const std::string& text);
  std::array<Part, std::size_t{1} << kPartBits> parts_;
  std::mutex mutex_;
  std::set<std::pair<std::string, std::string>> reported_;
  bool limit_reported_ = false;  // True once the limit was logged.
};

// Race detection of one launch, shared by its blocks.
class LaunchRaces {
 public:
  // Both must outlive it. Memory not accessible to kernels of `device` is ignored.
  LaunchRaces(RaceTable& table, const AddressSpace& addresses, int device, std::uint64_t blocks);

  // Creates one for another execution of this launch.
  std::shared_ptr<LaunchRaces> Again() const;

  RaceTable& table() { return table_; }
  bool Accessible(std::uint64_t address, std::uint64_t bytes, bool writes) const;
  std::uint32_t number() const { return number_; }
  // Number of a block's strong accesses to global memory, visible to other blocks in order.
  std::uint32_t Signals(std::uint64_t block) const;
  void AddSignal(std::uint64_t block);
  bool compares_blocks() const { return !signals_.empty(); }

 private:
  RaceTable& table_;
  const AddressSpace& addresses_;
  const int device_;
  const std::uint64_t blocks_;
  const std::uint32_t number_;
  std::vector<std::atomic<std::uint32_t>> signals_;  // Per block; empty: too many blocks.
};

// Race detection of one block. Threads: only its worker.
class BlockRaces {
 public:
  // Kernel and dimensions, for messages.
  struct Location {
    const std::string* kernel;  // Name in PTX.
    std::uint32_t ntid[3];
    std::uint32_t nctaid[3];
    int device;
  };

  // `place` is the same for all blocks of the launch.
  void Begin(LaunchRaces& launch, std::uint64_t block, std::uint32_t threads,
             std::uint32_t shared_bytes, const Location& place);

  // Called before a thread accesses `bytes` bytes at `address`. `kind`: flags kCheck… in abi.h.
  // `shared_offset`: offset in shared memory, else kNotShared.
  static constexpr std::uint64_t kNotShared = ~std::uint64_t{0};
  void Access(std::uint32_t thread, const void* address, std::uint64_t bytes,
              std::uint64_t shared_offset, std::uint32_t kind, const char* where);
  void Fence(std::uint32_t thread);
  // Forgets accesses to newly allocated heap memory: they were to an earlier allocation.
  void Forget(const void* address, std::uint64_t bytes);
  // Called before threads wait or end: the last announced write has been executed.
  void Settle();
  RaceClocks& clocks() { return clocks_; }

 private:
  struct Announced {  // A write. Only afterwards it is known if it changed anything.
    RaceAccess access;
    const std::uint8_t* address = nullptr;
    std::uint32_t bytes = 0;
    std::uint64_t shared_offset = 0;
    std::array<std::uint8_t, 64> before;
  };

  void Note(const RaceAccess& access, std::uint64_t address, std::uint64_t bytes,
            std::uint64_t shared_offset);
  void Check(RaceCell& cell, const RaceAccess& access, std::uint64_t named, bool shared);
  bool Ordered(const RaceAccess& before, const RaceAccess& now) const;
  // True if lanes of one warp communicate by volatile accesses alone, without fences. This is
  // correct only in lock step.
  bool NeedsLockstep(const RaceAccess& before, const RaceAccess& now) const;
  std::string Text(const RaceAccess& before, const RaceAccess& now, std::uint64_t named,
                   bool shared) const;
  std::string Who(const RaceAccess& access) const;

  LaunchRaces* launch_ = nullptr;
  std::uint64_t block_ = 0;
  Location location_{};
  RaceClocks clocks_;
  std::vector<RaceCell> shared_;
  Announced announced_;
};

}  // namespace cuspan::softgpu
