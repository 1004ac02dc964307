#include "launcher/agent/mpi/mpi_transport.h"

#include <mpi.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <unordered_map>

#include "common/log.h"
#include "launcher/agent/mpi/agent_bells.h"
#include "launcher/agent/mpi/ranks.h"
#include "launcher/agent/relay/naps.h"
#include "launcher/host/app_process.h"
#include "launcher/run/plan.h"

namespace cuspan {
namespace {

constexpr int kWholeTag = 1;
constexpr int kBatchTag = 2;
constexpr Transport::Limits kLimits{
    // Below MPI's eager limit over TCP (64 KiB including its header).
    .message_bytes = 60 * 1024,
    // MPI guarantees tags only up to 32,767; far above the number of inboxes for one agent.
    .tags = 32'000,
    // Smaller chunks are sent eagerly, before a receive is posted. More bytes then wait in sockets
    // than are counted.
    .least_chunk = 128 * 1024,
    // Over TCP, MPI sends all data requested by the receiver in one go and completes these sends
    // together. If all were started together again, the link would be idle until the receiver's
    // next request. With two halves, one is sent while the other waits for its request. The gain
    // differs by host and direction (bench/results/change-two-halves.csv).
    .begins_in_halves = true,
};
constexpr std::size_t kPostedReceives = 16;
constexpr std::size_t kSendsToOneAgent = 16;
// Sleep between two polls while waiting for another rank's first message.
constexpr useconds_t kBackoffMicroseconds = 200;

#ifdef MPICH_VERSION
constexpr std::string_view kMpi = "MPICH";
#else
constexpr std::string_view kMpi = "Open MPI";
#endif

class MpiTransport final : public Transport {
 public:
  // `lanes`: value of CUSPAN_LANES.
  explicit MpiTransport(std::uint32_t lanes) {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rank_ = static_cast<std::uint32_t>(rank);
    // Separate communicators: bulk uses all tags of its own.
    MPI_Comm_dup(MPI_COMM_WORLD, &frames_);
    MPI_Comm_dup(MPI_COMM_WORLD, &bulk_);
    sends_.resize(static_cast<std::size_t>(size));
    given_up_.resize(sends_.size());
    // Ranks with other numbers are reported by the caller.
    if (const Result<Ranks> ranks = Ranks::Of(this->size(), lanes); ranks.ok()) OpenBells(*ranks);
  }

#ifdef MPICH_VERSION
  // MPICH's mpiexec does not end the job if a process exits: the others would wait for this one.
  ~MpiTransport() override {
    if (!shut_down_) MPI_Abort(MPI_COMM_WORLD, kExitOwnFailure);
  }
#endif

  std::string_view name() const override { return NameOf(RelayKind::kMpi); }
  std::uint32_t rank() const override { return rank_; }
  bool proved() const override { return false; }
  std::uint32_t size() const override { return static_cast<std::uint32_t>(sends_.size()); }
  const Limits& limits() const override { return kLimits; }

