#include "protocol/channel/bell.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "common/cores.h"

namespace cuspan {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

WaitStages WaitStages::ForThisMachine() {
  using std::chrono::microseconds;
  // Client, agent and proxy each use a core while they spin. The GPU's driver or the software GPU
  // needs some, too.
  if (AvailableCores() >= 6) return {microseconds(50), microseconds(200), microseconds(50'000)};
  return {microseconds(1), microseconds(20), microseconds(20)};
}

Result<Bell> Bell::Create() {
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd fd, CreateSharedMemory("cuspan-bell", sizeof(Word)));
  return Open(std::move(fd));
}

Result<Bell> Bell::Open(UniqueFd fd) {
  CUSPAN_ASSIGN_OR_RETURN(Mapping mapping, Mapping::Map(fd.get(), 0, sizeof(Word)));
  return Bell(std::move(fd), std::move(mapping));
}

bool Bell::Ring() {
  // Orders the published data before the load of `sleeping`. Otherwise x86 may reorder the load
  // before the store, and a wake-up is lost.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (word()->sleeping.load(std::memory_order_relaxed) == kNobody) return false;
  if (word()->sleeping.exchange(kNobody) == kNobody) return false;
  word()->rung.fetch_add(1);
  ::syscall(SYS_futex, &word()->rung, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  return true;
}

void Bell::Pause() { _mm_pause(); }

void Bell::Yield() { ::sched_yield(); }

// Threads sleep on a count, not on `sleeping` itself. Between a thread's last check and its sleep,
// the bell may ring and another thread may set `sleeping` again; the first thread would then miss
// its ring. The count is read first: any ring that clears `sleeping` from here on changes it.
std::uint32_t Bell::BeginSleep() {
  const std::uint32_t rung = word()->rung.load();
  word()->sleeping.exchange(kSomebody);
  return rung;
}

std::uint32_t Bell::AwaitRung(std::uint32_t seen) {
  Sleep(seen, std::chrono::hours(1));
  return rung();
}

// `idle` is checked after both. The other side changes its state before it reads `napping`, and
// rings after it. The ring changes the count.
std::uint32_t Bell::BeginShortSleep() {
  word()->napping.fetch_add(1);
  return word()->rung.load();
}

void Bell::EndShortSleep() { word()->napping.fetch_sub(1); }

void Bell::RingShortSleepers() {
  if (word()->napping.load() == 0) return;
  std::uint32_t nobody = kNobody;
  word()->sleeping.compare_exchange_strong(nobody, kNappers);
}

void Bell::LetShortSleepersSleep() {
  std::uint32_t nappers = kNappers;
  if (word()->sleeping.load(std::memory_order_relaxed) == nappers)
    word()->sleeping.compare_exchange_strong(nappers, kNobody);
}

void Bell::Sleep(std::uint32_t rung, std::chrono::nanoseconds limit) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(limit.count() / 1'000'000'000);
  time.tv_nsec = static_cast<long>(limit.count() % 1'000'000'000);
  // Not FUTEX_PRIVATE: other processes ring the bell.
  ::syscall(SYS_futex, &word()->rung, FUTEX_WAIT, rung, &time, nullptr, 0);
}

}  // namespace cuspan
