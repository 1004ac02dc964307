// Streams of the session.
#include <algorithm>
#include <utility>

#include "interpose/client/handles.h"
#include "interpose/client/session.h"

namespace cuspan {

CUresult Session::CreateStream(unsigned flags, int priority, std::uint64_t* stream) {
  std::shared_ptr<Link> link;
  if (const CUresult result = CurrentLink(&link); result != CUDA_SUCCESS) return result;
  StreamCreate create;
  create.stream = NextHandle();
  create.flags = flags;
  create.priority = priority;
  if (const CUresult result = link->Post(create); result != CUDA_SUCCESS) return result;
  auto made = std::make_shared<const Stream>(create.stream, link->device(), link->number(), flags,
                                             priority);
  std::lock_guard lock(streams_mutex_);
  streams_.emplace(create.stream, std::move(made));
  *stream = create.stream;
  return CUDA_SUCCESS;
}

CUresult Session::DestroyStream(std::uint64_t stream) {
  std::shared_ptr<const Stream> known;
  {
    std::lock_guard lock(streams_mutex_);
    const auto entry = streams_.find(stream);
    if (entry == streams_.end()) return CUDA_ERROR_INVALID_HANDLE;
    known = entry->second;
    known->destroyed.store(true, std::memory_order_release);
    streams_.erase(entry);
  }
  const std::shared_ptr<Link> link = OpenedLink(known->device);
  if (link == nullptr || link->number() != known->link) return CUDA_ERROR_INVALID_HANDLE;
  peer_copies_.ForgetStream(*link, stream);
  StreamDestroy destroy;
  destroy.stream = stream;
  return link->Post(destroy);
}

void Session::DestroyThreadStream(int device, std::uint64_t link_number, std::uint64_t stream) {
  const std::shared_ptr<Link> link = OpenedLink(device);
  if (link == nullptr || link->number() != link_number) return;
  peer_copies_.ForgetStream(*link, stream);
  StreamDestroy destroy;
  destroy.stream = stream;
  static_cast<void>(link->Post(destroy));  // A lost device has no stream any more.
}

std::shared_ptr<const Stream> Session::FindStream(std::uint64_t stream) const {
  if (stream == 0) return nullptr;
  auto& lately = ThisThread().streams;
  if (auto known = lately.Find(stream); known != nullptr)
    return known->destroyed.load(std::memory_order_acquire) ? nullptr : known;
  std::shared_lock lock(streams_mutex_);
  const auto entry = streams_.find(stream);
  return entry == streams_.end() ? nullptr : lately.Keep(stream, entry->second);
}

CUresult Session::ThreadStream(const std::shared_ptr<Link>& link, std::uint64_t* stream) {
  auto& own = ThisThread().own_streams;
  const auto device = static_cast<std::size_t>(link->device());
  if (own.size() <= device) own.resize(device + 1);
  if (own[device].link != link->number()) {
    StreamCreate create;
    create.stream = NextHandle();
    create.flags = CU_STREAM_DEFAULT;
    if (const CUresult result = link->Post(create); result != CUDA_SUCCESS) return result;
    own[device] = {create.stream, link->number()};
  }
  *stream = own[device].stream;
  return CUDA_SUCCESS;
}

CUresult Session::ResolveStream(void* stream, DefaultStream meaning, StreamTarget* target) {
  const auto value = reinterpret_cast<std::uintptr_t>(stream);
  const bool own = value == 2 || (value == 0 && meaning == DefaultStream::kPerThread);
  if (value <= 2) {
    if (const CUresult result = CurrentLink(&target->link); result != CUDA_SUCCESS) return result;
    target->stream = 0;
    return own ? ThreadStream(target->link, &target->stream) : CUDA_SUCCESS;
  }
  const std::shared_ptr<const Stream> known = FindStream(value);
  if (known == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  target->link = OpenedLink(known->device);
  if (target->link == nullptr || target->link->number() != known->link)
    return CUDA_ERROR_INVALID_HANDLE;
  target->stream = value;
  return target->link->fault();
}

CUresult Session::SynchronizeStream(const StreamTarget& target) {
  return AskOfStream(target, StreamSynchronize{target.stream});
}

CUresult Session::QueryStream(const StreamTarget& target) {
  Link& link = *target.link;
  if (const std::shared_ptr<const Stream> known = FindStream(target.stream)) {
    const std::uint64_t last = link.LastOn(target.stream);
    // Not what a fence says of the device: chunks of copies to the host may come after it.
    if (known->completed.load(std::memory_order_acquire) >= last) {
      const CUresult result = link.Synchronized(false);
      return result != CUDA_SUCCESS ? result : link.TakePostedFailure();
    }
  }
  return AskOfStream(target, StreamQuery{target.stream});
}

template <typename Op>
CUresult Session::AskOfStream(const StreamTarget& target, const Op& op) {
  std::uint64_t sequence = 0;
  const CUresult result = target.link->Synchronize(op, &sequence);
  if (result != CUDA_SUCCESS) return result;
  if (const std::shared_ptr<const Stream> known = FindStream(target.stream)) {
    std::uint64_t completed = known->completed.load(std::memory_order_relaxed);
    while (completed < sequence && !known->completed.compare_exchange_weak(
                                       completed, sequence, std::memory_order_release)) {
    }
  }
  return target.link->TakePostedFailure();
}

}  // namespace cuspan
