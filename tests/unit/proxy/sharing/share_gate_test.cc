// Tests a session sharing its GPU with another run. The test acts as the other run.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "protocol/sharing/share_table.h"
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

class ShareGateTest : public ::testing::Test {
 protected:
  ShareGateTest() {
    char name[] = "/dev/shm/cuspan-test-XXXXXX";
    folder = ::mkdtemp(name);
    // Times of the fake GPU are not kept.
    ::setenv("CUSPAN_KERNEL_TIMES", "off", 1);
  }
  ~ShareGateTest() override {
    if (server) {
      EXPECT_TRUE(server->loopback.End().ok());
      EXPECT_EQ(server->client.Now().wrong, "");
    }
    server.reset();
    own.reset();
    other_seat.reset();
    other.reset();
    std::filesystem::remove_all(folder);
  }

  struct Server {
    explicit Server(std::unique_ptr<ShareSlot> slot)
        : loopback(gpu.driver(), Loopback::SmallLayout(), std::move(slot)),
          client(loopback.client()) {
      block = loopback.Map();
      stream = loopback.NewStream();
      const std::uint64_t module = loopback.LoadModule(AnyImage());
      add = loopback.FindKernel(module, "add");
      faults = loopback.FindKernel(module, "faults");
    }
    void PostAdd(std::uint64_t of, std::uint64_t address, std::uint32_t value) {
      std::vector<std::byte> arguments(16);
      const std::uint32_t count = 1;
      std::memcpy(arguments.data(), &address, 8);
      std::memcpy(arguments.data() + 8, &count, 4);
      std::memcpy(arguments.data() + 12, &value, 4);
      client.Post(Launch{add, of, {1, 1, 1}, {1, 1, 1}, 0, false, arguments});
    }
    std::size_t Added() const { return Count(gpu.Log(), "add 1"); }

    FakeGpu gpu;
    Loopback loopback;
    TestClient& client;
    std::uint64_t block = 0, stream = 0, add = 0, faults = 0;
  };

  std::unique_ptr<ShareTable> Join(const std::string& run, std::int32_t niceness) {
    Result<ShareTable> table = ShareTable::OpenOrCreate(folder, "host", "gpu");
    EXPECT_TRUE(table.ok()) << table.status().message();
    ShareTerms terms;
    terms.shared = true;
    terms.niceness = niceness;
    terms.most_runs = 4;
    EXPECT_TRUE(table->JoinRun(run, "u", "p", terms).ok());
    return std::make_unique<ShareTable>(std::move(*table));
  }
  static std::unique_ptr<ShareSlot> Slot(ShareTable& table, const std::string& run) {
    return std::move(*ShareSlot::Take(std::move(*table.OpenAgain()), *table.FindRun(run)));
  }
  void Start(std::int32_t niceness = 0) {
    own = Join("own", niceness);
    server.emplace(Slot(*own, "own"));
  }
  // Starts the other run. It has the GPU from now on.
  void OtherBegins(std::int32_t niceness = -10) {
    if (other == nullptr) other = Join("other", niceness);
    if (other_seat == nullptr) other_seat = Slot(*other, "other");
    other_seat->SetWants();
    ASSERT_TRUE(other_seat->Decide().ok());
    ASSERT_TRUE(other_seat->open());
    other_seat->SetOnGpu(true, 0, ShareSlot::Now());
  }
  // Waits until the session knows of the other run: with its reply to the second query.
  void Notice() {
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(server->client.Call(StreamQuery{server->stream}).result, CUDA_SUCCESS);
  }
  void OtherEnds() {
    other_seat->SetIdle(ShareSlot::Now());
    ASSERT_TRUE(other_seat->Decide().ok());
  }
  std::string folder;
  std::unique_ptr<ShareTable> own, other;
  std::unique_ptr<ShareSlot> other_seat;
  std::optional<Server> server;
};

TEST_F(ShareGateTest, AloneNothingIsHeldUp) {
  Start();
  for (int i = 0; i < 5000; ++i) server->PostAdd(server->stream, server->block, 1);
  EXPECT_EQ(server->client.Call(StreamSynchronize{server->stream}).result, CUDA_SUCCESS);
  EXPECT_EQ(server->Added(), 5000U);
}

