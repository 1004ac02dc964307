#include "interpose/client/memory/faults.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "common/cores.h"
#include "common/log.h"
#include "common/mutex.h"
#include "interpose/client/base/background_thread.h"
#include "interpose/client/memory/mirrors.h"

// The C library's own function, not the one of system_calls.cc.
extern "C" int __sigaction(int number, const struct sigaction* action, struct sigaction* old);

namespace cuspan {
namespace {

// Both threads poll before they sleep, if there are cores for it: waking a thread takes some 50 µs,
// much longer than most answers.
struct PollTimes {
  std::chrono::nanoseconds answer;  // The thread with the fault polls for its answer.
  std::chrono::nanoseconds next;    // The service polls for the next fault.

  static PollTimes ForThisMachine() {
    using std::chrono::microseconds;
    if (AvailableCores() < kCoresForPolling) return {};
    return {microseconds(100), microseconds(200)};
  }
  static constexpr int kCoresForPolling = 6;
};

// A pending fault, on the stack of its thread.
struct Request {
  std::uint64_t address;
  std::size_t bytes;
  Access access;
  std::atomic<std::uint32_t> answer{kNone};
  Request* next = nullptr;

  static constexpr std::uint32_t kNone = 0;
  static constexpr std::uint32_t kSleeping = 1;  // None yet, and the thread sleeps.
  static constexpr std::uint32_t kAdmitted = 2;
  static constexpr std::uint32_t kNotOurs = 3;
};

constinit std::atomic<Mirrors*> the_mirrors{nullptr};
constinit AddressWindow the_window{};
constinit std::atomic<pid_t> the_process{0};
constinit std::atomic<Request*> waiting{nullptr};
constinit std::atomic<std::uint32_t> rung{0};
constinit std::atomic<bool> service_sleeps{false};
constinit PollTimes poll_times{};
// The program's own actions. Replaced, never changed: a handler may be reading them.
struct ProgramsActions {
  std::atomic<const struct sigaction*> segv{nullptr};
  std::atomic<const struct sigaction*> trap{nullptr};
  std::atomic<const struct sigaction*>& of(int number) { return number == SIGSEGV ? segv : trap; }
};
constinit ProgramsActions programs_actions;

void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void FutexWake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// Polls until over() is true; false after `limit`. Only calls allowed in a signal handler.
template <typename Over>
bool PollUntil(std::chrono::nanoseconds limit, Over&& over) {
  if (over()) return true;
  const auto end = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < end) {
    if (over()) return true;
    __builtin_ia32_pause();
  }
  return over();
}

// Returns once `rung` is no longer `seen`.
void AwaitRing(std::uint32_t seen) {
  const auto over = [&] { return rung.load(std::memory_order_seq_cst) != seen; };
  if (PollUntil(poll_times.next, over)) return;
  // Either this thread sees the ring, or the ringing one sees that it sleeps.
  service_sleeps.store(true, std::memory_order_seq_cst);
  while (!over()) FutexWait(rung, seen);
  service_sleeps.store(false, std::memory_order_relaxed);
}

void ServeFaults() {
  for (;;) {
    const std::uint32_t seen = rung.load(std::memory_order_acquire);
    Request* request = waiting.exchange(nullptr, std::memory_order_acq_rel);
    if (request == nullptr) {
      // Sends stores while the program makes more of them.
      if (the_mirrors.load()->stores().any())
        the_mirrors.load()->SendStores();
      else
        AwaitRing(seen);
      continue;
    }
    while (request != nullptr) {
      Request* const next = request->next;
      const bool ours =
          the_mirrors.load()->Admit(request->address, request->bytes, request->access);
      // The request may be gone once the answer is stored.
      std::atomic<std::uint32_t>& answer = request->answer;
      if (answer.exchange(ours ? Request::kAdmitted : Request::kNotOurs,
                          std::memory_order_acq_rel) == Request::kSleeping)
        FutexWake(answer);
      request = next;
    }
  }
}

void RingService() {
  rung.fetch_add(1, std::memory_order_seq_cst);
  if (service_sleeps.load(std::memory_order_seq_cst)) FutexWake(rung);
}

bool AskService(std::uint64_t address, std::size_t bytes, Access access) {
  Request request{address, bytes, access};
  Request* first = waiting.load(std::memory_order_relaxed);
  do {
    request.next = first;
  } while (!waiting.compare_exchange_weak(first, &request, std::memory_order_acq_rel));
  RingService();
  // Ends with the service's answer; the service's own waits end with the device's. A child of fork,
  // without this service thread, does not get here.
  std::atomic<std::uint32_t>& answer = request.answer;
  const auto answered = [&] { return answer.load(std::memory_order_acquire) > Request::kSleeping; };
  if (!PollUntil(poll_times.answer, answered)) {
    std::uint32_t none = Request::kNone;
    answer.compare_exchange_strong(none, Request::kSleeping, std::memory_order_acq_rel);
    while (!answered()) FutexWait(answer, Request::kSleeping);
  }
  return answer.load(std::memory_order_acquire) == Request::kAdmitted;
}

// Performs the program's action, as the kernel would have done.
void CallProgramsHandler(int number, siginfo_t* info, void* context) {
  std::atomic<const struct sigaction*>& programs = programs_actions.of(number);
  const struct sigaction* const action = programs.load(std::memory_order_acquire);
  const bool defaulted = action == nullptr || action->sa_handler == SIG_DFL;
  if (defaulted || action->sa_handler == SIG_IGN) {
    // SIGTRAP counts as sent: the instruction is not repeated after a breakpoint.
    const bool sent = info->si_code <= 0 || number == SIGTRAP;
    if (!defaulted && sent) return;
    // Without a handler, the instruction is repeated, and the kernel does the rest.
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    __sigaction(number, &plain, nullptr);
    if (sent) ::syscall(SYS_tgkill, ::getpid(), ::syscall(SYS_gettid), number);
    return;
  }
  const struct sigaction now = *action;
  if ((now.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) programs.store(nullptr);
  sigset_t blocked = now.sa_mask;
  if ((now.sa_flags & SA_NODEFER) == 0) ::sigaddset(&blocked, number);
  // Restored when our handler returns, or by the program if it jumps out of its own.
  ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, nullptr, sizeof(unsigned long));
  if ((now.sa_flags & SA_SIGINFO) != 0)
    now.sa_sigaction(number, info, context);
  else
    now.sa_handler(number);
}

// Executes the store, or lets the service prepare it; then the instruction is repeated.
bool AdmitStore(std::uint64_t address, ucontext_t* thread) {
  const auto [need, bytes, first] = the_mirrors.load()->stores().Carry(address, thread);
  switch (need) {
    case OrderedStores::Need::kNothing:
      if (first) RingService();
      return true;
    case OrderedStores::Need::kLogged:
      return AskService(address, bytes, Access::kStore);
    case OrderedStores::Need::kValid:
      return AskService(address, bytes, Access::kUpdate);
    case OrderedStores::Need::kOpen:
      return AskService(address, bytes, Access::kWrite);
    case OrderedStores::Need::kRoom:
      return AskService(address, bytes, Access::kFence);
  }
  return false;
}

void OnTrap(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  Mirrors& mirrors = *the_mirrors.load();
  const auto finished = FaultsHandled() ? mirrors.stores().Finish(static_cast<ucontext_t*>(context))
                                        : OrderedStores::Finished{};
  if (!finished.ours) {
    CallProgramsHandler(number, info, context);
    return;
  }
  if (finished.fences && mirrors.may_be_old())
    AskService(the_window.base, 1, Access::kFence);
  else if (finished.first)
    RingService();
  errno = saved;
}

void OnSegv(int number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uint64_t>(info->si_addr);
  if (info->si_code > 0 && address - the_window.base < the_window.bytes && FaultsHandled()) {
    const int saved = errno;
    // Bit 1 of the processor's error code: the access was a write.
    auto* const thread = static_cast<ucontext_t*>(context);
    const bool write = (thread->uc_mcontext.gregs[REG_ERR] & 2) != 0;
    const bool ours = write ? AdmitStore(address, thread) : AskService(address, 1, Access::kRead);
    errno = saved;
    if (ours) return;
  }
  CallProgramsHandler(number, info, context);
}

}  // namespace

