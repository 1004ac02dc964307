#include "store/layout/geometry.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace cuspan::store {
namespace {

// a * b, or the largest number.
std::uint64_t Product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::uint64_t>::max()
                                                : product;
}

}  // namespace

Result<CacheGeometry> PlanCache(std::uint64_t bytes, std::uint32_t line) {
  if (!std::has_single_bit(line) || line < kMinLine || line > kMaxLine)
    return Status::Invalid("a line has {} bytes: it must be a power of two from {} to {}", line,
                           kMinLine, kMaxLine);
  const std::uint64_t slots = bytes / line;
  if (slots < kMinSlots)
    return Status::Invalid("a cache of {} bytes has {} lines of {} bytes: it needs at least {}",
                           bytes, slots, line, kMinSlots);
  if (slots > kMaxSlots)
    return Status::Invalid(
        "a cache of {} bytes has {} lines of {} bytes, of at most {}: take longer lines", bytes,
        slots, line, kMaxSlots);
  return CacheGeometry{static_cast<std::uint32_t>(slots),
                       static_cast<std::uint8_t>(std::countr_zero(line))};
}

Status CheckElement(const Element& element, std::uint64_t line) {
  if (!std::has_single_bit(element.bytes) ||
      element.bytes > std::min<std::uint64_t>(kMaxElement, line))
    return Status::Invalid("an element has {} bytes: it must be a power of two, at most {}",
                           element.bytes, kMaxElement);
  if (element.kind != 0 && std::string_view("uifcb").find(element.kind) == std::string_view::npos)
    return Status::Invalid("'{}' is no kind of elements: u, i, f, c or b", element.kind);
  return Status::Ok();
}

Result<ArrayShape> ShapeOfRaw(const cuspanArrayConfig_t& config, std::uint64_t file_bytes) {
  if (config.dimensions > CUSPAN_MAX_DIMENSIONS)
    return Status::Invalid("an array has {} dimensions, of at most {}", config.dimensions,
                           CUSPAN_MAX_DIMENSIONS);
  ArrayShape shape;
  shape.start = config.offset;
  if (config.dimensions == 0) {
    if (config.offset > file_bytes)
      return Status::Invalid("the array begins at byte {} of a file of {}", config.offset,
                             file_bytes);
    const std::uint64_t data = file_bytes - config.offset;
    if (data % config.element != 0)
      return Status::Invalid("{} bytes are no whole number of elements of {}", data,
                             config.element);
    shape.count = shape.sizes[0] = data / config.element;
    return shape;
  }
  shape.dimensions = static_cast<std::uint8_t>(config.dimensions);
  shape.count = 1;
  for (std::uint32_t i = 0; i < config.dimensions; ++i) {
    shape.sizes[i] = config.shape[i];
    shape.count = Product(shape.count, config.shape[i]);
  }
  return shape;
}

Status CheckShape(const ArrayShape& shape, std::uint32_t element, std::uint64_t file_bytes) {
  if (shape.start % element != 0)
    return Status::Invalid(
        "the first element is at byte {}, not at a multiple of {}: elements would lie on two lines",
        shape.start, element);
  const std::uint64_t bytes = Product(shape.count, element);
  if (shape.start > file_bytes || bytes > file_bytes - shape.start)
    return Status::Invalid(
        "{} elements of {} bytes from byte {} do not fit into a file of {} bytes", shape.count,
        element, shape.start, file_bytes);
  return Status::Ok();
}

Status CheckTable(std::uint64_t file_bytes, const CacheGeometry& cache, std::uint64_t free_bytes) {
  constexpr std::uint64_t kWord = sizeof(std::uint64_t);
  if (LinesOf(file_bytes, cache) * kWord <= free_bytes / 8) return Status::Ok();
  for (std::uint64_t line = 2 * cache.line(); line <= kMaxLine; line *= 2)
    if ((file_bytes + line - 1) / line * kWord <= free_bytes / 8)
      return Status::Invalid(
          "a file of {} bytes has {} lines of {} bytes, and their words take more than an eighth "
          "of the free device memory: take lines of {} bytes",
          file_bytes, LinesOf(file_bytes, cache), cache.line(), line);
  return Status::Invalid(
      "a file of {} bytes has {} lines, and their words take more than an eighth of the free "
      "device memory",
      file_bytes, LinesOf(file_bytes, cache));
}

}  // namespace cuspan::store
