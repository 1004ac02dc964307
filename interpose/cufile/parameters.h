// Parameters of cuFile. They are values with ranges, kept for programs that ask. Only the largest
// batch and the level of statistics have an effect: cuspan's own settings decide how files are
// read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "interpose/cufile/api.h"

namespace cuspan::cufile {

// Numbers of CUFileSizeTConfigParameter_t with a meaning here.
enum SizeParameter : int {
  kStatisticsLevel = 0,
  kMaxDirectIo = 5,
  kMaxDeviceCache = 6,
  kPerBufferCache = 7,
  kMaxDevicePinned = 8,
  kMaxBatch = 9,
  kPollThreshold = 10,
  kBatchTimeout = 11,
};
// The same of CUFileBoolConfigParameter_t.
enum SwitchParameter : int { kPollMode = 0, kAllowCompatible = 1 };

struct SizeRange {
  const char* path;  // Place in cufile.json; null: none.
  std::size_t initial;
  std::size_t least;
  std::size_t most;
  std::size_t step = 1;  // Values are multiples of it.
};
struct SwitchEntry {
  const char* path;
  bool initial;
};
struct TextEntry {
  const char* path;
  const char* initial;
};

constexpr std::size_t kSizeParameters = 12;
constexpr std::size_t kSwitchParameters = 14;
constexpr std::size_t kTextParameters = 4;
constexpr std::size_t kSlabLists = 2;  // One of the program's memory, and one of a device's.

// Sizes in KiB, and counts, of the vendor's pools of buffers.
struct Slabs {
  std::vector<std::size_t> sizes;
  std::vector<std::size_t> counts;
};

// Threads: any. Functions with a code return kInvalidValue for unknown numbers and for values out
// of range.
class Parameters {
 public:
  // The defaults, changed by the file that CUFILE_ENV_PATH_JSON names, or else by /etc/cufile.json.
  Parameters();

  // Null for an unknown number.
  static const SizeRange* RangeOf(int number);

  Code Size(int number, std::size_t* value) const;
  Code SetSize(int number, std::size_t value);
  static bool IsValid(int number, std::size_t value);
  Code Switch(int number, bool* value) const;
  Code SetSwitch(int number, bool value);
  // Copies at most `room` bytes, with the zero at the end.
  Code Text(int number, char* text, std::size_t room) const;
  Code SetText(int number, const char* text);
  Code GetSlabs(std::size_t list, std::size_t* sizes, std::size_t* counts,
                std::size_t length) const;
  Code SetSlabs(std::size_t list, const std::size_t* sizes, const std::size_t* counts,
                std::size_t length);

  std::size_t size(SizeParameter number) const;
  bool is_set(SwitchParameter number) const;

 private:
  void Read(const std::string& path);

  mutable Mutex mutex_;
  std::array<std::size_t, kSizeParameters> sizes_ CUSPAN_GUARDED_BY(mutex_);
  std::array<bool, kSwitchParameters> switches_ CUSPAN_GUARDED_BY(mutex_);
  std::array<std::string, kTextParameters> texts_ CUSPAN_GUARDED_BY(mutex_);
  std::array<Slabs, kSlabLists> slabs_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan::cufile
