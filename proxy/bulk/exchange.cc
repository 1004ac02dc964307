#include "proxy/bulk/exchange.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <vector>

#include "common/log.h"

namespace cuspan::proxy {

Result<ExchangeSocket> ExchangeSocket::Open(const Key128& secret) {
  std::array<std::uint8_t, 16> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return Status::Internal("getrandom: {}", std::strerror(errno));
  std::string address = "cuspan-proxy-";
  for (const std::uint8_t byte : random) AppendFormat(address, "{:02x}", byte);
  CUSPAN_ASSIGN_OR_RETURN(Reception reception, Reception::Listen(address));
  return ExchangeSocket{std::move(reception), std::move(address), secret};
}

Exchange::Exchange(ExchangeSocket socket, const Device& device, Mappings& mappings,
                   Reservations& reservations, ShareFile share_file)
    : socket_(std::move(socket)),
      mappings_(mappings),
      reservations_(reservations),
      share_file_(std::move(share_file)),
      ending_(::eventfd(0, EFD_CLOEXEC)),
      thread_([this, &device] { Loop(device); }) {}

Exchange::~Exchange() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(ending_.get(), &one, sizeof one));
  thread_.join();
}

void Exchange::Loop(const Device& device) {
  if (const Status status = device.MakeCurrent(); !status.ok()) LogError("{}", status.message());
  std::deque<ControlSocket> connections;
  std::vector<pollfd> watched;
  for (;;) {
    watched.clear();
    watched.push_back({ending_.get(), POLLIN, 0});
    watched.push_back({socket_.reception.fd(), POLLIN, 0});
    for (const ControlSocket& connection : connections)
      watched.push_back({connection.fd(), POLLIN, 0});
    if (::poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[0].revents != 0) return;
    std::size_t place = 2;
    std::erase_if(connections, [&](ControlSocket& connection) {
      return watched[place++].revents != 0 && !Serve(connection);
    });
    if (watched[1].revents == 0) continue;
    std::optional<Reception::Arrival> arrival = socket_.reception.Next();
    if (!arrival) continue;
    if (!Knows(*arrival))
      Reception::Refuse(std::move(*arrival), "not a process of this run");
    else if (Serve(arrival->socket))  // Its first request may have come with the greeting.
      connections.push_back(std::move(arrival->socket));
  }
}

bool Exchange::Knows(const Reception::Arrival& arrival) const {
  const Result<PeerHello> hello = ParseMessage<PeerHello>(arrival.first.frame);
  return hello.ok() && SameSecret(hello->secret, socket_.secret) &&
         hello->table_hash == kOpTableHash;
}

bool Exchange::Serve(ControlSocket& socket) {
  // Handles one request for each poll, so no connection starves. No second request can be buffered:
  // a peer waits for the reply before it sends another one.
  const Result<std::optional<ControlSocket::Message>> message = socket.TryReceive();
  if (!message.ok()) return false;  // Disconnected, or invalid.
  if (!message->has_value()) return true;
  if ((*message)->frame.op() == Op::kFileShare) {
    const Result<FileShare> share = ParseMessage<FileShare>((*message)->frame);
    if (!share.ok()) return false;
    const FileStatus status = share_file_(share->file, socket.ExtractFd());
    return socket.Send(FileShared{static_cast<std::int32_t>(status.result), status.error}).ok();
  }
  const Result<PeerExport> wanted = ParseMessage<PeerExport>((*message)->frame);
  if (!wanted.ok()) return false;
  UniqueFd file;
  const CUresult result = wanted->allocation != 0
                              ? reservations_.Export(wanted->allocation, &file)
                              : mappings_.Export(wanted->address, wanted->bytes, &file);
  const int fds[] = {file.get()};
  return socket.Send(PeerExported{result}, std::span(fds, file.valid() ? 1 : 0)).ok();
}

}  // namespace cuspan::proxy
