// Tests launches of several program threads, submitted by several threads of the proxy: the order
// of streams, errors and waits are those of a single thread.
#include <map>
#include <random>

#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

class SubmittersTest : public ServerTest {
 protected:
  static constexpr unsigned kSubmitters = 2;
  // They never sleep: on a machine with few cores they would most of the time.
  SubmittersTest() : ServerTest({.most = kSubmitters, .poll_time = std::chrono::seconds(3600)}) {}

  // Launches of two program threads by turns, until the submitters take part.
  void BeginDelegating() {
    for (int i = 0; i < 100'000 && gpu.LaunchingThreads() <= kSubmitters; ++i) {
      for (std::uint32_t thread = 1; thread <= 2; ++thread) {
        PostAdd(streams[thread], Word(thread), 1, 1, thread);
        PostMark(thread);
        ++sums[thread];
      }
      for (std::uint32_t thread = 1; thread <= 2; ++thread) ASSERT_TRUE(AwaitMark(thread));
    }
    ASSERT_EQ(gpu.LaunchingThreads(), 1 + kSubmitters);
  }
  void PostMark(std::uint32_t thread) {
    client.Post(StreamMark{streams[thread], thread, marks[thread] += ChannelMark::kStep}, thread);
  }
  // A launch with a mark behind it.
  void PostMarkedAdd(std::uint32_t thread, std::uint32_t value) {
    const std::uint64_t arguments[] = {Word(thread), std::uint64_t{value} << 32 | 1};
    Launch launch{add(), streams[thread], {1, 1, 1}, {1, 1, 1}, 0, false, {}};
    launch.arguments = std::as_bytes(std::span(arguments));
    launch.mark = thread;
    launch.value = marks[thread] += ChannelMark::kStep;
    client.Post(launch, thread);
    sums[thread] += value;
  }
  bool Reached(std::uint32_t thread) const {
    return client.channel().marks().all()[thread].value.load() == marks[thread];
  }
  bool AwaitMark(std::uint32_t thread) { return ServerTest::AwaitMark(thread, marks[thread]); }
  // A launch of the last thread, then one of this thread: some are delegated.
  void PostAddByTurns(std::uint32_t thread, std::uint32_t value) {
    PostAdd(streams[3], Word(3), 1, 1, 3);
    PostAdd(streams[thread], Word(thread), 1, value, thread);
    sums[thread] += value;
  }
  std::uint64_t Word(std::uint32_t thread) const { return block + 64ULL * thread; }

  const std::uint64_t block = loopback.Map();
  // Numbered like the fake GPU's streams, from 1.
  std::array<std::uint64_t, 5> streams = {0, loopback.NewStream(), loopback.NewStream(),
                                          loopback.NewStream(), loopback.NewStream()};
  std::array<std::uint32_t, 5> sums{};
  std::array<std::uint32_t, 5> marks{};
};

TEST_F(SubmittersTest, OneThreadsLaunchesAreSubmittedByOne) {
  for (int i = 0; i < 1000; ++i) {
    PostAdd(streams[1 + i % 3], Word(1 + i % 3), 1, 1, 7);
    if (i % 10 == 0) {
      EXPECT_EQ(client.Call(StreamSynchronize{streams[1]}).result, CUDA_SUCCESS);
    }
  }
  EXPECT_EQ(ReadWord(streams[1], Word(1)), 334U);
  EXPECT_EQ(gpu.LaunchingThreads(), 1U);
}

TEST_F(SubmittersTest, SeveralThreadsLaunchesAreSubmittedBySeveral) {
  BeginDelegating();
  EXPECT_EQ(ReadWord(streams[1], Word(1)), sums[1]);
  EXPECT_EQ(ReadWord(streams[2], Word(2)), sums[2]);
}

