// Message with the reason why a part of this process could not be entered. Written by one thread at
// a time, under the dynamic loader's lock. Read by any thread. No allocation, no C library.
#pragma once

#include <atomic>
#include <cstddef>

namespace cuspan::load {

class Warning {
 public:
  // Appends to the message until it is published. Excess text is truncated.
  Warning& Add(const char* text);
  Warning& AddNumber(unsigned number);
  // Makes the message visible in text(). Add has no effect afterwards.
  void Publish();
  // The published message, or null.
  const char* text() const;

 private:
  static constexpr std::size_t kCapacity = 1024;
  char text_[kCapacity] = {};
  std::size_t size_ = 0;
  std::atomic<bool> published_ = false;
};

}  // namespace cuspan::load
