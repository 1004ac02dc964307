// Which devices of one node use each other's memory. A device that does has the
// other's pieces of memory mapped at the other's own addresses: all of them, and
// those that come later, when the program has enabled access to the device or to
// one of its pools; otherwise those that a copy needed.
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

// Any thread, but not the receiver's: functions wait for devices.
class PeerMemory final : public PieceListener, public ContextTable {
 public:
  using ContextConnections = std::function<std::vector<std::shared_ptr<ContextConnection>>()>;
  // `connections` gives those that are open.
  explicit PeerMemory(ContextConnections connections) : connections_(std::move(connections)) {}
  PeerMemory(const PeerMemory&) = delete;

  // Whether `user` can have `owner`'s memory. Asks the node once.
  bool CanAccess(ContextConnection& user, ContextConnection& owner);
  // Gives `user`'s kernels all memory of `owner`. CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, or
  // …_ALREADY_ENABLED.
  CUresult Enable(ContextConnection& user, ContextConnection& owner);
  // Takes it back; waits for `user`. CUDA_ERROR_PEER_ACCESS_NOT_ENABLED.
  CUresult Disable(ContextConnection& user, ContextConnection& owner);
  // Gives `user`'s kernels the memory of a pool of `owner`, and with it all the other, or takes it
  // back with …_PROT_NONE; then it waits for `user`. CUDA_ERROR_INVALID_DEVICE where there is no
  // peer access.
  CUresult SetPoolAccess(ContextConnection& user, ContextConnection& owner, std::uint64_t pool,
                         CUmemAccess_flags flags);
  // The pool is destroyed. Blocks of it that live on stay where others have them.
  void ForgetPool(std::uint64_t pool);
  CUmemAccess_flags PoolAccess(const ContextConnection& user, const ContextConnection& owner,
                               std::uint64_t pool);
  // Makes sure that `user` can copy from and to a block of `owner`; false when it can not.
  bool Reach(ContextConnection& user, ContextConnection& owner, std::uint64_t address);

  // What others do with the memory there is complete: it may be given out again. At once where
  // nobody else has it.
  CUresult WaitForUsers(ContextConnection& owner, std::uint64_t address);
  CUresult AfterMap(const Connection& owner, const AddressWindow& window,
                    const BlockAllocator::Range& piece) override;
  void BeforeUnmap(const Connection& owner, const AddressWindow& window,
                   const BlockAllocator::Range& piece) override;
  // What others had of the device is gone, too.
  void Forget(const ContextConnection& ended) override;

 private:
  struct Pair {
    bool can = false;
    bool enabled = false;
    std::map<std::uint64_t, CUmemAccess_flags> pools;  // Those with access, by handle.
    bool all() const { return enabled || !pools.empty(); }
    std::set<std::uint64_t> mapped;  // Bases of pieces.
  };
  Pair& Ask(ContextConnection& user, ContextConnection& owner) CUSPAN_REQUIRES(mutex_);
  static CUresult MapAll(Pair& pair, ContextConnection& user, ContextConnection& owner);
  static CUresult UnmapAll(Pair& pair, ContextConnection& user, ContextConnection& owner);
  // Maps a piece of the device whose memory lies in `window`.
  static CUresult Map(Pair& pair, ContextConnection& user, const AddressWindow& window,
                      const BlockAllocator::Range& piece);
  static CUresult Unmap(ContextConnection& user, const AddressWindow& window,
                        const BlockAllocator::Range& piece);

  const ContextConnections connections_;
  Mutex mutex_;  // Taken before those of devices' memory.
  std::map<std::pair<std::uint64_t, std::uint64_t>, Pair> pairs_
      CUSPAN_GUARDED_BY(mutex_);  // By ContextConnection::number(): user, owner.
};

}  // namespace cuspan
