// The connection to one proxy: what is posted to it, calls that wait for their replies, bulk bytes
// (transfers.h), and what comes back. What all that means is for ContextConnection, which is one,
// to know.
//
// Any thread may use it. Functions return the driver's results; a lost device makes every call
// return its sticky error.
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

// How a device has the shared region (memory/shared_region.h).
enum class Sharing {
  kNone,      // Not at all: its addresses were taken.
  kMemory,    // The very same memory, but perhaps for the last quarter.
  kMirrored,  // Memory of its own at the same addresses.
};

// What is known of a proxy when it is connected.
struct ProxyLocation {
  int device = 0;             // As the program counts.
  std::string name;           // For a person: which GPU it is, and on which host.
  std::uint32_t agent = 0;    // The rank of its node's.
  std::uint32_t ordinal = 0;  // As the node's driver counts.
  pid_t process = 0;          // On its node.
  bool relayed = false;
  std::string exchange;  // Where it answers other proxies of the node; empty: nowhere.
  Sharing sharing = Sharing::kNone;
  // Whether it has memory of its own for managed memory, kept equal to the program's: with
  // kMirrored always.
  bool mirrors_managed = false;
  // Whether its kernels can have __managed__ variables in the program's own memory.
  bool places_variables = false;

  bool SameNode(const ProxyLocation& other) const {
    return agent == other.agent && relayed == other.relayed && !exchange.empty() &&
           !other.exchange.empty();
  }
};

// The device's driver has answered this to code of the program; it has said which and why when it
// does not support it. Ends a strict run then. Any thread.
void EndIfRefused(CUresult result);

// Whether kernels run by the op.
constexpr bool RunsKernels(Op op) {
  return op == Op::kLaunch || op == Op::kLaunchShaped || op == Op::kGraphLaunch ||
         op == Op::kCollectiveGroup;
}

