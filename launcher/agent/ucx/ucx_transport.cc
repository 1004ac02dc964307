#include "launcher/agent/ucx/ucx_transport.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>

#include "common/log.h"
#include "launcher/agent/ucx/ucp_worker.h"
#include "launcher/run/plan.h"

namespace cuspan {
namespace {

constexpr Transport::Limits kUcxLimits{
    // Equals the relay's limit per route and pass.
    .message_bytes = 64 * 1024,
    .tags = 1 << 30,
    // Smaller chunks are sent eagerly, before a receive is posted.
    .least_chunk = 64 * 1024,
    .begins_in_halves = false,
};
constexpr unsigned kFrames = 1;
constexpr unsigned kBulk = 2;
constexpr std::size_t kFramesToOneAgent = 16;
// Maximum number of bulk messages from one agent without a receive: far above its credit.
constexpr std::size_t kMaxUnclaimed = 16'384;
// Time for ending the connections in order; less than agents have for their whole end.
constexpr std::chrono::seconds kUcxPatience{2};

struct Header {
  std::uint64_t token;
  std::uint32_t rank;      // The sender's.
  std::uint32_t tag;       // Bulk only.
  std::uint64_t sequence;  // Counts the sender's frames or bulk: short messages may overtake.
};

class UcxTransport final : public Transport {
 public:
  UcxTransport(std::unique_ptr<UcpWorker> worker, Meeting meeting, std::size_t end)
      : worker_(std::move(worker)),
        meeting_(std::move(meeting)),
        end_(end),
        peers_(meeting_.size()) {}

  Status Open() {
    SetHandler(kFrames, &OnFrames);
    SetHandler(kBulk, &OnBulk);
    wake_.Reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!wake_.valid()) return Status::Exhausted("epoll_create1: {}", std::strerror(errno));
    CUSPAN_RETURN_IF_ERROR(Watch(worker_->fd(), kNoRank));
    for (std::uint32_t rank = 0; rank < size(); ++rank) {
      peers_[rank].transport = this;
      peers_[rank].rank = rank;
      if (const int fd = meeting_.fd(rank); fd >= 0) {
        CUSPAN_RETURN_IF_ERROR(Watch(fd, rank));
        connected_ = true;
      }
    }
    return Status::Ok();
  }

  ~UcxTransport() override {
    leaving_ = true;
    SetHandler(kFrames, nullptr);
    SetHandler(kBulk, nullptr);
    for (Peer& peer : peers_) Drop(peer);
    // Requests to a lost peer may never finish, and UCX would warn about each.
    if (under_way_ != 0) worker_->Abandon();
    worker_.reset();
  }

  std::string_view name() const override { return NameOf(RelayKind::kUcx); }
  std::uint32_t rank() const override { return meeting_.rank(); }
  bool proved() const override { return true; }
  std::uint32_t size() const override { return meeting_.size(); }
  const Limits& limits() const override { return kUcxLimits; }

  Status SendWhole(std::uint32_t rank, std::span<const std::byte> message) override {
    return meeting_.Send(rank, message);
  }
  Result<std::vector<std::byte>> ReceiveWhole(std::uint32_t rank) override {
    return meeting_.Receive(rank);
  }

  bool TrySend(std::uint32_t rank, std::span<const std::byte> message) override {
    Peer& peer = peers_[rank];
    // Messages to a lost peer are dropped and count as sent: senders must not wait for it.
    if (!Connect(peer)) return true;
    if (peer.sends >= kFramesToOneAgent) {
      ucp_worker_progress(worker_->get());
      if (peer.sends >= kFramesToOneAgent) return false;
    }
    std::unique_ptr<Send> send = NewSend();
    send->peer = &peer;
    send->header = {meeting_.token(), this->rank(), 0, peer.frames_sent++};
    send->bytes.assign(message.begin(), message.end());
    Start(kFrames, std::move(send), UCP_AM_SEND_FLAG_EAGER);
    return true;
  }