// Random ops of four threads, each with its stream, against a sequential model. Ops between two
// streams are ordered by events in both directions.
TEST_F(SubmittersTest, RandomOpsKeepTheirOrder) {
  BeginDelegating();
  std::mt19937 random(1);
  std::array<std::uint64_t, 5> events{};
  std::array<std::uint64_t, 5> records{};
  for (std::uint64_t& event : events)
    client.Post(EventCreate{event = loopback.NewHandle(), CU_EVENT_DISABLE_TIMING});
  const std::uint64_t history = block + (1 << 16);
  constexpr std::uint32_t kHistory = 8192;
  std::vector<std::uint32_t> expected(kHistory);
  std::uint32_t recorded = 0;
  const auto remember = [&](std::uint64_t stream, std::uint32_t of) {
    client.Post(CopyOnDevice{stream, history + 4ULL * recorded, Word(of), 4});
    expected[recorded++] = sums[of];
  };
  const auto order = [&](std::uint32_t first, std::uint32_t second) {
    client.Post(EventRecord{events[first], streams[first], ++records[first]}, first);
    client.Post(StreamWaitEvent{streams[second], events[first], records[first]}, second);
  };
  for (int i = 0; recorded + 4 < kHistory; ++i) {
    const std::uint32_t thread = 1 + random() % 4;
    switch (random() % 16) {
      case 0:
        remember(streams[thread], thread);
        break;
      case 1: {
        const std::uint32_t other = 1 + (thread + random() % 3) % 4;
        if (other == thread) break;
        order(thread, other);
        remember(streams[other], thread);
        order(other, thread);
        break;
      }
      case 2:  // The legacy stream, between the other streams' ops.
        for (std::uint32_t of = 1; of <= 4; ++of) remember(0, of);
        break;
      case 3: {
        const std::uint32_t value = random();
        client.Post(Memset{streams[thread], Word(thread), value, 4, 1}, thread);
        sums[thread] = value;
        break;
      }
      case 4:
        client.Ask(StreamSynchronize{streams[thread]});
        break;
      case 6:
      case 7:
        PostMark(thread);
        break;
      case 5:
        client.Ask(MemoryInfo{});
        break;
      case 8:
      case 9:
      case 10:
        PostMarkedAdd(thread, random());
        break;
      default: {
        const std::uint32_t value = random();
        PostAdd(streams[thread], Word(thread), 1, value, thread);
        sums[thread] += value;
      }
    }
  }
  EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
  const std::vector<std::byte> bytes = Read(0, history, 4ULL * recorded);
  std::vector<std::uint32_t> found(recorded);
  std::memcpy(found.data(), bytes.data(), bytes.size());
  for (std::uint32_t i = 0; i < recorded; ++i) ASSERT_EQ(found[i], expected[i]) << "copy " << i;
  for (std::uint32_t thread = 1; thread <= 4; ++thread) EXPECT_TRUE(AwaitMark(thread));
  EXPECT_TRUE(client.Now().failures.empty());
}

TEST_F(SubmittersTest, LaunchesBringTheirMarks) {
  BeginDelegating();
  for (int i = 0; i < 1000; ++i) {
    for (std::uint32_t thread = 1; thread <= 2; ++thread) PostMarkedAdd(thread, 1);
    for (std::uint32_t thread = 1; thread <= 2; ++thread) ASSERT_TRUE(AwaitMark(thread));
  }
  EXPECT_EQ(ReadWord(streams[1], Word(1)), sums[1]);
  EXPECT_EQ(ReadWord(streams[2], Word(2)), sums[2]);
}

