// Stores of the program to pinned memory while kernels of devices with copies of it may run. Each
// store is executed by itself and logged, so the devices receive them in program order. x86 keeps
// the order of stores, and kernels rely on it.
//
// Mechanism: the pages are read-only for the program, so a store faults. The handler of SIGSEGV
// executes moves and string instructions itself, through a second, writable mapping of the same
// pages. Others run as a copy of the instruction followed by a breakpoint, with their base register
// shifted to the second mapping. The handler of SIGTRAP restores the register. (The trap flag would
// need no copy, but a virtual machine may take 26 µs for it.) One store runs at a time, and its
// bytes are appended to the log.
//
// Instructions unknown to the decoder need a page writable for a while: Mirrors opens one, and
// compares it afterwards. The same is done for a thread continuing after it has filled a page from
// one end to the other: pages ahead are opened, a quarter of the memory filled.
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
  // State needed by a store but not present.
  enum class Need {
    kNothing,  // It was executed, or will be at the return from the handler.
    kLogged,   // Its pages must be logged.
    kValid,    // Its pages must be logged, and equal to the devices'.
    kOpen,     // Its pages must be writable.
    kRoom,     // The log is full.
  };
  struct Outcome {
    Need need;
    std::size_t bytes;   // From the fault's address on: of the store, or to be opened.
    bool first = false;  // The log was empty before.
  };
  struct Finished {
    bool ours = false;    // The breakpoint is Carry's, in this thread.
    bool fences = false;  // No later load of the thread may be older than its store.
    bool first = false;   // The log was empty before.
  };
  struct Record {
    std::uint64_t address;
    std::span<const std::byte> data;
  };

  OrderedStores() = default;
  OrderedStores(const OrderedStores&) = delete;
  ~OrderedStores();

  // `alias`: second mapping of the whole window. Called once, before the first fault. False if no
  // memory is left for the log.
  bool SetMemory(const AddressWindow& window, std::byte* alias);

  // --- Signal handlers, in any thread. No allocation, no lock but its own.

  // Handles a fault of a store to `address`.
  Outcome Carry(std::uint64_t address, ucontext_t* context);
  // Handles a breakpoint.
  Finished Finish(ucontext_t* context);

  // --- With the mutex of Mirrors held

  bool on() const { return on_.load(std::memory_order_relaxed); }
  void TurnOn();
  // Ends logging. False if there are records: they must be taken first.
  bool TurnOff();
  // Starts or ends logging of stores to the pages.
  void Log(const BlockAllocator::Range& pages);
  void Unlog(const BlockAllocator::Range& pages);
  // `valid`: the pages equal the devices'.
  void SetValid(const BlockAllocator::Range& pages, bool valid);
  // Appends bytes written through the alias to the log, in pieces, and advances `address` and
  // `bytes`. False if the log is full before the end.
  bool LogWritten(std::uint64_t& address, std::uint64_t& bytes);
  // Continues a fill at `end`, after the pages were open for it.
  void ContinueFill(const BlockAllocator::Range& pages, std::uint64_t end);
  // While pages are open, no store is executed, and each needs kLogged.
  void SetOpen(bool open);

  // True if there are records. Threads: any.
  bool any() const { return any_.load(std::memory_order_acquire); }
  // Calls use(record) for all records, in order, with stores blocked. Then calls post(record) for
  // them in the same order, while stores continue.
  template <typename Use, typename Post>
  void Consume(Use&& use, Post&& post) {
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
  // Calls change() with stores blocked, then repeats the recorded stores: they are newer than bytes
  // written by change().
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
  // A store in progress: its thread holds the lock.
  struct Step {
    std::uint64_t address;
    std::size_t bytes;
    std::uint64_t mask;    // Signals otherwise blocked by its thread.
    std::uint64_t behind;  // Address of the next instruction.
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
  // Returns the need of a store to these bytes. The lock must be held.
  Need NeedOf(std::uint64_t address, std::size_t bytes, bool reads) const;
  // Returns the bytes to open for a fill continuing at this address; 0 if none.
  std::size_t BytesAhead(std::uint64_t address);
  void NoteFill(std::uint64_t address, std::size_t bytes);
  // Executes stores needing only the thread's registers. False for others.
  bool Move(const StoreInstruction& instruction, std::uint64_t address, ucontext_t* context);
  // Makes the thread run a copy of the instruction.
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
  // One byte per page of the window.
  std::atomic<std::uint8_t>* states_ = nullptr;
  // Stores each beginning at the end of the previous one.
  struct Fill {
    std::uint64_t next = 0;
    std::uint64_t bytes = 0;
  };
  static constexpr std::size_t kFills = 8;
  std::array<Fill, kFills> fills_;
  std::size_t oldest_fill_ = 0;
  // Memory for the copy of an instruction and a breakpoint, mapped twice.
  std::byte* copy_ = nullptr;
  std::uint64_t run_ = 0;
  std::atomic<bool> locked_{false};
  std::atomic<bool> on_{false};
  std::atomic<bool> any_{false};
  bool open_ = false;
  Buffer active_;
  Buffer spare_;
  std::atomic<pid_t> stepping_{0};  // Thread of a step.
  Step step_{};
};

}  // namespace cuspan
