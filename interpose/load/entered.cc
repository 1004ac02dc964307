#include "interpose/load/entered.h"

#include <atomic>

#include "interpose/load/load.h"

namespace cuspan::load {
namespace {

// Written between two increments of `version` (sequence lock): readers see all of it or an odd or
// changed version. An unused slot has end 0.
struct EnteredObject {
  std::atomic<std::uint32_t> version;
  std::atomic<std::uint64_t> begin;
  std::atomic<std::uint64_t> end;
  std::atomic<int> release;
  bool met;  // Reported in the current walk.

  void Set(std::uint64_t new_begin, std::uint64_t new_end, int new_release) {
    version.fetch_add(1, std::memory_order_acq_rel);
    begin.store(new_begin, std::memory_order_release);
    end.store(new_end, std::memory_order_release);
    release.store(new_release, std::memory_order_release);
    version.fetch_add(1, std::memory_order_release);
  }
};

// Maximum number of objects with a linked runtime, more than programs have. Further ones count as
// CUDA 13, like objects without a runtime.
constexpr std::size_t kMaxObjects = 256;
constinit EnteredObject entered[kMaxObjects] = {};
constinit std::atomic<std::size_t> object_count{0};  // Slots beyond were never used.

bool Holds(const TargetList& found, const ExportTable& exports, const char* name) {
  const std::size_t index = exports.Find(name);
  for (std::size_t i = 0; i < found.count; ++i) {
    if (found.targets[i].export_index == index) return true;
  }
  return false;
}

}  // namespace

int ReleaseOf(const TargetList& found, const ExportTable& exports) {
  if (Holds(found, exports, "cudaUnbindTexture")) return 11;
  return Holds(found, exports, "cudaGetDeviceProperties_v2") ? 12 : 13;
}

void RememberRelease(const ElfImage& image, std::uint64_t bias, int release) {
  std::uint64_t begin = ~std::uint64_t{0};
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < image.segment_count(); ++i) {
    const Elf64_Phdr segment = image.Segment(i);
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_vaddr < begin) begin = segment.p_vaddr;
    if (segment.p_vaddr + segment.p_memsz > end) end = segment.p_vaddr + segment.p_memsz;
  }
  if (end <= begin) return;
  const std::size_t count = object_count.load(std::memory_order_relaxed);
  std::size_t place = 0;
  while (place < count && entered[place].end.load(std::memory_order_relaxed) != 0) ++place;
  if (place == kMaxObjects) return;
  entered[place].met = true;
  entered[place].Set(bias + begin, bias + end, release);
  if (place == count) object_count.store(count + 1, std::memory_order_release);
}

void BeginWalk() {
  for (EnteredObject& object : entered) object.met = false;
}

void Meet(std::uint64_t dynamic) {
  const std::size_t count = object_count.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count; ++i) {
    if (dynamic >= entered[i].begin.load(std::memory_order_relaxed) &&
        dynamic < entered[i].end.load(std::memory_order_relaxed)) {
      entered[i].met = true;
    }
  }
}

void EndWalk() {
  const std::size_t count = object_count.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < count; ++i) {
    if (!entered[i].met && entered[i].end.load(std::memory_order_relaxed) != 0)
      entered[i].Set(0, 0, 0);
  }
}

}  // namespace cuspan::load

namespace cuspan {
namespace {

// Calls use(object, index, version) for the object with the code at `address`. Returns 0 if there
// is none.
template <typename Use>
auto WithObjectAt(const void* address, Use use) {
  const auto at = reinterpret_cast<std::uint64_t>(address);
  const std::size_t count = load::object_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    const load::EnteredObject& object = load::entered[i];
    const std::uint32_t version = object.version.load(std::memory_order_acquire);
    const std::uint64_t begin = object.begin.load(std::memory_order_acquire);
    const std::uint64_t end = object.end.load(std::memory_order_acquire);
    const auto result = use(object, i, version);
    // An object changing now is not the caller's: the caller's code is loaded.
    if ((version & 1) != 0 || object.version.load(std::memory_order_relaxed) != version) continue;
    if (at >= begin && at < end) return result;
  }
  return decltype(use(load::entered[0], count, 0U)){0};
}

}  // namespace

int LinkedRuntimeRelease(const void* address) {
  return WithObjectAt(address,
                      [](const load::EnteredObject& object, std::size_t, std::uint32_t) -> int {
                        return object.release.load(std::memory_order_acquire);
                      });
}

std::uint64_t LinkedRuntime(const void* address) {
  return WithObjectAt(
      address,
      [](const load::EnteredObject&, std::size_t number, std::uint32_t version) -> std::uint64_t {
        return (std::uint64_t{number} + 1) << 32U | version;
      });
}

}  // namespace cuspan
