// What a house and the ranks that it watches say to each other over TCP, between processes of one
// architecture and one version of cuspan (the id of another has no address that this one finds).
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

// A place is in the second half of an id, which NCCL (2.18 to 2.28) leaves zero.
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

// A rank, when it comes.
struct WatchArrival {
  std::uint64_t key = 0;
  std::uint64_t process = 0;  // The same number for all of one process.
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::int32_t version = 0;  // As ncclGetVersion.
  WatchText host;
};

// A rank, later.
struct WatchWord {
  enum Kind : std::int64_t {
    kFarewell = 0x66,
    kAnnounce
  };  // It ends in good order; it is in a group.
  std::int64_t kind = kFarewell;
  WatchGroup group;
};

// The house.
struct WatchUpdate {
  enum Kind : std::int32_t {
    kAllHere,   // `rank`: that of the house's own process, or -1.
    kDisagree,  // In what `text` says.
    kLost,      // That rank.
    kLeft,      // That rank, in good order.
    kGrouped,   // That rank is in the group.
  };
  std::int32_t kind = kAllHere;
  std::int32_t rank = -1;
  WatchGroup group;
  WatchText text;
};

static_assert(std::is_trivially_copyable_v<WatchArrival> &&
              std::is_trivially_copyable_v<WatchWord> && std::is_trivially_copyable_v<WatchUpdate>);

// For what somebody sends at once.
inline constexpr std::chrono::seconds kWatchPatience{10};

// That number of this process.
std::uint64_t WatchProcess();
// A connection whose other side does not answer for the heartbeat's time closes.
void NoticeSilence(int fd);

}  // namespace cuspan::proxy
