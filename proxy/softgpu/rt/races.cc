#include "proxy/softgpu/rt/races.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "common/format.h"
#include "common/log.h"
#include "proxy/softgpu/rt/abi.h"
#include "proxy/softgpu/rt/address_space.h"
#include "proxy/softgpu/rt/launch.h"

namespace cuspan::softgpu {
namespace {

// If a launch has more blocks, only accesses of the same block are compared.
constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 22;

std::uint32_t NextNumber() {
  static std::atomic<std::uint32_t> last{0};
  const std::uint32_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number != 0 ? number : NextNumber();
}

// Returns the kernel's name in the source code, if it can be demangled.
std::string PlainName(const std::string& kernel) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(kernel.c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 ? plain.get() : kernel;
}

// Example: "PTX line 12 (file.cu:7): 'st.shared.u32'"
std::string_view PlaceOf(const RaceAccess& access) {
  const std::string_view where = access.where;
  const std::size_t place = where.find("PTX line");
  return place == std::string_view::npos ? where : where.substr(place);
}

}  // namespace

void RaceTable::Find(Part& part, std::uint64_t page) {
  if (part.pages.size() >= kMaxPages && !part.pages.contains(page)) part.pages.clear();
  std::unique_ptr<Cells>& cells = part.pages[page];
  if (cells == nullptr) cells = std::make_unique<Cells>();
  part.last_page = page;
  part.last_cells = cells.get();
}

bool RaceTable::IsNew(const char* first, const char* second) {
  std::lock_guard lock(mutex_);
  return reported_.size() < kMaxReports && reported_.emplace(first, second).second;
}

void RaceTable::Log(const std::string& text) {
  LogError("{}", text);
  std::lock_guard lock(mutex_);
  if (reported_.size() >= kMaxReports && !std::exchange(limit_reported_, true))
    LogError("software GPU: {} races were reported; further ones are not reported", kMaxReports);
}

LaunchRaces::LaunchRaces(RaceTable& table, const AddressSpace& addresses, int device,
                         std::uint64_t blocks)
    : table_(table),
      addresses_(addresses),
      device_(device),
      blocks_(blocks),
      number_(NextNumber()),
      signals_(blocks <= kMaxBlocks ? blocks : 0) {}

std::shared_ptr<LaunchRaces> LaunchRaces::Again() const {
  return std::make_shared<LaunchRaces>(table_, addresses_, device_, blocks_);
}

bool LaunchRaces::Accessible(std::uint64_t address, std::uint64_t bytes, bool writes) const {
  return addresses_.Accessible(address, bytes, device_, writes);
}

std::uint32_t LaunchRaces::Signals(std::uint64_t block) const {
  return signals_.empty() ? 0 : signals_[block].load(std::memory_order_relaxed);
}

void LaunchRaces::AddSignal(std::uint64_t block) {
  if (!signals_.empty()) signals_[block].fetch_add(1, std::memory_order_relaxed);
}

void BlockRaces::Begin(LaunchRaces& launch, std::uint64_t block, std::uint32_t threads,
                       std::uint32_t shared_bytes, const Location& place) {
  launch_ = &launch;
  block_ = block;
  location_ = place;
  clocks_.Begin(threads);
  shared_.assign((std::size_t{shared_bytes} + 3) / 4, {});
  announced_.address = nullptr;
}

void BlockRaces::Access(std::uint32_t thread, const void* address, std::uint64_t bytes,
                        std::uint64_t shared_offset, std::uint32_t kind, const char* where) {
  Settle();
  const auto at = reinterpret_cast<std::uint64_t>(address);
  const bool writes = (kind & kCheckWrite) != 0, strong = (kind & kCheckStrong) != 0;
  if ((kind & kCheckAcquires) != 0) clocks_.Acquire(thread, at);
  if ((kind & kCheckReleasesFenced) != 0) clocks_.ReleaseFenced(thread, at);
  if ((kind & kCheckReleasesAll) != 0) clocks_.ReleaseAll(thread, at);
  if (strong && shared_offset == kNotShared) launch_->AddSignal(block_);
  RaceAccess access;
  access.block = static_cast<std::uint32_t>(block_);
  access.launch = launch_->number();
  access.thread = static_cast<std::uint16_t>(thread);
  access.time = clocks_.Now(thread);
  access.signals = launch_->Signals(block_);
  access.where = where;
  access.strong = strong;
  access.is_volatile = (kind & kCheckVolatile) != 0;
  access.writes = writes;
  // An atomic also reads the value, so it counts even if it changes nothing.
  if (!writes || strong || bytes > announced_.before.size()) {
    Note(access, at, bytes, shared_offset);
    return;
  }
  announced_.access = access;
  announced_.address = static_cast<const std::uint8_t*>(address);
  announced_.bytes = static_cast<std::uint32_t>(bytes);
  announced_.shared_offset = shared_offset;
  std::memcpy(announced_.before.data(), address, bytes);
}

void BlockRaces::Fence(std::uint32_t thread) {
  Settle();
  clocks_.Fence(thread);
}

void BlockRaces::Forget(const void* address, std::uint64_t bytes) {
  const auto begin = reinterpret_cast<std::uint64_t>(address);
  for (std::uint64_t word = begin & ~std::uint64_t{3}; word < begin + bytes; word += 4)
    launch_->table().At(word, [](RaceCell& cell) { cell = {}; });
}

void BlockRaces::Settle() {
  const std::uint8_t* const address = std::exchange(announced_.address, nullptr);
  if (address == nullptr || std::memcmp(address, announced_.before.data(), announced_.bytes) == 0)
    return;
  Note(announced_.access, reinterpret_cast<std::uint64_t>(address), announced_.bytes,
       announced_.shared_offset);
}

void BlockRaces::Note(const RaceAccess& access, std::uint64_t address, std::uint64_t bytes,
                      std::uint64_t shared_offset) {
  const bool shared = shared_offset != kNotShared;
  // Address as seen by the program.
  const std::uint64_t begin = shared ? shared_offset : address;
  const std::uint64_t end = begin + bytes;
  for (std::uint64_t word = begin & ~std::uint64_t{3}; word < end; word += 4) {
    RaceAccess part = access;
    for (std::uint64_t byte = 0; byte < 4; ++byte)
      if (word + byte >= begin && word + byte < end)
        part.bytes = static_cast<std::uint8_t>(part.bytes | 1u << byte);
    const std::uint64_t named = std::max(word, begin);
    if (shared) {
      if (word / 4 < shared_.size()) Check(shared_[word / 4], part, named, true);
    } else {
      launch_->table().At(word, [&](RaceCell& cell) { Check(cell, part, named, false); });
    }
  }
}

void BlockRaces::Check(RaceCell& cell, const RaceAccess& access, std::uint64_t named, bool shared) {
  const auto compare = [&](const RaceAccess& before) {
    if (before.launch != access.launch || (before.bytes & access.bytes) == 0) return;
    // Programs poll counters before their own atomic: a stale value is expected.
    const bool only_looks = (before.strong && !access.writes) || (access.strong && !before.writes);
    const bool both_strong = before.strong && access.strong;
    if (both_strong ? !NeedsLockstep(before, access) : only_looks) return;
    if (Ordered(before, access)) return;
    launch_->table().Report(before.where, access.where,
                            [&] { return Text(before, access, named, shared); });
  };
  compare(cell.write);
  compare(cell.strong_write);
  if (access.writes) {
    for (const RaceAccess& read : cell.reads) compare(read);
    (access.strong ? cell.strong_write : cell.write) = access;
    return;
  }
  // Keeps the latest reads of two threads: at least one differs from the next writer.
  const auto same = [&](const RaceAccess& read) {
    return read.thread == access.thread && read.block == access.block;
  };
  if (same(cell.reads[0])) {
    cell.reads[0] = access;
    return;
  }
  cell.reads[1] = cell.reads[0];
  cell.reads[0] = access;
}

bool BlockRaces::Ordered(const RaceAccess& before, const RaceAccess& now) const {
  if (before.block == now.block) return clocks_.Knows(now.thread, before.thread, before.time);
  return !launch_->compares_blocks() ||
         (launch_->Signals(before.block) != before.signals && launch_->Signals(now.block) != 0);
}

bool BlockRaces::NeedsLockstep(const RaceAccess& before, const RaceAccess& now) const {
  const auto same_warp = [](std::uint32_t x, std::uint32_t y) {
    return x / kWarpLanes == y / kWarpLanes;
  };
  return before.is_volatile && now.is_volatile && before.writes != now.writes &&
         before.block == now.block && same_warp(before.thread, now.thread) &&
         !clocks_.HasFenced(before.thread) && !clocks_.HasFenced(now.thread);
}

std::string BlockRaces::Text(const RaceAccess& before, const RaceAccess& now, std::uint64_t named,
                             bool shared) const {
  return Format(
      "software GPU {}: kernel {}: race on {} memory at {:#x}: {} ({}) and {} ({}), and nothing "
      "orders the two",
      location_.device, PlainName(*location_.kernel), shared ? "shared" : "global", named,
      Who(before), PlaceOf(before), Who(now), PlaceOf(now));
}

std::string BlockRaces::Who(const RaceAccess& access) const {
  const auto at = [](std::uint64_t index, const std::uint32_t(&size)[3]) {
    return Format("({},{},{})", index % size[0], index / size[0] % size[1],
                  index / size[0] / size[1]);
  };
  return Format("thread {} of block {} {} it", at(access.thread, location_.ntid),
                at(access.block, location_.nctaid), access.writes ? "wrote" : "read");
}

}  // namespace cuspan::softgpu