  Status SendWhole(std::uint32_t rank, std::span<const std::byte> message) override {
    MPI_Request request;
    MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_BYTE, static_cast<int>(rank),
              kWholeTag, frames_, &request);
    for (int done = 0; done == 0;) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done == 0) ::usleep(kBackoffMicroseconds);
    }
    return Status::Ok();
  }

  Result<std::vector<std::byte>> ReceiveWhole(std::uint32_t rank) override {
    MPI_Message message;
    MPI_Status status;
    // No deadline: if the other rank is gone, MPI ends this one too, and the launcher limits its
    // wait.
    for (int found = 0; found == 0;) {
      MPI_Improbe(static_cast<int>(rank), kWholeTag, frames_, &found, &message, &status);
      if (found == 0) ::usleep(kBackoffMicroseconds);
    }
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    std::vector<std::byte> content(static_cast<std::size_t>(bytes));
    MPI_Mrecv(content.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    return content;
  }

  bool TrySend(std::uint32_t rank, std::span<const std::byte> message) override {
    std::deque<Send>& sends = sends_[rank];
    FinishSends(sends);
    if (sends.size() >= kSendsToOneAgent) return false;
    used_last_ = std::chrono::steady_clock::now();
    if (bells_) bells_->BeginSend(rank, used_last_);
    Send& send = sends.emplace_back();
    if (!free_buffers_.empty()) {
      send.buffer = std::move(free_buffers_.back());
      free_buffers_.pop_back();
    }
    send.buffer.assign(message.begin(), message.end());
    MPI_Isend(send.buffer.data(), static_cast<int>(send.buffer.size()), MPI_BYTE,
              static_cast<int>(rank), kBatchTag, frames_, &send.request);
    if (bells_) bells_->EndSend(rank, std::chrono::steady_clock::now());
    return true;
  }

  void Announce(std::uint32_t rank) override {
    if (bells_) bells_->Announce(rank, std::chrono::steady_clock::now());
  }

  void Woken(std::uint32_t rank) override {
    if (bells_) bells_->Woken(rank, std::chrono::steady_clock::now());
  }
  std::optional<FarWake> WakeOf(std::uint32_t rank) const override {
    return bells_ ? bells_->WakeOf(rank) : std::nullopt;
  }

  std::optional<Message> TryReceive() override {
    for (std::size_t i = receives_.size(); i < kPostedReceives; ++i) {
      receives_.emplace_back().buffer.resize(kLimits.message_bytes);
      PostReceive(i);
    }
    // The message returned last is no longer in use.
    if (handed_out_) PostReceive(next_receive_++ % kPostedReceives);
    handed_out_ = false;
    // Messages match receives in the order of posting, so polling only the oldest keeps the order.
    Receive& receive = receives_[next_receive_ % kPostedReceives];
    int done = 0;
    MPI_Status status;
    MPI_Test(&receive.request, &done, &status);
    if (done == 0) {
      if (bells_ && bells_->active()) bells_->Progress(std::chrono::steady_clock::now());
      return std::nullopt;
    }
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    handed_out_ = true;
    used_last_ = std::chrono::steady_clock::now();
    if (bells_) bells_->CountReceived(static_cast<std::uint32_t>(status.MPI_SOURCE), used_last_);
    return Message{static_cast<std::uint32_t>(status.MPI_SOURCE),
                   {receive.buffer.data(), static_cast<std::size_t>(bytes)}};
  }

  void StartBulkSend(std::uint32_t rank, std::uint32_t tag, std::span<const std::byte> bytes,
                     std::uint64_t id) override {
    MPI_Request request;
    MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, static_cast<int>(rank),
              static_cast<int>(tag), bulk_, &request);
    bulk_requests_.push_back(request);
    bulk_ids_.push_back(id);
  }

  void StartBulkReceive(std::uint32_t rank, std::uint32_t tag, std::span<std::byte> bytes,
                        std::uint64_t id) override {
    MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, static_cast<int>(rank),
              static_cast<int>(tag), bulk_, &posted_ahead_[id]);
  }

  bool ExpectBulk(std::uint64_t id) override {
    const auto posted = posted_ahead_.find(id);
    if (posted == posted_ahead_.end()) return false;
    bulk_requests_.push_back(posted->second);
    bulk_ids_.push_back(id);
    posted_ahead_.erase(posted);
    return true;
  }

  bool CancelBulkReceive(std::uint64_t id) override {
    const bool expected = !ExpectBulk(id);
    const auto tested = std::find(bulk_ids_.begin(), bulk_ids_.end(), id);
    if (tested == bulk_ids_.end()) return false;
    const auto place = tested - bulk_ids_.begin();
    MPI_Request request = bulk_requests_[static_cast<std::size_t>(place)];
    bulk_requests_.erase(bulk_requests_.begin() + place);
    bulk_ids_.erase(tested);
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return expected;
  }

  void FinishedBulk(std::vector<std::uint64_t>& ids) override {
    if (bulk_requests_.empty()) {
      // Moves the rest of finished sends. Agents do so by receiving messages; a lane gets none.
      int found = 0;
      if (receives_.empty() && std::chrono::steady_clock::now() - used_last_ < kSettles)
        MPI_Iprobe(MPI_ANY_SOURCE, kWholeTag, frames_, &found, MPI_STATUS_IGNORE);
      return;
    }
    used_last_ = std::chrono::steady_clock::now();
    finished_.resize(bulk_requests_.size());
    int count = 0;
    MPI_Testsome(static_cast<int>(bulk_requests_.size()), bulk_requests_.data(), &count,
                 finished_.data(), MPI_STATUSES_IGNORE);
    if (count == MPI_UNDEFINED) count = 0;
    for (int i = 0; i < count; ++i)
      ids.push_back(bulk_ids_[static_cast<std::size_t>(finished_[static_cast<std::size_t>(i)])]);
    // Finished requests are now MPI_REQUEST_NULL; the others keep their order.
    std::size_t kept = 0;
    for (std::size_t i = 0; i < bulk_requests_.size() && count != 0; ++i) {
      if (bulk_requests_[i] == MPI_REQUEST_NULL) continue;
      bulk_requests_[kept] = bulk_requests_[i];
      bulk_ids_[kept++] = bulk_ids_[i];
    }
    if (count == 0) return;
    bulk_requests_.resize(kept);
    bulk_ids_.resize(kept);
  }

  // MPI has no wake-up. It moves bytes only while polled.
  int wake_fd() const override { return bells_ ? bells_->fd() : -1; }
  Rest Arm() override {
    if (!bells_) return Rest::kNaps;
    const auto now = std::chrono::steady_clock::now();
    // First, to read all rings: an unread one would end each sleep.
    const Rest rest = bells_->Arm(now);
    if (rest != Rest::kUntilWoken || receives_.empty()) return rest;
    if (!bulk_requests_.empty() || now - used_last_ < kSettles) return Rest::kNaps;
    for (std::size_t rank = 0; rank < sends_.size(); ++rank) {
      FinishSends(sends_[rank]);
      if (!sends_[rank].empty() && !given_up_[rank]) return Rest::kNaps;
    }
    // A message that came without a ring, or before it.
    int arrived = 0;
    MPI_Request_get_status(receives_[next_receive_ % kPostedReceives].request, &arrived,
                           MPI_STATUS_IGNORE);
    return arrived != 0 ? Rest::kNone : rest;
  }
  std::chrono::milliseconds longest_rest() const override {
    return bells_ ? AgentBells::kLongestRest : std::chrono::milliseconds(-1);
  }
  // MPI ends the job if a rank is gone.
  std::optional<LostPeer> ConsumeLost() override { return std::nullopt; }
  void GiveUp(std::uint32_t rank) override {
    given_up_[rank] = true;
    if (bells_) bells_->GiveUp(rank);
  }

  void Shutdown() override {
    shut_down_ = true;
    if (bells_) bells_->EndBursts(std::chrono::steady_clock::now());
    if (std::find(given_up_.begin(), given_up_.end(), true) != given_up_.end()) {
#ifndef MPICH_VERSION
      // MPI_Finalize would wait for ranks given up, so it is skipped. A process exiting without it
      // ends the job: the head agent does so first, when it has finished.
      while (rank_ != 0) ::pause();
#endif
      return;
    }
    // No deadlines: if a rank is gone, MPI ends the others. If a rank is stopped, the caller's
    // alarm ends the waiting ones.
    for (std::deque<Send>& sends : sends_)
      for (Send& send : sends) MPI_Wait(&send.request, MPI_STATUS_IGNORE);
    for (Receive& receive : receives_) {
      if (receive.request == MPI_REQUEST_NULL) continue;
      MPI_Cancel(&receive.request);
      MPI_Wait(&receive.request, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&frames_);
    MPI_Comm_free(&bulk_);
    MPI_Finalize();
  }

 private:
  struct Send {
    std::vector<std::byte> buffer;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Receive {
    std::vector<std::byte> buffer;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  // Called by all ranks of the job, with equal `ranks`. Without bells, an agent polls.
  void OpenBells(const Ranks& ranks) {
    const bool lane = ranks.is_lane(rank_);
    MPI_Comm agents;
    MPI_Comm_split(MPI_COMM_WORLD, lane ? 1 : 0, static_cast<int>(rank_), &agents);
    if (!lane && ranks.agents > 1) {
      Result<std::unique_ptr<AgentBells>> opened = AgentBells::Open();
      if (!opened.ok()) LogInfo("this agent polls for messages: {}", opened.status().message());
      const BellContact own = opened.ok() ? (*opened)->contact() : BellContact();
      std::vector<BellContact> contacts(ranks.agents);
      MPI_Allgather(&own, sizeof own, MPI_BYTE, contacts.data(), sizeof own, MPI_BYTE, agents);
      if (opened.ok()) {
        (*opened)->Meet(rank_, contacts, std::chrono::steady_clock::now());
        bells_ = std::move(*opened);
      }
    }
    MPI_Comm_free(&agents);
  }

  // The oldest send normally finishes first. Exceptions only delay the reuse of buffers.
  void FinishSends(std::deque<Send>& sends) {
    while (!sends.empty()) {
      int done = 0;
      MPI_Test(&sends.front().request, &done, MPI_STATUS_IGNORE);
      if (done == 0) return;
      free_buffers_.push_back(std::move(sends.front().buffer));
      sends.pop_front();
    }
  }

  void PostReceive(std::size_t i) {
    Receive& receive = receives_[i];
    MPI_Irecv(receive.buffer.data(), static_cast<int>(receive.buffer.size()), MPI_BYTE,
              MPI_ANY_SOURCE, kBatchTag, frames_, &receive.request);
  }

  std::uint32_t rank_ = 0;
  bool shut_down_ = false;
  MPI_Comm frames_ = MPI_COMM_NULL;
  MPI_Comm bulk_ = MPI_COMM_NULL;
  std::vector<std::deque<Send>> sends_;              // Indexed by rank, oldest first.
  std::vector<bool> given_up_;                       // Indexed by rank.
  std::chrono::steady_clock::time_point used_last_;  // Last message or bulk.
  std::vector<std::vector<std::byte>> free_buffers_;
  std::vector<Receive> receives_;
  std::size_t next_receive_ = 0;
  bool handed_out_ = false;
  // Receives before ExpectBulk.
  std::unordered_map<std::uint64_t, MPI_Request> posted_ahead_;
  std::vector<MPI_Request> bulk_requests_;
  std::vector<std::uint64_t> bulk_ids_;
  std::vector<int> finished_;
  // Null in lanes, and if there are no other agents: only agents sleep until a message.
  std::unique_ptr<AgentBells> bells_;
};

// Detects the mpirun of another MPI: its ranks do not find each other, and each would be the only
// one of a run.
Status CheckMpirun() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* started = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (started == nullptr) started = std::getenv("PMI_SIZE");
  if (size != 1 || started == nullptr || std::atoi(started) <= 1) return Status::Ok();
  return Status::Invalid(
      "mpirun started {} processes, but this one finds no others: use the mpirun of cuspan's MPI, "
      "{}",
      started, kMpi);
}

// The number is equal on all ranks: it tells agents from lanes.
Status CheckLanes(std::uint32_t lanes) {
  const std::uint32_t own[] = {lanes, ~lanes};
  std::uint32_t least[2];
  MPI_Allreduce(own, least, 2, MPI_UINT32_T, MPI_MIN, MPI_COMM_WORLD);
  if (least[0] == ~least[1]) return Status::Ok();
  return Status::Invalid(
      "the ranks have different numbers of lanes, from {} to {}: set CUSPAN_LANES to one value on "
      "all hosts",
      least[0], ~least[1]);
}

}  // namespace

Status BecomeMpiAgent(char**) {
  // Same process name as the agent without MPI.
  ::prctl(PR_SET_NAME, "cuspan-agent");
  return Status::Ok();
}

Result<std::unique_ptr<Transport>> StartMpiTransport(int* argc, char*** argv, std::uint32_t lanes) {
  int provided = 0;
  if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
    return Status::Unavailable("MPI_Init failed; start the agents with mpirun");
  CUSPAN_RETURN_IF_ERROR(CheckMpirun());
  CUSPAN_RETURN_IF_ERROR(CheckLanes(lanes));
  return std::unique_ptr<Transport>(std::make_unique<MpiTransport>(lanes));
}

}  // namespace cuspan
