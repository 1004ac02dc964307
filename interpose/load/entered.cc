#include "interpose/load/entered.h"

#include <atomic>

#include "interpose/load/load.h"

namespace cuspan::load {
namespace {

struct EnteredObject {
  std::atomic<std::uint64_t> begin;
  std::atomic<std::uint64_t> end;
  std::atomic<int> release;
};

// More than programs have libraries with a runtime of their own. What comes after is taken for CUDA
// 13's, as what was built with none.
constexpr std::size_t kMostObjects = 256;
constinit EnteredObject objects[kMostObjects] = {};
constinit std::atomic<std::size_t> object_count{0};

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
  const std::size_t count = object_count.load(std::memory_order_relaxed);
  if (end <= begin || count == kMostObjects) return;
  objects[count].begin.store(bias + begin, std::memory_order_relaxed);
  objects[count].end.store(bias + end, std::memory_order_relaxed);
  objects[count].release.store(release, std::memory_order_relaxed);
  object_count.store(count + 1, std::memory_order_release);
}

}  // namespace cuspan::load

namespace cuspan {

int LinkedRuntimeRelease(const void* address) {
  const auto at = reinterpret_cast<std::uint64_t>(address);
  // The last one counts: an earlier one there has been unloaded.
  for (std::size_t i = load::object_count.load(std::memory_order_acquire); i > 0; --i) {
    const load::EnteredObject& object = load::objects[i - 1];
    if (at >= object.begin.load(std::memory_order_relaxed) &&
        at < object.end.load(std::memory_order_relaxed)) {
      return object.release.load(std::memory_order_relaxed);
    }
  }
  return 0;
}

}  // namespace cuspan
