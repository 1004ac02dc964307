// The streams of all devices, and what a program's stream 0 stands for.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

#include "common/mutex.h"
#include "interpose/client/base/context.h"
#include "interpose/client/devices.h"
#include "interpose/client/peer_copies.h"
#include "interpose/client/stream_target.h"

namespace cuspan {

// What the program has set of a stream; what is not there was never set. Any thread.
class StreamAttributes {
 public:
  using Values = std::map<CUlaunchAttributeID, CUlaunchAttributeValue>;
  // use(Values&), under a mutex.
  template <typename Use>
  void With(Use&& use) {
    const MutexLock lock(mutex_);
    use(values_);
  }

 private:
  Mutex mutex_;
  Values values_ CUSPAN_GUARDED_BY(mutex_);
};

// A stream that the program made. `id` is its handle, in the program and at the proxy.
struct Stream {
  Stream(std::uint64_t id, const Context& context, std::uint64_t connection, unsigned flags,
         int priority)
      : id(id),
        context(context.shared_from_this()),
        connection(connection),
        flags(flags),
        priority(priority) {}
  const std::uint64_t id;
  const std::shared_ptr<const Context> context;  // Whose it is,
  const std::uint64_t connection;                // and in which of its lives.
  const unsigned flags;
  const int priority;
  mutable std::atomic<bool> destroyed = false;
  // All that was posted to it up to this sequence is known to be complete, so that a program that
  // asks about an idle stream is answered here.
  mutable std::atomic<std::uint64_t> completed = 0;
  mutable StreamAttributes attributes;
};

// Whether it stands for a stream that the program need not make: 0, CU_STREAM_LEGACY or
// CU_STREAM_PER_THREAD.
inline bool IsDefaultStream(const void* stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

// Any thread. Results are the driver's. Lives as long as the process.
class Streams final : public ContextTable {
 public:
  Streams(Devices* devices, PeerCopies* peer_copies)
      : devices_(*devices), peer_copies_(*peer_copies) {}
  Streams(const Streams&) = delete;

  // On the current device.
  CUresult Create(unsigned flags, int priority, std::uint64_t* stream);
  CUresult Destroy(std::uint64_t stream);
  // Resolves a cudaStream_t / CUstream value. CUDA_ERROR_INVALID_HANDLE when it is none.
  CUresult Resolve(void* stream, DefaultStream meaning, StreamTarget* target);
  // The same, but that a default stream is that of `connection`, whatever device is current.
  CUresult ResolveOn(const std::shared_ptr<ContextConnection>& connection, void* stream,
                     StreamTarget* target);
  // What the program made; null for the default streams and unknown handles.
  std::shared_ptr<const Stream> Find(std::uint64_t stream) const;
  // The same, there until the calling thread asks for another one.
  const Stream* Peek(std::uint64_t stream) const;
  // Whether a stream that the program made can be used, as Resolve says it.
  CUresult Check(std::uint64_t stream) const;
  CUresult Synchronize(const StreamTarget& target);
  // CUDA_ERROR_NOT_READY while work is pending.
  CUresult Query(const StreamTarget& target);

  void Forget(const ContextConnection& ended) override;

 private:
  // Whether nothing comes behind a copy in the stream whose bytes the calling thread has waited
  // for: then all that is in the stream is complete, and known to be.
  static bool EndsWithCopy(const StreamTarget& target);
  // The program hears that it is.
  static CUresult Completed(ContextConnection& connection);
  // The calling thread's own stream, which ends with it.
  CUresult ThreadStream(const std::shared_ptr<ContextConnection>& connection,
                        std::uint64_t* stream);
  // The stream is gone as far as the program is concerned.
  CUresult End(ContextConnection& connection, std::uint64_t stream);
  // Asks the proxy whether, or waits until, all that is in the stream is complete, and remembers
  // it.
  template <typename Op>
  CUresult Ask(const StreamTarget& target, const Op& op);

  Devices& devices_;
  PeerCopies& peer_copies_;
  mutable SharedMutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const Stream>> streams_
      CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
