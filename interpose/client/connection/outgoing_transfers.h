// Bulk bytes from the program's memory to one proxy, in chunks through the channel's staging slots.
//
// The copy op is posted in its stream. When it is next in the stream, the proxy requests its bytes
// (TransferClearToSend), and the chunks are sent. If the caller waits for the copy, its thread
// sends them. Otherwise the connection's sender thread does, alternating between all ready
// transfers. Bytes of an early copy are sent with its op.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>

#include "common/mutex.h"
#include "interpose/client/connection/common.h"
#include "interpose/client/connection/host_rows.h"
#include "interpose/client/connection/outgoing_chunks.h"
#include "protocol/channel/channel.h"

namespace cuspan {

// Threads: any.
class OutgoingTransfers {
 public:
  // `common` outlives it. `device`: number in the program, for traces.
  OutgoingTransfers(Channel* channel, ConnectionCommon* common, int device)
      : channel_(channel), common_(common), device_(static_cast<std::uint32_t>(device)) {}
  ~OutgoingTransfers();

  // Registers a transfer sent by the caller, of bytes in `source`. Returns its number, an even one,
  // for CopyToDevice.
  std::uint64_t Begin(const HostSpan& source);
  // Returns a number for a transfer sent by others.
  std::uint64_t NextNumber();
  // Waits until the transfer is clear to send, then sends all bytes; the source, laid out as
  // `rows`, may be reused afterwards. If the proxy refuses the transfer, it sends nothing and
  // returns CUDA_SUCCESS: the failure was posted.
  CUresult Send(std::uint64_t transfer, const std::byte* source, std::uint64_t bytes,
                const HostRows& rows = {});
  // Starts the sender thread; to be called before SendLater. CUDA_ERROR_OPERATING_SYSTEM if no
  // thread can be started.
  CUresult StartSender();
  // Send on the connection's own thread. The source stays in use until the stream has passed the
  // copy.
  void SendLater(std::uint64_t transfer, const std::byte* source, std::uint64_t bytes,
                 const HostRows& rows = {});
  // Removes a transfer if its op could not be posted.
  void Forget(std::uint64_t transfer);
  // True if a transfer may still read these bytes.
  bool Uses(const HostSpan& span);
  // True if the transfer is clear to send, or over.
  bool MaySend(std::uint64_t transfer);

  // Registers an early transfer of `bytes` in `source`: see kMaxEarlyBytes. Returns its number, or
  // nothing if it would have to wait for earlier ones.
  std::optional<std::uint64_t> BeginEarly(const HostSpan& source, std::uint64_t bytes);
  // Sends its bytes, after its op was posted. `later`: if this takes long, the sender thread does
  // it, and the source stays in use as for SendLater.
  CUresult SendEarly(std::uint64_t transfer, const std::byte* source, std::uint64_t bytes,
                     const HostRows& rows, bool later);
  // Removes it if its op could not be posted.
  void ForgetEarly(std::uint64_t transfer);

  // Marks a transfer as clear to send once `chunks` chunks from the device are stored.
  void OnClearToSend(std::uint64_t transfer, std::uint64_t chunks);
  // This number of chunks from the device is stored.
  void OnStored(std::uint64_t chunks);
  void OnFailed(std::uint64_t transfer);
  void FailAll(CUresult result);

 private:
  struct Outgoing {
    HostSpan span;
    const std::byte* source = nullptr;
    std::uint64_t bytes = 0;
    HostRows rows;
    std::optional<std::uint64_t> clear_to_send;  // Clear to send at this number of stored chunks.
    bool by_sender = false;
    bool early = false;
    // An early transfer refused by the proxy: chunks of any contents are sent.
    bool refused = false;
    std::uint64_t sent = 0;
  };

  void SenderLoop();
  bool IsClearToSend(const Outgoing& outgoing) const CUSPAN_REQUIRES(mutex_) {
    return outgoing.clear_to_send && *outgoing.clear_to_send <= stored_chunks_;
  }
  bool MaySendNow(std::uint64_t transfer) const CUSPAN_REQUIRES(mutex_);
  // Sends the next part of it; true if this was the last. Called without the mutex.
  bool SendPart(std::uint64_t transfer, Outgoing& outgoing);
  // Sends an early transfer by one chunk if a slot is free; nothing otherwise.
  std::optional<CUresult> SendInFreeSlot(const OutgoingBytes& bytes);
  // False if it is not an early one, or clear to send.
  bool EndEarly(std::uint64_t transfer) CUSPAN_REQUIRES(mutex_);

  Channel* const channel_;
  ConnectionCommon* const common_;
  const std::uint32_t device_;
  Mutex mutex_;
  std::condition_variable may_send_;  // A transfer of outgoing_ is ready or gone.
  std::uint64_t last_number_ CUSPAN_GUARDED_BY(mutex_) = 0;
  CUresult failed_ CUSPAN_GUARDED_BY(mutex_) = CUDA_SUCCESS;
  bool stopping_ CUSPAN_GUARDED_BY(mutex_) = false;
  // Ordered by registration.
  std::map<std::uint64_t, Outgoing> outgoing_ CUSPAN_GUARDED_BY(mutex_);
  std::uint64_t stored_chunks_ CUSPAN_GUARDED_BY(mutex_) = 0;
  // Numbers of stored chunks awaited.
  std::multiset<std::uint64_t> awaits_stored_ CUSPAN_GUARDED_BY(mutex_);
  // Bytes of early transfers not clear to send yet, and their sum: the proxy may have to keep them.
  std::unordered_map<std::uint64_t, std::uint64_t> early_ CUSPAN_GUARDED_BY(mutex_);
  std::uint64_t early_bytes_ CUSPAN_GUARDED_BY(mutex_) = 0;
  std::thread sender_;
};

}  // namespace cuspan
