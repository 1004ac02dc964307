// The agents of a run in this process, each with a thread, over the network of relay tests. Their
// proxies are fake (fake_proxy.cc). The test is the launcher, and the programs.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/agent/head_agent.h"
#include "launcher/agent/worker_agent.h"
#include "protocol/channel/reception.h"
#include "tests/raw_client.h"
#include "tests/unit/launcher/agent/relay/network.h"

namespace cuspan {

// Paths and environment of the agents' fake proxies.
inline InstallPaths FakePaths() {
  InstallPaths paths;
  paths.proxy = FAKE_PROXY;
  return paths;
}
inline Environment FakeNode(int devices) {
  Environment environment;
  environment.Set("FAKE_SOFT", std::to_string(devices));
  return environment;
}

// Options of an agent as set by `cuspan run`: nodes are different ones, although all agents of the
// test have one host name.
inline AgentOptions OptionsOfRun() {
  AgentOptions options;
  options.device = "soft";
  options.same_node = SameNode::kNever;
  options.request.all = true;
  options.request.wait_seconds = 0;
  return options;
}

// Call it on the thread of the agent.
inline void RunWorker(Network& network, std::uint32_t rank, std::uint32_t agents,
                      const Environment& environment) {
  const AgentThread::Scope role(agent_thread);
  const std::unique_ptr<Transport> transport = network.Join(rank, agents);
  InventoryQuery inventory(FAKE_PROXY, environment, "soft", false);
  auto worker = WorkerAgent::Create(OptionsOfRun(), FakePaths(), environment,
                                    AgentLinks{transport.get(), agents, {}});
  ASSERT_TRUE(worker.ok()) << worker.status().message();
  if ((*worker)->Meet(nullptr, inventory))
    (*worker)->Serve();
  else
    (*worker)->Leave();
}

// The launcher's connection to its head agent.
class FakeLauncher {
 public:
  explicit FakeLauncher(const RunKey& key)
      : key_(key), reception_(*Reception::Listen(key.LauncherAddress())) {}

  // Waits for the head agent. `hello` is the answer to it.
  void Admit(const LauncherHello& hello) {
    std::optional<Reception::Arrival> arrival;
    while (!(arrival = reception_.Next())) {
      pollfd waited{reception_.fd(), POLLIN, 0};
      ::poll(&waited, 1, -1);
    }
    const Result<HeadJoin> join = ParseMessage<HeadJoin>(arrival->first.frame);
    ASSERT_TRUE(join.ok());
    EXPECT_TRUE(SameSecret(join->secret, key_.secret));
    socket_.emplace(std::move(arrival->socket));
    ASSERT_TRUE(socket_->Send(hello).ok());
  }
  void Admit() { Admit({key_.secret, kOpTableHash}); }

  template <typename T>
  Result<T> Expect() {
    return socket_->Expect<T>(kLimit);
  }
  template <typename T>
  void Send(const T& message) {
    EXPECT_TRUE(socket_->Send(message).ok());
  }
  void HangUp() { socket_.reset(); }

 private:
  const RunKey& key_;
  Reception reception_;
  std::optional<ControlSocket> socket_;
};

// A whole run: the head agent, and as many workers as `workers`. Each node has `devices` devices.
class Agents {
 public:
  struct Setup {
    std::uint32_t workers = 0;
    int devices = 1;
    std::uint32_t fake_workers = 0;  // Further agents, played by the test.
    AgentOptions head = OptionsOfRun();
    Environment environment = {};  // Added to the proxies' environment.
  };
  explicit Agents(Setup setup)
      : setup_(std::move(setup)), agents_(1 + setup_.workers + setup_.fake_workers) {
    // A head agent with workers serves devices only on request.
    if (!setup_.head.serve && agents_ > 1) setup_.head.serve = kAllDevices;
    threads_.emplace_back([this] { RunHead(); });
    for (std::uint32_t rank = 1; rank <= setup_.workers; ++rank)
      threads_.emplace_back([this, rank] { RunWorker(network_, rank, agents_, Node()); });
  }
  ~Agents() { End(); }
  Agents(const Agents&) = delete;

  // Ends the run as a launcher that is gone, and waits for the agents.
  void End() {
    launcher_.HangUp();
    Join();
  }
  void Join() {
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
  }

  // Admits the head agent and waits for the list of devices.
  Result<RunReady> Ready() {
    launcher_.Admit();
    return launcher_.Expect<RunReady>();
  }
  RawClient Program() const { return {key_.Address(), key_.secret}; }

  const RunKey& key() const { return key_; }
  FakeLauncher& launcher() { return launcher_; }
  Network& network() { return network_; }
  std::uint32_t count() const { return agents_; }
  // Error of the head agent's start; valid after End.
  const Status& failure() const { return failure_; }

 private:
  Environment Node() const {
    Environment environment = FakeNode(setup_.devices);
    for (const std::string& entry : setup_.environment.entries()) {
      const std::size_t equals = entry.find('=');
      environment.Set(entry.substr(0, equals), entry.substr(equals + 1));
    }
    return environment;
  }
  void RunHead() {
    const AgentThread::Scope role(agent_thread);
    std::unique_ptr<Transport> transport;
    AgentLinks links;
    if (agents_ > 1) {
      transport = network_.Join(0, agents_);
      links = {transport.get(), agents_, {}};
    }
    InventoryQuery inventory(FAKE_PROXY, Node(), "soft", false);
    auto head =
        HeadAgent::Create(setup_.head, FakePaths(), Node(), key_, std::move(links), inventory);
    ASSERT_TRUE(head.ok()) << head.status().message();
    failure_ = (*head)->JoinLauncher();
    if (!failure_.ok()) return;
    failure_ = (*head)->FindDevices();
    if (failure_.ok()) (*head)->Serve(nullptr);
    (*head)->Shutdown();
  }

  Setup setup_;
  const std::uint32_t agents_;
  const RunKey key_ = *RunKey::Random();
  FakeLauncher launcher_{key_};
  Network network_;
  Status failure_ = Status::Ok();
  std::vector<std::thread> threads_;
};

}  // namespace cuspan
