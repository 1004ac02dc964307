#include "interpose/client/sets.h"

#include "interpose/client/connection/host_rows.h"

namespace cuspan {

CUresult Sets::Elements(std::uint64_t address, std::uint32_t value, std::uint32_t element_bytes,
                        std::uint64_t elements, const StreamTarget& target) {
  if (elements == 0) return CUDA_SUCCESS;
  if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4)
    return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t bytes = 0;
  if (address % element_bytes != 0 ||
      __builtin_mul_overflow(elements, std::uint64_t{element_bytes}, &bytes))
    return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<ContextConnection> connection =
      addresses_.ConnectionOf(reinterpret_cast<void*>(address));
  if (connection == nullptr || !connection->memory().Covers(address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return events_.OnDevice(target, connection, [&](const StreamTarget& there) {
    Memset op;
    op.stream = there.stream;
    op.destination = address;
    op.value = value;
    op.element_bytes = static_cast<std::uint8_t>(element_bytes);
    op.elements = elements;
    return there.connection->Post(op);
  });
}

CUresult Sets::Rows(const RowsSet& set, const StreamTarget& target) {
  if (set.width == 0 || set.rows == 0) return CUDA_SUCCESS;
  const auto span = SpannedBytes({set.width, set.rows, 1}, set.pitch, set.rows);
  const std::shared_ptr<ContextConnection> connection =
      addresses_.ConnectionOf(reinterpret_cast<void*>(set.address));
  if (connection == nullptr || !span || !connection->memory().Covers(set.address, *span))
    return CUDA_ERROR_INVALID_VALUE;
  return events_.OnDevice(target, connection, [&](const StreamTarget& there) {
    MemsetRows op;
    op.stream = there.stream;
    op.destination = set.address;
    op.pitch = set.pitch;
    op.value = set.value & 0xff;
    op.width = set.width;
    op.rows = set.rows;
    return there.connection->Post(op);
  });
}

}  // namespace cuspan
