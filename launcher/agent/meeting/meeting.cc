#include "launcher/agent/meeting/meeting.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "agents.pb.h"
#include "common/log.h"
#include "ops.gen.h"
#include "protocol/network/entrance.h"

namespace cuspan {
namespace {

// Features of the protocol used between agents after the meeting.
constexpr std::array<std::string_view, 1> kFeatures = {"ucx-messages-1"};

// Maximum size of the addresses of all agents, or of one message before the relay starts (an
// inventory).
constexpr std::uint32_t kMaxBytes = 64 << 20;
// Time limit for each message of a connected agent.
constexpr std::chrono::seconds kAnswerLimit{10};
// Minimum time for trying one address.
constexpr std::chrono::seconds kMinConnect{2};
// Delay of the warning naming missing agents. It must precede the launcher's own message, which
// cannot name them.
constexpr std::chrono::seconds kNotice{4};
// Time for the head agent to begin with this one.
constexpr std::chrono::seconds kProofLimit{60};

net::Deadline Soon() { return std::chrono::steady_clock::now() + kAnswerLimit; }

// Detects a host switched off: it neither sends nor acknowledges. Heartbeats begin only after the
// meeting.
void KeepAlive(int fd) {
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 120'000);
}

std::uint64_t RandomToken() {
  const Nonce random = RandomNonce();
  std::uint64_t token = 0;
  std::memcpy(&token, random.data(), sizeof token);
  return token;
}

Status SendBlob(int fd, std::span<const std::byte> blob, const net::Interrupt& interrupt,
                net::Deadline deadline) {
  if (blob.size() > kMaxBytes)
    return Status::Invalid("a message of {} bytes to another agent is too long", blob.size());
  const auto bytes = static_cast<std::uint32_t>(blob.size());
  CUSPAN_RETURN_IF_ERROR(net::SendAll(fd, &bytes, sizeof bytes, interrupt, deadline));
  return net::SendAll(fd, blob.data(), blob.size(), interrupt, deadline);
}

Result<Meeting::Blob> ReceiveBlob(int fd, const net::Interrupt& interrupt, net::Deadline deadline) {
  std::uint32_t bytes = 0;
  CUSPAN_RETURN_IF_ERROR(net::ReceiveAll(fd, &bytes, sizeof bytes, interrupt, deadline));
  if (bytes > kMaxBytes)
    return Status::Invalid("a message of {} bytes from another agent is too long", bytes);
  Meeting::Blob blob(bytes);
  CUSPAN_RETURN_IF_ERROR(net::ReceiveAll(fd, blob.data(), bytes, interrupt, deadline));
  return blob;
}

template <typename Message>
Status SendMessage(int fd, const Message& message, const net::Interrupt& interrupt,
                   net::Deadline deadline) {
  const std::string text = message.SerializeAsString();
  return SendBlob(fd, std::as_bytes(std::span(text)), interrupt, deadline);
}

template <typename Message>
Result<Message> ReceiveMessage(int fd, const net::Interrupt& interrupt, net::Deadline deadline) {
  CUSPAN_ASSIGN_OR_RETURN(const Meeting::Blob blob, ReceiveBlob(fd, interrupt, deadline));
  Message message;
  if (!message.ParseFromArray(blob.data(), static_cast<int>(blob.size())))
    return Status::Invalid("{} bytes from another agent are not a valid {}", blob.size(),
                           message.GetTypeName());
  return message;
}

control::Attendee Pack(const Meeting::Attendee& attendee) {
  control::Attendee packed;
  packed.set_host(attendee.host);
  packed.set_transport(attendee.transport);
  packed.set_place(attendee.place);
  for (const Meeting::Address& address : attendee.addresses) {
    control::Address& one = *packed.add_addresses();
    one.set_near(address.near.data(), address.near.size());
    one.set_far(address.far.data(), address.far.size());
  }
  return packed;
}

Meeting::Attendee Unpack(const control::Attendee& packed) {
  const auto blob = [](const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    return Meeting::Blob(bytes.begin(), bytes.end());
  };
  Meeting::Attendee attendee{packed.host(), packed.transport(), packed.place(), {}};
  for (const control::Address& address : packed.addresses())
    attendee.addresses.push_back({blob(address.near()), blob(address.far())});
  return attendee;
}

// Returns a feature required by the sender and missing in this build; empty if none is.
template <typename Message>
std::string UnknownFeature(const Message& message) {
  for (const std::string& feature : message.required_features())
    if (std::find(kFeatures.begin(), kFeatures.end(), feature) == kFeatures.end()) return feature;
  return "";
}

template <typename Message>
void RequireFeatures(Message& message) {
  for (const std::string_view feature : kFeatures)
    message.add_required_features(feature.data(), feature.size());
}

// Value of CUSPAN_LANES for a number of addresses: the agent's own and those of its lanes.
std::size_t LanesOf(std::size_t ends) { return std::max<std::size_t>(ends, 2) - 1; }

// Reason for refusing the sender; empty if it is accepted.
std::string Objection(const control::Join& join, const Meeting::Attendee& head) {
  const std::string& host = join.self().host();
  if (const std::string feature = UnknownFeature(join); !feature.empty())
    return Format(
        "cuspan {} on host {} requires '{}', but cuspan {} on host {} lacks it: install one "
        "version everywhere",
        join.version(), host, feature, CUSPAN_VERSION, head.host);
  if (join.table_hash() != kOpTableHash)
    return Format(
        "hosts {} and {} run different versions of cuspan ({} and {}): install one version "
        "everywhere",
        head.host, host, CUSPAN_VERSION, join.version());
  if (static_cast<std::size_t>(join.self().addresses_size()) != head.addresses.size())
    return Format(
        "hosts {} and {} have {} and {} lanes: set CUSPAN_LANES to one value on all hosts",
        head.host, host, LanesOf(head.addresses.size()),
        LanesOf(static_cast<std::size_t>(join.self().addresses_size())));
  return "";
}

// Connects to an address. Fails unless this run's head agent is listening there.
Result<UniqueFd> FindHead(const net::Address& place, const Key128& secret, std::uint32_t rank,
                          const net::Interrupt& never, net::Deadline deadline) {
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd head, net::Connect(place, never, deadline));
  // Restarts the deadline: the head agent may be busy with another agent.
  deadline = std::chrono::steady_clock::now() + kProofLimit;
  Meeting::Challenge challenge{};
  CUSPAN_RETURN_IF_ERROR(
      net::ReceiveAll(head.get(), &challenge, sizeof challenge, never, deadline));
  if (challenge.format != Meeting::kFormat)
    return Status::Refused(
        "no head agent of this version answers at {}: install one version of cuspan everywhere",
        net::Text(place));
  Meeting::Response response{Meeting::kFormat, rank, RandomNonce(), {}};
  CUSPAN_ASSIGN_OR_RETURN(response.proof,
                          Prove(secret, Side::kWorker, challenge.nonce, response.nonce, rank));
  CUSPAN_ASSIGN_OR_RETURN(const Proof expected,
                          Prove(secret, Side::kHead, challenge.nonce, response.nonce, rank));
  CUSPAN_RETURN_IF_ERROR(net::SendAll(head.get(), &response, sizeof response, never, deadline));
  Proof proof{};
  CUSPAN_RETURN_IF_ERROR(net::ReceiveAll(head.get(), &proof, sizeof proof, never, deadline));
  if (!SameProof(proof, expected))
    return Status::Refused("the agent at {} does not belong to this run", net::Text(place));
  return head;
}

// Connects to the head agent at the first working address.
Result<UniqueFd> FindHead(std::span<const net::Address> places, const Key128& secret,
                          std::uint32_t rank, const net::Interrupt& never, net::Deadline deadline) {
  Status failure = Status::Invalid("the address of the head agent is unknown");
  // Tries the addresses in order. An unreachable one fails at once or uses up its share of the
  // time.
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto now = std::chrono::steady_clock::now();
    // A silent listener at an earlier address may have used up all of the time.
    const net::Deadline share =
        now + std::max<net::Deadline::duration>(
                  (deadline - now) / static_cast<int>(places.size() - i), kMinConnect);
    Result<UniqueFd> head = FindHead(places[i], secret, rank, never, share);
    if (head.ok()) return head;
    // A refusal explains more than an unreachable address and is kept.
    if (failure.code() == StatusCode::kRefused) continue;
    failure = Status(head.status().code(), Format("the head agent at {}: {}", net::Text(places[i]),
                                                  head.status().message()));
  }
  return failure;
}

