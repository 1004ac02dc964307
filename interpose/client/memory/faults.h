// Accesses of the program to mirrored memory not ready for them: a block must be fetched first, or
// its first write must be noticed.
//
// Mechanism: these blocks are protected. An access raises SIGSEGV, our handler passes it to a
// thread of ours, this thread does the necessary work, and the instruction is repeated. The handler
// itself only polls and makes system calls, so it may run in any thread and on a small stack.
// - userfaultfd would need no signal. But without privilege (vm.unprivileged_userfaultfd = 0, the
//   usual setting) it does not see the kernel's own accesses either, the harder part.
// - The kernel's accesses (read() into this memory) raise no signal: the call fails with EFAULT.
//   The C library's usual calls are therefore preceded by ours, preparing the buffer:
//   system_calls.cc. Calls made in another way (io_uring, raw system calls) are not supported.
// - The program's own handler of SIGSEGV is called for every fault not ours. Its sigaction requests
//   are recorded, and not installed over ours (system_calls.cc).
// - A thread must not block SIGSEGV or SIGTRAP while it accesses this memory. Our sigmask functions
//   leave them unblocked.
// - Stores to pinned memory while kernels run are executed one by one: ordered_stores.h.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>

#include "interpose/client/memory/mirrors.h"
#include "structs.gen.h"

namespace cuspan {

// Handles faults in the window from now on, until the process ends. Only the first call counts.
// False if no thread can be started for it: another call may try again.
bool StartFaults(Mirrors& mirrors, const AddressWindow& window);
// True if faults are handled in this process, not only in its parent.
bool FaultsHandled();

// True for addresses in the window, when faults are handled.
bool IsFaultMemory(std::uint64_t address);
// Prepares [address, address + bytes) for a system call reading or writing it. Returns the address
// for the kernel, or 0 for all other memory, at little cost. If the address differs, EndCall must
// follow.
std::uint64_t BeginCall(std::uint64_t address, std::size_t bytes, bool write);
// Called after the system call. `written`: bytes written, from the address of BeginCall on.
void EndCall(std::uint64_t address, std::size_t written);

// True for the signals handled here.
constexpr bool IsFaultSignal(int number) { return number == SIGSEGV || number == SIGTRAP; }
// sigaction for one of them while faults are handled: exchanges the program's own action.
int ExchangeFaultAction(int number, const struct sigaction* action, struct sigaction* old);

}  // namespace cuspan
