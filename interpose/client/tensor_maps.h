// Tensor maps that the driver of a device has encoded, each kept with what it was made of: a map
// has a format of the driver's own, and programs ask for the same one again and again.
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

// Those of one life of a context. Any thread.
class TensorMaps {
 public:
  using Map = std::array<std::uint64_t, CU_TENSOR_MAP_NUM_QWORDS>;

  // The map that `op` asks for: one that is kept, or else that of ask(op, &reply) → CUresult, which
  // is called without a lock and whose failures are not kept.
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
  // Programs that make a map for each address they use must not fill the process.
  static constexpr std::size_t kMost = 4096;

  // The op's number and its fields as they cross.
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
