// Doorbells in shared memory: a process sleeps until another process rings.
//
// Each process has one bell, in its own memfd. A sender publishes its data, then rings. Ringing
// costs a fence and a load unless a thread sleeps. A waiter spins, then yields, then sleeps on a
// futex.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/shared_memory.h"

namespace cuspan {

// Time a waiter uses its core before it sleeps. It depends on the cores available to this process:
// spinning helps only if the other side has a core, too.
struct WaitStages {
  std::chrono::nanoseconds spin;
  std::chrono::nanoseconds yield;  // From the start of the wait, so > spin.
  // Maximum time of yielding while waiting for a reply: long enough for a copy of 2 GiB. Each
  // sleeping process between client and device adds up to 0.1 ms to an operation.
  std::chrono::nanoseconds await{0};
  static WaitStages ForThisMachine();
};

class Bell {
 public:
  static Result<Bell> Create();
  // Opens the bell of another process; fails if the memfd is too short.
  static Result<Bell> Open(UniqueFd fd);

  // Passed to processes that ring the bell.
  int fd() const { return fd_.get(); }
  // Closes the descriptor once it is no longer passed to others; the bell still works.
  void CloseFd() { fd_.Reset(); }

  // Wakes all waiters. Call after publishing their data. True if a thread may have slept.
  bool Ring();

  // Sleeps for at most `limit`, and only if `idle()`, without being rung: ringing a sleeper's bell
  // costs the sender a system call. For a thread whose work is done by others meanwhile. `idle` is
  // called once.
  template <typename Idle>
  void ShortSleep(Idle&& idle, std::chrono::nanoseconds limit) {
    const std::uint32_t rung = BeginShortSleep();
    if (idle()) Sleep(rung, limit);
    EndShortSleep();
  }
  // Call after changing the state read by `idle`: from now on rings wake napping threads.
  void RingShortSleepers();
  // Undoes it: `idle()` is true again.
  void LetShortSleepersSleep();

  // Returns true as soon as `ready()` does, false after `limit`. `ready` is called often and must
  // be cheap. Several threads may wait at once.
  template <typename Ready>
  bool Wait(Ready&& ready, std::chrono::nanoseconds limit, const WaitStages& stages) {
    const auto start = std::chrono::steady_clock::now();
    for (;;) {
      for (int i = 0; i < 16; ++i) {
        if (ready()) return true;
        Pause();
      }
      const auto waited = std::chrono::steady_clock::now() - start;
      if (waited >= limit) return ready();
      if (waited < stages.spin) continue;
      if (waited < stages.yield) {
        Yield();
        continue;
      }
      const std::uint32_t rung = BeginSleep();
      if (ready()) return true;
      Sleep(rung, limit - waited);
    }
  }

  // --- For a sleeper supervised by another thread

  // Number of wake-ups of sleepers.
  std::uint32_t rung() const { return word()->rung.load(); }
  // Sleeps until the count differs from `seen`, or spuriously wakes up. Returns the count.
  std::uint32_t AwaitRung(std::uint32_t seen);
  // Announces a sleeper: the next ring wakes it, and changes the count returned here.
  std::uint32_t BeginSleep();
  // Announces that no thread sleeps any more.
  void EndSleep() { word()->sleeping.store(kNobody); }

 private:
  // Threads to be woken by the next ring.
  enum Sleeping : std::uint32_t {
    kNobody = 0,
    kSomebody = 1,  // A thread may be sleeping.
    kNappers = 2,   // The same, but only threads in ShortSleep.
  };
  struct Word {
    alignas(64) std::atomic<std::uint32_t> sleeping;  // A value of Sleeping.
    std::atomic<std::uint32_t> rung;                  // Number of wake-ups of sleepers.
    // Number of napping threads; only for the bell's own process.
    std::atomic<std::uint32_t> napping;
  };
  Bell(UniqueFd fd, Mapping mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {}
  Word* word() const { return reinterpret_cast<Word*>(mapping_.data()); }
  static void Pause();
  static void Yield();
  std::uint32_t BeginShortSleep();
  void EndShortSleep();
  // Sleeps unless the bell rang since BeginSleep.
  void Sleep(std::uint32_t rung, std::chrono::nanoseconds limit);

  UniqueFd fd_;
  Mapping mapping_;
};

}  // namespace cuspan