bool FaultsHandled() { return the_process.load(std::memory_order_acquire) == ::getpid(); }

bool StartFaults(Mirrors& mirrors, const AddressWindow& window) {
  static constinit Mutex mutex;
  static bool started = false;
  const MutexLock lock(mutex);
  if (started) return true;
  the_mirrors = &mirrors;
  the_window = window;
  poll_times = PollTimes::ForThisMachine();
  std::thread service = StartBackgroundThread("cuspan-faults", ServeFaults);
  if (!service.joinable()) return false;
  service.detach();
  started = true;
  struct sigaction action {};
  // A handler of another signal, running on top of ours, may access this memory, too.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  ::sigemptyset(&action.sa_mask);
  for (const int number : {SIGSEGV, SIGTRAP}) {
    auto* const before = new struct sigaction;
    if (__sigaction(number, nullptr, before) == 0) programs_actions.of(number) = before;
  }
  the_process = ::getpid();
  for (const int number : {SIGSEGV, SIGTRAP}) {
    action.sa_sigaction = number == SIGSEGV ? OnSegv : OnTrap;
    if (__sigaction(number, &action, nullptr) != 0)
      LogError("cannot handle the program's page faults: {}", std::strerror(errno));
  }
  return true;
}

bool IsFaultMemory(std::uint64_t address) {
  return address - the_window.base < the_window.bytes && FaultsHandled();
}

std::uint64_t BeginCall(std::uint64_t address, std::size_t bytes, bool write) {
  if (bytes == 0 || !IsFaultMemory(address)) return 0;
  const int saved = errno;
  const std::uint64_t there = the_mirrors.load()->BeginCall(address, bytes, write);
  errno = saved;
  return there;
}

void EndCall(std::uint64_t address, std::size_t written) {
  const int saved = errno;
  the_mirrors.load()->EndCall(address, written);
  errno = saved;
}

int ExchangeFaultAction(int number, const struct sigaction* action, struct sigaction* old) {
  static constinit Mutex exchanging;
  const MutexLock lock(exchanging);
  std::atomic<const struct sigaction*>& programs = programs_actions.of(number);
  const struct sigaction* const before = programs.load();
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  if (old != nullptr) *old = before != nullptr ? *before : plain;
  // The earlier one is not freed: a handler may be using it.
  if (action != nullptr) programs.store(new struct sigaction(*action));
  return 0;
}

}  // namespace cuspan
