#include "launcher/doctor/listener.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/start_thread.h"
#include "launcher/run/run_key.h"
#include "protocol/network/entrance.h"

namespace cuspan::doctor {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kPasswordDigits = 32;
// Larger than a packet of any network: a path limited to small packets stalls here.
constexpr std::size_t kBlockBytes = 16 * 1024;
// Limit for a working connection; dropped packets exceed it.
constexpr milliseconds kConnectLimit{2'000};
constexpr milliseconds kBlockLimit{3'000};
// Limit for an idle connection.
constexpr milliseconds kGuestLimit{20'000};
// Rounds of a measurement; the best counts, since TCP starts slowly and other work may delay a
// round.
constexpr int kRounds = 4;
constexpr int kFewestRounds = 2;
constexpr std::size_t kRoundBytes = 8 << 20;
constexpr milliseconds kRoundLimit{150};

struct Welcome {
  std::array<char, kPasswordDigits> answer;
  std::uint32_t mtu;
};

// MTU of the connection's path; 0: unknown. An IPv6 socket may have an IPv4 path.
std::uint32_t MtuOf(int fd) {
  int mtu = 0;
  socklen_t bytes = sizeof mtu;
  if (::getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &bytes) == 0 && mtu > 0)
    return static_cast<std::uint32_t>(mtu);
  bytes = sizeof mtu;
  if (::getsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &mtu, &bytes) == 0 && mtu > 0)
    return static_cast<std::uint32_t>(mtu);
  return 0;
}

std::array<char, kPasswordDigits> DigitsOf(const std::string& password) {
  std::array<char, kPasswordDigits> digits{};
  std::copy_n(password.begin(), std::min(password.size(), digits.size()), digits.begin());
  return digits;
}

// Serves an authenticated probe: echoes one block, then discards input.
void ServeGuest(UniqueFd fd, std::shared_ptr<net::Interrupt> interrupt, const Passwords& own) {
  const auto deadline = steady_clock::now() + kGuestLimit;
  const Welcome welcome{DigitsOf(own.answer), MtuOf(fd.get())};
  std::vector<std::byte> block(kBlockBytes);
  if (!net::SendAll(fd.get(), &welcome, sizeof welcome, *interrupt, deadline).ok() ||
      !net::ReceiveAll(fd.get(), block.data(), block.size(), *interrupt, deadline).ok() ||
      !net::SendAll(fd.get(), block.data(), block.size(), *interrupt, deadline).ok())
    return;
  std::vector<std::byte> taken(256 * 1024);
  while (net::AwaitEvents(fd.get(), POLLIN, *interrupt, deadline).ok())
    if (::recv(fd.get(), taken.data(), taken.size(), 0) <= 0) return;
}

struct Contact {
  UniqueFd fd;
  Reached reached;
};

// Connects to one of the target's addresses, and exchanges a block.
Contact Meet(const Target& target, const net::Interrupt& interrupt) {
  Contact contact;
  contact.reached.host = target.host;
  contact.reached.problem = "it has no address";
  for (const std::string& place : target.places) {
    const Result<net::Address> address = net::ParseAddress(place);
    if (!address.ok()) continue;
    const auto deadline = steady_clock::now() + kConnectLimit;
    Result<UniqueFd> fd = net::Connect(*address, interrupt, deadline);
    const std::array<char, kPasswordDigits> ask = DigitsOf(target.passwords.ask);
    Welcome welcome{};
    Status met = fd.status();
    if (met.ok()) met = net::SendAll(fd->get(), ask.data(), ask.size(), interrupt, deadline);
    if (met.ok()) met = net::ReceiveAll(fd->get(), &welcome, sizeof welcome, interrupt, deadline);
    if (met.ok() && welcome.answer != DigitsOf(target.passwords.answer))
      met = Status::Refused("another program answers there");
    if (!met.ok()) {
      const bool named = met.message().find(place) != std::string::npos;
      contact.reached.problem = named ? met.message() : Format("{}: {}", place, met.message());
      continue;
    }
    contact.fd = std::move(*fd);
    contact.reached.problem.clear();
    contact.reached.place = place;
    contact.reached.mtu = MtuOf(contact.fd.get());
    contact.reached.peer_mtu = welcome.mtu;
    break;
  }
  if (!contact.fd.valid()) return contact;
  std::vector<std::byte> block(kBlockBytes);
  const auto deadline = steady_clock::now() + kBlockLimit;
  Status passed = net::SendAll(contact.fd.get(), block.data(), block.size(), interrupt, deadline);
  if (passed.ok())
    passed = net::ReceiveAll(contact.fd.get(), block.data(), block.size(), interrupt, deadline);
  contact.reached.stalled = !passed.ok();
  contact.reached.problem = passed.message();
  return contact;
}

std::uint64_t BytesArrived(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 ? info.tcpi_bytes_acked : 0;
}

// Bytes per second of one round.
double SendRound(int fd, const net::Interrupt& interrupt) {
  const std::vector<std::byte> block(256 * 1024);
  const auto begin = steady_clock::now();
  const std::uint64_t before = BytesArrived(fd);
  std::uint64_t arrived = 0;
  for (std::size_t sent = 0; sent < kRoundBytes && steady_clock::now() < begin + kRoundLimit;) {
    if (!net::AwaitEvents(fd, POLLOUT, interrupt, begin + kRoundLimit).ok()) break;
    const ssize_t taken = ::send(fd, block.data(), block.size(), MSG_NOSIGNAL);
    if (taken < 0 && errno != EAGAIN && errno != EINTR) break;
    if (taken > 0) sent += static_cast<std::size_t>(taken);
  }
  arrived = BytesArrived(fd) - before;
  const std::chrono::duration<double> took = steady_clock::now() - begin;
  return static_cast<double>(arrived) / std::max(took.count(), 1e-6);
}

}  // namespace

Result<Passwords> RandomPasswords() {
  std::array<std::uint8_t, kPasswordDigits> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return Status::Internal("getrandom: {}", std::strerror(errno));
  const std::string digits = ToHex(bytes);
  return Passwords{digits.substr(0, kPasswordDigits), digits.substr(kPasswordDigits)};
}

Result<std::unique_ptr<Listener>> Listener::Open(const Passwords& passwords) {
  if (passwords.ask.size() != kPasswordDigits || passwords.answer.size() != kPasswordDigits)
    return Status::Invalid("a password of a probe has {} digits", kPasswordDigits);
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<net::Interrupt> interrupt,
                          net::Interrupt::Make("the probe has ended"));
  constexpr int kBacklog = 128;
  CUSPAN_ASSIGN_OR_RETURN(net::Listener listener, net::Listener::OpenOnAll(kBacklog));
  CUSPAN_ASSIGN_OR_RETURN(const std::vector<net::Address> addresses,
                          net::OwnAddresses(listener.address().port));
  std::vector<std::string> places;
  for (const net::Address& address : addresses)
    if (!net::IsLoopback(address)) places.push_back(net::Text(address));
  std::unique_ptr<Listener> made(
      new Listener(std::move(listener), std::move(interrupt), passwords, std::move(places)));
  CUSPAN_ASSIGN_OR_RETURN(made->thread_,
                          StartThread("cuspan-listen", [at = made.get()] { at->Listen(); }));
  return made;
}