  std::optional<Message> TryReceive() override {
    if (handed_out_) {
      free_.push_back(std::move(arrived_.front().bytes));
      arrived_.pop_front();
      handed_out_ = false;
    }
    // UCX must progress between two messages too: pending sends depend on it.
    if (arrived_.empty()) ucp_worker_progress(worker_->get());
    if (arrived_.empty()) return std::nullopt;
    handed_out_ = true;
    return Message{arrived_.front().rank, arrived_.front().bytes};
  }

  void StartBulkSend(std::uint32_t rank, std::uint32_t tag, std::span<const std::byte> bytes,
                     std::uint64_t id) override {
    Peer& peer = peers_[rank];
    if (!Connect(peer)) return finished_.push_back(id);
    std::unique_ptr<Send> send = NewSend();
    send->peer = &peer;
    send->id = id;
    send->header = {meeting_.token(), this->rank(), tag, peer.bulk_sent++};
    send->bulk = bytes;
    Start(kBulk, std::move(send),
          bytes.size() < kUcxLimits.least_chunk ? 0U : unsigned{UCP_AM_SEND_FLAG_RNDV});
  }

  void StartBulkReceive(std::uint32_t rank, std::uint32_t tag, std::span<std::byte> bytes,
                        std::uint64_t id) override {
    Receive& receive = receives_.emplace(id, Receive{this, id, rank, tag, bytes}).first->second;
    Peer& peer = peers_[rank];
    // If a connection fails, UCX frees its own endpoint and the offers in it; ours is kept.
    const bool connected = Connect(peer);
    if (const auto unclaimed = peer.unclaimed.find(tag);
        connected && unclaimed != peer.unclaimed.end()) {
      const Bulk bulk = std::move(unclaimed->second.front());
      unclaimed->second.pop_front();
      --peer.unclaimed_count;
      if (unclaimed->second.empty()) peer.unclaimed.erase(unclaimed);
      if (Deliver(receive, bulk)) return;
      if (bulk.offer != nullptr) ucp_am_data_release(worker_->get(), bulk.offer);
    }
    peer.posted[tag].push_back(id);
  }

  bool ExpectBulk(std::uint64_t id) override {
    const auto found = receives_.find(id);
    if (found == receives_.end() || std::exchange(found->second.expected, true)) return false;
    if (found->second.complete) Name(found->second);
    return true;
  }

  bool CancelBulkReceive(std::uint64_t id) override {
    const auto found = receives_.find(id);
    if (found == receives_.end()) return false;
    Receive& receive = found->second;
    // If data arrives in spite of the cancellation, the sender has broken the protocol.
    const bool expected = std::exchange(receive.expected, false);
    const auto limit = std::chrono::steady_clock::now() + kUcxPatience;
    while (receive.under_way && std::chrono::steady_clock::now() < limit)
      ucp_worker_progress(worker_->get());
    if (receive.under_way) {
      LogError("UCX does not complete a cancelled receive from agent {}", receive.rank);
      return expected;
    }
    if (const auto posted = peers_[receive.rank].posted.find(receive.tag);
        posted != peers_[receive.rank].posted.end()) {
      std::erase(posted->second, id);
      if (posted->second.empty()) peers_[receive.rank].posted.erase(posted);
    }
    receives_.erase(found);
    return expected;
  }

  void FinishedBulk(std::vector<std::uint64_t>& ids) override {
    ucp_worker_progress(worker_->get());
    ids.insert(ids.end(), finished_.begin(), finished_.end());
    finished_.clear();
  }

  int wake_fd() const override { return wake_.get(); }
  Rest Arm() override {
    // Required by UCX: its descriptor does not cover all of its progress.
    if (ucp_worker_progress(worker_->get()) != 0) return Rest::kNaps;
    const bool armed = arrived_.empty() && finished_.empty() && lost_.empty() &&
                       ucp_worker_arm(worker_->get()) == UCS_OK;
    return armed ? Rest::kUntilWoken : Rest::kNaps;
  }

  std::optional<LostPeer> ConsumeLost() override {
    epoll_event events[8];
    // Lanes poll often and have no connections: saves a system call.
    const int count = connected_ ? ::epoll_wait(wake_.get(), events, 8, 0) : 0;
    for (int i = 0; i < count; ++i)
      if (const std::uint32_t rank = events[i].data.u32; rank != kNoRank) CheckConnection(rank);
    if (lost_.empty()) return std::nullopt;
    LostPeer lost = std::move(lost_.front());
    lost_.pop_front();
    return lost;
  }

