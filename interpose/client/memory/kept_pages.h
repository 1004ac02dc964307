// Pages of managed memory exchanged with the device at each turn, without page faults: for pages
// touched by the program after all work of the device (turn_habits.h).
//
// Natively such a turn costs little more than a launch and a wait. By page faults it costs more
// than 100 µs: two faults, four changes of protection, of which each interrupts all cores running
// the program, and two more waits for the device. A kept page is readable and writable all the
// time. Before work, the program's writes are posted to the stream for shared memory, never delayed
// by other work, and the work's stream waits for them on the device. Before most waits, a fetch of
// the page is posted behind the work; when the wait is over, the page is here.
//
// A kept page never shows old contents after a notification: if they were not fetched, it becomes
// inaccessible before the program is notified, and its block is fetched on access, like any other.
// While a device works, the program may not touch managed memory.
//
// Used by mirrors.h. The block of a kept page is invalid and clean in page_states.h, and the page's
// contents last agreed on are here.
//
// Threads: one at a time, except the receiving thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "interpose/client/memory/block_allocator.h"
#include "interpose/client/memory/turn_habits.h"

namespace cuspan {

class Connection;
struct Incoming;

class KeptPages {
 public:
  static constexpr std::uint64_t kPageBytes = TurnHabits::kPageBytes;
  static constexpr std::size_t kMaxPages = 4;

  explicit KeptPages(std::uint64_t block_bytes) : habits_(block_bytes) {}

  bool empty() const { return pages_.empty(); }
  // The device of all kept pages; null if there are none.
  const Connection* connection() const { return empty() ? nullptr : connection_.get(); }
  // True if [place.base, place.base + place.bytes) is inside a kept page.
  bool Contain(const BlockAllocator::Range& place) const;
  // Returns the parts of `place` outside of kept pages.
  std::vector<BlockAllocator::Range> Without(const BlockAllocator::Range& place) const;

  // The program touched the page of this address, by a page fault.
  void Touched(std::uint64_t address) { habits_.Touched(address / kPageBytes * kPageBytes); }
  // Called before the program is notified of work of the device. Pages fetched meanwhile are merged
  // into the program's copy; the others end.
  void Synchronized(const Connection& connection);

  // Posts the program's writes. Work posted next to `stream` comes after all writes so far. If the
  // stream is unknown, *settle becomes true if SettleSpans must follow.
  CUresult BeforeWork(Connection& connection, std::optional<std::uint64_t> stream, bool* settle);
  // Called after work that may write the pages was posted to `stream`. Returns the pages to be kept
  // from now on, if a turn begins.
  std::vector<std::uint64_t> AfterWork(const Connection& connection, std::uint64_t stream);
  // Keeps a page, now equal here and on the device; `here`: the program's copy, writable at any
  // time. False if it cannot be kept.
  bool Keep(Connection& connection, std::uint64_t page, std::byte* here);
  // Posts fetches of the pages, before the program waits for the device.
  void BeforeWait(Connection& connection);

  // Ends keeping pages overlapping `place`: their writes are sent to the device. Returns after they
  // have arrived.
  void End(const BlockAllocator::Range& place);
  void EndAll() { End({0, UINT64_MAX}); }
  // Their memory has a new use: nothing is sent, and the caller sets the protection.
  void Forget(const BlockAllocator::Range& place);
  // The same for all pages of the device.
  void Lose(const Connection& connection);
  // The stream ends: nothing is posted to it any more.
  void StreamEnds(std::uint64_t stream);

 private:
  struct Page {
    std::uint64_t address;
    std::byte* here;
    std::vector<std::byte> agreed;       // Contents last agreed on.
    bool valid;                          // The program's copy has all writes promised to it.
    std::shared_ptr<Incoming> incoming;  // A fetch in flight, behind all work so far.
    unsigned turns;
  };
  using Pages = std::list<Page>;
  // A page is not kept longer, to see if it is still touched.
  static constexpr unsigned kTurnsToProbe = 64;

  // Moves the pages fulfilling `chosen` from pages_ to the result.
  template <typename Chosen>
  Pages Take(Chosen&& chosen);
  // Makes them inaccessible, and sends their writes.
  void EndPages(Pages&& pages, TurnHabits::Reason reason);
  // Posts the program's writes, now agreed on.
  CUresult PostWrites(Pages& pages, bool* posted);
  // Marks all writes posted so far.
  CUresult MarkWrites();
  // Makes `stream` wait for the marked writes, if it does not already.
  CUresult Follow(std::uint64_t stream);

  TurnHabits habits_;
  Pages pages_;
  std::shared_ptr<Connection> connection_;
  bool notified_ = true;  // The program was: the next work begins a turn.
  bool quiet_ = false;    // All work is known to be complete.
  // Stream of the turn's work. A fetch in it is behind all work, if no other work was left when the
  // turn began, and if there is no other stream.
  std::uint64_t stream_ = 0;
  bool began_quiet_ = false;
  bool in_one_stream_ = false;
  // The event marking posted writes.
  struct Writes {
    std::uint64_t event = 0;     // 0: not created yet.
    std::uint64_t record = 0;    // Number of its last record,
    std::uint64_t sequence = 0;  // and its position among all posted ops.
    // Streams behind the record. Empty: it was reached.
    std::vector<std::uint64_t> ordered;
  };
  Writes writes_;
};

}  // namespace cuspan
