#include "interpose/client/peer_memory.h"

#include <cstring>

#include "common/settings.h"

namespace cuspan {

PeerMemory::Pair& PeerMemory::Ask(ContextConnection& user, ContextConnection& owner) {
  const auto [found, is_new] = pairs_.try_emplace({user.number(), owner.number()});
  Pair& pair = found->second;
  if (!is_new || !user.place().SameNode(owner.place()) ||
      std::strcmp(SettingText(settings::kPeerMemory), "never") == 0)
    return pair;
  PeerOpen op;
  op.exchange = owner.place().exchange;
  op.ordinal = owner.place().ordinal;
  op.window = owner.memory().window();
  PeerOpen::Reply reply;
  pair.can = user.Call(op, &reply) == CUDA_SUCCESS;
  return pair;
}

CUresult PeerMemory::Map(Pair& pair, ContextConnection& user, const AddressWindow& window,
                         const BlockAllocator::Range& piece) {
  if (pair.mapped.contains(piece.base)) return CUDA_SUCCESS;
  PeerMap op;
  op.base = window.base;
  op.address = piece.base;
  op.bytes = piece.bytes;
  PeerMap::Reply reply;
  const CUresult result = user.Call(op, &reply);
  if (result == CUDA_SUCCESS) pair.mapped.insert(piece.base);
  return result;
}

CUresult PeerMemory::MapAll(Pair& pair, ContextConnection& user, ContextConnection& owner) {
  for (const BlockAllocator::Range& piece : owner.memory().Pieces())
    if (const CUresult result = Map(pair, user, owner.memory().window(), piece);
        result != CUDA_SUCCESS)
      return result;
  return CUDA_SUCCESS;
}

CUresult PeerMemory::UnmapAll(Pair& pair, ContextConnection& user, ContextConnection& owner) {
  for (const BlockAllocator::Range& piece : owner.memory().Pieces())
    if (pair.mapped.erase(piece.base) != 0)
      if (const CUresult result = Unmap(user, owner.memory().window(), piece);
          result != CUDA_SUCCESS)
        return result;
  return CUDA_SUCCESS;
}

CUresult PeerMemory::Unmap(ContextConnection& user, const AddressWindow& window,
                           const BlockAllocator::Range& piece) {
  PeerUnmap op;
  op.base = window.base;
  op.address = piece.base;
  op.bytes = piece.bytes;
  PeerUnmap::Reply reply;
  return user.Call(op, &reply);
}

bool PeerMemory::CanAccess(ContextConnection& user, ContextConnection& owner) {
  const MutexLock lock(mutex_);
  return Ask(user, owner).can;
}

CUresult PeerMemory::Enable(ContextConnection& user, ContextConnection& owner) {
  const MutexLock lock(mutex_);
  Pair& pair = Ask(user, owner);
  if (!pair.can) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  if (pair.enabled) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  if (const CUresult result = MapAll(pair, user, owner); result != CUDA_SUCCESS) return result;
  pair.enabled = true;
  return CUDA_SUCCESS;
}

CUresult PeerMemory::Disable(ContextConnection& user, ContextConnection& owner) {
  const MutexLock lock(mutex_);
  const auto found = pairs_.find({user.number(), owner.number()});
  if (found == pairs_.end() || !found->second.enabled) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  Pair& pair = found->second;
  pair.enabled = false;
  return pair.all() ? CUDA_SUCCESS : UnmapAll(pair, user, owner);
}

CUresult PeerMemory::SetPoolAccess(ContextConnection& user, ContextConnection& owner,
                                   std::uint64_t pool, CUmemAccess_flags flags) {
  const MutexLock lock(mutex_);
  Pair& pair = Ask(user, owner);
  if (!pair.can) return CUDA_ERROR_INVALID_DEVICE;
  if (flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
    return pair.pools.erase(pool) == 0 || pair.all() ? CUDA_SUCCESS : UnmapAll(pair, user, owner);
  if (const CUresult result = MapAll(pair, user, owner); result != CUDA_SUCCESS) return result;
  pair.pools[pool] = flags;
  return CUDA_SUCCESS;
}

void PeerMemory::ForgetPool(std::uint64_t pool) {
  const MutexLock lock(mutex_);
  for (auto& [users, pair] : pairs_) pair.pools.erase(pool);
}

CUmemAccess_flags PeerMemory::PoolAccess(const ContextConnection& user,
                                         const ContextConnection& owner, std::uint64_t pool) {
  const MutexLock lock(mutex_);
  const auto pair = pairs_.find({user.number(), owner.number()});
  if (pair == pairs_.end()) return CU_MEM_ACCESS_FLAGS_PROT_NONE;
  const auto found = pair->second.pools.find(pool);
  return found == pair->second.pools.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : found->second;
}

bool PeerMemory::Reach(ContextConnection& user, ContextConnection& owner, std::uint64_t address) {
  const MutexLock lock(mutex_);
  Pair& pair = Ask(user, owner);
  if (!pair.can) return false;
  // Variables of modules are in memory of the driver, not accessible to other devices.
  const std::optional<BlockAllocator::Range> piece = owner.memory().Piece(address);
  return piece && Map(pair, user, owner.memory().window(), *piece) == CUDA_SUCCESS;
}

CUresult PeerMemory::WaitForUsers(ContextConnection& owner, std::uint64_t address) {
  std::vector<std::shared_ptr<ContextConnection>> users;
  {
    const MutexLock lock(mutex_);
    if (pairs_.empty()) return CUDA_SUCCESS;
    const std::optional<BlockAllocator::Range> piece = owner.memory().Piece(address);
    for (const std::shared_ptr<ContextConnection>& user : connections_()) {
      const auto found = pairs_.find({user->number(), owner.number()});
      if (piece && found != pairs_.end() && found->second.mapped.contains(piece->base))
        users.push_back(user);
    }
  }
  for (const std::shared_ptr<ContextConnection>& user : users)
    // A lost device uses no memory.
    if (const CUresult result = user->CallAndStore(DeviceSynchronize{});
        result != CUDA_SUCCESS && user->fault() == CUDA_SUCCESS)
      return result;
  return CUDA_SUCCESS;
}

CUresult PeerMemory::AfterMap(const Connection& owner, const AddressWindow& window,
                              const BlockAllocator::Range& piece) {
  const MutexLock lock(mutex_);
  if (pairs_.empty()) return CUDA_SUCCESS;
  for (const std::shared_ptr<ContextConnection>& user : connections_()) {
    const auto found = pairs_.find({user->number(), owner.number()});
    if (found == pairs_.end() || !found->second.all() || user->fault() != CUDA_SUCCESS) continue;
    if (const CUresult result = Map(found->second, *user, window, piece); result != CUDA_SUCCESS)
      return result;
  }
  return CUDA_SUCCESS;
}

void PeerMemory::BeforeUnmap(const Connection& owner, const AddressWindow& window,
                             const BlockAllocator::Range& piece) {
  const MutexLock lock(mutex_);
  if (pairs_.empty()) return;
  for (const std::shared_ptr<ContextConnection>& user : connections_()) {
    const auto found = pairs_.find({user->number(), owner.number()});
    if (found == pairs_.end() || found->second.mapped.erase(piece.base) == 0) continue;
    // A failure means the device is lost; the next call reports it.
    static_cast<void>(Unmap(*user, window, piece));
  }
}

void PeerMemory::Forget(const ContextConnection& ended) {
  const MutexLock lock(mutex_);
  for (const std::shared_ptr<ContextConnection>& user : connections_()) {
    const auto found = pairs_.find({user->number(), ended.number()});
    if (found == pairs_.end() || !found->second.can) continue;
    PeerClose op;
    op.base = ended.memory().window().base;
    PeerClose::Reply reply;
    static_cast<void>(user->Call(op, &reply));
  }
  std::erase_if(pairs_, [&](const auto& entry) {
    return entry.first.first == ended.number() || entry.first.second == ended.number();
  });
}

}  // namespace cuspan
