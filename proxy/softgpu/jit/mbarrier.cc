// mbarrier objects: barriers in shared memory counting arrivals and bytes. (PTX ISA, "mbarrier")
// Only threads of one block use a barrier. They run one at a time on one worker, so plain memory
// accesses suffice.
#include <cstdint>
#include <cstring>

#include "proxy/softgpu/jit/helpers.h"

namespace cuspan::softgpu {
namespace {

// The 64 bits of the object; PTX does not define their layout.
class Barrier {
 public:
  explicit Barrier(void* memory) : memory_(memory) { std::memcpy(&bits_, memory, sizeof bits_); }

  std::uint64_t bits() const { return bits_; }
  static bool Phase(std::uint64_t bits) { return bits >> 63 != 0; }
  static std::uint32_t Pending(std::uint64_t bits) { return bits >> kPendingShift & kCountMask; }

  void Start(std::uint32_t count) {
    Set(false, count, count, 0);
    Store();
  }
  void Arrive(std::uint32_t count, bool drop) {
    const std::uint32_t expected = drop ? Expected() - count : Expected();
    Set(Phase(bits_), expected & kCountMask, (Pending(bits_) - count) & kCountMask, Bytes());
    Finish();
  }
  void AddPending() {
    Set(Phase(bits_), Expected(), (Pending(bits_) + 1) & kCountMask, Bytes());
    Store();
  }
  // Adds bytes expected in this phase. The sum is negative if they arrive before being announced.
  void Expect(std::int32_t bytes) {
    Set(Phase(bits_), Expected(), Pending(bits_), Bytes() + bytes);
    Finish();
  }

 private:
  static constexpr int kPendingShift = 20, kBytesShift = 40;
  static constexpr std::uint32_t kCountMask = (1U << 20) - 1;
  static constexpr std::uint32_t kBytesMask = (1U << 22) - 1;

  std::uint32_t Expected() const { return bits_ & kCountMask; }
  std::int32_t Bytes() const {
    const auto raw = static_cast<std::uint32_t>(bits_ >> kBytesShift & kBytesMask);
    return static_cast<std::int32_t>(raw << 10) >> 10;  // Sign-extends 22 bits.
  }
  void Set(bool phase, std::uint32_t expected, std::uint32_t pending, std::int32_t bytes) {
    bits_ = std::uint64_t{phase} << 63 |
            std::uint64_t{static_cast<std::uint32_t>(bytes) & kBytesMask} << kBytesShift |
            std::uint64_t{pending} << kPendingShift | expected;
  }
  // Begins the next phase if all arrivals and bytes are complete.
  void Finish() {
    if (Pending(bits_) == 0 && Bytes() == 0) Set(!Phase(bits_), Expected(), Expected(), 0);
    Store();
  }
  void Store() { std::memcpy(memory_, &bits_, sizeof bits_); }

  void* memory_;
  std::uint64_t bits_ = 0;
};

void Init(void* memory, std::uint32_t count) { Barrier(memory).Start(count); }

// State before the arrival; it identifies the phase to wait for.
std::uint64_t Arrive(void* memory, std::uint32_t count) {
  Barrier barrier(memory);
  const std::uint64_t before = barrier.bits();
  barrier.Arrive(count, false);
  return before;
}
std::uint64_t ArriveDrop(void* memory, std::uint32_t count) {
  Barrier barrier(memory);
  const std::uint64_t before = barrier.bits();
  barrier.Arrive(count, true);
  return before;
}
void AddPending(void* memory) { Barrier(memory).AddPending(); }
void Expect(void* memory, std::uint32_t bytes) {
  Barrier(memory).Expect(static_cast<std::int32_t>(bytes));
}
void Complete(void* memory, std::uint32_t bytes) {
  Barrier(memory).Expect(-static_cast<std::int32_t>(bytes));
}

// Returns 1 if the phase of `state`, or of the given parity, is over.
std::uint32_t Test(void* memory, std::uint64_t state) {
  return Barrier::Phase(Barrier(memory).bits()) != Barrier::Phase(state) ? 1 : 0;
}
std::uint32_t TestParity(void* memory, std::uint32_t parity) {
  return Barrier::Phase(Barrier(memory).bits()) != ((parity & 1) != 0) ? 1 : 0;
}
std::uint32_t PendingCount(std::uint64_t state) { return Barrier::Pending(state); }

const HelperSymbol kMbarrierSymbols[] = {
    {"cuspan_mbarrier_init", AddressOf(&Init)},
    {"cuspan_mbarrier_arrive", AddressOf(&Arrive)},
    {"cuspan_mbarrier_arrive_drop", AddressOf(&ArriveDrop)},
    {"cuspan_mbarrier_add_pending", AddressOf(&AddPending)},
    {"cuspan_mbarrier_expect", AddressOf(&Expect)},
    {"cuspan_mbarrier_complete", AddressOf(&Complete)},
    {"cuspan_mbarrier_test", AddressOf(&Test)},
    {"cuspan_mbarrier_test_parity", AddressOf(&TestParity)},
    {"cuspan_mbarrier_pending_count", AddressOf(&PendingCount)},
};

}  // namespace

std::span<const HelperSymbol> MbarrierHelpers() { return kMbarrierSymbols; }

}  // namespace cuspan::softgpu
