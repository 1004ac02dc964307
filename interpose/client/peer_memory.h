// Access of devices of one node to each other's memory. A device maps pieces of another device's
// memory at the other's own addresses. If the program has enabled access to the other device or to
// one of its pools, all pieces are mapped, later ones included. Otherwise only those needed by
// copies are mapped.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "common/mutex.h"
#include "interpose/client/base/context.h"
#include "interpose/client/context_connection.h"

namespace cuspan {

// Threads: any except the receiver thread, since functions wait for devices.
class PeerMemory final : public PieceListener, public ContextTable {
 public:
  using ContextConnections = std::function<std::vector<std::shared_ptr<ContextConnection>>()>;
  // `connections` returns the open ones.
  explicit PeerMemory(ContextConnections connections) : connections_(std::move(connections)) {}
  PeerMemory(const PeerMemory&) = delete;

  // True if `user` can access memory of `owner`. Asks the node once.
  bool CanAccess(ContextConnection& user, ContextConnection& owner);
  // Gives kernels of `user` access to all memory of `owner`. CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, or
  // …_ALREADY_ENABLED.
  CUresult Enable(ContextConnection& user, ContextConnection& owner);
  // Ends this access; waits for `user`. CUDA_ERROR_PEER_ACCESS_NOT_ENABLED.
  CUresult Disable(ContextConnection& user, ContextConnection& owner);
  // Gives kernels of `user` access to a pool of `owner`, and thereby to all its memory. …_PROT_NONE
  // ends the access, and waits for `user`. CUDA_ERROR_INVALID_DEVICE without peer access.
  CUresult SetPoolAccess(ContextConnection& user, ContextConnection& owner, std::uint64_t pool,
                         CUmemAccess_flags flags);
  // Removes a destroyed pool. Its remaining blocks stay mapped at other devices.
  void ForgetPool(std::uint64_t pool);
  CUmemAccess_flags PoolAccess(const ContextConnection& user, const ContextConnection& owner,
                               std::uint64_t pool);
  // Ensures access of `user` to a block of `owner` for copies; false if it cannot have access.
  bool Reach(ContextConnection& user, ContextConnection& owner, std::uint64_t address);

  // Waits until work of other devices on this memory is complete: it may be reused afterwards.
  // Returns at once if no other device has it.
  CUresult WaitForUsers(ContextConnection& owner, std::uint64_t address);
  CUresult AfterMap(const Connection& owner, const AddressWindow& window,
                    const BlockAllocator::Range& piece) override;
  void BeforeUnmap(const Connection& owner, const AddressWindow& window,
                   const BlockAllocator::Range& piece) override;
  // Access of other devices to its memory ends, too.
  void Forget(const ContextConnection& ended) override;

 private:
  struct Pair {
    bool can = false;
    bool enabled = false;
    std::map<std::uint64_t, CUmemAccess_flags> pools;  // Pools with access, by handle.
    bool all() const { return enabled || !pools.empty(); }
    std::set<std::uint64_t> mapped;  // Bases of pieces.
  };
  Pair& Ask(ContextConnection& user, ContextConnection& owner) CUSPAN_REQUIRES(mutex_);
  static CUresult MapAll(Pair& pair, ContextConnection& user, ContextConnection& owner);
  static CUresult UnmapAll(Pair& pair, ContextConnection& user, ContextConnection& owner);
  // Maps a piece of the device owning `window`.
  static CUresult Map(Pair& pair, ContextConnection& user, const AddressWindow& window,
                      const BlockAllocator::Range& piece);
  static CUresult Unmap(ContextConnection& user, const AddressWindow& window,
                        const BlockAllocator::Range& piece);

  const ContextConnections connections_;
  Mutex mutex_;  // Taken before the mutexes of devices' memory.
  std::map<std::pair<std::uint64_t, std::uint64_t>, Pair> pairs_
      CUSPAN_GUARDED_BY(mutex_);  // Indexed by ContextConnection::number(): user, owner.
};

}  // namespace cuspan
