// The connection to one proxy: its channel, the calls and transfers under way,
// the device's memory, modules and faults. A device that is reset gets a new one.
//
// Any thread may use a link; its frames are received by the session's one
// receiver thread. Functions return the driver's results; a lost device makes
// every call return its sticky error.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "interpose/client/event.h"
#include "interpose/client/kernel_output.h"
#include "interpose/client/memory/device_memory.h"
#include "interpose/client/memory/managed_variables.h"
#include "interpose/client/memory/shared_region.h"
#include "interpose/client/modules.h"
#include "interpose/client/thread_state.h"
#include "interpose/client/transfers.h"
#include "protocol/channel/channel.h"

namespace cuspan {

class PeerMemory;

// Where a device's proxy is.
struct LinkPlace {
  std::uint32_t agent = 0;    // The rank of its node's.
  std::uint32_t ordinal = 0;  // As the node's driver counts.
  bool relayed = false;
  std::string exchange;  // Where it answers other proxies of the node; empty: nowhere.
  bool SameNode(const LinkPlace& other) const {
    return agent == other.agent && relayed == other.relayed && !exchange.empty() &&
           !other.exchange.empty();
  }
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(int device, std::uint64_t number, AddressWindow window, std::unique_ptr<Channel> channel);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int device() const { return device_; }
  // Counts links of this process from 1, so that handles of a lost one are told apart.
  std::uint64_t number() const { return number_; }

  // How this device has the shared region. Set once, before the link is used.
  Sharing sharing() const { return sharing_; }
  // Whether it has memory of its own for managed memory, kept equal to the program's: with
  // kMirrored always.
  bool mirrors_managed() const { return mirrors_managed_; }
  void SetSharing(SharedRegion* region, ManagedVariables* variables, Sharing sharing,
                  bool mirrors_managed) {
    variables_ = variables;
    region_ = region;
    sharing_ = sharing;
    mirrors_managed_ = mirrors_managed;
    memory_.SetShared(region);
  }
  // Set once, before the link is used.
  void SetPlace(LinkPlace place, PeerMemory* peers) {
    place_ = std::move(place);
    peers_ = peers;
  }
  const LinkPlace& place() const { return place_; }
  PeerMemory* peers() { return peers_; }
  // The managed variable at the address, for those who name it as a symbol.
  std::optional<BlockAllocator::Range> ManagedVariable(std::uint64_t address) const {
    return variables_ != nullptr ? variables_->At(address) : std::nullopt;
  }
  // A module was loaded: gives its managed variables their places.
  CUresult PlaceManaged(const FatbinRecord& fatbin);
  // The device has all of the region that exists. Guarded by the region.
  bool attached = false;