Listener::Listener(net::Listener listener, std::shared_ptr<net::Interrupt> interrupt,
                   Passwords passwords, std::vector<std::string> places)
    : listener_(std::move(listener)),
      interrupt_(std::move(interrupt)),
      passwords_(std::move(passwords)),
      places_(std::move(places)) {}

Listener::~Listener() {
  interrupt_->Raise();
  if (thread_.joinable()) thread_.join();
}

void Listener::Listen() {
  net::Entrance entrance(listener_, *interrupt_, kPasswordDigits);
  for (;;) {
    Result<net::Entrance::Guest> guest = entrance.Next({}, net::kNever);
    if (!guest.ok()) return;
    if (guest->As<std::array<char, kPasswordDigits>>() != DigitsOf(passwords_.ask)) continue;
    const auto fd = std::make_shared<UniqueFd>(std::move(guest->fd));
    Result<std::thread> thread =
        StartThread("cuspan-guest", [fd, interrupt = interrupt_, passwords = passwords_] {
          ServeGuest(std::move(*fd), interrupt, passwords);
        });
    // Without a thread, the guest's connection is closed.
    if (thread.ok()) thread->detach();
  }
}

std::vector<Reached> ReachAll(const std::vector<Target>& targets) {
  std::vector<Reached> all(targets.size());
  const Result<std::shared_ptr<net::Interrupt>> interrupt = net::Interrupt::Make("ended");
  if (!interrupt.ok()) return {};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto meet = [&, i] { all[i] = std::move(Meet(targets[i], **interrupt).reached); };
    Result<std::thread> thread = StartThread("cuspan-target", meet);
    if (thread.ok())
      threads.push_back(std::move(*thread));
    else
      meet();  // Without threads: one target after the other.
  }
  for (std::thread& thread : threads) thread.join();
  return all;
}

Reached Measure(const Target& target, double enough) {
  const Result<std::shared_ptr<net::Interrupt>> interrupt = net::Interrupt::Make("ended");
  Contact contact;
  contact.reached.host = target.host;
  contact.reached.problem = interrupt.status().message();
  if (interrupt.ok()) contact = Meet(target, **interrupt);
  if (!contact.reached.problem.empty()) return contact.reached;
  // A small buffer, so that sent bytes are in the network, not here.
  const int buffer = 1 << 20;
  ::setsockopt(contact.fd.get(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  double& best = contact.reached.bytes_per_second;
  for (int round = 0; round < kFewestRounds || (round < kRounds && best < enough); ++round)
    best = std::max(best, SendRound(contact.fd.get(), **interrupt));
  return contact.reached;
}

}  // namespace cuspan::doctor
