// Copies of rows with a pitch, in memory and in arrays.
#include <algorithm>

#include "interpose/calls/graph/in_stream.h"
#include "interpose/calls/graph/nodes.h"
#include "interpose/runtime/copy_box.h"

namespace cuspan {

namespace {

struct Rows {
  std::size_t width;
  std::size_t rows;
  cudaMemcpyKind kind;
  bool asynchronous;
  cudaStream_t stream;
};

// A side, as given by the program. `in_array` distinguishes null pointers from null handles.
struct RowsEnd {
  BoxEnd end;
  bool in_array;
};

// A side in memory: rows with a pitch.
RowsEnd MemoryEnd(const void* pointer, std::size_t pitch, std::size_t rows) {
  BoxEnd end;
  end.pointer = const_cast<void*>(pointer);
  end.pitch = pitch;
  end.plane_rows = rows;
  return {end, false};
}

// A side in an array. x: bytes.
RowsEnd ArrayEnd(cudaArray_const_t array, std::size_t x, std::size_t y) {
  BoxEnd end;
  end.array = NumberOf(array);
  end.x = x;
  end.y = y;
  return {end, true};
}

Error CopyRows(const RowsEnd& destination, const RowsEnd& source, const Rows& rows,
               DefaultStream meaning) {
  const auto describe = [&](Session& session, BoxRequest* box) -> Error {
    CUSPAN_RETURN_IF_FAILED(SidesOf(rows.kind, &box->sides));
    box->extent = {rows.width, rows.rows, 1};
    box->destination = destination.end;
    box->source = source.end;
    for (const RowsEnd* side : {&destination, &source}) {
      std::shared_ptr<const Array> array;
      if (side->in_array)
        CUSPAN_RETURN_IF_FAILED(FindArray(session, side->end.array, &array));
      else if (rows.width > side->end.pitch)
        return cudaErrorInvalidPitchValue;
    }
    return cudaSuccess;
  };
  const auto copy_now = [&](Session& session, const StreamTarget& target) -> Error {
    if (rows.width == 0 || rows.rows == 0) return cudaSuccess;
    BoxRequest box;
    CUSPAN_RETURN_IF_FAILED(describe(session, &box));
    return CopyBox(session, target, box, rows.asynchronous);
  };
  if (!rows.asynchronous) return OnStream(rows.stream, meaning, copy_now);
  return InStream(rows.stream, meaning, copy_now,
                  [&](Session& session, const StreamTarget&, Work* work) -> Error {
                    BoxRequest box;
                    CUSPAN_RETURN_IF_FAILED(describe(session, &box));
                    return DescribeCopy(box, work);
                  });
}

Error Copy2D(void* destination, std::size_t destination_pitch, const void* source,
             std::size_t source_pitch, const Rows& rows, DefaultStream meaning) {
  return CopyRows(MemoryEnd(destination, destination_pitch, rows.rows),
                  MemoryEnd(source, source_pitch, rows.rows), rows, meaning);
}

struct InArray {
  cudaArray_const_t array;
  std::size_t x;  // Bytes.
  std::size_t y;
};

Error CopyToArray(const InArray& to, const void* source, std::size_t pitch, const Rows& rows,
                  DefaultStream meaning) {
  return CopyRows(ArrayEnd(to.array, to.x, to.y), MemoryEnd(source, pitch, rows.rows), rows,
                  meaning);
}

Error CopyFromArray(void* destination, std::size_t pitch, const InArray& from, const Rows& rows,
                    DefaultStream meaning) {
  return CopyRows(MemoryEnd(destination, pitch, rows.rows), ArrayEnd(from.array, from.x, from.y),
                  rows, meaning);
}

Error CopyBetweenArrays(const InArray& to, const InArray& from, const Rows& rows,
                        DefaultStream meaning) {
  return CopyRows(ArrayEnd(to.array, to.x, to.y), ArrayEnd(from.array, from.x, from.y), rows,
                  meaning);
}

// Splits a run of `count` bytes, beginning inside one row of an array and continuing in the rows
// below, into boxes. Calls copy(offset, x, y, width, rows) → Error for each.
template <typename Copy>
Error AlongRows(cudaArray_const_t array, std::size_t x, std::size_t y, std::size_t count,
                Copy&& copy) {
  std::size_t row_bytes = 0;
  CUSPAN_RETURN_IF_FAILED(WithSession([&](Session& session) -> Error {
    std::shared_ptr<const Array> found;
    CUSPAN_RETURN_IF_FAILED(FindArray(session, NumberOf(array), &found));
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

// Deprecated functions without a pitch: the bytes follow the array's rows.

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
