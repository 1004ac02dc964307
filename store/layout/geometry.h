// Sizes of caches and arrays, checked before anything is allocated.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "common/status.h"
#include "include/cuspan/store.h"
#include "include/cuspan/store_tables.h"

namespace cuspan::store {

inline constexpr std::uint32_t kMinLine = 512;
inline constexpr std::uint32_t kMaxLine = 64 * 1024;
inline constexpr std::uint64_t kMinSlots = 4;
// A line's word has 28 bits for the slot.
inline constexpr std::uint64_t kMaxSlots = std::uint64_t{1} << 28;
inline constexpr std::uint32_t kMaxElement = 512;
inline constexpr std::uint64_t kExtentBytes = std::uint64_t{1} << CUSPAN_EXTENT_SHIFT;

struct CacheGeometry {
  std::uint32_t slots = 0;
  std::uint8_t line_shift = 0;

  constexpr std::uint64_t line() const { return std::uint64_t{1} << line_shift; }
  constexpr std::uint64_t bytes() const { return std::uint64_t{slots} << line_shift; }
};

// Slots of a cache with at most `bytes` of lines.
Result<CacheGeometry> PlanCache(std::uint64_t bytes, std::uint32_t line);

// Elements of a file.
struct ArrayShape {
  std::uint64_t start = 0;  // Offset of the first element.
  std::uint64_t count = 0;
  std::uint8_t dimensions = 1;
  std::array<std::uint64_t, CUSPAN_MAX_DIMENSIONS> sizes{1, 1, 1, 1};
};

// Size and kind of the elements wanted by the program. Checks them.
struct Element {
  std::uint32_t bytes = 0;
  char kind = 0;  // NumPy's, or 0: any.
};
Status CheckElement(const Element& element, std::uint64_t line);

// Shape of a raw file of `file_bytes`.
Result<ArrayShape> ShapeOfRaw(const cuspanArrayConfig_t& config, std::uint64_t file_bytes);

// kInvalid if the elements lie beyond the end of the file, or across lines.
Status CheckShape(const ArrayShape& shape, std::uint32_t element, std::uint64_t file_bytes);

// Number of lines of a file, of the last one perhaps only a part.
constexpr std::uint64_t LinesOf(std::uint64_t file_bytes, const CacheGeometry& cache) {
  return (file_bytes + cache.line() - 1) >> cache.line_shift;
}
constexpr std::uint64_t ExtentsOf(std::uint64_t file_bytes) {
  return (file_bytes + kExtentBytes - 1) >> CUSPAN_EXTENT_SHIFT;
}

// kInvalid if the words of a file's lines would take more than an eighth of the free device memory;
// names the line that would fit.
Status CheckTable(std::uint64_t file_bytes, const CacheGeometry& cache, std::uint64_t free_bytes);

}  // namespace cuspan::store
