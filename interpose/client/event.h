// An event as the client knows it. Its completions are pushed by the proxy, so
// asking about it crosses nothing.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace cuspan {

class Link;

struct Event {
  std::uint64_t id;
  std::shared_ptr<Link> link;  // The proxy that has it.
  unsigned flags;

  // Held while a record is numbered and posted, so that both orders agree. Never
  // taken by the receiver thread, since posting may wait for it.
  std::mutex recording;

  std::mutex mutex;  // Guards all that follows.
  std::condition_variable changed;
  std::uint64_t recorded = 0;  // Number of the last record posted.
  std::uint64_t reached = 0;   // Number of the last one known complete.
  CUresult result = CUDA_SUCCESS;
  bool destroyed = false;  // By the program; it is kept until all its records are reached.
  // Streams of other devices that are held until `record` is reached.
  struct Held {
    std::uint64_t record;
    std::weak_ptr<Link> link;
    std::uint64_t signal;
  };
  std::vector<Held> held;
  // Called once, without locks, by the receiver thread, when the first record is
  // reached or the device is lost.
  std::function<void(CUresult)> then;
};

}  // namespace cuspan
