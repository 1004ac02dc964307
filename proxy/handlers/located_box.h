// Locations of an op's boxes on this device.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "proxy/session/device_session.h"

namespace cuspan::proxy {

// True if the client may access all memory of a box. For boxes in arrays, the driver checks this.
inline bool MayTouch(const DeviceSession& session, const DeviceBox& box) {
  if (box.array != nullptr) return true;
  if (box.extent.width == 0 || box.extent.rows == 0 || box.extent.planes == 0) return false;
  if (box.location.x != 0 || box.location.y != 0 || box.location.z != 0)
    return false;  // Memory is given by its address only.
  const std::optional<std::uint64_t> span =
      SpannedBytes(box.extent, box.location.pitch, box.location.plane_rows);
  return span && session.memory().MayTouch(box.location.address, *span);
}

// A box on this device.
struct LocatedBox {
  std::shared_ptr<Array> array;  // Null for memory. Kept as long as the op.
  DeviceBox box;
};

// kInvalid if the array does not exist.
inline Result<LocatedBox> FindBox(DeviceSession& session, const BoxLocation& location,
                                  const BoxExtent& extent) {
  LocatedBox found;
  found.box.location = location;
  found.box.extent = extent;
  if (location.array == 0) return found;
  found.array = session.objects().arrays.Find(location.array);
  if (found.array == nullptr || found.array->driver == nullptr)
    return Status::Invalid("array 0x{:x} does not exist", location.array);
  found.box.array = found.array->driver;
  return found;
}

// This device's side of a copy op: its stream, its box, and the number of bytes.
struct CopySide {
  std::shared_ptr<Stream> stream;
  LocatedBox location;
  std::uint64_t bytes;
};

// kInvalid if the stream or array does not exist, or the copy is empty.
template <typename Op>
Result<CopySide> FindSide(DeviceSession& session, const Op& op, const BoxLocation& location)
    CUSPAN_REQUIRES(receiving_thread) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  CUSPAN_ASSIGN_OR_RETURN(LocatedBox found, FindBox(session, location, op.extent));
  const std::optional<std::uint64_t> bytes = PackedBytes(op.extent);
  if (!bytes || *bytes == 0)
    return Status::Invalid("an invalid copy of {} × {} × {} bytes", op.extent.width, op.extent.rows,
                           op.extent.planes);
  return CopySide{std::move(stream), std::move(found), *bytes};
}

}  // namespace cuspan::proxy
