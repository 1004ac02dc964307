// Copies between devices without access to each other's memory: one op to each of their proxies.
// The bytes pass between the proxies, and not through this process.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "common/mutex.h"
#include "interpose/client/base/context.h"
#include "interpose/client/context_connection.h"

namespace cuspan {

// Threads: any except the receiver thread, since functions wait for devices.
class PeerCopies final : public ContextTable {
 public:
  // Requests from the agent a channel between the proxies of two contexts.
  using Join =
      std::function<CUresult(std::uint32_t join, const Context& first, const Context& second)>;
  explicit PeerCopies(Join join) : join_(std::move(join)) {}
  PeerCopies(const PeerCopies&) = delete;

  struct Copy {
    std::shared_ptr<ContextConnection> to;
    std::shared_ptr<ContextConnection> from;
    BoxLocation to_place;
    BoxLocation from_place;
    BoxExtent extent;  // At least one byte.
  };
  // Posts the copy in the order of `stream`, a stream of `ordered`, one of the two devices.
  CUresult Post(const Copy& copy, const std::shared_ptr<ContextConnection>& ordered,
                std::uint64_t stream);

  // Removes a stream destroyed now or soon.
  void ForgetStream(const ContextConnection& connection, std::uint64_t stream);
  void Forget(const ContextConnection& ended) override;

 private:
  // A stream of another device, for its part of the copies in one stream.
  struct Companion {
    std::weak_ptr<ContextConnection> connection;
    std::uint64_t stream;
  };
  // ContextConnection::number() of the stream's device, the stream, and the other device's number.
  struct CompanionKey {
    std::uint64_t connection;
    std::uint64_t stream;
    std::uint64_t other;
    auto operator<=>(const CompanionKey&) const = default;
  };
  CUresult JoinOf(ContextConnection& first, ContextConnection& second, std::uint32_t* join)
      CUSPAN_REQUIRES(mutex_);
  CUresult CompanionOf(const ContextConnection& ordered, std::uint64_t stream,
                       const std::shared_ptr<ContextConnection>& other, std::uint64_t* companion)
      CUSPAN_REQUIRES(mutex_);
  static void Destroy(const Companion& companion);

  const Join join_;
  // Held while a copy is posted to both devices: both get the copies of one stream in the same
  // order.
  Mutex mutex_;
  std::uint32_t last_join_ CUSPAN_GUARDED_BY(mutex_) = 0;
  // A failed join stays failed until one of the devices is reset: each attempt costs an agent a
  // channel.
  struct Joined {
    std::uint32_t number;
    CUresult result;
  };
  std::map<std::pair<std::uint64_t, std::uint64_t>, Joined> joins_
      CUSPAN_GUARDED_BY(mutex_);  // Indexed by ContextConnection::number().
  std::map<CompanionKey, Companion> companions_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
