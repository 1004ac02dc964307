#include "protocol/channel/bell.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace cuspan {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

WaitStages WaitStages::ForThisMachine() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int cores = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
  using std::chrono::microseconds;
  // Client, agent and proxy each want a core while they spin, and the GPU's
  // driver or the software GPU needs some too.
  if (cores >= 6) return {microseconds(50), microseconds(200)};
  return {microseconds(1), microseconds(20)};
}

Result<Bell> Bell::Create() {
  Result<UniqueFd> fd = CreateSharedMemory("cuspan-bell", sizeof(Word));
  if (!fd.ok()) return fd.status();
  return Open(std::move(*fd));
}

Result<Bell> Bell::Open(UniqueFd fd) {
  Result<Mapping> mapping = Mapping::Map(fd.get(), 0, sizeof(Word));
  if (!mapping.ok()) return mapping.status();
  return Bell(std::move(fd), std::move(*mapping));
}

void Bell::Ring() {
  // Orders what was published before the look at the sleeper: without it x86
  // may let the load pass the store, and a wake-up is lost.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (word()->sleeping.load(std::memory_order_relaxed) == 0) return;
  if (word()->sleeping.exchange(0) != 0)
    ::syscall(SYS_futex, &word()->sleeping, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Bell::Pause() { _mm_pause(); }

void Bell::Yield() { ::sched_yield(); }

void Bell::PrepareSleep() { word()->sleeping.exchange(1); }

void Bell::Sleep(std::chrono::nanoseconds limit) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(limit.count() / 1'000'000'000);
  time.tv_nsec = static_cast<long>(limit.count() % 1'000'000'000);
  // Not FUTEX_PRIVATE: the bell is rung from other processes.
  ::syscall(SYS_futex, &word()->sleeping, FUTEX_WAIT, 1, &time, nullptr, 0);
}

}  // namespace cuspan
