// Whether hosts reach each other by TCP, as agents do: a probe listens, the others connect.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/status.h"
#include "launcher/doctor/facts.h"
#include "protocol/network/sockets.h"

namespace cuspan::doctor {

// From the kernel's random numbers.
Result<Passwords> RandomPasswords();

// Answers those who know the password, in threads of its own, until it ends. Others are told
// nothing.
class Listener {
 public:
  static Result<std::unique_ptr<Listener>> Open(const Passwords& passwords);
  ~Listener();
  // Where, for other hosts.
  const std::vector<std::string>& places() const { return places_; }

 private:
  Listener(net::Listener listener, std::shared_ptr<net::Interrupt> interrupt, Passwords passwords,
           std::vector<std::string> places);
  void Listen();

  const net::Listener listener_;
  const std::shared_ptr<net::Interrupt> interrupt_;
  const Passwords passwords_;
  const std::vector<std::string> places_;
  std::thread thread_;
};

// Connects to each at the same time, and passes some kilobytes to and fro.
std::vector<Reached> ReachAll(const std::vector<Target>& targets);

// Measures how many bytes a second get to a target, for some tenths of a second at most. A link of
// `enough` bytes a second is not looked at for longer.
Reached Measure(const Target& target, double enough);

}  // namespace cuspan::doctor
