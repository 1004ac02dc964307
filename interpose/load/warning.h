// The line that says why a part of this process could not be entered. Written
// by the entering code (one thread at a time, under the dynamic loader's lock),
// read by any thread. No allocation, no C library.
#pragma once

#include <atomic>
#include <cstddef>

namespace cuspan::load {

class Warning {
 public:
  // Appends to the line until it is published; what does not fit is cut.
  Warning& Add(const char* text);
  Warning& AddNumber(unsigned number);
  // From now on text() gives the line, and Add does nothing.
  void Publish();
  // The published line, or null.
  const char* text() const;

 private:
  static constexpr std::size_t kCapacity = 1024;
  char text_[kCapacity] = {};
  std::size_t size_ = 0;
  std::atomic<bool> published_ = false;
};

}  // namespace cuspan::load
