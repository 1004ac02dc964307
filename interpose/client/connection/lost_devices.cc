#include "interpose/client/connection/lost_devices.h"

#include <set>
#include <string_view>
#include <utility>

namespace cuspan {

void LostDevices::Add(std::uint64_t connection, std::string sentence) {
  const MutexLock lock(mutex_);
  if (lost_.try_emplace(connection, std::move(sentence)).second) Write();
}

void LostDevices::Remove(std::uint64_t connection) {
  const MutexLock lock(mutex_);
  if (lost_.erase(connection) != 0) Write();
}

void LostDevices::Write() {
  if (lost_.empty()) return text_.store(nullptr, std::memory_order_release);
  std::string& text = texts_.emplace_back("CUDA-capable device(s) is/are busy or unavailable");
  std::set<std::string_view> said;  // Contexts of one device have equal sentences.
  for (const auto& [connection, sentence] : lost_)
    if (said.insert(sentence).second) text.append("; ").append(sentence);
  text_.store(text.c_str(), std::memory_order_release);
}

}  // namespace cuspan