  void GiveUp(std::uint32_t rank) override {
    Peer& peer = peers_[rank];
    Lose(peer, "");
    Drop(peer);
    // If that agent still runs, the closed connection ends its part in the run.
    if (const int fd = meeting_.fd(rank); fd >= 0) {
      ::epoll_ctl(wake_.get(), EPOLL_CTL_DEL, fd, nullptr);
      ::shutdown(fd, SHUT_RDWR);
    }
  }

  void Shutdown() override {
    leaving_ = true;
    const auto limit = std::chrono::steady_clock::now() + kUcxPatience;
    const auto sent = [this] {
      return std::all_of(peers_.begin(), peers_.end(),
                         [](const Peer& peer) { return peer.lost || peer.sends == 0; });
    };
    while (!sent() && std::chrono::steady_clock::now() < limit) ucp_worker_progress(worker_->get());
    // All agents finish before the first disconnects, so that none reports a loss. The head agent
    // waits for all others, these for its farewell or its end; the caller sets an alarm.
    if (rank() != 0) SendFarewell();
    const auto until = rank() != 0 ? net::kNever : limit;
    for (std::uint32_t other = 0; other < size(); ++other)
      if (meeting_.fd(other) >= 0 && !peers_[other].lost) AwaitFarewell(other, until);
    if (rank() == 0) SendFarewell();
  }

 private:
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

  struct Frames {
    std::uint32_t rank = 0;
    std::vector<std::byte> bytes;
  };
  struct Bulk {
    std::uint32_t tag = 0;
    void* offer = nullptr;             // UCX rendezvous handle; null: data received.
    std::span<const std::byte> bytes;  // Only its size is valid with an offer.
    std::vector<std::byte> copy;       // Owns eager data, not kept by UCX.
  };
  struct Peer {
    UcxTransport* transport = nullptr;
    std::uint32_t rank = 0;
    ucp_ep_h endpoint = nullptr;
    bool lost = false;
    bool farewell = false;  // Its farewell was received.
    std::size_t sends = 0;  // Frames in flight.
    std::uint64_t frames_sent = 0;
    std::uint64_t bulk_sent = 0;
    std::uint64_t frames_received = 0;
    std::uint64_t bulk_received = 0;
    // Messages received ahead of their sequence.
    std::map<std::uint64_t, std::vector<std::byte>> early_frames;
    std::map<std::uint64_t, Bulk> early_bulk;
    // Receives without a matching send yet, by tag, oldest first.
    std::map<std::uint32_t, std::deque<std::uint64_t>> posted;
    // Bulk without a receive yet, by tag, oldest first: a lane may get its order to receive after
    // the sender has got its own.
    std::map<std::uint32_t, std::deque<Bulk>> unclaimed;
    std::size_t unclaimed_count = 0;
  };
  struct Send {
    Peer* peer = nullptr;
    Header header{};
    std::vector<std::byte> bytes;  // Frames only.
    std::span<const std::byte> bulk;
    std::optional<std::uint64_t> id;  // Bulk only.
  };
  struct Receive {
    UcxTransport* transport = nullptr;
    std::uint64_t id = 0;
    std::uint32_t rank = 0;
    std::uint32_t tag = 0;
    std::span<std::byte> bytes;
    bool under_way = false;
    bool expected = false;
    bool complete = false;
  };