TEST_F(ShareGateTest, WorkWaitsForTheTurnAndCopiesDoNot) {
  Start();
  OtherBegins();
  Notice();
  const std::uint64_t copies = server->loopback.NewStream(CU_STREAM_NON_BLOCKING);
  server->PostAdd(server->stream, server->block, 5);
  const std::uint32_t word = 7;
  server->client.Post(
      CopyToDeviceInline{copies, server->block + 4096, std::as_bytes(std::span(&word, 1))});
  EXPECT_EQ(server->client.Call(StreamSynchronize{copies}).result, CUDA_SUCCESS);
  EXPECT_EQ(server->client.Call(StreamQuery{server->stream}).result, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(server->Added(), 0U);
  OtherEnds();
  EXPECT_EQ(server->client.Call(StreamSynchronize{server->stream}).result, CUDA_SUCCESS);
  EXPECT_EQ(server->Added(), 1U);
}

TEST_F(ShareGateTest, FillsAndCopiesOnTheDeviceAreWork) {
  Start();
  OtherBegins();
  Notice();
  server->client.Post(Memset{server->stream, server->block, 1, 1, 4});
  const std::uint64_t second = server->loopback.NewStream(CU_STREAM_NON_BLOCKING);
  server->client.Post(CopyOnDevice{second, server->block + 64, server->block, 4});
  EXPECT_EQ(server->client.Call(StreamQuery{server->stream}).result, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(server->client.Call(StreamQuery{second}).result, CUDA_ERROR_NOT_READY);
  OtherEnds();
  EXPECT_EQ(server->client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
}

TEST_F(ShareGateTest, WhoMayBePreemptedHasLittleOnTheGpu) {
  Start(10);
  other = Join("other", -10);
  Notice();
  server->gpu.Hold(1);
  for (int i = 0; i < 200; ++i) server->PostAdd(server->stream, server->block, 1);
  EXPECT_EQ(server->client.Call(StreamQuery{server->stream}).result, CUDA_ERROR_NOT_READY);
  // Unknown kernels count as 100 µs each: two are submitted, and one more when the first is
  // overdue.
  EXPECT_LE(server->Added(), 4U);
  EXPECT_GE(server->Added(), 1U);
  server->gpu.LetAll();
  EXPECT_EQ(server->client.Call(StreamSynchronize{server->stream}).result, CUDA_SUCCESS);
  EXPECT_EQ(server->Added(), 200U);
}

TEST_F(ShareGateTest, TheGpuIsGivenToWhoIsMoreImportantAndComesBack) {
  Start(10);
  other = Join("other", -10);
  constexpr std::uint32_t kLaunches = 400;
  for (std::uint32_t i = 0; i < kLaunches / 2; ++i)
    server->PostAdd(server->stream, server->block, 1);
  OtherBegins();
  EXPECT_EQ(server->client.Call(MemoryMap{kWindow + (1 << 28), 1 << 20}).result, CUDA_SUCCESS);
  const std::size_t before = server->Added();
  for (std::uint32_t i = 0; i < kLaunches / 2; ++i)
    server->PostAdd(server->stream, server->block, 1);
  EXPECT_EQ(server->client.Call(StreamQuery{server->stream}).result, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(server->Added(), before) << "nothing goes while it is the other's turn";
  OtherEnds();
  EXPECT_EQ(server->client.Call(StreamSynchronize{server->stream}).result, CUDA_SUCCESS);
  EXPECT_EQ(server->Added(), kLaunches);
}

// Work submitted before the other run joined counts, too: the other waits for its end.
TEST_F(ShareGateTest, WorkFromBeforeIsOnTheGpu) {
  Start();
  server->gpu.Hold(1);
  server->PostAdd(server->stream, server->block, 1);
  ASSERT_TRUE(server->gpu.WaitForLog("add 1"));
  other = Join("other", 0);
  other_seat = Slot(*other, "other");
  // The reply to the second query shows that the session knows of the other run.
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(server->client.Call(StreamQuery{server->stream}).result, CUDA_ERROR_NOT_READY);
  other_seat->SetWants();
  ASSERT_TRUE(other_seat->Decide().ok());
  EXPECT_FALSE(other_seat->open());
  server->gpu.LetAll();
  EXPECT_EQ(server->client.Call(StreamSynchronize{server->stream}).result, CUDA_SUCCESS);
  const std::uint64_t since = ShareSlot::Now();
  while (!other_seat->open() && ShareSlot::Now() - since < 10'000'000'000)
    ASSERT_TRUE(other_seat->Decide().ok());
  EXPECT_TRUE(other_seat->open());
}

TEST_F(ShareGateTest, WhenTheOtherIsGoneEverythingPasses) {
  Start();
  OtherBegins();
  Notice();
  server->PostAdd(server->stream, server->block, 1);
  EXPECT_EQ(server->client.Call(StreamQuery{server->stream}).result, CUDA_ERROR_NOT_READY);
  other_seat.reset();
  other.reset();
  EXPECT_EQ(server->client.Call(StreamSynchronize{server->stream}).result, CUDA_SUCCESS);
}

TEST_F(ShareGateTest, AFaultEndsTheSessionAloneAndItsTurn) {
  Start();
  other = Join("other", 0);
  other_seat = Slot(*other, "other");
  server->client.Post(Launch{server->faults, server->stream, {1, 1, 1}, {1, 1, 1}, 0, false, {}});
  EXPECT_NE(server->client.Call(StreamSynchronize{server->stream}).result, CUDA_SUCCESS);
  server->PostAdd(server->stream, server->block, 1);
  EXPECT_NE(server->client.Call(DeviceSynchronize{}).result, CUDA_SUCCESS);
  other_seat->SetWants();
  const std::uint64_t since = ShareSlot::Now();
  while (!other_seat->open() && ShareSlot::Now() - since < 10'000'000'000)
    ASSERT_TRUE(other_seat->Decide().ok());
  EXPECT_TRUE(other_seat->open());
}

TEST_F(ShareGateTest, ASessionThatEndsWhileItWaitsEnds) {
  Start();
  OtherBegins();
  for (int i = 0; i < 100; ++i) server->PostAdd(server->stream, server->block, 1);
}

}  // namespace
}  // namespace cuspan::proxy
