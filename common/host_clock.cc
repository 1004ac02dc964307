#include "common/host_clock.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <ctime>

#include "common/unique_fd.h"

namespace cuspan {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

// Offset of this process's time namespace. The file describes the namespace of its children. The
// two differ only between an unshare and the next exec.
std::int64_t OwnOffset(std::string_view clock) {
  std::array<char, 256> own{};
  std::array<char, 256> of_children{};
  const ssize_t bytes = ::readlink("/proc/self/ns/time", own.data(), own.size());
  const ssize_t others =
      ::readlink("/proc/self/ns/time_for_children", of_children.data(), of_children.size());
  if (bytes <= 0 || bytes != others || own != of_children) return 0;
  const UniqueFd file(::open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC));
  std::array<char, 256> text{};
  const ssize_t got = file.valid() ? ::read(file.get(), text.data(), text.size()) : 0;
  return got > 0 ? NamespaceOffset({text.data(), static_cast<std::size_t>(got)}, clock) : 0;
}

// Removes the next word from `text` and returns it.
std::string_view ConsumeWord(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(" \t\n"));
  text.remove_prefix(word.size());
  return word;
}

std::int64_t ConsumeNumber(std::string_view& text) {
  const std::string_view word = ConsumeWord(text);
  std::int64_t number = 0;
  std::from_chars(word.data(), word.data() + word.size(), number);
  return number;
}

std::uint64_t Now(clockid_t clock, std::int64_t offset) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec * kSecond + now.tv_nsec - offset);
}

}  // namespace

std::int64_t NamespaceOffset(std::string_view offsets, std::string_view clock) {
  while (!offsets.empty())
    if (ConsumeWord(offsets) == clock) {
      const std::int64_t seconds = ConsumeNumber(offsets);
      return seconds * kSecond + ConsumeNumber(offsets);
    }
  return 0;
}

std::uint64_t HostMonotonicNow() {
  static const std::int64_t offset = OwnOffset("monotonic");
  return Now(CLOCK_MONOTONIC, offset);
}

std::uint64_t HostUptime() {
  static const std::int64_t offset = OwnOffset("boottime");
  return Now(CLOCK_BOOTTIME, offset);
}

}  // namespace cuspan
