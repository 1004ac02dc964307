// Arrays and mipmapped arrays created by the program, on all devices.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "common/mutex.h"
#include "interpose/client/base/context.h"
#include "interpose/client/context_connection.h"

namespace cuspan {

// An array, a mipmapped array, or one level of a mipmapped array. Constant.
struct Array {
  std::uint64_t handle;
  std::shared_ptr<ContextConnection> connection;  // Connection to its proxy.
  ArrayShape shape;                               // The level's, if it is one.
  unsigned levels = 0;                            // Levels of a mipmapped array; 0 for others.
  std::uint64_t mipmap = 0;                       // Mipmapped array of a level; else 0.
  unsigned level = 0;                             // Index of a level.

  std::uint64_t element_bytes() const;
  // Maximum extent of a box in it; 1 for rows and planes missing in the shape.
  BoxExtent extent() const;
};

// Threads: any. Results are the driver's.
class Arrays final : public ContextTable {
 public:
  // `levels` 0 creates a plain array. Waits for the proxy, since it may be out of memory.
  CUresult Create(const std::shared_ptr<ContextConnection>& connection, const ArrayShape& shape,
                  unsigned levels, std::uint64_t* array);
  // Returns the array of one level, the same for each call. CUDA_ERROR_INVALID_VALUE if this level
  // does not exist.
  CUresult LevelOf(std::uint64_t mipmap, unsigned level, std::uint64_t* array);
  // CUDA_ERROR_INVALID_HANDLE for unknown handles, and for levels: they end with their mipmapped
  // array.
  CUresult Destroy(std::uint64_t array);
  // Null for unknown and destroyed ones.
  std::shared_ptr<const Array> Find(std::uint64_t array) const;
  void Forget(const ContextConnection& ended) override;

 private:
  mutable SharedMutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const Array>> arrays_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
