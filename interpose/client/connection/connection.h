// The connection to one proxy: posted ops, calls with replies, bulk bytes (transfers.h) and the
// proxy's messages. It does not interpret ops; its subclass ContextConnection does.
//
// Threads: any. Functions return the driver's results; for a lost device every call returns its
// sticky error.
#pragma once

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <string>
#include <string_view>

#include "common/mutex.h"
#include "interpose/client/base/thread_state.h"
#include "interpose/client/connection/answer_watch.h"
#include "interpose/client/connection/common.h"
#include "interpose/client/connection/last_posts.h"
#include "interpose/client/connection/pending_calls.h"
#include "interpose/client/connection/posted_failures.h"
#include "interpose/client/connection/receiver.h"
#include "interpose/client/connection/transfers.h"
#include "protocol/channel/channel.h"

namespace cuspan {

// A device's access to the shared region (memory/shared_region.h).
enum class Sharing {
  kNone,      // No access: its addresses were taken.
  kMemory,    // The same memory, perhaps except the last quarter.
  kMirrored,  // Memory of its own at the same addresses.
};

// Properties of a proxy, known when it is connected.
struct ProxyLocation {
  int device = 0;             // Number in the program.
  std::string name;           // GPU and host, for messages.
  std::uint32_t agent = 0;    // Rank of its node's agent.
  std::uint32_t ordinal = 0;  // Number at the node's driver.
  pid_t process = 0;          // Pid on its node.
  bool relayed = false;
  std::string exchange;  // Address of its service for other proxies of the node; empty: none.
  Sharing sharing = Sharing::kNone;
  // True if it has device memory for managed memory, kept equal to the program's; always with
  // kMirrored.
  bool mirrors_managed = false;
  // True if its kernels can use __managed__ variables in the program's own memory.
  bool places_variables = false;

  bool SameNode(const ProxyLocation& other) const {
    return agent == other.agent && relayed == other.relayed && !exchange.empty() &&
           !other.exchange.empty();
  }
};

// Ends a strict run if `result` rejects device code of the program as unsupported. The device's
// driver has reported the code and the reason. Threads: any.
void EndIfRefused(CUresult result);

// Marks the calling thread as waiting for a device while alive: for the waiting time of a Python
// line, and for warnings about a proxy not answering.
class DeviceWait {
 public:
  DeviceWait(ConnectionCommon& common, Channel& channel)
      : observed_(common.wait_observer, channel.statistics()), waiter_(channel) {}

 private:
  const ObservedWait observed_;
  const Channel::Waiter waiter_;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `number` counts connections of this process from 1, to recognize handles of a lost one.
  // `common` outlives it.
  Connection(ProxyLocation place, std::uint64_t number, std::unique_ptr<Channel> channel,
             ConnectionCommon* common);
  virtual ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const ProxyLocation& place() const { return place_; }
  int device() const { return place_.device; }
  std::uint64_t number() const { return number_; }
  Sharing sharing() const { return place_.sharing; }
  bool mirrors_managed() const { return place_.mirrors_managed; }
  ConnectionCommon& common() const { return *common_; }
  Channel& channel() const { return *channel_; }
  Transfers& transfers() { return transfers_; }
  Receiver& receiver() { return receiver_; }

  // Posts an op without a reply, and without the coherence of ContextConnection::Post. *sequence:
  // position among all posted ops.
  template <typename T>
  CUresult Send(const T& op, std::uint64_t* sequence = nullptr) {
    static_assert(T::kClass == OpClass::kPosted || T::kClass == OpClass::kChunk);
    if (const CUresult sticky = fault(); sticky != CUDA_SUCCESS) return sticky;
    channel_->statistics().template Count<T>();
    // Before the post: a wait posted later finds it.
    if constexpr (T::kOp == Op::kEventRecord)
      records_pending_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t posted = channel_->Post(op, ThisThread().number);
    if (posted == 0) return Lost();
    if constexpr (requires { op.stream; }) last_posts_.Note(op.stream, posted);
    if (sequence != nullptr) *sequence = posted;
    return CUDA_SUCCESS;
  }
  // Posts a call and waits for its reply. Returns the reply's result, or the reason for a missing
  // reply.
  template <typename T>
  CUresult Call(const T& op, typename T::Reply* reply, std::uint64_t* sequence = nullptr) {
    static_assert(T::kClass == OpClass::kCall);
    if (const CUresult sticky = fault(); sticky != CUDA_SUCCESS) return sticky;
    PendingCalls::Call pending;
    channel_->statistics().template Count<T>();
    const std::uint32_t request = calls_.Add(&pending);
    const std::uint64_t posted = channel_->Post(op, request);
    if (posted == 0) {
      calls_.Remove(request);
      return Lost();
    }
    if (sequence != nullptr) *sequence = posted;
    if (const CUresult result = Wait(request, &pending); result != CUDA_SUCCESS) return result;
    if (!DecodeFrom(pending.payload, *reply)) return MalformedReply(OpName(T::kOp));
    return static_cast<CUresult>(reply->result);
  }
  // Call with a result valid only after the chunks pushed before the reply are stored.
  template <typename T>
  CUresult CallAndStore(const T& op, std::uint64_t* posted = nullptr) {
    typename T::Reply reply;
    std::uint64_t sequence = 0;
    const CUresult result = Call(op, &reply, &sequence);
    if (posted != nullptr) *posted = sequence;
    if (result == CUDA_SUCCESS) {
      const DeviceWait wait(*common_, *channel_);
      // Between nodes the bytes may arrive a little after the reply: polls before it sleeps.
      if (!transfers_.Stored(reply.chunks)) {
        receiver_.Watch([&] { return transfers_.Stored(reply.chunks) || fault() != CUDA_SUCCESS; });
      }
      transfers_.WaitStored(reply.chunks);
      receiver_.ShowStored();
    }
    bool all = T::kOp == Op::kDeviceSynchronize;
    if constexpr (requires { reply.device_done; }) all = reply.device_done;
    if (result == CUDA_SUCCESS && all) NoteStored(sequence);
    return fault() != CUDA_SUCCESS ? fault() : result;
  }
  // Gets the connection's own stream, created at the first call and synchronized with no other: for
  // work of this device in the order of another device's stream.
  CUresult OwnStream(std::uint64_t* stream) { return OwnStream(own_stream_, stream); }
  // Gets a second one, for shared memory: its work never waits for the program or other devices.
  CUresult MemoryStream(std::uint64_t* stream) { return OwnStream(memory_stream_, stream); }

