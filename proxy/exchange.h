// How proxies of one node reach each other's device memory: each answers on a
// socket of its own, and gives those who know the run's secret the file of any
// piece of memory that its device has.
#pragma once

#include <string>
#include <thread>

#include "protocol/channel/socket.h"
#include "proxy/gpu/mappings.h"

namespace cuspan::proxy {

// Where a proxy answers.
struct ExchangeSocket {
  static Result<ExchangeSocket> Open(const Key128& secret);
  ControlListener listener;
  std::string address;
  Key128 secret;
};

// Answers until its end, on a thread of its own.
class Exchange {
 public:
  // All three outlive it.
  Exchange(ExchangeSocket socket, const Device& device, Mappings& mappings);
  ~Exchange();
  Exchange(const Exchange&) = delete;

 private:
  void Loop(const Device& device);
  // Answers what has come; false when the connection is to be closed.
  bool Serve(ControlSocket& socket, bool& greeted);

  ExchangeSocket socket_;
  Mappings& mappings_;
  UniqueFd ending_;  // Readable at the end.
  std::thread thread_;
};

}  // namespace cuspan::proxy
