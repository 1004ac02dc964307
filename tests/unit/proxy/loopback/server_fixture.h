// A session over the fake GPU, with the kernel "add" and helpers to post ops.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/unit/proxy/loopback/fake_gpu.h"
#include "tests/unit/proxy/loopback/loopback.h"

namespace cuspan::proxy {

// Number of times the entry is in the log.
inline std::size_t Count(const std::vector<std::string>& log, const std::string& entry) {
  return static_cast<std::size_t>(std::count(log.begin(), log.end(), entry));
}

class ServerTest : public ::testing::Test {
 protected:
  explicit ServerTest(SubmitterThreads submitters = {})
      : loopback(gpu.driver(), Loopback::SmallLayout(), nullptr, submitters) {}
  void TearDown() override {
    if (expect_end_ok_) {
      const Status end = loopback.End();
      EXPECT_TRUE(end.ok()) << end.message();
    }
    EXPECT_EQ(client.Now().wrong, "");
  }

  // Launches `add`: increases `count` elements from `address` by `value`.
  void PostAdd(std::uint64_t stream, std::uint64_t address, std::uint32_t count,
               std::uint32_t value, std::uint32_t thread = 0) {
    std::vector<std::byte> arguments(16);
    std::memcpy(arguments.data(), &address, 8);
    std::memcpy(arguments.data() + 8, &count, 4);
    std::memcpy(arguments.data() + 12, &value, 4);
    PostLaunch(stream, add(), arguments, thread);
  }
  void PostLaunch(std::uint64_t stream, std::uint64_t kernel,
                  const std::vector<std::byte>& arguments = {}, std::uint32_t thread = 0) {
    client.Post(Launch{kernel, stream, {1, 1, 1}, {1, 1, 1}, 0, false, arguments}, thread);
  }
  std::uint64_t module() {
    if (module_ == 0) module_ = loopback.LoadModule(AnyImage());
    return module_;
  }
  std::uint64_t add() {
    if (add_ == 0) add_ = loopback.FindKernel(module(), "add");
    return add_;
  }
  // Reads device memory through a copy in this stream.
  std::vector<std::byte> Read(std::uint64_t stream, std::uint64_t address, std::uint64_t bytes) {
    std::vector<std::byte> copy(bytes);
    const std::uint64_t transfer = loopback.NewHandle();
    client.ReceiveTo(transfer, copy.data());
    client.Post(CopyFromDevice{stream, address, bytes, transfer});
    const StreamSynchronize::Reply reply = client.Call(StreamSynchronize{stream});
    EXPECT_EQ(reply.result, CUDA_SUCCESS);
    EXPECT_TRUE(client.Await(
        [&](const Received& received) { return received.chunks.size() >= reply.chunks; }));
    return copy;
  }
  std::uint32_t ReadWord(std::uint64_t stream, std::uint64_t address) {
    std::uint32_t word = 0;
    std::memcpy(&word, Read(stream, address, sizeof word).data(), sizeof word);
    return word;
  }
  // Waits until the mark has `value`, and perhaps flags; false after a time-out.
  bool AwaitMark(std::uint32_t mark, std::uint32_t value) {
    const auto reached = [&] {
      return client.channel().marks().all()[mark].value.load() - value < ChannelMark::kStep;
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!reached() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return reached();
  }
  bool AwaitReached(std::uint64_t event, std::uint64_t record) {
    return client.Await([=](const Received& received) {
      for (const EventReached& reached : received.reached)
        if (reached.event == event && reached.record == record) return true;
      return false;
    });
  }

  FakeGpu gpu;
  Loopback loopback;
  TestClient& client = loopback.client();
  bool expect_end_ok_ = true;
  std::uint64_t module_ = 0;
  std::uint64_t add_ = 0;
};

}  // namespace cuspan::proxy