  Status Watch(int fd, std::uint32_t rank) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = rank;
    if (::epoll_ctl(wake_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      return Status::Exhausted("epoll_ctl: {}", std::strerror(errno));
    return Status::Ok();
  }

  void SetHandler(unsigned id, ucp_am_recv_callback_t handler) {
    ucp_am_handler_param_t parameters{};
    parameters.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                            UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    parameters.id = id;
    parameters.flags = UCP_AM_FLAG_WHOLE_MSG;
    parameters.cb = handler;
    parameters.arg = this;
    ucp_worker_set_am_recv_handler(worker_->get(), &parameters);
  }

  // --- Peers.

  bool Connect(Peer& peer) {
    if (peer.lost) return false;
    if (peer.endpoint != nullptr) return true;
    ucp_ep_params_t parameters{};
    parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    parameters.address =
        reinterpret_cast<const ucp_address_t*>(meeting_.AddressOf(peer.rank, end_).data());
    // UCP_ERR_HANDLING_MODE_PEER would make UCX copy bulk at both ends over TCP: 4 lanes move 0.6
    // of this (H100 machine, loopback). The meeting's connection shows a peer's end, heartbeats its
    // silence. Memory of requests in flight to it is kept.
    parameters.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    parameters.err_handler.cb = [](void* at, ucp_ep_h, ucs_status_t status) {
      Peer& lost = *static_cast<Peer*>(at);
      lost.transport->Lose(lost, Describe(status));
    };
    parameters.err_handler.arg = &peer;
    const ucs_status_t status = ucp_ep_create(worker_->get(), &parameters, &peer.endpoint);
    if (status == UCS_OK) return true;
    peer.endpoint = nullptr;
    Lose(peer, Describe(status));
    return false;
  }

  void Lose(Peer& peer, std::string cause) {
    if (std::exchange(peer.lost, true) || peer.farewell || leaving_) return;
    if (!cause.empty()) lost_.push_back({peer.rank, std::move(cause)});
  }

  // Drops bulk received from a lost peer. Requests in flight may never finish.
  void Drop(Peer& peer) {
    const auto release = [&](const Bulk& bulk) {
      if (bulk.offer == nullptr) return;
      if (peer.endpoint != nullptr)
        ucp_am_data_release(worker_->get(), bulk.offer);
      else
        ++under_way_;  // Cannot be released: see StartBulkReceive.
    };
    for (const auto& [sequence, early] : std::exchange(peer.early_bulk, {})) release(early);
    peer.unclaimed_count = 0;
    for (const auto& [tag, waiting] : std::exchange(peer.unclaimed, {}))
      std::for_each(waiting.begin(), waiting.end(), release);
  }

  void SendFarewell() {
    const std::byte farewell{};
    for (std::uint32_t other = 0; other < size(); ++other)
      if (meeting_.fd(other) >= 0 && !peers_[other].lost)
        static_cast<void>(meeting_.Send(other, {&farewell, 1}));
  }

  // Waits for a farewell or the end of the process. Progresses UCX: the peer may need this end.
  void AwaitFarewell(std::uint32_t other, std::chrono::steady_clock::time_point limit) {
    pollfd waited{meeting_.fd(other), POLLIN, 0};
    while (std::chrono::steady_clock::now() < limit)
      if (::poll(&waited, 1, ucp_worker_progress(worker_->get()) != 0 ? 0 : 1) > 0) return;
  }

  void CheckConnection(std::uint32_t rank) {
    char byte = 0;
    const ssize_t got = ::recv(meeting_.fd(rank), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    ::epoll_ctl(wake_.get(), EPOLL_CTL_DEL, meeting_.fd(rank), nullptr);
    // Any message now is a farewell: the agent may end at any time.
    if (got > 0) {
      // The head agent ended before this one: the run has not begun.
      if (rank == 0) Lose(peers_[0], "it has ended the run");
      peers_[rank].farewell = true;
      return;
    }
    Lose(peers_[rank], got == 0 ? "its process has ended" : std::strerror(errno));
  }

  // --- Messages.

  std::unique_ptr<Send> NewSend() {
    if (sends_.empty()) return std::make_unique<Send>();
    std::unique_ptr<Send> send = std::move(sends_.back());
    sends_.pop_back();
    send->id.reset();
    return send;
  }

  void Start(unsigned kind, std::unique_ptr<Send> send, unsigned flags) {
    Send* const raw = send.release();  // Ended takes back ownership.
    const bool bulk = raw->id.has_value();
    const auto bytes = bulk ? raw->bulk : std::span<const std::byte>(raw->bytes);
    if (!bulk) ++raw->peer->sends;
    ++under_way_;
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                              UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    parameters.memory_type = UCS_MEMORY_TYPE_HOST;
    parameters.flags = flags;
    parameters.cb.send = [](void* request, ucs_status_t status, void* at) {
      ucp_request_free(request);
      Send* const ended = static_cast<Send*>(at);
      ended->peer->transport->Ended(std::unique_ptr<Send>(ended), status);
    };
    parameters.user_data = raw;
    const ucs_status_ptr_t started =
        ucp_am_send_nbx(raw->peer->endpoint, kind, &raw->header, sizeof raw->header, bytes.data(),
                        bytes.size(), &parameters);
    if (!UCS_PTR_IS_PTR(started)) Ended(std::unique_ptr<Send>(raw), UCS_PTR_STATUS(started));
  }

  void Ended(std::unique_ptr<Send> send, ucs_status_t status) {
    Peer& peer = *send->peer;
    --under_way_;
    if (status != UCS_OK) Lose(peer, Describe(status));
    if (send->id)
      finished_.push_back(*send->id);
    else
      --peer.sends;
    if (sends_.size() < kFramesToOneAgent * 4) sends_.push_back(std::move(send));
  }

  // Null if the message is from no agent of this run.
  Peer* SenderOf(const void* header, std::size_t bytes, Header& parsed) {
    if (bytes != sizeof parsed) return nullptr;
    std::memcpy(&parsed, header, sizeof parsed);
    if (parsed.token != meeting_.token() || parsed.rank >= peers_.size()) return nullptr;
    Peer& peer = peers_[parsed.rank];
    return peer.lost ? nullptr : &peer;
  }

  static ucs_status_t OnFrames(void* at, const void* header, std::size_t header_bytes, void* data,
                               std::size_t bytes, const ucp_am_recv_param_t* how) {
    auto& self = *static_cast<UcxTransport*>(at);
    Header sent;
    Peer* const peer = self.SenderOf(header, header_bytes, sent);
    if (peer == nullptr || (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0 ||
        bytes > kUcxLimits.message_bytes || sent.sequence < peer->frames_received)
      return UCS_OK;
    std::vector<std::byte> copy;
    if (!self.free_.empty()) {
      copy = std::move(self.free_.back());
      self.free_.pop_back();
    }
    const auto* const first = static_cast<const std::byte*>(data);
    copy.assign(first, first + bytes);
    if (sent.sequence != peer->frames_received) {
      peer->early_frames.emplace(sent.sequence, std::move(copy));
      return UCS_OK;
    }
    self.Arrive(*peer, std::move(copy));
    for (auto next = peer->early_frames.begin();
         next != peer->early_frames.end() && next->first == peer->frames_received;
         next = peer->early_frames.erase(next))
      self.Arrive(*peer, std::move(next->second));
    return UCS_OK;
  }

  void Arrive(Peer& peer, std::vector<std::byte> bytes) {
    ++peer.frames_received;
    arrived_.push_back({peer.rank, std::move(bytes)});
  }

  // --- Bulk.

  static ucs_status_t OnBulk(void* at, const void* header, std::size_t header_bytes, void* data,
                             std::size_t bytes, const ucp_am_recv_param_t* how) {
    auto& self = *static_cast<UcxTransport*>(at);
    Header sent;
    Peer* const peer = self.SenderOf(header, header_bytes, sent);
    if (peer == nullptr || sent.sequence < peer->bulk_received) return UCS_OK;
    const bool offered = (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    Bulk bulk{sent.tag, offered ? data : nullptr, {static_cast<const std::byte*>(data), bytes}, {}};
    if (sent.sequence != peer->bulk_received) {
      peer->early_bulk.emplace(sent.sequence, Kept(std::move(bulk)));
      return offered ? UCS_INPROGRESS : UCS_OK;
    }
    ++peer->bulk_received;
    const bool taken = self.Match(*peer, std::move(bulk));
    for (auto next = peer->early_bulk.begin();
         next != peer->early_bulk.end() && next->first == peer->bulk_received;
         next = peer->early_bulk.erase(next)) {
      ++peer->bulk_received;
      void* const offer = next->second.offer;
      if (!self.Match(*peer, std::move(next->second)) && offer != nullptr)
        ucp_am_data_release(self.worker_->get(), offer);
    }
    return offered && taken ? UCS_INPROGRESS : UCS_OK;
  }

  static Bulk Kept(Bulk bulk) {
    if (bulk.offer == nullptr && bulk.copy.empty()) {
      bulk.copy.assign(bulk.bytes.begin(), bulk.bytes.end());
      bulk.bytes = bulk.copy;
    }
    return bulk;
  }

  // Matches bulk with the oldest receive of its tag, or keeps it until one is posted. False if it
  // was dropped: the sender has broken the protocol.
  bool Match(Peer& peer, Bulk bulk) {
    const auto posted = peer.posted.find(bulk.tag);
    if (posted == peer.posted.end()) {
      if (peer.unclaimed_count >= kMaxUnclaimed) Lose(peer, "it sends more than it was allowed to");
      if (peer.lost) return false;
      ++peer.unclaimed_count;
      std::deque<Bulk>& waiting = peer.unclaimed[bulk.tag];
      waiting.push_back(Kept(std::move(bulk)));
      return true;
    }
    if (!Deliver(receives_.at(posted->second.front()), bulk)) return false;
    posted->second.pop_front();
    if (posted->second.empty()) peer.posted.erase(posted);
    return true;
  }

  // False if the bulk is longer than the receive.
  bool Deliver(Receive& into, const Bulk& bulk) {
    if (bulk.bytes.size() > into.bytes.size()) return false;
    if (bulk.offer != nullptr) {
      Fetch(into, bulk.offer, bulk.bytes.size());
    } else {
      std::memcpy(into.bytes.data(), bulk.bytes.data(), bulk.bytes.size());
      Complete(into);
    }
    return true;
  }

  void Fetch(Receive& into, void* offer, std::size_t bytes) {
    Receive* const receive = &into;
    ucp_request_param_t parameters{};
    parameters.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    parameters.memory_type = UCS_MEMORY_TYPE_HOST;
    parameters.user_data = receive;  // Stable address until it ends.
    parameters.cb.recv_am = [](void* request, ucs_status_t status, std::size_t, void* which) {
      ucp_request_free(request);
      Receive& ended = *static_cast<Receive*>(which);
      ended.transport->Ended(ended, status);
    };
    // Set before the call: UCX may run the callback inside it, which may end the receive.
    receive->under_way = true;
    ++under_way_;
    void* const started =
        ucp_am_recv_data_nbx(worker_->get(), offer, receive->bytes.data(), bytes, &parameters);
    if (!UCS_PTR_IS_PTR(started)) Ended(*receive, UCS_PTR_STATUS(started));
  }

  void Ended(Receive& receive, ucs_status_t status) {
    receive.under_way = false;
    --under_way_;
    if (status == UCS_OK) return Complete(receive);
    if (status != UCS_ERR_CANCELED) Lose(peers_[receive.rank], Describe(status));
  }

  void Complete(Receive& receive) {
    receive.complete = true;
    if (receive.expected) Name(receive);
  }

  void Name(const Receive& receive) {
    finished_.push_back(receive.id);
    receives_.erase(receive.id);
  }

  std::unique_ptr<UcpWorker> worker_;
  Meeting meeting_;
  const std::size_t end_;    // Index of the address used by every agent here.
  std::vector<Peer> peers_;  // Indexed by rank; UCX keeps pointers to elements.
  UniqueFd wake_;
  bool connected_ = false;  // The meeting has connections.
  bool leaving_ = false;
  std::size_t under_way_ = 0;  // Sends and receives in flight, and kept offers.
  std::deque<LostPeer> lost_;
  std::deque<Frames> arrived_;
  bool handed_out_ = false;                   // The first is in use by the caller.
  std::vector<std::vector<std::byte>> free_;  // Buffers for reuse.
  std::vector<std::unique_ptr<Send>> sends_;  // Objects for reuse.
  std::unordered_map<std::uint64_t, Receive> receives_;
  std::vector<std::uint64_t> finished_;
};

}  // namespace

Result<std::unique_ptr<Transport>> UcxWorker::Join(std::unique_ptr<UcxWorker> worker,
                                                   Meeting meeting, std::size_t end) {
  auto transport = std::make_unique<UcxTransport>(
      std::unique_ptr<UcpWorker>(static_cast<UcpWorker*>(worker.release())), std::move(meeting),
      end);
  CUSPAN_RETURN_IF_ERROR(transport->Open());
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace cuspan
