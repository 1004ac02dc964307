#include "interpose/client/streams.h"

#include <type_traits>
#include <utility>

#include "common/raise.h"
#include "interpose/client/base/handles.h"
#include "interpose/client/base/thread_state.h"

namespace cuspan {
namespace {

// True for the legacy default stream of a StreamTarget: its own streams are resolved.
bool IsDefault(std::uint64_t stream) { return stream <= 2; }

// The calling thread's own default stream, if it is the target; otherwise null.
ThreadState::OwnStream* OwnStreamOf(const StreamTarget& target) {
  auto& own = ThisThread().own_streams;
  const auto found = own.find(target.connection->number());
  return found != own.end() && found->second.stream == target.stream ? &found->second : nullptr;
}

}  // namespace

CUresult Streams::Create(unsigned flags, int priority, std::uint64_t* stream) {
  const Context& context = devices_.CurrentContext();
  std::shared_ptr<ContextConnection> connection;
  if (const CUresult result = devices_.OpenCurrent(&connection); result != CUDA_SUCCESS)
    return result;
  StreamCreate create;
  create.stream = NextHandle();
  create.flags = flags;
  create.priority = priority;
  if (const CUresult result = connection->Post(create); result != CUDA_SUCCESS) return result;
  auto made =
      std::make_shared<const Stream>(create.stream, context, connection->number(), flags, priority);
  const WriterLock lock(mutex_);
  streams_.emplace(create.stream, std::move(made));
  *stream = create.stream;
  return CUDA_SUCCESS;
}

CUresult Streams::End(ContextConnection& connection, std::uint64_t stream) {
  peer_copies_.ForgetStream(connection, stream);
  connection.coherence().StreamEnds(stream);
  StreamDestroy destroy;
  destroy.stream = stream;
  return connection.Post(destroy);
}

CUresult Streams::Destroy(std::uint64_t stream) {
  std::shared_ptr<const Stream> known;
  {
    const WriterLock lock(mutex_);
    const auto entry = streams_.find(stream);
    if (entry == streams_.end()) return CUDA_ERROR_INVALID_HANDLE;
    known = entry->second;
    known->destroyed.store(true, std::memory_order_release);
    streams_.erase(entry);
  }
  const std::shared_ptr<ContextConnection> connection = devices_.Opened(*known->context);
  if (connection == nullptr || connection->number() != known->connection)
    return CUDA_ERROR_INVALID_HANDLE;
  return End(*connection, stream);
}

std::shared_ptr<const Stream> Streams::Find(std::uint64_t stream) const {
  return Peek(stream) != nullptr ? ThisThread().streams.Find(stream) : nullptr;
}

const Stream* Streams::Peek(std::uint64_t stream) const {
  if (stream == 0) return nullptr;
  auto& lately = ThisThread().streams;
  if (const Stream* const known = lately.Peek(stream); known != nullptr)
    return known->destroyed.load(std::memory_order_acquire) ? nullptr : known;
  const ReaderLock lock(mutex_);
  const auto entry = streams_.find(stream);
  return entry == streams_.end() ? nullptr : lately.Keep(stream, entry->second).get();
}

CUresult Streams::Check(std::uint64_t stream) const {
  const Stream* const known = Peek(stream);
  if (known == nullptr || known->context->generation() != known->connection)
    return CUDA_ERROR_INVALID_HANDLE;
  return known->context->state();
}

CUresult Streams::ThreadStream(const std::shared_ptr<ContextConnection>& connection,
                               std::uint64_t* stream) {
  ThreadState& thread = ThisThread();
  const auto [own, is_new] = thread.own_streams.try_emplace(connection->number());
  if (is_new) {
    StreamCreate create;
    create.stream = NextHandle();
    create.flags = CU_STREAM_DEFAULT;
    if (const CUresult result = connection->Post(create); result != CUDA_SUCCESS) {
      thread.own_streams.erase(own);
      return result;
    }
    own->second.stream = create.stream;
    thread.at_end.push_back(
        [this, generation = std::weak_ptr<ContextConnection>(connection), made = create.stream] {
          // A lost device has no streams.
          if (const auto still = generation.lock()) static_cast<void>(End(*still, made));
        });
  }
  *stream = own->second.stream;
  return CUDA_SUCCESS;
}

CUresult Streams::Resolve(void* stream, DefaultStream meaning, StreamTarget* target) {
  const auto value = reinterpret_cast<std::uintptr_t>(stream);
  const bool own = value == 2 || (value == 0 && meaning == DefaultStream::kPerThread);
  if (IsDefaultStream(stream)) {
    if (const CUresult result = devices_.OpenCurrent(&target->connection); result != CUDA_SUCCESS)
      return result;
    target->stream = 0;
    return own ? ThreadStream(target->connection, &target->stream) : CUDA_SUCCESS;
  }
  const Stream* const known = Peek(value);
  if (known == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  target->connection = devices_.Opened(*known->context);
  if (target->connection == nullptr || target->connection->number() != known->connection)
    return CUDA_ERROR_INVALID_HANDLE;
  target->stream = value;
  return target->connection->fault();
}

CUresult Streams::ResolveOn(const std::shared_ptr<ContextConnection>& connection, void* stream,
                            StreamTarget* target) {
  if (!IsDefaultStream(stream)) return Resolve(stream, DefaultStream::kLegacy, target);
  *target = {connection, 0};
  const bool own = reinterpret_cast<std::uintptr_t>(stream) == 2;
  return own ? ThreadStream(connection, &target->stream) : connection->fault();
}

// Frameworks synchronize the stream after each read of a number from the device into pageable
// memory, although this copy has waited already.
bool Streams::EndsWithCopy(const StreamTarget& target) {
  const ContextConnection& connection = *target.connection;
  const ThreadState::FinishedCopy& copy = ThisThread().finished_copy;
  if (copy.connection != connection.number() || copy.stream != target.stream) return false;
  // A default stream waits for work in any stream.
  const std::uint64_t last = IsDefault(target.stream) ? connection.LastPosted()
                                                      : connection.last_posts().Of(target.stream);
  // Events are reported, and bytes of earlier copies stored, a little after the copy's end.
  return last == copy.sequence && !connection.HasRecordsPending() &&
         connection.common().receiving.load(std::memory_order_acquire) == 0;
}

CUresult Streams::Completed(ContextConnection& connection) {
  const CUresult result = connection.Synchronized(false);
  return result != CUDA_SUCCESS ? result : connection.ConsumePostedFailure();
}

bool Streams::KnownIdle(const StreamTarget& target) const {
  const ContextConnection& connection = *target.connection;
  const LastPosts& posts = connection.last_posts();
  if (connection.channel().closed()) return false;
  // A default stream waits for work in any stream.
  if (IsDefault(target.stream)) return posts.Stored(connection.LastPosted());
  const std::uint64_t last = posts.Of(target.stream);
  if (posts.Stored(last)) return true;
  // A fence is not enough: chunks of copies to the host may arrive after it.
  if (const Stream* const known = Peek(target.stream); known != nullptr)
    return known->completed.load(std::memory_order_acquire) >= last;
  const ThreadState::OwnStream* const own = OwnStreamOf(target);
  return own != nullptr && own->completed >= last;
}

void Streams::SetCompleted(const StreamTarget& target, std::uint64_t sequence) const {
  if (const Stream* const known = Peek(target.stream); known != nullptr)
    RaiseTo(known->completed, sequence);
  else if (ThreadState::OwnStream* const own = OwnStreamOf(target); own != nullptr)
    own->completed = sequence;
}

CUresult Streams::Synchronize(const StreamTarget& target) {
  return Ask(target, StreamSynchronize{target.stream});
}

CUresult Streams::Query(const StreamTarget& target) {
  return Ask(target, StreamQuery{target.stream});
}

template <typename Op>
CUresult Streams::Ask(const StreamTarget& target, const Op& op) {
  ContextConnection& connection = *target.connection;
  if (EndsWithCopy(target) || KnownIdle(target)) return Completed(connection);
  std::uint64_t sequence = 0;
  CUresult result = CUDA_SUCCESS;
  if constexpr (std::is_same_v<Op, StreamSynchronize>)
    result = connection.WaitForStream(op.stream, &sequence);
  else
    result = connection.Synchronize(op, &sequence);
  if (result != CUDA_SUCCESS) return result;
  SetCompleted(target, sequence);
  return connection.ConsumePostedFailure();
}

void Streams::Forget(const ContextConnection& ended) {
  const WriterLock lock(mutex_);
  std::erase_if(streams_, [&](const auto& entry) {
    const bool gone = entry.second->connection == ended.number();
    if (gone) entry.second->destroyed.store(true, std::memory_order_release);
    return gone;
  });
}

}  // namespace cuspan
