// CUSPAN_SOFT_CHECK=races: accesses of two threads to the same memory of which one writes, and
// which nothing keeps in order, are reported. What is right on one run by luck is found, too,
// since not the order of the accesses counts but what orders them.
//
// Within a block barriers, warp-wide operations, atomics and what is volatile order. Between
// blocks of a launch nobody knows what a fence and an atomic were for, so there two accesses count
// as unordered only where the first one's block has done nothing since by which it could have
// told, or the other nothing by which it could have learned. Two atomics, or volatile accesses, are
// no race, nor one and an ordinary read; nor is a write of what was there already. A volatile write
// and a volatile read by lanes of one warp are a race if no fence, barrier or other operation
// orders them: only lock step does then, which CUDA does not promise.
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
  std::uint32_t launch = 0;  // 0: there was none.
  std::uint32_t block = 0;
  std::uint32_t time = 0;     // The thread's own.
  std::uint32_t signals = 0;  // What its block had done by then that could tell others.
  std::uint16_t thread = 0;
  std::uint8_t bytes = 0;   // Of the four, one bit each.
  bool strong : 1 = false;  // An atomic, or volatile.
  bool is_volatile : 1 = false;
  bool writes : 1 = false;
};
static_assert(sizeof(RaceAccess) == 32);

// The latest accesses to four bytes.
struct RaceCell {
  RaceAccess write, strong_write;
  std::array<RaceAccess, 2> reads;  // Of two threads.
};

// What is known of the memory that all blocks share, and what was reported. Any thread calls.
class RaceTable {
 public:
  // Calls `look(cell)` for the four bytes at `word`, a multiple of 4; no other thread does so then.
  template <typename Look>
  void At(std::uint64_t word, Look look) {
    const std::uint64_t page = word / kPageBytes;
    Part& part = parts_[page * 0x9e3779b97f4a7c15U >> (64 - kPartBits)];
    std::lock_guard lock(part.mutex);
    if (part.last_cells == nullptr || part.last_page != page) Find(part, page);
    look((*part.last_cells)[word % kPageBytes / 4]);
  }
  // Logs what `text()` says of a race, once for each pair of places in the code, in the order of
  // the accesses.
  template <typename Text>
  void Report(const char* first, const char* second, Text text) {
    if (IsNew(first, second)) Log(text());
  }

 private:
  static constexpr int kPartBits = 8;
  static constexpr std::uint64_t kPageBytes = 4096;
  // Of each part: what is known of more memory is forgotten. 1 GB in all.
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
  bool told_ = false;  // That there are no more reports.
};

// Of one launch: shared by its blocks.
class LaunchRaces {
 public:
  // Both outlive it. Of memory that a kernel of `device` may not access nothing is looked at.
  LaunchRaces(RaceTable& table, const AddressSpace& addresses, int device, std::uint64_t blocks);

  // For another launch of the same.
  std::shared_ptr<LaunchRaces> Again() const;

  RaceTable& table() { return table_; }
  bool Accessible(std::uint64_t address, std::uint64_t bytes, bool writes) const;
  std::uint32_t number() const { return number_; }
  // How often a block has done something that other blocks may see in order.
  std::uint32_t Signals(std::uint64_t block) const;
  void AddSignal(std::uint64_t block);
  bool compares_blocks() const { return !signals_.empty(); }

 private:
  RaceTable& table_;
  const AddressSpace& addresses_;
  const int device_;
  const std::uint64_t blocks_;
  const std::uint32_t number_;
  std::vector<std::atomic<std::uint32_t>> signals_;  // By block; empty: there are too many.
};

// Of one block; its worker calls.
class BlockRaces {
 public:
  // Where threads of the block are, for messages.
  struct Location {
    const std::string* kernel;  // As PTX names it.
    std::uint32_t ntid[3];
    std::uint32_t nctaid[3];
    int device;
  };

  // `place` stays what it is for all blocks of the launch.
  void Begin(LaunchRaces& launch, std::uint64_t block, std::uint32_t threads,
             std::uint32_t shared_bytes, const Location& place);

  // A thread is about to access `bytes` bytes at `address`, as `kind` says (kCheck… in abi.h); of
  // shared memory, its offset there is `shared_offset`, else that is kNotShared.
  static constexpr std::uint64_t kNotShared = ~std::uint64_t{0};
  void Access(std::uint32_t thread, const void* address, std::uint64_t bytes,
              std::uint64_t shared_offset, std::uint32_t kind, const char* where);
  void Fence(std::uint32_t thread);
  // New memory of the device's heap: what others did there was with other memory.
  void Forget(const void* address, std::uint64_t bytes);
  // Before threads wait or end: the write that was announced last has been done.
  void Settle();
  RaceClocks& clocks() { return clocks_; }

 private:
  struct Announced {  // A write, of which only afterwards is known whether it changed anything.
    RaceAccess access;
    const std::uint8_t* address = nullptr;
    std::uint32_t bytes = 0;
    std::uint64_t shared_offset = 0;
    std::array<std::uint8_t, 64> before;
  };

  void Note(const RaceAccess& access, std::uint64_t address, std::uint64_t bytes,
            std::uint64_t shared_offset);
  void Look(RaceCell& cell, const RaceAccess& access, std::uint64_t named, bool shared);
  bool Ordered(const RaceAccess& before, const RaceAccess& now) const;
  // True if lanes of one warp pass data by volatile accesses alone, without fences either: that is
  // right only while they stay together.
  bool NeedsLockstep(const RaceAccess& before, const RaceAccess& now) const;
  std::string Text(const RaceAccess& before, const RaceAccess& now, std::uint64_t named,
                   bool shared) const;
  std::string Who(const RaceAccess& access) const;

  LaunchRaces* launch_ = nullptr;
  std::uint64_t block_ = 0;
  Location place_{};
  RaceClocks clocks_;
  std::vector<RaceCell> shared_;
  Announced announced_;
};

}  // namespace cuspan::softgpu
