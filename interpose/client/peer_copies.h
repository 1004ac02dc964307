// Copies between devices of which neither has the other's memory: one op to each
// of their proxies, which pass the bytes on to each other. Nothing of them comes
// through this process.
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

// Any thread, but not the receiver's: functions wait for devices.
class PeerCopies final : public ContextTable {
 public:
  // Asks the agent for a channel between the proxies of two contexts.
  using Join =
      std::function<CUresult(std::uint32_t join, const Context& first, const Context& second)>;
  explicit PeerCopies(Join join) : join_(std::move(join)) {}
  PeerCopies(const PeerCopies&) = delete;

  struct Copy {
    std::shared_ptr<ContextConnection> to;
    std::shared_ptr<ContextConnection> from;
    BoxLocation to_place;
    BoxLocation from_place;
    BoxExtent extent;  // Of at least one byte.
  };
  // Posts the copy in the order of `stream`, a stream of `ordered`, which is one of the two.
  CUresult Post(const Copy& copy, const std::shared_ptr<ContextConnection>& ordered,
                std::uint64_t stream);

  // The stream is gone, or will be.
  void ForgetStream(const ContextConnection& connection, std::uint64_t stream);
  void Forget(const ContextConnection& ended) override;

 private:
  // A stream of another device whose work is that of copies in one stream.
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
  // Held while a copy is posted to both devices: copies of one stream come to
  // both in one order.
  Mutex mutex_;
  std::uint32_t last_join_ CUSPAN_GUARDED_BY(mutex_) = 0;
  // A join that failed stays so until one of the devices is reset: each try costs an agent a
  // channel.
  struct Joined {
    std::uint32_t number;
    CUresult result;
  };
  std::map<std::pair<std::uint64_t, std::uint64_t>, Joined> joins_
      CUSPAN_GUARDED_BY(mutex_);  // By ContextConnection::number().
  std::map<CompanionKey, Companion> companions_ CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
