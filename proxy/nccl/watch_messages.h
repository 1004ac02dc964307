// Messages between a liveness server and its ranks, over TCP. All processes have the same
// architecture and version of cuspan: the address in an id of another version is not recognised.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "protocol/nccl/nccl.h"
#include "protocol/network/sockets.h"
#include "proxy/nccl/watch.h"

namespace cuspan::proxy {

// Position of the address in an id: its second half, left zero by NCCL (2.18 to 2.28).
inline constexpr std::size_t kLivenessAddressAt = sizeof(nccl::UniqueId) / 2;
static_assert(kLivenessAddressAt + sizeof(LivenessAddress) <= sizeof(nccl::UniqueId));

struct WatchText {
  char bytes[112] = {};
  WatchText() = default;
  explicit WatchText(std::string_view text) {
    std::memcpy(bytes, text.data(), std::min(text.size(), sizeof(bytes) - 1));
  }
  std::string Get() const { return std::string(bytes, ::strnlen(bytes, sizeof(bytes))); }
};

// First message of a rank.
struct WatchArrival {
  std::uint64_t key = 0;
  std::uint64_t process = 0;  // Equal for all ranks of one process.
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::int32_t version = 0;  // Value of ncclGetVersion.
  WatchText host;
};

// Later messages of a rank.
struct WatchWord {
  enum Kind : std::int64_t { kFarewell = 0x66, kAnnounce };  // Ends normally; is in `group`.
  std::int64_t kind = kFarewell;
  WatchGroup group;
};

// Messages of the server.
struct WatchUpdate {
  enum Kind : std::int32_t {
    kAllHere,   // `rank` in the server's process, or -1.
    kDisagree,  // `text` is the difference.
    kLost,      // `rank` was lost.
    kLeft,      // `rank` ended normally.
    kGrouped,   // `rank` is in `group`.
  };
  std::int32_t kind = kAllHere;
  std::int32_t rank = -1;
  WatchGroup group;
  WatchText text;
};

static_assert(std::is_trivially_copyable_v<WatchArrival> &&
              std::is_trivially_copyable_v<WatchWord> && std::is_trivially_copyable_v<WatchUpdate>);

// Time limit for messages sent at once.
inline constexpr std::chrono::seconds kWatchPatience{10};

// WatchArrival::process of this process.
std::uint64_t WatchProcess();
// Makes the connection close if the peer does not answer for the time of the heartbeat setting.
void NoticeSilence(int fd);

}  // namespace cuspan::proxy
