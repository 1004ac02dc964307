// Tensor maps encoded by a device's driver, cached by their parameters. The format of a map is the
// driver's own, and programs request the same map again and again.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "common/mutex.h"
#include "protocol/api/codec.h"

namespace cuspan {

// Maps of one generation of a context. Threads: any.
class TensorMaps {
 public:
  using Map = std::array<std::uint64_t, CU_TENSOR_MAP_NUM_QWORDS>;

  // Returns the map for `op`: a cached one, or the result of ask(op, &reply) → CUresult. ask is
  // called without a lock; its failures are not cached.
  template <typename Op, typename Ask>
  CUresult Get(const Op& op, Ask&& ask, Map* map) {
    const std::string key = KeyOf(op);
    if (Find(key, map)) return CUDA_SUCCESS;
    typename Op::Reply reply;
    if (const CUresult result = ask(op, &reply); result != CUDA_SUCCESS) return result;
    *map = reply.map;
    Keep(key, reply.map);
    return CUDA_SUCCESS;
  }

 private:
  // Limits the memory used for programs creating a map for each address.
  static constexpr std::size_t kMost = 4096;

  // The op's number and its encoded fields.
  template <typename Op>
  static std::string KeyOf(const Op& op) {
    const auto number = static_cast<std::uint16_t>(Op::kOp);
    std::string key(sizeof number + EncodedSize(op), '\0');
    Encoder encoder(std::as_writable_bytes(std::span(key)));
    encoder.Raw(&number, sizeof number);
    Codec<Op>::Encode(encoder, op);
    return key;
  }
  bool Find(const std::string& key, Map* map) {
    const MutexLock lock(mutex_);
    const auto kept = maps_.find(key);
    if (kept == maps_.end()) return false;
    *map = kept->second;
    return true;
  }
  void Keep(const std::string& key, const Map& map) {
    const MutexLock lock(mutex_);
    if (maps_.size() >= kMost) maps_.clear();
    maps_.insert_or_assign(key, map);
  }

  Mutex mutex_;
  std::unordered_map<std::string, Map> maps_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