  // Posts an op that nobody waits for. What it may do with the shared region is seen to.
  template <typename T>
  CUresult Post(const T& op) {
    if constexpr (kRunsKernels<T>) {
      if (region_ != nullptr && sharing_ != Sharing::kNone) {
        if (const CUresult result = Expose(op); result != CUDA_SUCCESS) return result;
        region_->registered().BeforeLaunch();
        if (const CUresult result = variables_->BeforeLaunch(*this); result != CUDA_SUCCESS)
          return result;
        variables_->AfterLaunch(*this);
      }
    }
    if (region_ == nullptr || !region_->mirrors().active() || !MayTouchRegion(op)) [[likely]]
      return PostRunning(op);
    if (const CUresult result = region_->mirrors().BeforeWork(*this); result != CUDA_SUCCESS)
      return result;
    const CUresult result = PostRunning(op);
    if (T::kOp != Op::kCopyFromDevice) region_->mirrors().AfterWork(*this);
    return result;
  }
  // What kernels that `op` names will find in their arguments of the program's memory is the
  // device's, too, from now on. Post does so by itself.
  template <typename T>
  CUresult Expose(const T& op) {
    if constexpr (requires { op.arguments; }) {
      if (region_ != nullptr && sharing_ != Sharing::kNone)
        return region_->ExposePointers(op.arguments);
    }
    return CUDA_SUCCESS;
  }
  // PostUnseen for Post itself: kernels may have written managed variables from now on, whatever
  // another thread has found meanwhile.
  template <typename T>
  CUresult PostRunning(const T& op) {
    const CUresult result = PostUnseen(op);
    if constexpr (kRunsKernels<T>) {
      if (region_ != nullptr && sharing_ != Sharing::kNone) variables_->AfterLaunch(*this);
    }
    return result;
  }
  // The same as Post without that, for the region's own work and for what only describes work.
  template <typename T>
  CUresult PostUnseen(const T& op) {
    static_assert(T::kClass == OpClass::kPosted || T::kClass == OpClass::kChunk);
    if (const CUresult sticky = fault(); sticky != CUDA_SUCCESS) return sticky;
    channel_->statistics().Count<T>();
    const std::uint64_t sequence = channel_->Post(op, ThisThread().number);
    if (sequence == 0) return Lost();
    if constexpr (requires { op.stream; }) NoteOn(op.stream, sequence);
    if (WritesHost(op)) last_host_write_.store(sequence, std::memory_order_relaxed);
    return CUDA_SUCCESS;
  }
  // Posts a call and waits for its reply; returns the reply's result, or why there is none.
  // `*sequence`, if given, is the call's place among all that was posted.
  template <typename T>
  CUresult Call(const T& op, typename T::Reply* reply, std::uint64_t* sequence = nullptr) {
    static_assert(T::kClass == OpClass::kCall);
    if (const CUresult sticky = fault(); sticky != CUDA_SUCCESS) return sticky;
    PendingCall pending;
    channel_->statistics().Count<T>();
    const std::uint32_t request = Register(&pending);
    const std::uint64_t posted = channel_->Post(op, request);
    if (posted == 0) {
      Forget(request);
      return Lost();
    }
    if (sequence != nullptr) *sequence = posted;
    if (const CUresult result = Wait(request, &pending); result != CUDA_SUCCESS) return result;
    if (!DecodeFrom(pending.payload, *reply)) return MalformedReply(OpName(T::kOp));
    return static_cast<CUresult>(reply->result);
  }
  // A call whose result holds only when the chunks pushed before it are stored.
  template <typename T>
  CUresult CallAndStore(const T& op, std::uint64_t* sequence = nullptr) {
    const CUresult result = CallUnseen(op, sequence);
    if (result != CUDA_SUCCESS) return result;
    return Synchronized(T::kOp == Op::kDeviceSynchronize);
  }
  // The program is about to hear that work of the device is complete: all of it, or some.
  CUresult Synchronized(bool all) {
    KernelOutput::Get().WriteKept();
    if (region_ == nullptr) return CUDA_SUCCESS;
    region_->mirrors().Synchronized(*this, all);
    region_->registered().Synchronized();
    return variables_->Synchronized(*this, all);
  }
  // What the program wrote into the shared region goes to the device now; waits for no other
  // device.
  CUresult SendNews() {
    if (region_ == nullptr) return CUDA_SUCCESS;
    region_->registered().BeforeLaunch();
    const CUresult result = region_->mirrors().SendNews(*this);
    return result != CUDA_SUCCESS ? result : variables_->SendNews(*this);
  }
  // CallAndStore without its meaning for the shared region, for the region's own work.
  template <typename T>
  CUresult CallUnseen(const T& op, std::uint64_t* posted = nullptr) {
    typename T::Reply reply;
    std::uint64_t sequence = 0;
    const CUresult result = Call(op, &reply, &sequence);
    if (posted != nullptr) *posted = sequence;
    if (result == CUDA_SUCCESS) {
      transfers_.WaitStored(reply.chunks);
      ShowStored();
    }
    bool all = T::kOp == Op::kDeviceSynchronize;
    if constexpr (requires { reply.device_done; }) all = reply.device_done;
    if (result == CUDA_SUCCESS && all) memory_.Completed(sequence);
    return fault() != CUDA_SUCCESS ? fault() : result;
  }
  CUresult SynchronizeUnseen(std::uint64_t stream) {
    StreamSynchronize op;
    op.stream = stream;
    return CallUnseen(op);
  }

  // What is posted up to now; and whether the device is known to have completed all of that.
  std::uint64_t LastPosted() const { return channel_->LastSequence(); }
  bool AllCompleted() const { return memory_.completed() >= LastPosted(); }
  // Not less than the sequence of the last op posted to a stream that the program made.
  std::uint64_t LastOn(std::uint64_t stream) const {
    return last_on_[PlaceOf(stream)].sequence.load(std::memory_order_acquire);
  }

