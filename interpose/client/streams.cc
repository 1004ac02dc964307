// Streams of the session.
#include <algorithm>
#include <utility>

#include "interpose/client/handles.h"
#include "interpose/client/session.h"
#include "protocol/api/event_flags.h"

namespace cuspan {

CUresult Session::CreateStream(unsigned flags, int priority, std::uint64_t* stream) {
  std::shared_ptr<Link> link;
  if (const CUresult result = CurrentLink(&link); result != CUDA_SUCCESS) return result;
  StreamCreate create;
  create.stream = NextHandle();
  create.flags = flags;
  create.priority = priority;
  if (const CUresult result = link->Post(create); result != CUDA_SUCCESS) return result;
  if ((flags & CU_STREAM_NON_BLOCKING) == 0) link->NoteBlockingStream();
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
  return DestroyStreamOf(*link, stream, known->progress);
}

void Session::DestroyThreadStream(int device, const ThreadState::OwnStream& own) {
  const std::shared_ptr<Link> link = OpenedLink(device);
  if (link == nullptr || link->number() != own.link) return;
  // A lost device has no stream any more.
  static_cast<void>(DestroyStreamOf(*link, own.stream, *own.progress));
}

CUresult Session::DestroyStreamOf(Link& link, std::uint64_t stream,
                                  const StreamProgress& progress) {
  peer_copies_.ForgetStream(link, stream);
  if (const std::uint64_t mark = progress.mark.load(); mark != 0)
    static_cast<void>(DestroyEvent(mark));
  StreamDestroy destroy;
  destroy.stream = stream;
  return link.Post(destroy);
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
    link->NoteBlockingStream();
    own[device] = {create.stream, link->number(), std::make_shared<StreamProgress>()};
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

std::shared_ptr<StreamProgress> Session::ProgressOf(const StreamTarget& target) const {
  if (target.stream == 0) return {target.link, &target.link->legacy_progress()};
  if (const std::shared_ptr<const Stream> known = FindStream(target.stream))
    return {known, &known->progress};
  for (const ThreadState::OwnStream& own : ThisThread().own_streams)
    if (own.stream == target.stream) return own.progress;
  return nullptr;
}

CUresult Session::SynchronizeStream(const StreamTarget& target) {
  const std::shared_ptr<StreamProgress> progress = ProgressOf(target);
  return AskOfStream(target, StreamSynchronize{target.stream}, progress.get());
}

CUresult Session::QueryStream(const StreamTarget& target) {
  Link& link = *target.link;
  const std::uint64_t news = news_.count();
  const std::shared_ptr<StreamProgress> progress = ProgressOf(target);
  const bool legacy = target.stream == 0;
  // A record in the legacy default stream would hold back streams that are bound to it.
  const bool may_mark = progress != nullptr && !(legacy && link.has_blocking_streams());
  if (progress != nullptr) {
    const std::uint64_t last = legacy ? link.LastPosted() : link.LastOn(target.stream);
    // Not what a fence says of the device: chunks of copies to the host may come after it.
    bool complete = progress->completed.load(std::memory_order_acquire) >= last;
    if (!complete && may_mark) {
      const std::uint64_t marked = progress->marked.load();
      const std::shared_ptr<Event> mark = FindEvent(progress->mark.load());
      if (mark != nullptr && mark->failure() == CUDA_SUCCESS) {
        if (IsComplete(*mark)) {
          progress->Completed(marked);
          complete = marked >= last;
        } else if (progress->not_ready_at.load() == news) {
          return CUDA_ERROR_NOT_READY;
        }
      }
    }
    if (complete) {
      const CUresult result = link.Synchronized(false);
      return result != CUDA_SUCCESS ? result : link.TakePostedFailure();
    }
  }
  const CUresult result = AskOfStream(target, StreamQuery{target.stream}, progress.get());
  if (result == CUDA_ERROR_NOT_READY && may_mark) {
    progress->not_ready_at.store(news);
    MarkProgress(target, *progress);
  }
  return result;
}

void Session::MarkProgress(const StreamTarget& target, StreamProgress& progress) {
  const std::unique_lock marking(progress.marking, std::try_to_lock);
  if (!marking.owns_lock()) return;  // Another thread does it.
  std::uint64_t mark = progress.mark.load();
  if (mark == 0) {
    const unsigned flags = CU_EVENT_DISABLE_TIMING | kProgressEvent;
    if (CreateEventOn(target.link, flags, &mark) != CUDA_SUCCESS) return;
    progress.mark.store(mark);
  }
  std::uint64_t sequence = 0;
  // Where it can not be recorded the next question crosses again, and its answer says why.
  if (RecordEvent(mark, target, &sequence) == CUDA_SUCCESS) progress.marked.store(sequence);
}

template <typename Op>
CUresult Session::AskOfStream(const StreamTarget& target, const Op& op, StreamProgress* progress) {
  std::uint64_t sequence = 0;
  const CUresult result = target.link->CallAndStore(op, &sequence);
  if (result != CUDA_SUCCESS) return result;
  if (progress != nullptr) progress->Completed(sequence);
  return target.link->TakePostedFailure();
}

}  // namespace cuspan
