#include "proxy/exchange.h"

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
  Result<ControlListener> listener = ControlListener::Listen(address);
  if (!listener.ok()) return listener.status();
  return ExchangeSocket{std::move(*listener), std::move(address), secret};
}

Exchange::Exchange(ExchangeSocket socket, const Device& device, Mappings& mappings)
    : socket_(std::move(socket)),
      mappings_(mappings),
      ending_(::eventfd(0, EFD_CLOEXEC)),
      thread_([this, &device] { Loop(device); }) {}

Exchange::~Exchange() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(ending_.get(), &one, sizeof one));
  thread_.join();
}

void Exchange::Loop(const Device& device) {
  if (const Status status = device.MakeCurrent(); !status.ok()) LogError("{}", status.message());
  struct Connection {
    ControlSocket socket;
    bool greeted = false;
  };
  std::deque<Connection> connections;
  std::vector<pollfd> watched;
  for (;;) {
    watched.clear();
    watched.push_back({ending_.get(), POLLIN, 0});
    watched.push_back({socket_.listener.fd(), POLLIN, 0});
    for (const Connection& connection : connections)
      watched.push_back({connection.socket.fd(), POLLIN, 0});
    if (::poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[0].revents != 0) return;
    std::size_t place = 2;
    std::erase_if(connections, [&](Connection& connection) {
      return watched[place++].revents != 0 && !Serve(connection.socket, connection.greeted);
    });
    if (watched[1].revents == 0) continue;
    Result<std::optional<ControlSocket>> accepted = socket_.listener.TryAccept();
    if (!accepted.ok())
      LogInfo("a proxy is refused: {}", accepted.status().message());
    else if (accepted->has_value())
      connections.push_back({std::move(**accepted)});
  }
}

bool Exchange::Serve(ControlSocket& socket, bool& greeted) {
  for (;;) {
    Result<std::optional<ControlSocket::Message>> message = socket.TryReceive();
    if (!message.ok()) return false;  // It has left, or is none of ours.
    if (!message->has_value()) return true;
    const Frame& frame = (*message)->frame;
    if (!greeted) {
      const Result<PeerHello> hello = ParseMessage<PeerHello>(frame);
      if (!hello.ok() || hello->secret != socket_.secret || hello->table_hash != kOpTableHash)
        return false;
      greeted = true;
      continue;
    }
    const Result<PeerExport> wanted = ParseMessage<PeerExport>(frame);
    if (!wanted.ok()) return false;
    UniqueFd file;
    const CUresult result = mappings_.Export(wanted->address, wanted->bytes, &file);
    const int fds[] = {file.get()};
    if (!socket.Send(PeerExported{result}, std::span(fds, file.valid() ? 1 : 0)).ok()) return false;
  }
}

}  // namespace cuspan::proxy