  // Whether something is under way that writes memory which the program reads.
  bool MayWriteHost() const {
    const std::uint64_t completed = memory_.completed();
    // The device has completed a copy before the last of its bytes are stored here.
    if (Transfers::receiving()) return true;
    if (completed >= LastPosted()) return false;
    return last_host_write_.load(std::memory_order_relaxed) > completed ||
           (region_ != nullptr && region_->used_by_kernels());
  }

  // The sticky error of a device that is lost to this process; CUDA_SUCCESS while it lives.
  CUresult fault() const { return static_cast<CUresult>(fault_.load(std::memory_order_acquire)); }
  // The failure of an op that this thread posted earlier, once.
  CUresult TakePostedFailure();

  DeviceMemory& memory() { return memory_; }
  const DeviceMemory& memory() const { return memory_; }
  Modules& modules() { return modules_; }
  Transfers& transfers() { return transfers_; }
  Channel& channel() { return *channel_; }
  // A stream of our own, bound to no other: for what one device does in the order of another's
  // stream.
  CUresult OwnStream(std::uint64_t* stream);

  // --- Receiving: the session's receiver thread, and threads that wait for a reply and would
  // otherwise only watch how the receiver takes it for them.

  // Receives until `over()` or for so long that sleeping costs little; the caller then waits
  // otherwise. For what an answer of the device will end.
  template <typename Over>
  void Watch(Over&& over) {
    const auto start = std::chrono::steady_clock::now();
    watching_.fetch_add(1, std::memory_order_relaxed);
    while (!over()) {
      if (Receive()) continue;
      const auto waited = std::chrono::steady_clock::now() - start;
      if (waited >= stages_.await) break;
      if (waited >= stages_.spin) std::this_thread::yield();
    }
    if (watching_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;  // Others receive.
    channel_->own_bell().RingNaps();
    // What came meanwhile and is not this thread's to wait for.
    if (HasWork()) channel_->own_bell().Ring();
  }

  // Waits for `over()`, told by `changed`, with the lock; says after a while what it may be that
  // never comes.
  template <typename Over>
  void WaitLong(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, Over&& over) {
    if (changed.wait_for(lock, kLongWait, over)) return;
    lock.unlock();
    SayWhatIsWaitedFor();
    lock.lock();
    changed.wait(lock, over);
  }

  // Is told of completions. Set once, before the link is used.
  using OnEvent = std::function<void(const EventReached&)>;
  void SetOnEvent(OnEvent on_event) { on_event_ = std::move(on_event); }
  // Handles what has arrived; true when there was something. Nothing while another thread does.
  bool Receive();
  // For the receiver thread: whether there is something that no waiting thread takes.
  bool HasWork();
  // A thread takes what comes while it waits.
  bool watched() const { return watching_.load(std::memory_order_seq_cst) != 0; }
  // Events that the proxy has told of are complete for the program as soon as the bytes that came
  // before are stored: shows those now, and not when something is received next. The second form
  // leaves it to another thread that receives just now.
  void ShowStored();
  void TryShowStored();
  // Posts without ever waiting: at once, or later from Receive.
  void PostFromReceiver(const Signal& signal);
  // Ends everything that waits; later calls return `result`.
  void Fail(CUresult result);

 private:
  struct PendingCall {
    std::atomic<bool> done{false};
    std::condition_variable arrived;
    std::vector<std::byte> payload;
  };
  // Ops by which kernels run.
  static constexpr bool RunsKernels(Op op) {
    return op == Op::kLaunch || op == Op::kLaunchShaped || op == Op::kGraphLaunch;
  }
  template <typename T>
  static constexpr bool kRunsKernels = RunsKernels(T::kOp);
  // Whether `op` itself writes memory that the program reads.
  template <typename T>
  bool WritesHost(const T& op) const {
    if constexpr (T::kOp == Op::kGraphLaunch)
      return region_ != nullptr;  // It may have copies.
    else if constexpr (T::kOp == Op::kCopyFromDevice || T::kOp == Op::kCopyBoxFromDevice)
      return true;
    else if constexpr (requires { op.to.address; })
      return region_ != nullptr && region_->Contains(op.to.address);
    else if constexpr (requires { op.destination; })
      return region_ != nullptr && region_->Contains(op.destination);
    else
      return false;
  }
  // Whether `op`, or the kernel that it starts, may use memory of the shared region: that is so for
  // every kernel, and else when one of its numbers is an address there.
  template <typename T>
  bool MayTouchRegion(const T& op) const {
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      return region_->Contains(op);
    } else if constexpr (std::is_class_v<T> &&
                         requires { T::VisitFields(op, [](const auto&) {}); }) {
      bool touches = false;
      if constexpr (requires { T::kOp; }) touches = kRunsKernels<T>;
      if (!touches)
        T::VisitFields(op, [&](const auto& field) { touches = touches || MayTouchRegion(field); });
      return touches;
    } else {
      return false;
    }
  }
  std::uint32_t Register(PendingCall* pending);
  void Forget(std::uint32_t request);
  CUresult Wait(std::uint32_t request, PendingCall* pending);
  static constexpr std::chrono::seconds kLongWait{10};
  void SayWhatIsWaitedFor();
  // The other end broke the protocol: the device is lost, and nothing more of it is read.
  void GiveUp(const std::string& reason);
  CUresult MalformedReply(const char* op);
  CUresult Lost();
  bool HasWorkNow() const;  // With receiving_.
  bool ReceiveSome();       // The same.
  void HandleFrame(const Frame& frame);
  void HandleReply(const Frame& frame);
  void ShowEvents();
  void PostDeferred();

