// Stores of the program to pinned memory while kernels of devices with copies of it may run: each
// is carried out by itself and logged, so that the devices receive them in the order in which the
// program made them. x86 keeps the order of stores, and kernels rely on it.
//
// How: the pages are read-only for the program. A store faults. The handler of SIGSEGV carries
// moves and string instructions out itself, in a second mapping of the same pages, which is
// writable. Others run as a copy of the instruction with a breakpoint behind it, with their base
// register shifted to the second mapping; the handler of SIGTRAP restores the register. (The trap
// flag would need no copy, but a virtual machine may take 26 µs for it.) One store runs at a time,
// and its bytes are appended to the log.
//
// Instructions that the decoder does not know need a page that is writable for a while; Mirrors
// opens one, and compares it afterwards. So does a thread that has filled a page from one end to
// the other, and goes on: pages ahead are opened, a quarter of what it has filled.
#pragma once

#include <ucontext.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "interpose/client/memory/block_allocator.h"
#include "interpose/client/memory/store_instruction.h"
#include "structs.gen.h"

namespace cuspan {

class OrderedStores {
 public:
  // The state that a store needs and does not find.
  enum class Need {
    kNothing,  // It was carried out, or will be at the return from the handler.
    kLogged,   // Its pages must be logged.
    kValid,    // Its pages must be logged, and be as devices have them.
    kOpen,     // Its pages must be writable.
    kRoom,     // The log is full.
  };
  struct Outcome {
    Need need;
    std::size_t bytes;   // From the address of the fault on: of the store, or to be opened.
    bool first = false;  // The log was empty, and is not any more.
  };
  struct Finished {
    bool ours = false;    // The breakpoint is that of Carry, in this thread.
    bool fences = false;  // No later load of the thread may be older than its store.
    bool first = false;   // The log was empty.
  };
  struct Record {
    std::uint64_t address;
    std::span<const std::byte> data;
  };

  OrderedStores() = default;
  OrderedStores(const OrderedStores&) = delete;
  ~OrderedStores();

  // `alias`: the second mapping of the whole window. Once, before the first fault. False when there
  // is no memory for the log.
  bool SetMemory(const AddressWindow& window, std::byte* alias);

  // --- In handlers of signals, in any thread. No allocation, no lock but its own.

  // A store to `address` faulted.
  Outcome Carry(std::uint64_t address, ucontext_t* context);
  // There was a breakpoint.
  Finished Finish(ucontext_t* context);

  // --- With the mutex of Mirrors held

  bool on() const { return on_.load(std::memory_order_relaxed); }
  void TurnOn();
  // False if there are records, which must be taken first. Nothing is logged afterwards.
  bool TurnOff();
  // Stores to the pages are logged from now on; not any more.
  void Log(const BlockAllocator::Range& pages);
  void Unlog(const BlockAllocator::Range& pages);
  // True: the pages are as devices have them.
  void SetValid(const BlockAllocator::Range& pages, bool valid);
  // The bytes were written by the alias. Appends them to the log in pieces, and moves *address and
  // *bytes on. False if there was no room for all.
  bool LogWritten(std::uint64_t& address, std::uint64_t& bytes);
  // The pages were open for a fill that has got to `end`; it goes on from there.
  void ContinueFill(const BlockAllocator::Range& pages, std::uint64_t end);
  // While pages are open, no store is carried out, and each needs kLogged.
  void SetOpen(bool open);

  // True when there are records. Any thread.
  bool any() const { return any_.load(std::memory_order_acquire); }
  // Calls use(record) for all records, in their order, while no store is carried out. Then calls
  // post(record) for them in the same order, with stores going on.
  template <typename Use, typename Post>
  void Take(Use&& use, Post&& post) {
    Lock();
    const Buffer taken = active_;
    active_ = spare_;
    spare_ = taken;
    active_.used = 0;
    any_.store(false, std::memory_order_relaxed);
    ForEach(taken, use);
    Unlock();
    ForEach(taken, post);
  }
  // Calls change() while no store is carried out, then stores the records again: what they wrote is
  // newer than what change() wrote.
  template <typename Change>
  auto ChangeMemory(Change&& change) {
    Lock();
    auto result = change();
    ForEach(active_, [this](const Record& record) { StoreAgain(record); });
    Unlock();
    return result;
  }

 private:
  struct Header {
    std::uint64_t address;
    std::uint64_t bytes;
  };
  struct Buffer {
    std::byte* memory = nullptr;
    std::size_t used = 0;
  };
  // A store that is under way: its thread holds the lock.
  struct Step {
    std::uint64_t address;
    std::size_t bytes;
    std::uint64_t mask;    // The signals that its thread blocks otherwise.
    std::uint64_t behind;  // The address of the next instruction.
    StoreInstruction instruction;
  };

  void Lock();
  void Unlock();
  template <typename Use>
  static void ForEach(const Buffer& buffer, Use&& use) {
    for (std::size_t at = 0; at < buffer.used;) {
      const auto& header = *std::launder(reinterpret_cast<const Header*>(buffer.memory + at));
      use(Record{header.address, {buffer.memory + at + sizeof header, header.bytes}});
      at += SizeOf(header.bytes);
    }
  }
  static std::size_t SizeOf(std::size_t bytes) { return sizeof(Header) + (bytes + 7) / 8 * 8; }
  // With the lock held: the need of a store to these bytes.
  Need NeedOf(std::uint64_t address, std::size_t bytes, bool reads) const;
  // Bytes to be opened for a fill that goes on at this address; 0 if there is none.
  std::size_t BytesAhead(std::uint64_t address);
  void NoteFill(std::uint64_t address, std::size_t bytes);
  // Carries out what needs no more than the thread's registers. False for others.
  bool Move(const StoreInstruction& instruction, std::uint64_t address, ucontext_t* context);
  // Has the thread run a copy of the instruction.
  void RunCopy(const StoreInstruction& instruction, std::uint64_t address, std::size_t bytes,
               ucontext_t* context);
  Outcome CarryString(const StoreInstruction& instruction, ucontext_t* context);
  // Returns true if the log was empty.
  bool Append(std::uint64_t address, std::size_t bytes);
  void StoreAgain(const Record& record);
  std::atomic<std::uint8_t>& StateOf(std::uint64_t address) const;
  void Change(const BlockAllocator::Range& pages, std::uint8_t set, std::uint8_t clear);

  AddressWindow window_{};
  std::byte* alias_ = nullptr;
  // A byte for each page of the window.
  std::atomic<std::uint8_t>* states_ = nullptr;
  // Stores that each began where the one before ended.
  struct Fill {
    std::uint64_t next = 0;
    std::uint64_t bytes = 0;
  };
  static constexpr std::size_t kFills = 8;
  std::array<Fill, kFills> fills_;
  std::size_t oldest_fill_ = 0;
  // Room for the copy of an instruction and a breakpoint, mapped twice.
  std::byte* copy_ = nullptr;
  std::uint64_t run_ = 0;
  std::atomic<bool> locked_{false};
  std::atomic<bool> on_{false};
  std::atomic<bool> any_{false};
  bool open_ = false;
  Buffer active_;
  Buffer spare_;
  std::atomic<pid_t> stepping_{0};  // The thread of a step.
  Step step_{};
};

}  // namespace cuspan
