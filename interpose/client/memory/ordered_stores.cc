#include "interpose/client/memory/ordered_stores.h"

#include <cpuid.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "interpose/client/memory/addresses.h"

namespace cuspan {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::size_t kLogBytes = std::size_t{1} << 20;
// Maximum bytes of a string instruction executed at once: they pass through the handler's stack.
constexpr std::size_t kMaxStringBytes = 512;
// Minimum fill before memory is opened for it, and maximum memory opened.
constexpr std::uint64_t kMinFilled = kPageBytes;
constexpr std::uint64_t kMaxOpened = std::uint64_t{1} << 20;
// Memory opened for an instruction not decoded: more than it writes at one place.
constexpr std::size_t kOpenedBytes = kPageBytes;
constexpr std::uint8_t kLoggedPage = 1;
constexpr std::uint8_t kValidPage = 2;
constexpr unsigned char kBreakpoint = 0xcc;
constexpr greg_t kDirectionFlag = 0x400;

// Indexed by register numbers of instructions.
constexpr std::array<int, 16> kRegisters = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                            REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                            REG_R12, REG_R13, REG_R14, REG_R15};

pid_t ThreadNumber() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

// All signals except faults, in the kernel's format.
constexpr std::uint64_t AllButFaults() {
  std::uint64_t mask = ~std::uint64_t{0};
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP})
    mask &= ~(std::uint64_t{1} << (fault - 1));
  return mask;
}

// The kernel's mask in a handler's context has 8 bytes; the C library's type is longer.
std::uint64_t ExchangeMask(ucontext_t* context, std::uint64_t mask) {
  std::uint64_t before = 0;
  std::memcpy(&before, &context->uc_sigmask, sizeof before);
  std::memcpy(&context->uc_sigmask, &mask, sizeof mask);
  return before;
}

// Components of the processor's state saved by the kernel with a thread (xsave).
constexpr unsigned kUpperHalves = 2;  // Bytes 16 to 31 of vector registers 0 to 15.
constexpr unsigned kMasks = 5;
constexpr unsigned kUpperVectors = 6;  // Bytes 32 to 63 of vector registers 0 to 15.
constexpr unsigned kMoreVectors = 7;   // Vector registers 16 to 31.

// Copies bytes of a component; zeros if it is in its initial state, or not saved.
void ReadState(const ucontext_t& context, unsigned component, std::size_t offset, void* out,
               std::size_t bytes) {
  constexpr unsigned kStateLeaf = 0xd;
  unsigned size = 0;
  unsigned start = 0;
  unsigned unused[2];
  std::memset(out, 0, bytes);
  if (context.uc_mcontext.fpregs == nullptr ||
      __get_cpuid_count(kStateLeaf, component, &size, &start, &unused[0], &unused[1]) == 0 ||
      start == 0)
    return;
  const auto* const area = reinterpret_cast<const std::byte*>(context.uc_mcontext.fpregs);
  // Header after the 512 bytes of fxsave: components not in their initial state.
  std::uint64_t present = 0;
  std::memcpy(&present, area + 512, sizeof present);
  if ((present >> component & 1) != 0) std::memcpy(out, area + start + offset, bytes);
}

void ReadVector(const ucontext_t& context, unsigned number, std::size_t bytes, std::byte* out) {
  constexpr unsigned kLow = 16;
  if (number >= kLow) {
    ReadState(context, kMoreVectors, (number - kLow) * 64, out, bytes);
    return;
  }
  std::memcpy(out, context.uc_mcontext.fpregs->_xmm + number, std::min<std::size_t>(bytes, 16));
  if (bytes > 16) ReadState(context, kUpperHalves, number * 16, out + 16, 16);
  if (bytes > 32) ReadState(context, kUpperVectors, number * 32, out + 32, 32);
}

// Returns the number of bytes stored by the instruction, from the first one stored. 0 if they have
// gaps.
std::size_t BytesOf(const StoreInstruction& instruction, const ucontext_t& context) {
  if (instruction.mask == 0) return instruction.bytes;
  const unsigned elements = instruction.bytes / instruction.element;
  std::uint64_t mask = 0;
  ReadState(context, kMasks, instruction.mask * sizeof mask, &mask, sizeof mask);
  if (elements < 64) mask &= (std::uint64_t{1} << elements) - 1;
  if (mask == 0) return 0;
  mask >>= std::countr_zero(mask);
  return (mask & (mask + 1)) == 0
             ? static_cast<std::size_t>(std::popcount(mask)) * instruction.element
             : 0;
}