  const int device_;
  const std::uint64_t number_;
  std::unique_ptr<Channel> channel_;
  std::atomic<bool> said_what_is_waited_for_{false};
  std::atomic<bool> broken_{false};  // The other end broke the protocol: nothing more is read.
  std::atomic<int> fault_{CUDA_SUCCESS};
  const WaitStages stages_ = WaitStages::ForThisMachine();

  std::mutex calls_mutex_;
  std::unordered_map<std::uint32_t, PendingCall*> calls_;
  std::uint32_t next_request_ = 1;

  std::mutex failures_mutex_;
  std::unordered_map<std::uint32_t, CUresult> posted_failures_;  // By thread number.
  std::atomic<bool> has_posted_failures_{false};

  OnEvent on_event_;
  // Written all the time while the receiver thread watches: on lines of their own.
  alignas(64) std::mutex receiving_;  // Of the thread that receives.
  std::atomic<int> watching_{0};      // Threads that wait for a reply and receive meanwhile.
  // Completions that wait for chunks, and posts that wait for room: of the thread that receives.
  std::deque<EventReached> unshown_events_;
  std::atomic<bool> has_unshown_{false};
  std::mutex deferred_mutex_;
  std::deque<Signal> deferred_;
  std::atomic<bool> has_deferred_{false};

  // Of each stream what was posted last; some streams share a place.
  struct alignas(64) Last {
    std::atomic<std::uint64_t> sequence = 0;
  };
  static constexpr unsigned kPlaceBits = 5;
  static std::size_t PlaceOf(std::uint64_t stream) {
    return stream * 0x9E3779B97F4A7C15 >> (64 - kPlaceBits);  // Fibonacci hashing.
  }
  void NoteOn(std::uint64_t stream, std::uint64_t sequence) {
    if (stream <= 2) return;  // Default streams are asked about at the proxy.
    std::atomic<std::uint64_t>& last = last_on_[PlaceOf(stream)].sequence;
    std::uint64_t known = last.load(std::memory_order_relaxed);
    while (known < sequence &&
           !last.compare_exchange_weak(known, sequence, std::memory_order_release)) {
    }
  }
  std::array<Last, std::size_t{1} << kPlaceBits> last_on_;

  // Nearly: with several threads it may be that of one of the last.
  std::atomic<std::uint64_t> last_host_write_{0};

  std::mutex own_stream_mutex_;
  std::uint64_t own_stream_ = 0;

  // Both live as long as the process.
  SharedRegion* region_ = nullptr;
  ManagedVariables* variables_ = nullptr;
  Sharing sharing_ = Sharing::kNone;
  bool mirrors_managed_ = false;
  LinkPlace place_;
  PeerMemory* peers_ = nullptr;

  Transfers transfers_;
  DeviceMemory memory_;
  Modules modules_;
};

}  // namespace cuspan
