// Words of page-locked memory, written by the device at points of a stream ("marks").
//
// Finding a mark costs a load. A query of an event costs the driver 0.15 µs while the event is
// pending, and 1.4 µs when it is complete; the answer then also comes later. A mark costs 1.2 µs to
// submit, an event 0.4 µs (measured on an H200, driver 580).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/shared_memory.h"
#include "proxy/gpu/driver.h"

namespace cuspan::proxy {

class MarkPool;

// True if a word has reached this mark. Numbers wrap around; fewer than 2^31 marks of a word are
// pending. Threads: any.
inline bool Reached(const std::atomic<std::uint32_t>& word, std::uint32_t mark) {
  return static_cast<std::int32_t>(word.load(std::memory_order_acquire) - mark) >= 0;
}

// A word for the marks of one stream, returned to its pool by the destructor. Empty by default.
class MarkWord {
 public:
  MarkWord() = default;
  MarkWord(MarkWord&& other) noexcept { *this = std::move(other); }
  MarkWord& operator=(MarkWord&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(word_, other.word_);
    std::swap(address_, other.address_);
    std::swap(last_, other.last_);
    return *this;
  }
  ~MarkWord();
  bool empty() const { return word_ == nullptr; }
  // True if the device has reached this mark. Threads: any.
  bool Reached(std::uint32_t mark) const { return proxy::Reached(*word_, mark); }

 private:
  friend class MarkPool;
  MarkPool* pool_ = nullptr;
  std::atomic<std::uint32_t>* word_ = nullptr;
  CUdeviceptr address_ = 0;
  std::uint32_t last_ = 0;  // Number of the last mark submitted.
};

// Threads: any, with the device's context; Put: one at a time for each stream. Outlives its words.
class MarkPool {
 public:
  // Allocates all words: later, the driver might wait for the device.
  // `client_words`: those of PutForClient, kept by the caller; may be empty.
  explicit MarkPool(const Driver& driver, std::span<std::byte> client_words = {});
  ~MarkPool();
  MarkPool(const MarkPool&) = delete;

  // Submits a mark behind the work of `stream`; *mark is its number. `word` is the stream's, taken
  // from the pool at the first call. It is kept until the mark is reached or the device is lost.
  // False if all words are in use, or the driver refuses marks: the caller uses an event.
  bool Put(CUstream stream, MarkWord& word, std::uint32_t* mark);
  // The same with a word chosen by the client, `offset` bytes from the start of its words. The
  // device writes `value`.
  bool PutForClient(CUstream stream, std::size_t offset, std::uint32_t value);

 private:
  friend class MarkWord;
  bool Write(CUstream stream, CUdeviceptr address, std::uint32_t value);
  bool Acquire(MarkWord& word);
  void Return(MarkWord& word);

  const Driver& driver_;
  CUdeviceptr address_ = 0;  // The device's address of the page; 0: no marks.
  Mapping page_;
  const std::span<std::byte> client_words_;
  CUdeviceptr client_address_ = 0;
  std::atomic<bool> refused_ = false;
  Mutex mutex_;
  std::vector<std::uint32_t> free_ CUSPAN_GUARDED_BY(mutex_);  // Indexes of words in the page.
  // A word was returned before its last mark was reached: the device may write it at any time.
  bool abandoned_ CUSPAN_GUARDED_BY(mutex_) = false;
};

}  // namespace cuspan::proxy
