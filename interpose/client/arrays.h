// Arrays and mipmapped arrays that the program made, on all devices.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "common/mutex.h"
#include "interpose/client/base/context.h"
#include "interpose/client/context_connection.h"

namespace cuspan {

// An array, a mipmapped array, or one level of such. Constant.
struct Array {
  std::uint64_t handle;
  std::shared_ptr<ContextConnection> connection;  // The proxy that has it.
  ArrayShape shape;                               // Of a level: the level's own.
  unsigned levels = 0;                            // Of a mipmapped array; 0 for others.
  std::uint64_t mipmap = 0;                       // Of a level: what it belongs to.
  unsigned level = 0;                             // Of a level: which.

  std::uint64_t element_bytes() const;
  // The bytes that a box in it may span; 1 for rows and planes that the shape does not have.
  BoxExtent extent() const;
};

// Any thread. Results are the driver's.
class Arrays final : public ContextTable {
 public:
  // `levels` 0 makes a plain array. Waits for the proxy, which may be out of memory.
  CUresult Create(const std::shared_ptr<ContextConnection>& connection, const ArrayShape& shape,
                  unsigned levels, std::uint64_t* array);
  // The array of one level: the same one for each call. CUDA_ERROR_INVALID_VALUE when there is no
  // such level.
  CUresult LevelOf(std::uint64_t mipmap, unsigned level, std::uint64_t* array);
  // CUDA_ERROR_INVALID_HANDLE for what is none, and for levels, which end with the whole.
  CUresult Destroy(std::uint64_t array);
  // Null for unknown and destroyed ones.
  std::shared_ptr<const Array> Find(std::uint64_t array) const;
  void Forget(const ContextConnection& ended) override;

 private:
  mutable SharedMutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const Array>> arrays_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
