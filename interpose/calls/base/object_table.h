// Objects numbered by devices (textures, surfaces), with their parameters. If two devices use the
// same number, the current device's object is meant.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "common/mutex.h"
#include "interpose/client/session.h"

namespace cuspan {

// Threads: any.
template <typename Value>
class ObjectTable final : public ContextTable {
 public:
  void Add(const ContextConnection& connection, std::uint64_t object, Value value) {
    const MutexLock lock(mutex_);
    objects_.insert_or_assign({object, connection.number()}, std::move(value));
  }

  struct Found {
    std::shared_ptr<ContextConnection> connection;
    Value value;
  };
  // nullopt if no open device has made it. `remove` also removes the entry.
  std::optional<Found> Find(Session& session, std::uint64_t object, bool remove = false) {
    const MutexLock lock(mutex_);
    const Context& current = session.devices().CurrentContext();
    std::shared_ptr<ContextConnection> owner;
    for (const std::shared_ptr<ContextConnection>& connection :
         session.devices().ContextConnections()) {
      if (!objects_.contains({object, connection->number()})) continue;
      if (owner == nullptr || &connection->context() == &current) owner = connection;
    }
    if (owner == nullptr) return std::nullopt;
    const auto entry = objects_.find({object, owner->number()});
    Found found{owner, entry->second};
    if (remove) objects_.erase(entry);
    return found;
  }

  void Forget(const ContextConnection& ended) override {
    const MutexLock lock(mutex_);
    std::erase_if(objects_,
                  [&](const auto& entry) { return entry.first.second == ended.number(); });
  }

 private:
  Mutex mutex_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Value> objects_
      CUSPAN_GUARDED_BY(mutex_);  // Indexed by object and connection number.
};

}  // namespace cuspan
