#include "interpose/calls/base/synchronous_memory.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "common/mutex.h"

namespace cuspan {
namespace {

// Threads: any.
class SynchronousMemory final : public ContextTable {
 public:
  // Takes no lock.
  bool empty() const { return empty_.load(std::memory_order_acquire); }
  bool Contains(std::uint64_t base) const {
    const MutexLock lock(mutex_);
    return connections_.contains(base);
  }
  void Add(std::uint64_t base, const ContextConnection& connection) {
    const MutexLock lock(mutex_);
    connections_.insert_or_assign(base, connection.number());
    empty_.store(false, std::memory_order_release);
  }
  void Remove(std::uint64_t base) {
    const MutexLock lock(mutex_);
    connections_.erase(base);
    empty_.store(connections_.empty(), std::memory_order_release);
  }
  void Forget(const ContextConnection& ended) override {
    const MutexLock lock(mutex_);
    std::erase_if(connections_, [&](const auto& entry) { return entry.second == ended.number(); });
    empty_.store(connections_.empty(), std::memory_order_release);
  }

 private:
  mutable Mutex mutex_;
  // Start of an allocation, and number of its context's generation.
  std::map<std::uint64_t, std::uint64_t> connections_ CUSPAN_GUARDED_BY(mutex_);
  std::atomic<bool> empty_{true};
};

SynchronousMemory& TableOf(Session& session) { return session.TableOf<SynchronousMemory>(); }

}  // namespace

Error SetSynchronous(Session& session, const void* memory, bool synchronous) {
  const PointerKind kind = session.addresses().Classify(memory);
  if (kind.kind == PointerKind::kUnknownHost || kind.range_bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!synchronous) {
    TableOf(session).Remove(kind.range_base);
    return CUDA_SUCCESS;
  }
  const std::shared_ptr<ContextConnection> connection = session.addresses().ConnectionOf(memory);
  if (connection == nullptr) return CUDA_ERROR_INVALID_VALUE;
  TableOf(session).Add(kind.range_base, *connection);
  // Synchronous operations run in default streams, represented by this one.
  return session.streams().Synchronize({connection, 0});
}

bool IsSynchronous(Session& session, const void* memory) {
  const SynchronousMemory& table = TableOf(session);
  return !table.empty() && table.Contains(session.addresses().Classify(memory).range_base);
}

void ForgetSynchronous(Session& session, const void* memory) {
  SynchronousMemory& table = TableOf(session);
  if (!table.empty()) table.Remove(NumberOf(memory));
}

Error WaitIfSynchronous(Session& session, const StreamTarget& target,
                        std::initializer_list<const void*> places) {
  const bool wait = std::any_of(places.begin(), places.end(),
                                [&](const void* place) { return IsSynchronous(session, place); });
  return wait ? Error(session.streams().Synchronize(target)) : Error(CUDA_SUCCESS);
}

}  // namespace cuspan
