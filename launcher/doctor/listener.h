// Test of TCP connections between hosts, like those of agents: a probe listens, the others connect.
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

// Uses the kernel's random numbers.
Result<Passwords> RandomPasswords();

// Answers clients with the password, in threads of its own, until destroyed. Other clients receive
// nothing.
class Listener {
 public:
  static Result<std::unique_ptr<Listener>> Open(const Passwords& passwords);
  ~Listener();
  // Addresses for other hosts.
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

// Connects to all targets concurrently, and exchanges some kilobytes with each.
std::vector<Reached> ReachAll(const std::vector<Target>& targets);

// Measures the bytes per second to a target, for some tenths of a second at most. Stops early at
// `enough` bytes per second.
Reached Measure(const Target& target, double enough);

}  // namespace cuspan::doctor
