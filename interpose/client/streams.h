// The streams of all devices, and the meaning of the program's stream 0.
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

// Attributes of a stream set by the program; missing ones were never set. Threads: any.
class StreamAttributes {
 public:
  using Values = std::map<CUlaunchAttributeID, CUlaunchAttributeValue>;
  // Calls use(Values&) under a mutex.
  template <typename Use>
  void With(Use&& use) {
    const MutexLock lock(mutex_);
    use(values_);
  }

 private:
  Mutex mutex_;
  Values values_ CUSPAN_GUARDED_BY(mutex_);
};

// A stream created by the program. `id`: its handle, in the program and at the proxy.
struct Stream {
  Stream(std::uint64_t id, const Context& context, std::uint64_t connection, unsigned flags,
         int priority)
      : id(id),
        context(context.shared_from_this()),
        connection(connection),
        flags(flags),
        priority(priority) {}
  const std::uint64_t id;
  const std::shared_ptr<const Context> context;  // Owner,
  const std::uint64_t connection;  // and ContextConnection::number() of its generation.
  const unsigned flags;
  const int priority;
  mutable std::atomic<bool> destroyed = false;
  // Everything posted to it up to this sequence is known to be complete: waits for an idle stream,
  // and queries, are answered locally.
  mutable std::atomic<std::uint64_t> completed = 0;
  mutable StreamAttributes attributes;
};

// True for streams not created by the program: 0, CU_STREAM_LEGACY or CU_STREAM_PER_THREAD.
inline bool IsDefaultStream(const void* stream) {
  return reinterpret_cast<std::uintptr_t>(stream) <= 2;
}

// Threads: any. Results are the driver's. Lives as long as the process.
class Streams final : public ContextTable {
 public:
  Streams(Devices* devices, PeerCopies* peer_copies)
      : devices_(*devices), peer_copies_(*peer_copies) {}
  Streams(const Streams&) = delete;

  // Creates a stream on the current device.
  CUresult Create(unsigned flags, int priority, std::uint64_t* stream);
  CUresult Destroy(std::uint64_t stream);
  // Resolves a cudaStream_t / CUstream value. CUDA_ERROR_INVALID_HANDLE for an unknown one.
  CUresult Resolve(void* stream, DefaultStream meaning, StreamTarget* target);
  // Resolve with the default streams of `connection` instead of the current device's.
  CUresult ResolveOn(const std::shared_ptr<ContextConnection>& connection, void* stream,
                     StreamTarget* target);
  // Returns a stream created by the program; null for default streams and unknown handles.
  std::shared_ptr<const Stream> Find(std::uint64_t stream) const;
  // Find without a reference: valid until the calling thread's next lookup.
  const Stream* Peek(std::uint64_t stream) const;
  // Returns Resolve's result for a stream created by the program.
  CUresult Check(std::uint64_t stream) const;
  CUresult Synchronize(const StreamTarget& target);
  // CUDA_ERROR_NOT_READY while work is pending.
  CUresult Query(const StreamTarget& target);

  void Forget(const ContextConnection& ended) override;

 private:
  // True if the stream's last op is a copy from the device already awaited by the calling thread:
  // everything in the stream is complete.
  static bool EndsWithCopy(const StreamTarget& target);
  // True if everything in the stream is known to be complete, and the bytes of its copies stored.
  bool KnownIdle(const StreamTarget& target) const;
  // Records that everything in the stream up to `sequence` is.
  void SetCompleted(const StreamTarget& target, std::uint64_t sequence) const;
  // Reports completion to the program.
  static CUresult Completed(ContextConnection& connection);
  // Gets the calling thread's own stream, destroyed with the thread.
  CUresult ThreadStream(const std::shared_ptr<ContextConnection>& connection,
                        std::uint64_t* stream);
  // Destroys the stream at the proxy.
  CUresult End(ContextConnection& connection, std::uint64_t stream);
  // Asks the proxy for the completion of everything in the stream, or waits for it, unless it is
  // known already.
  template <typename Op>
  CUresult Ask(const StreamTarget& target, const Op& op);

  Devices& devices_;
  PeerCopies& peer_copies_;
  mutable SharedMutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const Stream>> streams_
      CUSPAN_GUARDED_BY(mutex_);
};

}  // namespace cuspan