std::byte* MapMemory(std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

}  // namespace

OrderedStores::~OrderedStores() {
  for (const Buffer& buffer : {active_, spare_})
    if (buffer.memory != nullptr) ::munmap(buffer.memory, kLogBytes);
  if (copy_ != nullptr) ::munmap(copy_, kPageBytes);
  if (run_ != 0) ::munmap(PointerTo(run_), kPageBytes);
  if (states_ != nullptr) ::munmap(states_, window_.bytes / kPageBytes);
}

bool OrderedStores::SetMemory(const AddressWindow& window, std::byte* alias) {
  static_assert(sizeof(std::atomic<std::uint8_t>) == 1);
  active_.memory = MapMemory(kLogBytes);
  spare_.memory = MapMemory(kLogBytes);
  window_ = window;
  states_ = reinterpret_cast<std::atomic<std::uint8_t>*>(MapMemory(window.bytes / kPageBytes));
  alias_ = alias;
  // If a process may not execute its own memory, pages are opened for these instructions.
  const int file = ::memfd_create("cuspan-instruction", MFD_CLOEXEC);
  if (file >= 0 && ::ftruncate(file, kPageBytes) == 0) {
    void* const copy = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    void* const run = ::mmap(nullptr, kPageBytes, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    if (copy != MAP_FAILED) copy_ = static_cast<std::byte*>(copy);
    if (copy != MAP_FAILED && run != MAP_FAILED) run_ = AddressOf(run);
  }
  if (file >= 0) ::close(file);
  return active_.memory != nullptr && spare_.memory != nullptr && states_ != nullptr;
}

// The owner may be a thread between two signals, possibly preempted by the kernel.
void OrderedStores::Lock() {
  constexpr int kSpins = 64;
  for (int i = 0; locked_.exchange(true, std::memory_order_acquire); ++i) {
    if (i < kSpins)
      __builtin_ia32_pause();
    else
      ::sched_yield();
  }
}

void OrderedStores::Unlock() { locked_.store(false, std::memory_order_release); }

std::atomic<std::uint8_t>& OrderedStores::StateOf(std::uint64_t address) const {
  return states_[(address - window_.base) / kPageBytes];
}

OrderedStores::Need OrderedStores::NeedOf(std::uint64_t address, std::size_t bytes,
                                          bool reads) const {
  if (!on() || open_) return Need::kLogged;
  for (const std::uint64_t at : {address, address + bytes - 1}) {
    if (at - window_.base >= window_.bytes) return Need::kOpen;
    const std::uint8_t state = StateOf(at).load(std::memory_order_relaxed);
    if (reads && (state & kValidPage) == 0) return Need::kValid;
    if ((state & kLoggedPage) == 0) return reads ? Need::kValid : Need::kLogged;
  }
  return active_.used + SizeOf(bytes) > kLogBytes ? Need::kRoom : Need::kNothing;
}

OrderedStores::Outcome OrderedStores::Carry(std::uint64_t address, ucontext_t* context) {
  auto& registers = context->uc_mcontext.gregs;
  if (!on()) return {Need::kLogged, 1};
  const StoreInstruction instruction =
      DecodeStore(static_cast<const unsigned char*>(PointerTo(registers[REG_RIP])));
  switch (instruction.kind) {
    case StoreInstruction::Kind::kUnknown:
      return {Need::kOpen, kOpenedBytes};
    case StoreInstruction::Kind::kFill:
    case StoreInstruction::Kind::kCopy:
      return CarryString(instruction, context);
    default:
      break;
  }
  const std::size_t bytes = BytesOf(instruction, *context);
  const bool runs = instruction.source == StoreInstruction::Source::kOther;
  if (bytes == 0 || (runs && run_ == 0)) return {Need::kOpen, kOpenedBytes};
  Lock();
  const Need need = NeedOf(address, bytes, instruction.kind == StoreInstruction::Kind::kUpdate);
  const std::size_t ahead = need == Need::kNothing ? BytesAhead(address) : 0;
  if (need != Need::kNothing || ahead != 0) {
    Unlock();
    return ahead != 0 ? Outcome{Need::kOpen, ahead} : Outcome{need, bytes};
  }
  if (!Move(instruction, address, context)) {
    RunCopy(instruction, address, bytes, context);
    return {need, bytes};  // The lock is held until Finish.
  }
  const bool first = Append(address, bytes);
  Unlock();
  return {need, bytes, first};
}

bool OrderedStores::Move(const StoreInstruction& instruction, std::uint64_t address,
                         ucontext_t* context) {
  using Source = StoreInstruction::Source;
  auto& registers = context->uc_mcontext.gregs;
  std::array<std::byte, 64> data;
  const auto take = [&](const void* value, std::size_t offset) {
    std::memcpy(data.data(), static_cast<const std::byte*>(value) + offset,
                std::min<std::size_t>(instruction.bytes, sizeof(greg_t)));
  };
  const greg_t immediate = instruction.immediate;
  switch (instruction.source) {
    case Source::kOther:
      return false;
    case Source::kGeneral:
      take(&registers[kRegisters[instruction.number]], 0);
      break;
    case Source::kHighByte:
      take(&registers[kRegisters[instruction.number]], 1);
      break;
    case Source::kImmediate:
      take(&immediate, 0);
      break;
    case Source::kVector:
      ReadVector(*context, instruction.number, instruction.bytes, data.data());
      break;
    case Source::kHighHalf:
      take(context->uc_mcontext.fpregs->_xmm + instruction.number, 8);
      break;
  }
  // A single store if the processor has one: threads of the program may be reading.
  std::byte* const to = alias_ + (address - window_.base);
  const auto store = [&]<typename T>(T value) {
    std::memcpy(&value, data.data(), sizeof value);
    __atomic_store_n(reinterpret_cast<T*>(to), value, __ATOMIC_RELEASE);
  };
  switch (instruction.bytes) {
    case 1:
      store(std::uint8_t{});
      break;
    case 2:
      store(std::uint16_t{});
      break;
    case 4:
      store(std::uint32_t{});
      break;
    case 8:
      store(std::uint64_t{});
      break;
    default:
      std::memcpy(to, data.data(), instruction.bytes);
      break;
  }
  registers[REG_RIP] += instruction.length;
  return true;
}

void OrderedStores::RunCopy(const StoreInstruction& instruction, std::uint64_t address,
                            std::size_t bytes, ucontext_t* context) {
  auto& registers = context->uc_mcontext.gregs;
  const auto at = static_cast<std::uint64_t>(registers[REG_RIP]);
  step_ = {address, bytes, ExchangeMask(context, AllButFaults()), at + instruction.length,
           instruction};
  std::memcpy(copy_, PointerTo(at), instruction.length);
  std::memcpy(copy_ + instruction.length, &kBreakpoint, 1);
  registers[REG_RIP] = static_cast<greg_t>(run_);
  registers[kRegisters[instruction.base]] += static_cast<greg_t>(AddressOf(alias_) - window_.base);
  stepping_.store(ThreadNumber(), std::memory_order_relaxed);
}

OrderedStores::Finished OrderedStores::Finish(ucontext_t* context) {
  const pid_t thread = stepping_.load(std::memory_order_relaxed);
  if (thread == 0 || thread != ThreadNumber()) return {};
  stepping_.store(0, std::memory_order_relaxed);
  auto& registers = context->uc_mcontext.gregs;
  registers[REG_RIP] = static_cast<greg_t>(step_.behind);
  registers[kRegisters[step_.instruction.base]] -=
      static_cast<greg_t>(AddressOf(alias_) - window_.base);
  ExchangeMask(context, step_.mask);
  const bool fences = step_.instruction.fences;
  const bool first = Append(step_.address, step_.bytes);
  Unlock();
  return {true, fences, first};
}

OrderedStores::Outcome OrderedStores::CarryString(const StoreInstruction& instruction,
                                                  ucontext_t* context) {
  auto& registers = context->uc_mcontext.gregs;
  if ((registers[REG_EFL] & kDirectionFlag) != 0) return {Need::kOpen, kOpenedBytes};
  const auto to = static_cast<std::uint64_t>(registers[REG_RDI]);
  const auto from = static_cast<std::uint64_t>(registers[REG_RSI]);
  const bool copies = instruction.kind == StoreInstruction::Kind::kCopy;
  const std::uint64_t left =
      instruction.repeated ? static_cast<std::uint64_t>(registers[REG_RCX]) : 1;
  // Elements of one page, or one element across its end.
  std::uint64_t most = std::min(kMaxStringBytes, kPageBytes - to % kPageBytes);
  // If the destination overlaps the end of the source, later source bytes are results of earlier
  // ones.
  if (copies && to > from) most = std::min(most, to - from);
  const std::uint64_t count = std::min(left, std::max<std::uint64_t>(most / instruction.bytes, 1));
  const std::size_t bytes = count * instruction.bytes;
  std::array<std::byte, kMaxStringBytes> data;
  if (copies) {
    std::memcpy(data.data(), PointerTo(from), bytes);
  } else {
    for (std::size_t at = 0; at < bytes; at += instruction.bytes)
      std::memcpy(data.data() + at, &registers[REG_RAX], instruction.bytes);
  }
  Lock();
  const Need need = NeedOf(to, bytes, false);
  const std::size_t ahead = need == Need::kNothing ? BytesAhead(to) : 0;
  bool first = false;
  if (need == Need::kNothing && ahead == 0) {
    std::memcpy(alias_ + (to - window_.base), data.data(), bytes);
    first = Append(to, bytes);
  }
  Unlock();
  if (ahead != 0) return {Need::kOpen, ahead};
  if (need != Need::kNothing) return {need, bytes};
  registers[REG_RDI] += static_cast<greg_t>(bytes);
  if (copies) registers[REG_RSI] += static_cast<greg_t>(bytes);
  if (instruction.repeated) registers[REG_RCX] -= static_cast<greg_t>(count);
  if (count == left) registers[REG_RIP] += instruction.length;
  return {need, bytes, first};
}

bool OrderedStores::Append(std::uint64_t address, std::size_t bytes) {
  const Header header{address, bytes};
  std::byte* const at = active_.memory + active_.used;
  std::memcpy(at, &header, sizeof header);
  std::memcpy(at + sizeof header, alias_ + (address - window_.base), bytes);
  active_.used += SizeOf(bytes);
  NoteFill(address, bytes);
  return !any_.exchange(true, std::memory_order_acq_rel);
}

std::size_t OrderedStores::BytesAhead(std::uint64_t address) {
  if (address % kPageBytes != 0) return 0;
  for (const Fill& fill : fills_)
    if (fill.next == address && fill.bytes >= kMinFilled)
      return std::clamp(fill.bytes / 4, std::uint64_t{1}, kMaxOpened);
  return 0;
}

void OrderedStores::NoteFill(std::uint64_t address, std::size_t bytes) {
  for (Fill& fill : fills_) {
    if (fill.next != address) continue;
    fill = {address + bytes, fill.bytes + bytes};
    return;
  }
  fills_[oldest_fill_++ % kFills] = {address + bytes, bytes};
}

void OrderedStores::ContinueFill(const BlockAllocator::Range& pages, std::uint64_t end) {
  Lock();
  for (Fill& fill : fills_)
    if (fill.next - pages.base < pages.bytes) fill = {end, fill.bytes + (end - fill.next)};
  Unlock();
}

void OrderedStores::StoreAgain(const Record& record) {
  std::memcpy(alias_ + (record.address - window_.base), record.data.data(), record.data.size());
}

void OrderedStores::TurnOn() { on_.store(true, std::memory_order_relaxed); }

bool OrderedStores::TurnOff() {
  Lock();
  const bool empty = active_.used == 0;
  if (empty) on_.store(false, std::memory_order_relaxed);
  Unlock();
  return empty;
}

void OrderedStores::Change(const BlockAllocator::Range& pages, std::uint8_t set,
                           std::uint8_t clear) {
  for (std::uint64_t at = 0; at < pages.bytes; at += kPageBytes) {
    std::atomic<std::uint8_t>& state = StateOf(pages.base + at);
    const std::uint8_t before = state.load(std::memory_order_relaxed);
    const auto after = static_cast<std::uint8_t>((before & ~clear) | set);
    if (after != before) state.store(after, std::memory_order_relaxed);
  }
}

void OrderedStores::Log(const BlockAllocator::Range& pages) { Change(pages, kLoggedPage, 0); }
// Locked: a step may be in progress there.
void OrderedStores::Unlog(const BlockAllocator::Range& pages) {
  Lock();
  Change(pages, 0, kLoggedPage);
  Unlock();
}
void OrderedStores::SetValid(const BlockAllocator::Range& pages, bool valid) {
  Change(pages, valid ? kValidPage : 0, valid ? 0 : kValidPage);
}

bool OrderedStores::LogWritten(std::uint64_t& address, std::uint64_t& bytes) {
  // A copy of this length is one command of the channel.
  constexpr std::uint64_t kMaxRecordBytes = 16 * 1024;
  Lock();
  while (bytes != 0) {
    const std::uint64_t piece = std::min(bytes, kMaxRecordBytes);
    if (active_.used + SizeOf(piece) > kLogBytes) break;
    Append(address, piece);
    address += piece;
    bytes -= piece;
  }
  Unlock();
  return bytes == 0;
}

void OrderedStores::SetOpen(bool open) {
  Lock();
  open_ = open;
  Unlock();
}

}  // namespace cuspan
