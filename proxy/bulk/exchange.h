// Access to device memory of other proxies on the same node. Each proxy listens on its own socket.
// Peers with the run's secret receive the file descriptor of any memory of its device.
#pragma once

#include <string>
#include <thread>

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
  // All references outlive it.
  Exchange(ExchangeSocket socket, const Device& device, Mappings& mappings,
           Reservations& reservations);
  ~Exchange();
  Exchange(const Exchange&) = delete;

 private:
  void Loop(const Device& device);
  // True if the connected process is a proxy of this run.
  bool Knows(const Reception::Arrival& arrival) const;
  // Answers the next request, if one has arrived. Returns false if the connection is to be closed.
  bool Serve(ControlSocket& socket);

  ExchangeSocket socket_;
  Mappings& mappings_;
  Reservations& reservations_;
  UniqueFd ending_;  // Readable at the end.
  std::thread thread_;
};

}  // namespace cuspan::proxy
