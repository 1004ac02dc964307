// Copies of boxes: rows in planes, in memory or in arrays, wherever the sides lie.
#include <cstring>

#include "interpose/client/connection/host_rows.h"
#include "interpose/client/session_copies.h"

namespace cuspan {
namespace {

std::uint64_t Address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

bool InsideOf(std::uint64_t start, std::uint64_t size, std::uint64_t whole) {
  return start <= whole && size <= whole - start;
}

bool InsideArray(const Session::BoxSide& side, const BoxExtent& extent) {
  const BoxExtent whole = side.array->extent();
  return side.array->levels == 0 && InsideOf(side.x, extent.width, whole.width) &&
         InsideOf(side.y, extent.rows, whole.rows) && InsideOf(side.z, extent.planes, whole.planes);
}

// Whether the box has no gaps between its rows and planes.
bool IsOneRun(const Session::BoxSide& side, const BoxExtent& extent) {
  if (side.array != nullptr) return false;
  const bool rows = extent.rows == 1 || side.pitch == extent.width;
  return rows && (extent.planes == 1 || side.plane_rows * side.pitch == extent.rows * extent.width);
}

BoxPlace PlaceOf(const Session::BoxSide& side) {
  if (side.array != nullptr) return {side.array->handle, 0, 0, 0, side.x, side.y, side.z};
  return {0, Address(side.pointer), side.pitch, side.plane_rows, 0, 0, 0};
}

// Whether all of a side in memory is there, on the device of `link`.
bool InsideMemory(const Link& link, const Session::BoxSide& side, const BoxExtent& extent) {
  const auto span = SpannedBytes(extent, side.pitch, side.plane_rows);
  const auto range = link.memory().Find(Address(side.pointer));
  return span && range && InsideOf(Address(side.pointer) - range->base, *span, range->bytes);
}

HostRows RowsOf(const Session::BoxSide& side, const BoxExtent& extent) {
  if (IsOneRun(side, extent)) return {};
  return {extent, side.pitch, side.plane_rows};
}

std::byte* MemoryOf(const Session::BoxSide& side) {
  return static_cast<std::byte*>(const_cast<void*>(side.pointer));
}

}  // namespace

CUresult Session::CopyBox(const BoxCopy& copy, const StreamTarget& target) {
  const BoxExtent& extent = copy.extent;
  if (extent.width == 0 || extent.rows == 0 || extent.planes == 0) return CUDA_SUCCESS;
  const auto bytes = PackedBytes(extent);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (IsOneRun(copy.destination, extent) && IsOneRun(copy.source, extent)) {
    return Copy({MemoryOf(copy.destination), copy.source.pointer, *bytes, copy.destination_device,
                 copy.source_device, copy.sides, copy.asynchronous},
                target);
  }
  // What each side is, and whether all of it is there.
  struct Found {
    std::shared_ptr<Link> link;  // Null for the host.
    std::uint64_t span = 0;
    bool pinned = false;
    bool valid = false;
  };
  auto [to_link, from_link] = SidesOf(copy.destination.pointer, copy.source.pointer);
  if (copy.destination.array != nullptr) to_link = copy.destination.array->link;
  if (copy.source.array != nullptr) from_link = copy.source.array->link;
  const auto find = [&](const BoxSide& side, const std::shared_ptr<Link>& link, int device) {
    Found found;
    if (side.array != nullptr) {
      found.link = link;
      found.valid = InsideArray(side, extent);
    } else if (side.pointer != nullptr) {
      const auto span = SpannedBytes(extent, side.pitch, side.plane_rows);
      if (!span) return found;
      found.span = *span;
      found.link = link;
      if (found.link == nullptr) {
        found.pinned = host_memory_.Find(side.pointer, *span).has_value();
        found.valid = true;
      } else {
        found.valid = InsideMemory(*found.link, side, extent);
      }
    }
    if (device >= 0 && (found.link == nullptr || found.link->device() != device))
      found.valid = false;
    return found;
  };
  const Found to = find(copy.destination, to_link, copy.destination_device);
  const Found from = find(copy.source, from_link, copy.source_device);
  if (!to.valid || !from.valid) return CUDA_ERROR_INVALID_VALUE;
  using Kind = CopyRequest::Sides;
  // As for one run: pageable memory where the kind says device is refused.
  const bool to_device = copy.sides == Kind::kHostToDevice || copy.sides == Kind::kDeviceToDevice;
  const bool from_device = copy.sides == Kind::kDeviceToHost || copy.sides == Kind::kDeviceToDevice;
  if ((to_device && to.link == nullptr && !to.pinned) ||
      (from_device && from.link == nullptr && !from.pinned))
    return CUDA_ERROR_INVALID_VALUE;

  if (to.link == nullptr && from.link == nullptr) {
    if (const CUresult result = SynchronizeStream(target); result != CUDA_SUCCESS) return result;
    std::vector<std::byte> packed(*bytes);
    PackRows(RowsOf(copy.source, extent), MemoryOf(copy.source), 0, *bytes, packed.data());
    UnpackRows(RowsOf(copy.destination, extent), MemoryOf(copy.destination), 0, *bytes,
               packed.data());
    return CUDA_SUCCESS;
  }
  CopyBoxToDevice write;
  write.to = PlaceOf(copy.destination);
  write.extent = extent;
  CopyBoxFromDevice read;
  read.from = PlaceOf(copy.source);
  read.extent = extent;
  if (from.link == nullptr) {
    const CUresult result = OnDevice(target, to.link, [&](const StreamTarget& there) {
      const bool later = copy.asynchronous && from.pinned;
      return SendBytes(there, write, MemoryOf(copy.source), *bytes, RowsOf(copy.source, extent),
                       later);
    });
    if (result != CUDA_SUCCESS ||
        !MustWaitFor(copy.destination.pointer, copy.source.pointer, copy.asynchronous))
      return result;
    return SynchronizeStream(target);
  }
  if (to.link == nullptr) {
    return OnDevice(target, from.link, [&](const StreamTarget& there) {
      const bool later = copy.asynchronous && to.pinned;
      return ReceiveBytes(there, read, MemoryOf(copy.destination), *bytes,
                          RowsOf(copy.destination, extent), later);
    });
  }
  const bool in_memory = copy.destination.array == nullptr && copy.source.array == nullptr;
  const Sides sides{to.link, from.link};
  const std::shared_ptr<Link> copier =
      in_memory || to.link == from.link
          ? CopierOf(sides, copy.destination.pointer, copy.source.pointer, target)
          : nullptr;
  if (copier == nullptr)
    return CopyPeer({to.link, from.link, write.to, read.from, extent}, copy.asynchronous, target);
  CopyBoxOnDevice op;
  op.to = write.to;
  op.from = read.from;
  op.extent = extent;
  const CUresult result = CopyByItself(copier, sides, copy.asynchronous, target, op);
  if (result != CUDA_SUCCESS ||
      !MustWaitFor(copy.destination.pointer, copy.source.pointer, copy.asynchronous))
    return result;
  return SynchronizeStream(target);
}

bool Session::BothOn(const Link& link, const BoxCopy& copy) const {
  const auto is_there = [&](const BoxSide& side) {
    if (side.array != nullptr)
      return side.array->link.get() == &link && InsideArray(side, copy.extent);
    return InsideMemory(link, side, copy.extent);
  };
  return is_there(copy.destination) && is_there(copy.source);
}

GraphCopy Session::AsNode(const BoxCopy& copy) {
  GraphCopy op;
  op.to = PlaceOf(copy.destination);
  op.from = PlaceOf(copy.source);
  op.extent = copy.extent;
  return op;
}

CUresult Session::SetRows(const RowsSet& set, const StreamTarget& target) {
  if (set.width == 0 || set.rows == 0) return CUDA_SUCCESS;
  const auto span = SpannedBytes({set.width, set.rows, 1}, set.pitch, set.rows);
  const std::shared_ptr<Link> link = LinkOf(reinterpret_cast<void*>(set.address));
  if (link == nullptr || !span) return CUDA_ERROR_INVALID_VALUE;
  const auto range = link->memory().Find(set.address);
  if (!range || !InsideOf(set.address - range->base, *span, range->bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return OnDevice(target, link, [&](const StreamTarget& there) {
    MemsetRows op;
    op.stream = there.stream;
    op.destination = set.address;
    op.pitch = set.pitch;
    op.value = set.value & 0xff;
    op.width = set.width;
    op.rows = set.rows;
    return there.link->Post(op);
  });
}

}  // namespace cuspan
