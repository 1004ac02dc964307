// Copies of boxes: rows in planes, in memory or in arrays.
#include <cstring>

#include "interpose/client/copies.h"
#include "interpose/client/copy_bytes.h"
#include "interpose/client/memory/addresses.h"

namespace cuspan {
namespace {

// The proxy submits kept rows one by one.
constexpr std::uint64_t kMaxEarlyRows = 256;

bool InsideOf(std::uint64_t start, std::uint64_t size, std::uint64_t whole) {
  return start <= whole && size <= whole - start;
}

bool InsideArray(const BoxSide& side, const BoxExtent& extent) {
  const BoxExtent whole = side.array->extent();
  return side.array->levels == 0 && InsideOf(side.x, extent.width, whole.width) &&
         InsideOf(side.y, extent.rows, whole.rows) && InsideOf(side.z, extent.planes, whole.planes);
}

// True if the box has no gaps between its rows and planes.
bool IsOneRun(const BoxSide& side, const BoxExtent& extent) {
  if (side.array != nullptr) return false;
  const bool rows = extent.rows == 1 || side.pitch == extent.width;
  return rows && (extent.planes == 1 || side.plane_rows * side.pitch == extent.rows * extent.width);
}

BoxLocation LocationOf(const BoxSide& side) {
  if (side.array != nullptr) return {side.array->handle, 0, 0, 0, side.x, side.y, side.z};
  return {0, AddressOf(side.pointer), side.pitch, side.plane_rows, 0, 0, 0};
}

// True if a side in memory is entirely on the device of `connection`.
bool InsideMemory(const ContextConnection& connection, const BoxSide& side,
                  const BoxExtent& extent) {
  const auto span = SpannedBytes(extent, side.pitch, side.plane_rows);
  return span && connection.memory().Covers(AddressOf(side.pointer), *span);
}

HostRows RowsOf(const BoxSide& side, const BoxExtent& extent) {
  if (IsOneRun(side, extent)) return {};
  return {extent, side.pitch, side.plane_rows};
}

std::byte* MemoryOf(const BoxSide& side) {
  return static_cast<std::byte*>(const_cast<void*>(side.pointer));
}

// One side of a copy, and the validity of its extent.
struct BoxEnd {
  std::shared_ptr<ContextConnection> connection;  // Null for the host.
  bool pinned = false;
  bool valid = false;
};

// `connection`: owner of the side, or null. `device`: device named by the program, or -1.
BoxEnd EndOf(const BoxSide& side, const BoxExtent& extent,
             std::shared_ptr<ContextConnection> connection, int device, const HostMemory& host) {
  BoxEnd end{std::move(connection)};
  if (side.array != nullptr) {
    end.valid = InsideArray(side, extent);
  } else if (side.pointer != nullptr) {
    const auto span = SpannedBytes(extent, side.pitch, side.plane_rows);
    end.pinned = span && end.connection == nullptr && host.Find(side.pointer, *span);
    end.valid = span && (end.connection == nullptr || InsideMemory(*end.connection, side, extent));
  }
  if (device >= 0 && (end.connection == nullptr || end.connection->device() != device))
    end.valid = false;
  return end;
}

// True if the kind says device for pageable memory: refused as for one run.
bool IsWrong(CopySides sides, const BoxEnd& to, const BoxEnd& from) {
  const bool to_device = sides == CopySides::kHostToDevice || sides == CopySides::kDeviceToDevice;
  const bool from_device = sides == CopySides::kDeviceToHost || sides == CopySides::kDeviceToDevice;
  return (to_device && to.connection == nullptr && !to.pinned) ||
         (from_device && from.connection == nullptr && !from.pinned);
}

}  // namespace

bool BothOn(const ContextConnection& connection, const BoxCopy& copy) {
  const auto is_there = [&](const BoxSide& side) {
    if (side.array != nullptr)
      return side.array->connection.get() == &connection && InsideArray(side, copy.extent);
    return InsideMemory(connection, side, copy.extent);
  };
  return is_there(copy.destination) && is_there(copy.source);
}

GraphCopy AsNode(const BoxCopy& copy) {
  GraphCopy op;
  op.to = LocationOf(copy.destination);
  op.from = LocationOf(copy.source);
  op.extent = copy.extent;
  return op;
}

CUresult Copies::Copy(const BoxCopy& copy, const StreamTarget& target) {
  const BoxExtent& extent = copy.extent;
  if (extent.width == 0 || extent.rows == 0 || extent.planes == 0) return CUDA_SUCCESS;
  const auto bytes = PackedBytes(extent);
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (IsOneRun(copy.destination, extent) && IsOneRun(copy.source, extent)) {
    return Copy(
        CopyRequest{MemoryOf(copy.destination), copy.source.pointer, *bytes,
                    copy.destination_device, copy.source_device, copy.sides, copy.asynchronous},
        target);
  }
  BoxCopy now = copy;
  const CopyEnds ends = UseOrderedAddresses(now);
  const void* const to = now.destination.pointer;
  const void* const from = now.source.pointer;
  CUresult result = Begin(to, from, &now.asynchronous, target);
  if (result != CUDA_SUCCESS) return result;
  bool waited = false;
  const auto spanned = [&](const BoxSide& side) {
    return side.array != nullptr ? 0
                                 : SpannedBytes(extent, side.pitch, side.plane_rows).value_or(0);
  };
  result = WithRegistered(ends, to, spanned(now.destination), from, spanned(now.source),
                          [&] { return PostBox(now, *bytes, target, &waited); });
  if (result != CUDA_SUCCESS || now.asynchronous) return result;
  return End(to, from, waited, target);
}

CopyEnds Copies::UseOrderedAddresses(BoxCopy& copy) {
  AddressSpace& addresses = *parts_.addresses;
  if (!addresses.any_registered()) [[likely]]
    return {};
  const auto owner = [&](const BoxSide& side) {
    return side.array != nullptr ? side.array->connection : addresses.ConnectionOf(side.pointer);
  };
  const auto order = [&](BoxSide& side, const BoxSide& other) {
    const auto bytes = SpannedBytes(copy.extent, side.pitch, side.plane_rows);
    if (side.array == nullptr && bytes)
      side.pointer = addresses.ForCopies(side.pointer, *bytes, owner(other));
  };
  order(copy.destination, copy.source);
  order(copy.source, copy.destination);
  return EndsOf(copy);
}

CopyEnds Copies::EndsOf(const BoxCopy& copy) {
  CopyEnds ends = parts_.addresses->EndsOf(copy.destination.pointer, copy.source.pointer);
  if (copy.destination.array != nullptr) ends.to = copy.destination.array->connection;
  if (copy.source.array != nullptr) ends.from = copy.source.array->connection;
  return ends;
}

CUresult Copies::PostBox(const BoxCopy& copy, std::uint64_t bytes, const StreamTarget& target,
                         bool* waited) {
  const BoxExtent& extent = copy.extent;
  const CopyEnds ends = EndsOf(copy);
  const BoxEnd to = EndOf(copy.destination, extent, ends.to, copy.destination_device, *parts_.host);
  const BoxEnd from = EndOf(copy.source, extent, ends.from, copy.source_device, *parts_.host);
  if (!to.valid || !from.valid || IsWrong(copy.sides, to, from)) return CUDA_ERROR_INVALID_VALUE;

  CopyBoxToDevice write;
  write.to = LocationOf(copy.destination);
  write.extent = extent;
  CopyBoxFromDevice read;
  read.from = LocationOf(copy.source);
  read.extent = extent;
  if (to.connection != nullptr && from.connection != nullptr) {
    const bool in_memory = copy.destination.array == nullptr && copy.source.array == nullptr;
    std::shared_ptr<ContextConnection> copier;
    if (in_memory || to.connection == from.connection)
      copier =
          parts_.addresses->CopierOf(ends, copy.destination.pointer, copy.source.pointer, target);
    if (copier == nullptr)
      return CopyPeer({to.connection, from.connection, write.to, read.from, extent},
                      copy.asynchronous, target);
    CopyBoxOnDevice op;
    op.to = write.to;
    op.from = read.from;
    op.extent = extent;
    return CopyByItself(copier, ends, copy.asynchronous, target, op);
  }
  if (to.connection != nullptr) {
    return parts_.events->OnDevice(target, to.connection, [&](const StreamTarget& there) {
      // An array's kept bytes could not be submitted at once (StagedCopies::FromMemory).
      const bool early =
          copy.destination.array == nullptr && extent.rows * extent.planes <= kMaxEarlyRows;
      return SendBytes(there, write, MemoryOf(copy.source), bytes, RowsOf(copy.source, extent),
                       copy.asynchronous && from.pinned,
                       early && !HostWritesPending(*there.connection));
    });
  }
  *waited = true;
  if (from.connection != nullptr) {
    return parts_.events->OnDevice(target, from.connection, [&](const StreamTarget& there) {
      return ReceiveBytes(there, read, MemoryOf(copy.destination), bytes,
                          RowsOf(copy.destination, extent), copy.asynchronous && to.pinned);
    });
  }
  // Host to host: copied once the stream's earlier work is complete.
  const CUresult result = parts_.streams->Synchronize(target);
  if (result != CUDA_SUCCESS) return result;
  std::vector<std::byte> packed(bytes);
  PackRows(RowsOf(copy.source, extent), MemoryOf(copy.source), 0, bytes, packed.data());
  UnpackRows(RowsOf(copy.destination, extent), MemoryOf(copy.destination), 0, bytes, packed.data());
  return CUDA_SUCCESS;
}

}  // namespace cuspan