Status AtHost(const std::string& host, const Status& status) {
  if (status.ok()) return status;
  return Status(status.code(), Format("the agent on host {}: {}", host, status.message()));
}

// Names of the hosts without a connected agent.
std::string Missing(std::span<const std::string> hosts, std::span<const UniqueFd> connections) {
  std::string text;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (!connections[i + 1].valid()) text += (text.empty() ? "" : ", ") + hosts[i];
  return text;
}

}  // namespace

Status Meeting::AskAll(const net::Listener& listener, const Key128& secret,
                       std::span<const std::string> hosts, std::span<const int> watched,
                       const net::Interrupt& interrupt, net::Deadline deadline) {
  net::Entrance entrance(listener, interrupt, sizeof(Response));
  entrance.AskFirst([] {
    const Challenge challenge{kFormat, RandomNonce()};
    const auto bytes = std::as_bytes(std::span(&challenge, 1));
    return Blob(bytes.begin(), bytes.end());
  });
  std::optional notice(std::chrono::steady_clock::now() + kNotice);
  for (std::size_t missing = hosts.size(); missing != 0;) {
    Result<net::Entrance::Guest> guest =
        entrance.Next(watched, notice ? std::min<net::Deadline>(*notice, deadline) : deadline);
    if (!guest.ok() && !interrupt.raised() && notice &&
        std::chrono::steady_clock::now() >= *notice) {
      notice.reset();
      LogWarn("waiting for the agents on {}", Missing(hosts, connections_));
      continue;
    }
    if (!guest.ok())
      return interrupt.raised() || std::chrono::steady_clock::now() < deadline
                 ? guest.status()
                 : Status::Unavailable("no agent connected in time from {}",
                                       Missing(hosts, connections_));
    if (!guest->fd.valid()) return Status::Unavailable("an agent exited before it connected");
    const auto response = guest->As<Response>();
    Challenge asked{};
    std::memcpy(&asked, guest->asked.data(), sizeof asked);
    const auto prove = [&](Side side) {
      return Prove(secret, side, asked.nonce, response.nonce, response.rank);
    };
    CUSPAN_ASSIGN_OR_RETURN(const Proof expected, prove(Side::kWorker));
    if (response.format != kFormat || !SameProof(response.proof, expected)) {
      LogWarn("a process outside this run tried to connect as an agent");
      continue;
    }
    const int fd = guest->fd.get();
    CUSPAN_ASSIGN_OR_RETURN(const Proof own, prove(Side::kHead));
    if (!net::SendAll(fd, own.data(), own.size(), interrupt, Soon()).ok()) continue;
    const Result<control::Join> join = ReceiveMessage<control::Join>(fd, interrupt, Soon());
    if (!join.ok()) {  // If it has ended, `watched` shows it.
      LogWarn("{}", join.status().message());
      continue;
    }
    std::string refusal = Objection(*join, attendees_[0]);
    const bool known = response.rank == join->rank() && response.rank != 0 &&
                       response.rank <= hosts.size() && !connections_[response.rank].valid();
    if (refusal.empty() && !known) refusal = "the run has no such agent";
    if (!refusal.empty()) {
      control::Answer answer;
      answer.set_refusal(refusal);
      static_cast<void>(SendMessage(fd, answer, interrupt, Soon()));
      if (!known) continue;  // The right agent may still connect.
      return Status::Refused("{}", refusal);
    }
    attendees_[response.rank] = Unpack(join->self());
    if (attendees_[response.rank].transport != attendees_[0].transport)
      LogWarn(
          "host {} has {}, but host {} has {}: cuspan was tested only with one release on all "
          "hosts",
          attendees_[0].host, attendees_[0].transport, attendees_[response.rank].host,
          attendees_[response.rank].transport);
    KeepAlive(fd);
    connections_[response.rank] = std::move(guest->fd);
    --missing;
  }
  return Status::Ok();
}