  // Records the op posted at this position as work possibly using memory shared with the program.
  void Worked(std::uint64_t sequence) { last_posts_.NoteWork(sequence); }
  // True if recorded work is not known to be complete.
  bool AtWork() const { return completed() < last_posts_.work() && fault() == CUDA_SUCCESS; }
  // Requests notification of its completion, at the second call since the last recorded work.
  void AskWhenDone();

  // Sequence of the last posted op.
  std::uint64_t LastPosted() const { return channel_->LastSequence(); }
  const LastPosts& last_posts() const { return last_posts_; }
  // True if recorded events may be reached without notification to the program yet. Stays true once
  // the driver has refused a record.
  bool HasRecordsPending() const { return records_pending_.load(std::memory_order_acquire) != 0; }

  // Sticky error of a lost device; CUDA_SUCCESS before the loss.
  CUresult fault() const { return static_cast<CUresult>(fault_.load(std::memory_order_acquire)); }
  // Returns the failure of an op posted by this thread earlier, once.
  CUresult ConsumePostedFailure() { return failures_.Consume(ThisThread().number); }
  // Ends all waits; later calls return `result`.
  void Fail(CUresult result) { Fail(result, nullptr); }
  // Returns a sentence naming the lost device and the reason, for a log and for Lose.
  std::string LossSentence(std::string_view why) const;
  // Fails with the error of a lost device; `sentence` is added to this error's text.
  void Lose(const std::string& sentence);

  // Warns if a proxy does not answer a waiting thread. Called by the receiver thread,
  // AnswerWatch::kPollsPerSecond times a second. `agent`: process of this node's agent; 0: unknown.
  void PollAnswers(pid_t agent);

  // Waits on `changed` with `lock` until over() is true. After kLongWait, it calls OnLongWait once
  // to report a possible reason for an endless wait.
  template <typename Over>
  void WaitLong(std::condition_variable& changed, MutexLock& lock,
                Over&& over) CUSPAN_NO_THREAD_SAFETY_ANALYSIS {  // The caller's mutex.
    if (changed.wait_for(lock, kLongWait, over)) return;
    lock.unlock();
    OnLongWait();
    lock.lock();
    changed.wait(lock, over);
  }
  static constexpr std::chrono::seconds kLongWait{10};

 protected:
  // Everything posted up to `sequence` is complete, and its bytes are stored. Threads: any.
  void NoteStored(std::uint64_t sequence) {
    last_posts_.NoteStored(sequence);
    OnCompleted(sequence);
  }
  // Handlers of messages, called by the receiving thread; they must not block.
  virtual void OnEvent(const EventReached& reached) = 0;
  // Any other message; false if it is invalid.
  virtual bool OnFrame(const Frame& frame) = 0;
  // Handles the completion on the device of everything posted up to `sequence`. Threads: any.
  virtual void OnCompleted(std::uint64_t sequence) = 0;
  // Highest sequence passed to OnCompleted.
  virtual std::uint64_t completed() const = 0;
  // Handles the first fault. Called before and after the change of fault(), by any thread.
  virtual void OnFailed(CUresult result) = 0;
  // Called after the calling thread has waited for the device for kLongWait.
  virtual void OnLongWait() = 0;

 private:
  // `lost`: sentence for the error's text, if the device is lost.
  void Fail(CUresult result, const std::string* lost);
  friend class Receiver;
  CUresult Wait(std::uint32_t request, PendingCalls::Call* pending);
  CUresult OwnStream(std::atomic<std::uint64_t>& known, std::uint64_t* stream);
  CUresult MalformedReply(const char* op);
  // Returns a probable reason for the proxy's silence.
  std::string WhySilent(pid_t agent) const;
  CUresult Lost();

  const ProxyLocation place_;
  const std::uint64_t number_;
  const std::unique_ptr<Channel> channel_;
  ConnectionCommon* const common_;
  std::atomic<int> fault_{CUDA_SUCCESS};
  PendingCalls calls_;
  PostedFailures failures_;
  LastPosts last_posts_;
  std::atomic<std::uint64_t> records_pending_{0};
  std::atomic<std::uint64_t> seen_at_work_{0};
  std::atomic<std::uint64_t> asked_for_{0};  // Last work with a notification requested.

  Mutex own_streams_mutex_;  // Held while a stream is created.
  std::atomic<std::uint64_t> own_stream_{0};
  std::atomic<std::uint64_t> memory_stream_{0};

  Transfers transfers_;
  Receiver receiver_;
  AnswerWatch answers_;  // Threads: the receiver thread only.
};

}  // namespace cuspan
