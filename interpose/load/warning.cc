#include "interpose/load/warning.h"

namespace cuspan::load {

Warning& Warning::Add(const char* text) {
  if (published_.load(std::memory_order_relaxed)) return *this;
  for (; *text != 0 && size_ + 1 < kCapacity; ++text) {
    // File names may contain any character. The message must stay on one line.
    const auto byte = static_cast<unsigned char>(*text);
    text_[size_++] = byte < 0x20 || byte == 0x7f ? '?' : *text;
  }
  return *this;
}

Warning& Warning::AddNumber(unsigned number) {
  char digits[12];
  std::size_t at = sizeof(digits);
  digits[--at] = 0;
  do {
    digits[--at] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  return Add(digits + at);
}

void Warning::Publish() { published_.store(true, std::memory_order_release); }

const char* Warning::text() const {
  return published_.load(std::memory_order_acquire) ? text_ : nullptr;
}

}  // namespace cuspan::load