Status Meeting::AnswerAll(const net::Interrupt& interrupt) {
  control::Answer answer;
  RequireFeatures(answer);
  answer.set_token(token_);
  for (const Attendee& attendee : attendees_) *answer.add_attendees() = Pack(attendee);
  for (std::uint32_t rank = 1; rank < size(); ++rank)
    CUSPAN_RETURN_IF_ERROR(AtHost(
        attendees_[rank].host, SendMessage(connections_[rank].get(), answer, interrupt, Soon())));
  return Status::Ok();
}

Result<Meeting> Meeting::Hold(const net::Listener& listener, const Key128& secret,
                              std::span<const std::string> hosts, const Attendee& own,
                              std::span<const int> watched, const net::Interrupt& interrupt,
                              net::Deadline deadline) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<net::Interrupt> never, net::Interrupt::Make(""));
  Meeting meeting(0, std::move(never));
  meeting.token_ = RandomToken();
  meeting.attendees_.resize(hosts.size() + 1);
  meeting.connections_.resize(hosts.size() + 1);
  meeting.attendees_[0] = own;
  CUSPAN_RETURN_IF_ERROR(meeting.AskAll(listener, secret, hosts, watched, interrupt, deadline));
  CUSPAN_RETURN_IF_ERROR(meeting.AnswerAll(interrupt));
  return meeting;
}

