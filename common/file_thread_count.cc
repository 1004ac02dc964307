#include "common/file_thread_count.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "common/cores.h"
#include "common/log.h"
#include "common/settings.h"

namespace cuspan {

// 8 threads read 28 to 42 GB/s from the page cache, 12 read 50 (measured on nodes with an H200).
unsigned FileThreadCount() {
  constexpr int kMost = 12;
  const auto automatic = static_cast<unsigned>(std::clamp(AvailableCores() * 3 / 4, 1, kMost));
  if (std::string_view(SettingText(settings::kFileThreads)) == "auto") return automatic;
  constexpr std::uint64_t kLimit = 256;
  const Result<std::uint64_t> wanted = SettingNumber(settings::kFileThreads, 1, kLimit);
  if (wanted.ok()) return static_cast<unsigned>(*wanted);
  LogWarn("{}: {} threads read and write files", wanted.status().message(), automatic);
  return automatic;
}

}  // namespace cuspan
