// Exchange of file descriptors between processes of a run on one node. Each proxy listens on its
// own socket. Peers with the run's secret receive the descriptor of any memory of its device. The
// client passes the descriptors of files to be read and written by the proxy.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "protocol/api/file_status.h"
#include "protocol/channel/reception.h"
#include "proxy/gpu/mappings.h"
#include "proxy/gpu/reservations.h"

namespace cuspan::proxy {

// Listening socket of a proxy.
struct ExchangeSocket {
  static Result<ExchangeSocket> Open(const Key128& secret);
  Reception reception;
  std::string address;
  Key128 secret;
};

// Answers peers on a thread of its own until it is destroyed.
class Exchange {
 public:
  // Takes a file of the client, with the client's number. Called on the exchange's thread, with the
  // device's context.
  using ShareFile = std::function<FileStatus(std::uint64_t number, UniqueFd fd)>;

  // All references outlive it.
  Exchange(ExchangeSocket socket, const Device& device, Mappings& mappings,
           Reservations& reservations, ShareFile share_file);
  ~Exchange();
  Exchange(const Exchange&) = delete;

 private:
  void Loop(const Device& device);
  // True if the connected process belongs to this run.
  bool Knows(const Reception::Arrival& arrival) const;
  // Answers the next request, if one has arrived. Returns false if the connection is to be closed.
  bool Serve(ControlSocket& socket);

  ExchangeSocket socket_;
  Mappings& mappings_;
  Reservations& reservations_;
  const ShareFile share_file_;
  UniqueFd ending_;  // Readable at the end.
  std::thread thread_;
};

}  // namespace cuspan::proxy
