#include "interpose/client/memory/faults.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "common/log.h"
#include "common/mutex.h"
#include "interpose/client/background_thread.h"
#include "interpose/client/memory/mirrors.h"

// The C library's own, which is not the one of system_calls.cc.
extern "C" int __sigaction(int number, const struct sigaction* action, struct sigaction* old);

namespace cuspan {
namespace {

// A fault that waits, on the stack of the thread that has it.
struct Request {
  std::uint64_t address;
  bool write;
  std::atomic<std::uint32_t> answer{0};
  Request* next = nullptr;
};
constexpr std::uint32_t kAdmitted = 1;
constexpr std::uint32_t kNotOurs = 2;

constinit std::atomic<Mirrors*> the_mirrors{nullptr};
constinit AddressWindow the_window{};
constinit std::atomic<pid_t> the_process{0};
constinit std::atomic<Request*> waiting{nullptr};
constinit std::atomic<std::uint32_t> rung{0};
// The program's own action; replaced, never changed, since a handler may be reading it.
constinit std::atomic<const struct sigaction*> programs_action{nullptr};

void FutexWait(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void FutexWake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void ServeFaults() {
  for (;;) {
    const std::uint32_t seen = rung.load(std::memory_order_acquire);
    Request* request = waiting.exchange(nullptr, std::memory_order_acq_rel);
    if (request == nullptr) {
      FutexWait(rung, seen);
      continue;
    }
    while (request != nullptr) {
      Request* const next = request->next;
      const bool ours = the_mirrors.load()->Admit(request->address, 1, request->write);
      // From here on the request may be gone.
      std::atomic<std::uint32_t>& answer = request->answer;
      answer.store(ours ? kAdmitted : kNotOurs, std::memory_order_release);
      FutexWake(answer);
      request = next;
    }
  }
}

bool AskService(std::uint64_t address, bool write) {
  Request request{address, write};
  Request* first = waiting.load(std::memory_order_relaxed);
  do {
    request.next = first;
  } while (!waiting.compare_exchange_weak(first, &request, std::memory_order_acq_rel));
  rung.fetch_add(1, std::memory_order_acq_rel);
  FutexWake(rung);
  // Ends with the service's answer, whose own waits end when the device does. A child of fork,
  // which has no such thread, does not come here.
  while (request.answer.load(std::memory_order_acquire) == 0) FutexWait(request.answer, 0);
  return request.answer.load(std::memory_order_acquire) == kAdmitted;
}

// Does what the program asked for, as the kernel would have done it.
void CallProgramsHandler(int number, siginfo_t* info, void* context) {
  const struct sigaction* const action = programs_action.load(std::memory_order_acquire);
  const bool defaulted = action == nullptr || action->sa_handler == SIG_DFL;
  if (defaulted || action->sa_handler == SIG_IGN) {
    const bool sent = info->si_code <= 0;
    if (!defaulted && sent) return;
    // Without a handler: the instruction is repeated, and the kernel does the rest.
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    __sigaction(number, &plain, nullptr);
    if (sent) ::syscall(SYS_tgkill, ::getpid(), ::syscall(SYS_gettid), number);
    return;
  }
  const struct sigaction now = *action;
  if ((now.sa_flags & static_cast<int>(SA_RESETHAND)) != 0) programs_action.store(nullptr);
  sigset_t blocked = now.sa_mask;
  if ((now.sa_flags & SA_NODEFER) == 0) ::sigaddset(&blocked, number);
  // Undone when our handler returns, or by the program when it jumps out of its own.
  ::syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, nullptr, sizeof(unsigned long));
  if ((now.sa_flags & SA_SIGINFO) != 0)
    now.sa_sigaction(number, info, context);
  else
    now.sa_handler(number);
}

void OnSegv(int number, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uint64_t>(info->si_addr);
  if (info->si_code > 0 && address - the_window.base < the_window.bytes && FaultsHandled()) {
    const int saved = errno;
    // Bit 1 of the processor's error code: the access was a write.
    const auto code = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR];
    const bool ours = AskService(address, (code & 2) != 0);
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
  std::thread service = StartBackgroundThread("cuspan-faults", ServeFaults);
  if (!service.joinable()) return false;
  service.detach();
  started = true;
  struct sigaction action {};
  action.sa_sigaction = OnSegv;
  // A handler of another signal that runs on top of ours may touch such memory, too.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  ::sigemptyset(&action.sa_mask);
  auto* const before = new struct sigaction;
  if (__sigaction(SIGSEGV, nullptr, before) == 0) programs_action = before;
  the_process = ::getpid();
  if (__sigaction(SIGSEGV, &action, nullptr) != 0)
    LogError("cannot handle the program's page faults: {}", std::strerror(errno));
  return true;
}

bool AdmitSystemCall(std::uint64_t address, std::size_t bytes, bool write) {
  if (address - the_window.base >= the_window.bytes) [[likely]]
    return false;
  if (bytes == 0 || !FaultsHandled()) return false;
  const int saved = errno;
  const bool ours = the_mirrors.load()->Admit(address, bytes, write);
  errno = saved;
  return ours;
}

int ExchangeSegvAction(const struct sigaction* action, struct sigaction* old) {
  static constinit Mutex exchanging;
  const MutexLock lock(exchanging);
  const struct sigaction* const before = programs_action.load();
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  if (old != nullptr) *old = before != nullptr ? *before : plain;
  // The earlier one stays: a handler may be using it.
  if (action != nullptr) programs_action.store(new struct sigaction(*action));
  return 0;
}

}  // namespace cuspan
