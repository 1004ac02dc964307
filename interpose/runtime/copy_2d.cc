// Copies of rows that lie a pitch apart, in memory and in arrays.
#include <algorithm>

#include "interpose/runtime/capture.h"
#include "interpose/runtime/copy_box.h"

namespace cuspan {

Error FindArray(Session& session, cudaArray_const_t array, std::shared_ptr<const Array>* found) {
  *found = session.arrays().Find(NumberOf(array));
  if (*found == nullptr || (*found)->levels != 0) return cudaErrorInvalidResourceHandle;
  return cudaSuccess;
}

namespace {

struct Rows {
  std::size_t width;
  std::size_t rows;
  cudaMemcpyKind kind;
  bool asynchronous;
  cudaStream_t stream;
};

// The copy as parameters of a box.
cudaMemcpy3DParms ParametersOf(const Session::BoxCopy& copy, cudaMemcpyKind kind) {
  cudaMemcpy3DParms out{};
  const auto set = [](const Session::BoxSide& side, cudaArray_t* array, cudaPos* position,
                      cudaPitchedPtr* memory) {
    if (side.array == nullptr) {
      *memory = {const_cast<void*>(side.pointer), side.pitch, side.pitch, side.plane_rows};
      return;
    }
    *array = HandleOf<cudaArray_t>(side.array->handle);
    *position = {side.x / side.array->element_bytes(), side.y, side.z};
  };
  set(copy.source, &out.srcArray, &out.srcPos, &out.srcPtr);
  set(copy.destination, &out.dstArray, &out.dstPos, &out.dstPtr);
  const auto& array = copy.source.array != nullptr ? copy.source.array : copy.destination.array;
  const std::size_t element = array != nullptr ? array->element_bytes() : 1;
  out.extent = {copy.extent.width / element, copy.extent.rows, copy.extent.planes};
  out.kind = kind;
  return out;
}

// sides(session, &copy) → Error fills in both sides.
template <typename Sides>
Error CopyRows(const Rows& rows, DefaultStream meaning, Sides&& sides) {
  const auto prepare = [&](Session& session, Session::BoxCopy* copy) -> Error {
    CUSPAN_RETURN_IF_FAILED(SidesOf(rows.kind, &copy->sides));
    copy->extent = {rows.width, rows.rows, 1};
    copy->asynchronous = rows.asynchronous;
    CUSPAN_RETURN_IF_FAILED(sides(session, copy));
    for (const Session::BoxSide* side : {&copy->destination, &copy->source}) {
      if (side->array != nullptr) continue;
      if (rows.width > side->pitch) return cudaErrorInvalidPitchValue;
      if (side->pointer == nullptr) return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  };
  const auto copy_now = [&](Session& session, const StreamTarget& target) -> Error {
    if (rows.width == 0 || rows.rows == 0) return cudaSuccess;
    Session::BoxCopy copy{};
    CUSPAN_RETURN_IF_FAILED(prepare(session, &copy));
    return CopyBoxOn(session, copy, target);
  };
  if (!rows.asynchronous) return OnStream(rows.stream, meaning, copy_now);
  return InStream(rows.stream, meaning, copy_now,
                  [&](Session& session, const StreamTarget&, Work* work) -> Error {
                    Session::BoxCopy copy{};
                    CUSPAN_RETURN_IF_FAILED(prepare(session, &copy));
                    *work = CopyWork{ParametersOf(copy, rows.kind)};
                    return cudaSuccess;
                  });
}

Error Copy2D(void* destination, std::size_t destination_pitch, const void* source,
             std::size_t source_pitch, const Rows& rows, DefaultStream meaning) {
  return CopyRows(rows, meaning, [&](Session&, Session::BoxCopy* copy) -> Error {
    copy->destination = MemorySide(destination, destination_pitch, rows.rows);
    copy->source = MemorySide(source, source_pitch, rows.rows);
    return cudaSuccess;
  });
}

struct InArray {
  cudaArray_const_t array;
  std::size_t x;  // Bytes.
  std::size_t y;
};

Error SideOf(Session& session, const InArray& place, Session::BoxSide* side) {
  std::shared_ptr<const Array> array;
  CUSPAN_RETURN_IF_FAILED(FindArray(session, place.array, &array));
  *side = ArraySide(std::move(array), place.x, place.y, 0);
  return cudaSuccess;
}

Error CopyToArray(const InArray& to, const void* source, std::size_t pitch, const Rows& rows,
                  DefaultStream meaning) {
  return CopyRows(rows, meaning, [&](Session& session, Session::BoxCopy* copy) {
    copy->source = MemorySide(source, pitch, rows.rows);
    return SideOf(session, to, &copy->destination);
  });
}

Error CopyFromArray(void* destination, std::size_t pitch, const InArray& from, const Rows& rows,
                    DefaultStream meaning) {
  return CopyRows(rows, meaning, [&](Session& session, Session::BoxCopy* copy) {
    copy->destination = MemorySide(destination, pitch, rows.rows);
    return SideOf(session, from, &copy->source);
  });
}

Error CopyBetweenArrays(const InArray& to, const InArray& from, const Rows& rows,
                        DefaultStream meaning) {
  return CopyRows(rows, meaning, [&](Session& session, Session::BoxCopy* copy) -> Error {
    CUSPAN_RETURN_IF_FAILED(SideOf(session, to, &copy->destination));
    return SideOf(session, from, &copy->source);
  });
}

// A run of `count` bytes that starts inside one row of an array and goes on in
// the rows below: copied as the boxes that it is made of. copy(offset, x, y,
// width, rows) → Error.
template <typename Copy>
Error AlongRows(cudaArray_const_t array, std::size_t x, std::size_t y, std::size_t count,
                Copy&& copy) {
  std::size_t row_bytes = 0;
  CUSPAN_RETURN_IF_FAILED(WithSession([&](Session& session) -> Error {
    std::shared_ptr<const Array> found;
    CUSPAN_RETURN_IF_FAILED(FindArray(session, array, &found));
    row_bytes = found->extent().width;
    return cudaSuccess;
  }));
  if (x >= row_bytes) return count == 0 ? cudaSuccess : cudaErrorInvalidValue;
  std::size_t done = 0;
  while (done < count) {
    const std::size_t left = count - done;
    const bool whole = x == 0 && left >= row_bytes;
    const std::size_t width = whole ? row_bytes : std::min(left, row_bytes - x);
    const std::size_t rows = whole ? left / row_bytes : 1;
    CUSPAN_RETURN_IF_FAILED(copy(done, x, y, width, rows));
    done += width * rows;
    y += rows;
    x = 0;
  }
  return cudaSuccess;
}

struct Run {
  std::size_t bytes;
  cudaMemcpyKind kind;
  bool asynchronous;
  cudaStream_t stream;
};

Error CopyRunToArray(const InArray& to, const void* source, const Run& run, DefaultStream meaning) {
  return AlongRows(
      to.array, to.x, to.y, run.bytes,
      [&](std::size_t offset, std::size_t x, std::size_t y, std::size_t width, std::size_t rows) {
        return CopyToArray({to.array, x, y}, static_cast<const std::byte*>(source) + offset, width,
                           {width, rows, run.kind, run.asynchronous, run.stream}, meaning);
      });
}

Error CopyRunFromArray(void* destination, const InArray& from, const Run& run,
                       DefaultStream meaning) {
  return AlongRows(
      from.array, from.x, from.y, run.bytes,
      [&](std::size_t offset, std::size_t x, std::size_t y, std::size_t width, std::size_t rows) {
        return CopyFromArray(static_cast<std::byte*>(destination) + offset, width,
                             {from.array, x, y},
                             {width, rows, run.kind, run.asynchronous, run.stream}, meaning);
      });
}

}  // namespace
}  // namespace cuspan

using namespace cuspan;  // NOLINT: the entry points below are the C API.

CUSPAN_EXPORT_TWINS(cudaMemcpy2D, _ptds,
                    (void* destination, std::size_t destination_pitch, const void* source,
                     std::size_t source_pitch, std::size_t width, std::size_t height,
                     cudaMemcpyKind kind),
                    Answer([&] {
                      return Copy2D(destination, destination_pitch, source, source_pitch,
                                    {width, height, kind, false, nullptr}, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMemcpy2DAsync, _ptsz,
                    (void* destination, std::size_t destination_pitch, const void* source,
                     std::size_t source_pitch, std::size_t width, std::size_t height,
                     cudaMemcpyKind kind, cudaStream_t stream),
                    Answer([&] {
                      return Copy2D(destination, destination_pitch, source, source_pitch,
                                    {width, height, kind, true, stream}, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMemcpy2DToArray, _ptds,
                    (cudaArray_t destination, std::size_t x, std::size_t y, const void* source,
                     std::size_t pitch, std::size_t width, std::size_t height, cudaMemcpyKind kind),
                    Answer([&] {
                      return CopyToArray({destination, x, y}, source, pitch,
                                         {width, height, kind, false, nullptr}, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMemcpy2DToArrayAsync, _ptsz,
                    (cudaArray_t destination, std::size_t x, std::size_t y, const void* source,
                     std::size_t pitch, std::size_t width, std::size_t height, cudaMemcpyKind kind,
                     cudaStream_t stream),
                    Answer([&] {
                      return CopyToArray({destination, x, y}, source, pitch,
                                         {width, height, kind, true, stream}, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMemcpy2DFromArray, _ptds,
                    (void* destination, std::size_t pitch, cudaArray_const_t source, std::size_t x,
                     std::size_t y, std::size_t width, std::size_t height, cudaMemcpyKind kind),
                    Answer([&] {
                      return CopyFromArray(destination, pitch, {source, x, y},
                                           {width, height, kind, false, nullptr}, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMemcpy2DFromArrayAsync, _ptsz,
                    (void* destination, std::size_t pitch, cudaArray_const_t source, std::size_t x,
                     std::size_t y, std::size_t width, std::size_t height, cudaMemcpyKind kind,
                     cudaStream_t stream),
                    Answer([&] {
                      return CopyFromArray(destination, pitch, {source, x, y},
                                           {width, height, kind, true, stream}, meaning);
                    }))

CUSPAN_EXPORT_TWINS(cudaMemcpy2DArrayToArray, _ptds,
                    (cudaArray_t destination, std::size_t destination_x, std::size_t destination_y,
                     cudaArray_const_t source, std::size_t source_x, std::size_t source_y,
                     std::size_t width, std::size_t height, cudaMemcpyKind kind),
                    Answer([&] {
                      return CopyBetweenArrays({destination, destination_x, destination_y},
                                               {source, source_x, source_y},
                                               {width, height, kind, false, nullptr}, meaning);
                    }))

// Deprecated, and without a pitch: the bytes follow the array's rows.

CUSPAN_EXPORT_TWINS(
    cudaMemcpyToArray, _ptds,
    (cudaArray_t destination, std::size_t x, std::size_t y, const void* source, std::size_t bytes,
     cudaMemcpyKind kind),
    Answer([&] {
      return CopyRunToArray({destination, x, y}, source, {bytes, kind, false, nullptr}, meaning);
    }))

CUSPAN_EXPORT_TWINS(
    cudaMemcpyToArrayAsync, _ptsz,
    (cudaArray_t destination, std::size_t x, std::size_t y, const void* source, std::size_t bytes,
     cudaMemcpyKind kind, cudaStream_t stream),
    Answer([&] {
      return CopyRunToArray({destination, x, y}, source, {bytes, kind, true, stream}, meaning);
    }))

CUSPAN_EXPORT_TWINS(
    cudaMemcpyFromArray, _ptds,
    (void* destination, cudaArray_const_t source, std::size_t x, std::size_t y, std::size_t bytes,
     cudaMemcpyKind kind),
    Answer([&] {
      return CopyRunFromArray(destination, {source, x, y}, {bytes, kind, false, nullptr}, meaning);
    }))

CUSPAN_EXPORT_TWINS(
    cudaMemcpyFromArrayAsync, _ptsz,
    (void* destination, cudaArray_const_t source, std::size_t x, std::size_t y, std::size_t bytes,
     cudaMemcpyKind kind, cudaStream_t stream),
    Answer([&] {
      return CopyRunFromArray(destination, {source, x, y}, {bytes, kind, true, stream}, meaning);
    }))