// The calling thread waits for what a device does while this lives: a line of a Python program is
// told how long, and a person of a proxy that does not answer.
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
  // `number` counts connections of this process from 1, so that handles of a lost one are told
  // apart. `common` outlives it.
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
  Channel& channel() { return *channel_; }
  Transfers& transfers() { return transfers_; }
  Receiver& receiver() { return receiver_; }

  // Posts an op that nobody waits for, as it is; *sequence is its place among all that was posted.
  template <typename T>
  CUresult Send(const T& op, std::uint64_t* sequence = nullptr) {
    static_assert(T::kClass == OpClass::kPosted || T::kClass == OpClass::kChunk);
    if (const CUresult sticky = fault(); sticky != CUDA_SUCCESS) return sticky;
    channel_->statistics().template Count<T>();
    const std::uint64_t posted = channel_->Post(op, ThisThread().number);
    if (posted == 0) return Lost();
    if constexpr (requires { op.stream; }) last_posts_.Note(op.stream, posted);
    if constexpr (T::kOp == Op::kEventRecord)
      records_pending_.fetch_add(1, std::memory_order_relaxed);
    if (sequence != nullptr) *sequence = posted;
    return CUDA_SUCCESS;
  }
  // Posts a call and waits for its reply; returns the reply's result, or why there is none.
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
  // A call whose result holds only when the chunks pushed before it are stored.
  template <typename T>
  CUresult CallAndStore(const T& op, std::uint64_t* posted = nullptr) {
    typename T::Reply reply;
    std::uint64_t sequence = 0;
    const CUresult result = Call(op, &reply, &sequence);
    if (posted != nullptr) *posted = sequence;
    if (result == CUDA_SUCCESS) {
      const DeviceWait wait(*common_, *channel_);
      // Over agents the bytes may come a little later than the reply: not a reason to sleep.
      if (!transfers_.Stored(reply.chunks)) {
        receiver_.Watch([&] { return transfers_.Stored(reply.chunks) || fault() != CUDA_SUCCESS; });
      }
      transfers_.WaitStored(reply.chunks);
      receiver_.ShowStored();
    }
    bool all = T::kOp == Op::kDeviceSynchronize;
    if constexpr (requires { reply.device_done; }) all = reply.device_done;
    if (result == CUDA_SUCCESS && all) OnCompleted(sequence);
    return fault() != CUDA_SUCCESS ? fault() : result;
  }
  CUresult SynchronizeStream(std::uint64_t stream);
  // A stream of our own, bound to no other: for what one device does in the order of another's
  // stream.
  CUresult OwnStream(std::uint64_t* stream) { return OwnStream(own_stream_, stream); }
  // Another one, for shared memory: nothing there waits for the program or for other devices.
  CUresult MemoryStream(std::uint64_t* stream) { return OwnStream(memory_stream_, stream); }

  // Work that may use memory shared with the program was posted just now.
  void Worked();
  // Whether the device may still be doing such work, as far as is known here.
  bool AtWork() const {
    return completed() < last_work_.load(std::memory_order_acquire) && fault() == CUDA_SUCCESS;
  }
  // Has the device say when it has done it, at the second call since the last such work.
  void AskWhenDone();

  // What is posted up to now.
  std::uint64_t LastPosted() const { return channel_->LastSequence(); }
  // Not less than the sequence of the last op posted to a stream that the program made.
  std::uint64_t LastOn(std::uint64_t stream) const { return last_posts_.Of(stream); }
  // Whether events were recorded of which the program may not know yet that they are reached. True
  // for good once the driver has refused a record.
  bool HasRecordsPending() const { return records_pending_.load(std::memory_order_acquire) != 0; }

  // The sticky error of a device that is lost to this process; CUDA_SUCCESS while it lives.
  CUresult fault() const { return static_cast<CUresult>(fault_.load(std::memory_order_acquire)); }
  // The failure of an op that this thread posted earlier, once.
  CUresult TakePostedFailure() { return failures_.Take(ThisThread().number); }
  // Ends everything that waits; later calls return `result`.
  void Fail(CUresult result) { Fail(result, nullptr); }
  // Which device cannot be reached any more, and why: for a log, and for Lose.
  std::string LossSentence(std::string_view why) const;
  // As Fail, for such a device; `sentence` is the text of that error.
  void Lose(const std::string& sentence);

  // For the thread that receives, AnswerWatch::kPollsPerSecond times a second: says when a proxy
  // that somebody waits for does not answer. `agent`: the process of this node's, 0 where it is
  // unknown.
  void LookForAnswers(pid_t agent);

  // Waits for `over()`, told by `changed`, with the lock; says after a while what it may be that
  // never comes.
  template <typename Over>
  void WaitLong(std::condition_variable& changed, MutexLock& lock, Over&& over)
      CUSPAN_NO_THREAD_SAFETY_ANALYSIS {  // Which mutex it is, only the caller knows.
    if (changed.wait_for(lock, kLongWait, over)) return;
    lock.unlock();
    OnLongWait();
    lock.lock();
    changed.wait(lock, over);
  }
  static constexpr std::chrono::seconds kLongWait{10};

 protected:
  // What came, told by the thread that receives, which must not wait for anything.
  virtual void OnEvent(const EventReached& reached) = 0;
  virtual void OnCommunicator(const CommunicatorNotice& told) = 0;
  // Everything posted up to `sequence` is complete on the device. Any thread.
  virtual void OnCompleted(std::uint64_t sequence) = 0;
  // The highest of these.
  virtual std::uint64_t completed() const = 0;
  // fault() is no success any more. Once, any thread.
  virtual void OnFailed(CUresult result) = 0;
  // The calling thread has waited for the device for a long time.
  virtual void OnLongWait() = 0;

 private:
  // `lost`: for the text of that error, of a device that is lost.
  void Fail(CUresult result, const std::string* lost);
  friend class Receiver;
  CUresult Wait(std::uint32_t request, PendingCalls::Call* pending);
  CUresult OwnStream(std::atomic<std::uint64_t>& known, std::uint64_t* stream);
  CUresult MalformedReply(const char* op);
  // Why the proxy may not answer, as far as that is known here.
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
  std::atomic<std::uint64_t> last_work_{0};
  std::atomic<std::uint64_t> seen_at_work_{0};
  std::atomic<std::uint64_t> asked_for_{0};  // Up to where AskWhenDone has asked.

  Mutex own_streams_mutex_;  // While one is made.
  std::atomic<std::uint64_t> own_stream_{0};
  std::atomic<std::uint64_t> memory_stream_{0};

  Transfers transfers_;
  Receiver receiver_;
  AnswerWatch answers_;  // Of the thread that receives.
};

}  // namespace cuspan
