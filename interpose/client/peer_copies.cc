#include "interpose/client/peer_copies.h"

#include <algorithm>

#include "interpose/client/base/handles.h"

namespace cuspan {

CUresult PeerCopies::JoinOf(ContextConnection& first, ContextConnection& second,
                            std::uint32_t* join) {
  const std::pair numbers{std::min(first.number(), second.number()),
                          std::max(first.number(), second.number())};
  if (const auto known = joins_.find(numbers); known != joins_.end()) {
    *join = known->second.number;
    return known->second.result;
  }
  *join = ++last_join_;
  CUresult result = join_(*join, first.context(), second.context());
  for (ContextConnection* connection : {&first, &second}) {
    if (result != CUDA_SUCCESS) break;
    PeerJoin op;
    op.join = *join;
    PeerJoin::Reply reply;
    result = connection->Call(op, &reply);
  }
  joins_.emplace(numbers, Joined{*join, result});
  return result;
}

CUresult PeerCopies::CompanionOf(const ContextConnection& ordered, std::uint64_t stream,
                                 const std::shared_ptr<ContextConnection>& other,
                                 std::uint64_t* companion) {
  const CompanionKey key{ordered.number(), stream, other->number()};
  if (const auto known = companions_.find(key); known != companions_.end()) {
    *companion = known->second.stream;
    return CUDA_SUCCESS;
  }
  StreamCreate create;
  create.stream = NextHandle();
  create.flags = CU_STREAM_NON_BLOCKING;
  if (const CUresult result = other->Post(create); result != CUDA_SUCCESS) return result;
  companions_.emplace(key, Companion{other, create.stream});
  *companion = create.stream;
  return CUDA_SUCCESS;
}

CUresult PeerCopies::Post(const Copy& copy, const std::shared_ptr<ContextConnection>& ordered,
                          std::uint64_t stream) {
  const bool from_ordered = ordered == copy.from;
  const std::shared_ptr<ContextConnection>& other = from_ordered ? copy.to : copy.from;
  for (const auto& connection : {copy.from, copy.to})
    if (const CUresult lost = connection->fault(); lost != CUDA_SUCCESS) return lost;
  const MutexLock lock(mutex_);
  PeerSend send;
  std::uint64_t companion = 0;
  CUresult result = JoinOf(*copy.from, *copy.to, &send.join);
  if (result == CUDA_SUCCESS) result = CompanionOf(*ordered, stream, other, &companion);
  if (result != CUDA_SUCCESS) return result;
  send.stream = from_ordered ? stream : companion;
  send.transfer = NextHandle();
  send.from = copy.from_place;
  send.extent = copy.extent;
  send.until_end = from_ordered;
  PeerReceive receive;
  receive.stream = from_ordered ? companion : stream;
  receive.join = send.join;
  receive.transfer = send.transfer;
  receive.to = copy.to_place;
  receive.extent = copy.extent;
  if (result = copy.from->Post(send); result != CUDA_SUCCESS) return result;
  if (result = copy.to->Post(receive); result == CUDA_SUCCESS) return CUDA_SUCCESS;
  PeerAbandon abandon;
  abandon.join = send.join;
  abandon.transfer = send.transfer;
  // If it is lost as well, nothing needs to be abandoned.
  static_cast<void>(copy.from->Post(abandon));
  return result;
}

void PeerCopies::Destroy(const Companion& companion) {
  const std::shared_ptr<ContextConnection> connection = companion.connection.lock();
  if (connection == nullptr) return;
  StreamDestroy destroy;
  destroy.stream = companion.stream;
  static_cast<void>(connection->Post(destroy));  // A lost device has no streams.
}

void PeerCopies::ForgetStream(const ContextConnection& connection, std::uint64_t stream) {
  const MutexLock lock(mutex_);
  const CompanionKey first{connection.number(), stream, 0};
  auto entry = companions_.lower_bound(first);
  while (entry != companions_.end() && entry->first.connection == connection.number() &&
         entry->first.stream == stream) {
    Destroy(entry->second);
    entry = companions_.erase(entry);
  }
}

void PeerCopies::Forget(const ContextConnection& ended) {
  const MutexLock lock(mutex_);
  std::erase_if(joins_, [&](const auto& entry) {
    return entry.first.first == ended.number() || entry.first.second == ended.number();
  });
  std::erase_if(companions_, [&](const auto& entry) {
    if (entry.first.connection != ended.number() && entry.first.other != ended.number())
      return false;
    Destroy(entry.second);
    return true;
  });
}

}  // namespace cuspan
