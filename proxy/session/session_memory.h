// A session's device memory, and the client's access rights.
#pragma once

#include <cstdint>
#include <optional>

#include "proxy/bulk/exchange.h"
#include "proxy/bulk/peer_memory.h"
#include "proxy/gpu/device.h"
#include "proxy/gpu/mappings.h"
#include "proxy/gpu/reservations.h"
#include "proxy/objects/variable_ranges.h"
#include "proxy/streams/roles.h"

namespace cuspan::proxy {

class SessionMemory {
 public:
  // All references outlive it. Without `exchange`, proxies of this node have no access to each
  // other's device memory, and the client shares no files: `share_file` takes these, on a thread of
  // the exchange.
  SessionMemory(const Driver& driver, const Device& device, const VariableRanges& variables,
                std::optional<ExchangeSocket> exchange, Exchange::ShareFile share_file)
      : device_(device),
        variables_(variables),
        mappings_(driver, device),
        reservations_(driver, device),
        peers_(driver, device, exchange ? std::optional(exchange->secret) : std::nullopt) {
    if (exchange)
      exchange_.emplace(std::move(*exchange), device, mappings_, reservations_,
                        std::move(share_file));
  }

  // --- Worker only

  Mappings& mappings() CUSPAN_REQUIRES(worker_thread) { return mappings_; }
  Reservations& reservations() CUSPAN_REQUIRES(worker_thread) { return reservations_; }
  PeerMemory& peers() CUSPAN_REQUIRES(worker_thread) { return peers_; }

  // True if the client may copy to or from this memory. Threads: any.
  bool MayTouch(std::uint64_t address, std::uint64_t bytes) const {
    return device_.InWindow(address, bytes) || device_.InShared(address, bytes) ||
           variables_.Contains(address, bytes) || peers_.Contains(address, bytes) ||
           reservations_.Contains(address, bytes);
  }

 private:
  const Device& device_;
  const VariableRanges& variables_;
  Mappings mappings_;
  Reservations reservations_;
  PeerMemory peers_;
  std::optional<Exchange> exchange_;
};

}  // namespace cuspan::proxy