TEST_F(SubmittersTest, AFailedLaunchIsReportedBeforeTheMarkBehindIt) {
  const std::uint64_t refused = loopback.FindKernel(module(), "refused");
  BeginDelegating();
  for (std::size_t failed = 1; failed <= 100; ++failed) {
    PostAddByTurns(1, 1);
    PostLaunch(streams[2], refused, {}, 2);
    PostMark(2);
    ASSERT_TRUE(AwaitMark(2));
    // The message is in the ring; the client's thread may still have to take it.
    EXPECT_TRUE(
        client.Await([&](const Received& received) { return received.failures.size() == failed; }));
    const Received received = client.Now();
    EXPECT_EQ(received.failures.back().thread, 2U);
    EXPECT_EQ(received.failures.back().result, CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(ReadWord(streams[1], Word(1)), sums[1]);
}

TEST_F(SubmittersTest, AMarkBehindAFaultIsNotReached) {
  const std::uint64_t faults = loopback.FindKernel(module(), "faults");
  BeginDelegating();
  PostAddByTurns(1, 1);
  PostLaunch(streams[2], faults, {}, 2);
  PostMark(2);
  EXPECT_EQ(client.Call(StreamSynchronize{streams[2]}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  PostAddByTurns(1, 1);
  PostMark(1);
  EXPECT_EQ(client.Call(StreamSynchronize{streams[1]}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_FALSE(Reached(1));
  EXPECT_FALSE(Reached(2));
  EXPECT_EQ(client.Now().faults, std::vector<int>{CUDA_ERROR_ILLEGAL_ADDRESS});
}

TEST_F(SubmittersTest, AMarkIsBehindTheWorkBeforeAndNoLaterWork) {
  BeginDelegating();
  for (int number = 5; number < 25; ++number) {
    streams[1] = loopback.NewStream();
    EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);  // It exists.
    gpu.Hold(number);
    PostAddByTurns(1, 1);
    PostMark(1);
    PostAddByTurns(1, 1);
    EXPECT_EQ(client.Call(MemoryInfo{}).result, CUDA_SUCCESS);
    EXPECT_FALSE(Reached(1));
    gpu.LetNext(number, 2);  // The first launch, and the mark behind it.
    EXPECT_TRUE(AwaitMark(1));
    EXPECT_EQ(client.Call(StreamQuery{streams[1]}).result, CUDA_ERROR_NOT_READY);
    gpu.Let(number);
    EXPECT_EQ(ReadWord(streams[1], Word(1)), sums[1]);
  }
}

// A wait for all streams begins when the last op received before it is submitted. Delegated
// launches received meanwhile must not pass for complete.
TEST_F(SubmittersTest, AWaitForAllStreamsKnowsOfDelegatedLaunches) {
  BeginDelegating();
  for (std::uint64_t transfer = 1; transfer <= 200; ++transfer) {
    client.Post(CopyToDevice{streams[4], block + 4096, 4, transfer});
    const std::uint32_t waiting = client.Ask(DeviceSynchronize{});
    ASSERT_TRUE(client.AwaitClearToSend(transfer));
    gpu.Hold(2);
    PostAddByTurns(2, 1);
    client.SendChunks(transfer, Pattern(4, 1));
    EXPECT_EQ(client.Call(StreamQuery{streams[2]}).result, CUDA_ERROR_NOT_READY);
    gpu.Let(2);
    EXPECT_EQ(client.AwaitReply<DeviceSynchronize>(waiting).result, CUDA_SUCCESS);
  }
  EXPECT_EQ(ReadWord(streams[2], Word(2)), sums[2]);
}

TEST_F(SubmittersTest, AStreamAndAModuleGoAfterTheirLaunches) {
  BeginDelegating();
  for (int i = 0; i < 50; ++i) {
    streams[1] = loopback.NewStream();
    PostAddByTurns(1, 1);
    PostAddByTurns(2, 1);
    client.Post(StreamDestroy{streams[1]});
    const std::uint64_t unloaded = module();
    module_ = add_ = 0;
    client.Post(ModuleUnload{unloaded});
  }
  EXPECT_EQ(client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
  EXPECT_EQ(ReadWord(streams[2], Word(1)), sums[1]);
  EXPECT_TRUE(client.Now().failures.empty());
}

TEST_F(SubmittersTest, ASessionEndsBeforeItsMarks) {
  BeginDelegating();
  gpu.Hold(1);
  PostAddByTurns(1, 1);
  PostMark(1);
}

}  // namespace
}  // namespace cuspan::proxy
