// Where the boxes of ops lie on this device.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "proxy/session/device_session.h"

namespace cuspan::proxy {

// Whether the client may touch all of a box in memory; what lies in arrays the driver checks.
inline bool MayTouch(const DeviceSession& session, const DeviceBox& box) {
  if (box.array != nullptr) return true;
  if (box.extent.width == 0 || box.extent.rows == 0 || box.extent.planes == 0) return false;
  if (box.place.x != 0 || box.place.y != 0 || box.place.z != 0)
    return false;  // The address says it all.
  const std::optional<std::uint64_t> span =
      SpannedBytes(box.extent, box.place.pitch, box.place.plane_rows);
  return span && session.memory().MayTouch(box.place.address, *span);
}

// A box on this device.
struct LocatedBox {
  std::shared_ptr<Array> array;  // Kept as long as the op that names it.
  DeviceBox box;
};

// kInvalid when it names an array that there is not.
inline Result<LocatedBox> FindBox(DeviceSession& session, const BoxLocation& place,
                                  const BoxExtent& extent) {
  LocatedBox found;
  found.box.place = place;
  found.box.extent = extent;
  if (place.array == 0) return found;
  found.array = session.objects().arrays.Find(place.array);
  if (found.array == nullptr || found.array->driver == nullptr)
    return Status::Invalid("array 0x{:x} does not exist", place.array);
  found.box.array = found.array->driver;
  return found;
}

// What a copy's op says of this device's side: its stream, the box, and how many bytes that is.
struct CopySide {
  std::shared_ptr<Stream> stream;
  LocatedBox place;
  std::uint64_t bytes;
};

// kInvalid when there is no such thing, or nothing to copy.
template <typename Op>
Result<CopySide> FindSide(DeviceSession& session, const Op& op, const BoxLocation& place)
    CUSPAN_REQUIRES(receiving_thread) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.streams().Find(op.stream));
  CUSPAN_ASSIGN_OR_RETURN(LocatedBox found, FindBox(session, place, op.extent));
  const std::optional<std::uint64_t> bytes = PackedBytes(op.extent);
  if (!bytes || *bytes == 0)
    return Status::Invalid("a copy of {} × {} × {} bytes", op.extent.width, op.extent.rows,
                           op.extent.planes);
  return CopySide{std::move(stream), std::move(found), *bytes};
}

}  // namespace cuspan::proxy
