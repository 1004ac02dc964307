// Doorbells in shared memory: how a process sleeps until another has something for it.
//
// One bell a process, in a memfd of its own; whoever publishes something for
// that process rings it. Ringing costs a fence and a load unless somebody
// sleeps. Waiting goes by stages: spin, yield, sleep on a futex.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/shared_memory.h"

namespace cuspan {

// How long a waiter burns its core before it sleeps. Chosen by the cores that
// this process may use: spinning helps only where the other side has a core too.
struct WaitStages {
  std::chrono::nanoseconds spin;
  std::chrono::nanoseconds yield;  // Counted from the start of the wait, so > spin.
  // How long one that waits for an answer goes on yielding: the time in which a copy of a GiB
  // ends. Each sleeper between it and the device adds up to 0.1 ms to the end of what took 1.
  std::chrono::nanoseconds await{0};
  static WaitStages ForThisMachine();
};

class Bell {
 public:
  static Result<Bell> Create();
  // Takes a bell that another process made; fails for a memfd that is too short.
  static Result<Bell> Open(UniqueFd fd);

  // To pass to those who shall ring it.
  int fd() const { return fd_.get(); }
  // Closes the descriptor when nobody will be passed it any more; the bell works on.
  void CloseFd() { fd_.Reset(); }

  // Wakes all who wait. To be called after what they wait for was published.
  void Ring();

  // Sleeps for `limit` at most, and while `idle()`, without being rung: whoever rings a bell for
  // one that sleeps pays for it. For a thread whose work others do meanwhile; `idle` is called
  // once.
  template <typename Idle>
  void Nap(Idle&& idle, std::chrono::nanoseconds limit) {
    const std::uint32_t rung = BeginShortSleep();
    if (idle()) Sleep(rung, limit);
    EndShortSleep();
  }
  // To be called when what `idle` looks at has changed: from now on rings wake those who nap.
  void RingShortSleepers();

  // Returns true as soon as `ready()` does, false after `limit`. `ready` is
  // called often and must be cheap; several threads may wait at once.
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

  // --- For one whose sleep another thread watches over.

  // How often sleepers were woken.
  std::uint32_t rung() const { return word()->rung.load(); }
  // Sleeps until that is no longer `seen`, or for no reason, and says what it is.
  std::uint32_t AwaitRung(std::uint32_t seen);
  // Says that somebody is about to sleep; the next ring is a wake, and changes what it returns.
  std::uint32_t BeginSleep();
  // That somebody is awake, and nobody else sleeps.
  void EndSleep() { word()->sleeping.store(0); }

 private:
  struct Word {
    alignas(64) std::atomic<std::uint32_t> sleeping;  // Somebody may sleep: 1.
    std::atomic<std::uint32_t> rung;                  // Counts the times that sleepers were woken.
    std::atomic<std::uint32_t> napping;               // Threads; of the bell's own process.
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
