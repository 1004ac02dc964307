// The program's accesses to mirrored memory that is not as it should be: a block that must be
// fetched first, or whose first write must be known.
//
// How: such blocks are protected; the access raises SIGSEGV; our handler passes it to a
// thread of ours, which does what is needed, and the instruction is repeated. The handler itself
// uses nothing but system calls, so it may run in any thread and on a small stack.
//   - userfaultfd would need no signal, but without privilege (vm.unprivileged_userfaultfd = 0, the
//     usual setting) it does not see the kernel's own accesses either, which are the harder part.
//   - The kernel's accesses (read() into such memory) raise no signal: the call fails with EFAULT.
//     So the C library's usual calls are preceded by ours, which make the buffer ready:
//     system_calls.cc. Calls made in another way (io_uring, raw system calls) are not helped.
//   - The program's own handler of SIGSEGV is called for every fault that is not ours; what it asks
//     sigaction for is remembered and not installed over ours (system_calls.cc).
//   - A thread must not block SIGSEGV or SIGTRAP while it touches such memory; our sigmask
//   functions
//     leave them open.
//   - Stores to pinned memory while kernels run are carried out one by one: ordered_stores.h.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>

#include "interpose/client/memory/mirrors.h"
#include "structs.gen.h"

namespace cuspan {

// Handles faults in the window from now on, for as long as the process lives. Only the first call
// counts. False if no thread can be started for it: another call may try again.
bool StartFaults(Mirrors& mirrors, const AddressWindow& window);
// Whether that has happened, in this process and not in its parent.
bool FaultsHandled();

// True for addresses in the window, when faults are handled.
bool IsFaultMemory(std::uint64_t address);
// The system call that follows reads or writes [address, address + bytes): makes it ready, and
// returns the address to give to the kernel. 0 for all other memory, which costs little. If the
// address is another one, EndCall follows.
std::uint64_t BeginCall(std::uint64_t address, std::size_t bytes, bool write);
// The call is over, and has written so many bytes from the address of BeginCall on.
void EndCall(std::uint64_t address, std::size_t written);

// True for the signals that this handles.
constexpr bool IsFaultSignal(int number) { return number == SIGSEGV || number == SIGTRAP; }
// sigaction for one of them while faults are handled: exchanges the program's own action.
int ExchangeFaultAction(int number, const struct sigaction* action, struct sigaction* old);

}  // namespace cuspan
