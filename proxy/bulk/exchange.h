// How proxies of one node reach each other's device memory: each answers on a
// socket of its own, and gives those who know the run's secret the file of any
// piece of memory that its device has.
#pragma once

#include <string>
#include <thread>

#include "protocol/channel/reception.h"
#include "proxy/gpu/mappings.h"
#include "proxy/gpu/reservations.h"

namespace cuspan::proxy {

// Where a proxy answers.
struct ExchangeSocket {
  static Result<ExchangeSocket> Open(const Key128& secret);
  Reception reception;
  std::string address;
  Key128 secret;
};

// Answers until its end, on a thread of its own.
class Exchange {
 public:
  // All outlive it.
  Exchange(ExchangeSocket socket, const Device& device, Mappings& mappings,
           Reservations& reservations);
  ~Exchange();
  Exchange(const Exchange&) = delete;

 private:
  void Loop(const Device& device);
  // Whether it is a proxy of the run that has arrived.
  bool Knows(const Reception::Arrival& arrival) const;
  // Answers the next request, if it has come; false when the connection is to be closed.
  bool Serve(ControlSocket& socket);

  ExchangeSocket socket_;
  Mappings& mappings_;
  Reservations& reservations_;
  UniqueFd ending_;  // Readable at the end.
  std::thread thread_;
};

}  // namespace cuspan::proxy
