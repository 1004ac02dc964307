// Streams for reads and writes of files that are in no order with other work.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/base/context.h"
#include "interpose/client/context_connection.h"

namespace cuspan {

// Threads: any. A table of the session.
class FileStreams final : public ContextTable {
 public:
  // Gets a stream with as few operations as possible, until Return. They are in order with each
  // other, and end whatever the program's streams do.
  CUresult Take(ContextConnection& connection, std::uint64_t* stream);
  // Must not block: called by the receiving thread. `connection`: its number.
  void Return(std::uint64_t connection, std::uint64_t stream);

  void Forget(const ContextConnection& ended) override;

 private:
  struct Stream {
    std::uint64_t handle = 0;
    unsigned operations = 0;
  };
  // More make neither copy engines nor a proxy's file threads faster. Several threads may exceed it
  // by creating the last one at the same time.
  static constexpr std::size_t kMaxStreams = 32;

  Mutex mutex_;
  // Streams by ContextConnection::number(). They end with the context.
  std::unordered_map<std::uint64_t, std::vector<Stream>> streams_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