Result<Meeting> Meeting::Attend(std::span<const net::Address> places, const Key128& secret,
                                std::uint32_t rank, const Attendee& own, net::Deadline deadline) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<net::Interrupt> never, net::Interrupt::Make(""));
  Meeting meeting(rank, std::move(never));
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd head, FindHead(places, secret, rank, *meeting.never_, deadline));
  KeepAlive(head.get());
  control::Join join;
  RequireFeatures(join);
  join.set_version(CUSPAN_VERSION);
  join.set_table_hash(kOpTableHash);
  join.set_rank(rank);
  *join.mutable_self() = Pack(own);
  CUSPAN_RETURN_IF_ERROR(SendMessage(head.get(), join, *meeting.never_, Soon()));
  // No deadline: other agents may take long to connect.
  CUSPAN_ASSIGN_OR_RETURN(
      const control::Answer answer,
      ReceiveMessage<control::Answer>(head.get(), *meeting.never_, net::kNever));
  if (!answer.refusal().empty()) return Status::Refused("{}", answer.refusal());
  if (const std::string feature = UnknownFeature(answer); !feature.empty())
    return Status::Refused(
        "the head agent requires '{}', but cuspan {} on host {} lacks it: install one version "
        "everywhere",
        feature, CUSPAN_VERSION, own.host);
  meeting.token_ = answer.token();
  for (const control::Attendee& attendee : answer.attendees()) {
    meeting.attendees_.push_back(Unpack(attendee));
    if (meeting.attendees_.back().addresses.size() != own.addresses.size())
      return Status::Invalid(
          "the head agent lists {} addresses for an agent, but each agent has {}",
          meeting.attendees_.back().addresses.size(), own.addresses.size());
  }
  if (rank >= meeting.size()) return Status::Invalid("the head agent lists no agent {}", rank);
  meeting.connections_.resize(meeting.size());
  meeting.connections_[0] = std::move(head);
  return meeting;
}

const Meeting::Blob& Meeting::AddressOf(std::uint32_t rank, std::size_t end) const {
  const Attendee& other = attendees_[rank];
  const Address& address = other.addresses[end];
  return other.place == attendees_[rank_].place ? address.near : address.far;
}

Result<Meeting> Meeting::WithoutConnections() const {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<net::Interrupt> never, net::Interrupt::Make(""));
  Meeting meeting(rank_, std::move(never));
  meeting.token_ = token_;
  meeting.attendees_ = attendees_;
  meeting.connections_.resize(connections_.size());
  return meeting;
}

int Meeting::fd(std::uint32_t rank) const { return connections_[rank].get(); }

Status Meeting::Send(std::uint32_t rank, std::span<const std::byte> message) {
  return AtHost(attendees_[rank].host,
                SendBlob(connections_[rank].get(), message, *never_, net::kNever));
}

Result<Meeting::Blob> Meeting::Receive(std::uint32_t rank) {
  Result<Blob> blob = ReceiveBlob(connections_[rank].get(), *never_, net::kNever);
  if (!blob.ok()) return AtHost(attendees_[rank].host, blob.status());
  return blob;
}

}  // namespace cuspan
