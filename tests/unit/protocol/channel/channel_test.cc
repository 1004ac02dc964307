#include "protocol/channel/channel.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/settings.h"
#include "tests/unit/protocol/channel/ends.h"

namespace cuspan {
namespace {

DeviceOutput Output(const std::vector<std::byte>& data) {
  DeviceOutput message;
  message.data = data;
  return message;
}

// Payload bytes of the largest DeviceOutput: its flag and the count follow the header.
constexpr std::size_t kLargestOutput =
    kMaxFrameBytes - sizeof(FrameHeader) - sizeof(std::uint8_t) - sizeof(std::uint32_t);

TEST(Channel, CarriesMessagesBothWays) {
  ChannelEnds ends;
  ModuleLoad call;
  call.module = 77;
  const std::uint64_t sequence = ends.client->Post(call, 5);
  EXPECT_GT(sequence, 0U);
  {
    const Result<std::optional<Frame>> frame = ends.proxy->Peek();
    ASSERT_TRUE(frame.ok() && frame->has_value());
    EXPECT_EQ((*frame)->header.sequence, sequence);
    EXPECT_EQ((*frame)->header.request, 5U);
    EXPECT_FALSE((*frame)->header.is_reply());
    const Result<ModuleLoad> message = ParseMessage<ModuleLoad>(**frame);
    ASSERT_TRUE(message.ok());
    EXPECT_EQ(message->module, 77U);
    ends.proxy->Pop();
  }
  ModuleLoad::Reply reply;
  reply.result = -3;
  EXPECT_GT(ends.proxy->Reply<ModuleLoad>(5, reply), 0U);
  const Result<std::optional<Frame>> frame = ends.client->Peek();
  ASSERT_TRUE(frame.ok() && frame->has_value());
  EXPECT_TRUE((*frame)->header.is_reply());
  EXPECT_EQ((*frame)->op(), Op::kModuleLoad);
  EXPECT_EQ((*frame)->header.request, 5U);
  ModuleLoad::Reply received;
  ASSERT_TRUE(DecodeFrom((*frame)->payload, received));
  EXPECT_EQ(received.result, -3);
  ends.client->Pop();
}

// A socket in the place of the agent at the other end of a route.
class FarAgent {
 public:
  FarAgent() : fd_(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address_;
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address_), bytes), 0);
    EXPECT_EQ(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address_), &bytes), 0);
  }
  FarWake wake() const {
    constexpr std::byte kText[] = {std::byte{'w'}, std::byte{'a'}, std::byte{'k'}};
    return FarWake::Of(std::as_bytes(std::span(&address_, 1)), kText);
  }
  // The datagram arrived first; empty if there is none. Over the loopback it arrives at once.
  std::string Take() {
    char text[64];
    const ssize_t bytes = ::recv(fd_.get(), text, sizeof text, 0);
    return bytes < 0 ? "" : std::string(text, static_cast<std::size_t>(bytes));
  }

 private:
  const UniqueFd fd_;
  sockaddr_in address_{};
};

TEST(Channel, AClientWakesBothAgentsIfItsOwnOneSleeps) {
  ChannelEnds ends;
  FarAgent agent;
  ends.proxy->ahead().SetFarWake(agent.wake());
  ends.client->Post(Fence{});
  EXPECT_EQ(agent.Take(), "") << "nobody sleeps";
  ends.proxy_bell.BeginSleep();
  ends.client->Post(Fence{});
  EXPECT_EQ(agent.Take(), "wak");
  ends.client->Post(Fence{});
  EXPECT_EQ(agent.Take(), "") << "woken already";
  ends.client_bell.BeginSleep();
  ends.proxy->Post(DeviceOutput{});
  EXPECT_EQ(agent.Take(), "") << "the other direction";
}

TEST(Channel, WithoutAFarAgentItWakesTheNearOne) {
  ChannelEnds ends;
  ends.proxy_bell.BeginSleep();
  const std::uint32_t rung = ends.proxy_bell.rung();
  EXPECT_NE(ends.client->Post(Fence{}), 0U);
  EXPECT_NE(ends.proxy_bell.rung(), rung);
}

TEST(Channel, AnAgentLearnsOnceThatTheFarOneWasWoken) {
  ChannelEnds ends;
  FarAgent agent;
  ends.proxy->ahead().SetFarWake(agent.wake());
  ends.proxy_bell.BeginSleep();
  ends.client->Post(Fence{});
  EXPECT_TRUE(ends.proxy->ahead().ConsumeFarWoken());
  EXPECT_FALSE(ends.proxy->ahead().ConsumeFarWoken());
}

TEST(FarWake, SurvivesGarbage) {
  FarAgent agent;
  FarWaker().Send(FarWake::Of({}, {}));
  const std::vector<std::byte> long_one(1000);
  EXPECT_EQ(FarWake::Of(long_one, {}).address_bytes, 0U);
  EXPECT_EQ(FarWake::Of({}, long_one).address_bytes, 0U);
  FarWake wake = agent.wake();
  wake.address_bytes = wake.datagram_bytes = ~0U;
  FarWaker().Send(wake);
  wake = agent.wake();
  wake.address[0] = std::byte{77};  // The family.
  FarWaker().Send(wake);
  EXPECT_EQ(agent.Take().substr(0, 3), "wak") << "too long a length is cut";
}

TEST(FarWake, ASocketClosedByTheProgramIsReplacedAndNoOtherFileUsed) {
  FarAgent agent;
  // The descriptors of this process, in the range of the library's.
  const auto sockets = [] {
    std::vector<int> found;
    for (int fd = 500; fd < 700; ++fd) {
      struct stat file {};
      if (::fstat(fd, &file) == 0 && S_ISSOCK(file.st_mode)) found.push_back(fd);
    }
    return found;
  };
  const std::vector<int> before = sockets();
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_NONBLOCK), 0);
  {
    FarWaker waker;
    waker.Send(agent.wake());
    EXPECT_EQ(agent.Take(), "wak");
    std::vector<int> after = sockets();
    ASSERT_EQ(after.size(), before.size() + 1);
    std::erase_if(
        after, [&](int fd) { return std::find(before.begin(), before.end(), fd) != before.end(); });
    ASSERT_EQ(::dup2(pipe[1], after[0]), after[0]);
    waker.Send(agent.wake());
    EXPECT_EQ(agent.Take(), "wak");
    char byte = 0;
    EXPECT_EQ(::read(pipe[0], &byte, 1), -1) << "written to the program's file";
    ::close(pipe[1]);
    pipe[1] = after[0];
  }
  EXPECT_EQ(::write(pipe[1], "x", 1), 1) << "the program's file was closed";
  EXPECT_EQ(sockets(), before);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(Channel, TellsWhenTheReceiverHasTakenAFrame) {
  ChannelEnds ends;
  std::atomic<int> taken = 0;
  std::thread receiver([&] {
    while (NextFrame(*ends.proxy)) {
      ++taken;
      ends.proxy->Pop();
    }
  });
  for (int i = 1; i <= 1000; ++i) {
    ends.client->Post(ModuleUnload{});
    ends.client->AwaitTaken(ends.client->Post(ModuleUnload{}), kForEver);
    EXPECT_GE(taken, 2 * i);
  }
  ends.client->Close(false);
  receiver.join();
}

TEST(Channel, DoesNotWaitForLaterFrames) {
  ChannelEnds ends;
  const std::uint64_t first = ends.client->Post(ModuleUnload{});
  ASSERT_TRUE(NextFrame(*ends.proxy));
  ends.proxy->Pop();
  ends.proxy->Flush();
  ends.client->Post(ModuleUnload{});
  ends.client->AwaitTaken(first, kForEver);
}

TEST(Channel, DoesNotWaitForAReceiverThatIsGone) {
  ChannelEnds ends;
  ends.client->Post(ModuleUnload{});
  const std::uint64_t second = ends.client->Post(ModuleUnload{});
  ends.proxy->Close(true);
  ends.client->AwaitTaken(second, kForEver);
}

TEST(Channel, IsEmptyAtFirst) {
  ChannelEnds ends;
  for (Channel* end : {ends.client.get(), ends.proxy.get()}) {
    EXPECT_FALSE(end->HasFrame());
    EXPECT_FALSE(end->Peek()->has_value());
    EXPECT_FALSE(end->closed());
    EXPECT_FALSE(end->lost());
    EXPECT_EQ(end->statistics().ops[Launch::kIndex], 0U);
  }
}

TEST(Channel, SequencesGrow) {
  ChannelEnds ends;
  std::uint64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t sequence = ends.client->Post(DeviceFault{});
    EXPECT_GT(sequence, last);
    last = sequence;
  }
}

TEST(Channel, CarriesTheLargestFrameAndNoLarger) {
  ChannelEnds ends;
  std::vector<std::byte> data(kLargestOutput, std::byte{3});
  EXPECT_GT(ends.client->Post(Output(data)), 0U);
  const Result<std::optional<Frame>> frame = ends.proxy->Peek();
  ASSERT_TRUE(frame.ok() && frame->has_value());
  EXPECT_EQ(ParseMessage<DeviceOutput>(**frame)->data.size(), kLargestOutput);
  ends.proxy->Pop();
  data.push_back(std::byte{3});
  EXPECT_EQ(ends.client->Post(Output(data)), 0U);
  EXPECT_FALSE(ends.proxy->HasFrame());
}

// --- Relayed frames

TEST(Channel, TryPostPassesAFrameOnAsItIs) {
  ChannelEnds ends;
  const std::vector<std::byte> payload(200, std::byte{9});
  FrameHeader header;
  header.op = static_cast<std::uint16_t>(Op::kLaunch);
  header.request = 11;
  header.sequence = 12345678;
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  ASSERT_TRUE(ends.client->TryPost(header, payload));
  const Result<std::optional<Frame>> frame = ends.proxy->Peek();
  ASSERT_TRUE(frame.ok() && frame->has_value());
  EXPECT_EQ(std::memcmp(&(*frame)->header, &header, sizeof header), 0);
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), (*frame)->payload.begin(),
                         (*frame)->payload.end()));
}

TEST(Channel, TryPostAnswersInsteadOfWaiting) {
  ChannelEnds ends;
  const FrameHeader header;
  while (ends.client->TryPost(header, {})) {
  }
  EXPECT_FALSE(ends.client->HasRoom(sizeof header));
  // All accepted frames are in the ring.
  std::size_t taken = 0;
  while (ends.proxy->Peek()->has_value()) {
    ends.proxy->Pop();
    ++taken;
  }
  EXPECT_EQ(taken, kSmallLayout.ring_slots);
  EXPECT_TRUE(ends.client->HasRoom(sizeof header));
  EXPECT_TRUE(ends.client->TryPost(header, {}));
  ends.client->Close(false);
  EXPECT_FALSE(ends.client->TryPost(header, {}));
}

TEST(Channel, TryPostRefusesAFrameThatIsTooLarge) {
  ChannelEnds ends;
  FrameHeader header;
  for (const std::size_t bytes :
       {kMaxFrameBytes - sizeof header + 1, std::size_t{kMaxControlBytes}}) {
    const std::vector<std::byte> payload(bytes);
    header.payload_bytes = static_cast<std::uint32_t>(bytes);
    EXPECT_FALSE(ends.client->TryPost(header, payload));
  }
  EXPECT_FALSE(ends.proxy->HasFrame());
}

// --- Staging slots

TEST(Channel, SlotsAreEachHandedOutOnce) {
  for (const std::uint32_t slots : {1U, 4U, 63U, 64U}) {
    ChannelEnds ends({2048, slots, 4096});
    std::set<std::uint32_t> taken;
    for (std::uint32_t i = 0; i < slots; ++i) {
      const std::optional<std::uint32_t> slot = ends.client->TryAcquireSlot();
      ASSERT_TRUE(slot);
      EXPECT_LT(*slot, slots);
      EXPECT_TRUE(taken.insert(*slot).second) << "slot " << *slot << " twice";
    }
    EXPECT_FALSE(ends.client->TryAcquireSlot());
    // The other direction has its own.
    EXPECT_TRUE(ends.proxy->TryAcquireSlot());
  }
}

TEST(Channel, SlotsComeBackInAnyOrder) {
  ChannelEnds ends;
  std::vector<std::uint32_t> taken;
  while (const std::optional<std::uint32_t> slot = ends.client->TryAcquireSlot())
    taken.push_back(*slot);
  ends.proxy->ReleaseSlot(taken[2]);
  EXPECT_EQ(ends.client->TryAcquireSlot(), taken[2]);
  EXPECT_FALSE(ends.client->TryAcquireSlot());
  ends.proxy->ReleaseSlot(taken[3]);
  ends.proxy->ReleaseSlot(taken[0]);
  EXPECT_TRUE(ends.client->AcquireSlot());
  EXPECT_TRUE(ends.client->AcquireSlot());
  EXPECT_FALSE(ends.client->TryAcquireSlot());
  ends.client->ReturnSlot(taken[1]);
  EXPECT_EQ(ends.client->AcquireSlot(), taken[1]);
}

TEST(Channel, SlotsShowTheSameBytesOnBothSides) {
  ChannelEnds ends;
  for (const auto& [sender, receiver] : {std::pair(ends.client.get(), ends.proxy.get()),
                                         std::pair(ends.proxy.get(), ends.client.get())}) {
    for (std::uint32_t i = 0; i < kSmallLayout.staging_slots; ++i) {
      const std::optional<std::uint32_t> slot = sender->TryAcquireSlot();
      ASSERT_TRUE(slot);
      std::memset(sender->OutgoingSlot(*slot), static_cast<int>(10 + *slot),
                  kSmallLayout.staging_bytes);
    }
    for (std::uint32_t slot = 0; slot < kSmallLayout.staging_slots; ++slot) {
      const std::byte* bytes = receiver->IncomingSlot(slot);
      ASSERT_NE(bytes, nullptr);
      for (std::size_t i = 0; i < kSmallLayout.staging_bytes; ++i)
        ASSERT_EQ(bytes[i], static_cast<std::byte>(10 + slot));
    }
  }
}

TEST(Channel, StagingAreasHoldTheSlots) {
  ChannelEnds ends;
  const std::size_t bytes = kSmallLayout.staging_slots * kSmallLayout.staging_bytes;
  for (const Channel* end : {ends.client.get(), ends.proxy.get()}) {
    EXPECT_EQ(end->StagingArea(0).size(), bytes);
    EXPECT_EQ(end->StagingArea(1).size(), bytes);
    const bool is_client = end == ends.client.get();
    EXPECT_EQ(end->StagingArea(is_client ? 0 : 1).data(), end->OutgoingSlot(0));
    EXPECT_EQ(end->StagingArea(is_client ? 1 : 0).data(), end->IncomingSlot(0));
  }
}

TEST(Channel, SlotNumbersThatAreNoneAreRefused) {
  ChannelEnds ends;
  for (const std::uint32_t slot : {4U, 5U, 63U, 64U, 65U, ~0U}) {
    EXPECT_EQ(ends.proxy->IncomingSlot(slot), nullptr) << slot;
    ends.proxy->ReleaseSlot(slot);
  }
  std::uint32_t taken = 0;
  while (ends.client->TryAcquireSlot()) ++taken;
  EXPECT_EQ(taken, kSmallLayout.staging_slots);
}

// --- The end

TEST(Channel, ClosesForBothSides) {
  for (const bool by_client : {true, false}) {
    for (const bool lost : {true, false}) {
      ChannelEnds ends;
      (by_client ? ends.client : ends.proxy)->Close(lost);
      for (Channel* end : {ends.client.get(), ends.proxy.get()}) {
        EXPECT_TRUE(end->closed());
        EXPECT_EQ(end->lost(), lost);
        EXPECT_EQ(end->Post(DeviceFault{}), 0U);
      }
    }
  }
}

TEST(Channel, WaitsEndWhenTheirSideGivesUp) {
  ChannelEnds ends;
  // Without a receiver, the ring and the staging slots fill up.
  while (ends.client->HasRoom(sizeof(FrameHeader) + kMaxInlineBytes))
    ends.client->Post(Output(std::vector<std::byte>(kMaxInlineBytes)));
  while (ends.client->TryAcquireSlot()) {
  }
  std::thread posts(
      [&] { EXPECT_EQ(ends.client->Post(Output(std::vector<std::byte>(kLargestOutput))), 0U); });
  std::thread takes([&] { EXPECT_FALSE(ends.client->AcquireSlot()); });
  std::thread awaits([&] { ends.client->AwaitTaken(ends.client->LastSequence(), kForEver); });
  ends.client->GiveUp();
  posts.join();
  takes.join();
  awaits.join();
  // Later waits end as well.
  EXPECT_EQ(ends.client->Post(Output(std::vector<std::byte>(kLargestOutput))), 0U);
  EXPECT_FALSE(ends.client->AcquireSlot());
  // The other side is not notified.
  EXPECT_FALSE(ends.proxy->closed());
}

TEST(Channel, TheFirstCloseSaysWhy) {
  ChannelEnds ends;
  ends.client->Close(false);
  ends.proxy->Close(true);
  EXPECT_FALSE(ends.client->lost());
}

TEST(Channel, WhoLosesItSaysWhy) {
  ChannelEnds ends;
  EXPECT_EQ(ends.client->end_reason(), "");
  ends.proxy->Lose("its proxy was killed by signal 9\n\x1b[31m");
  EXPECT_TRUE(ends.client->lost());
  EXPECT_EQ(ends.client->end_reason(), "its proxy was killed by signal 9??[31m");
}

TEST(Channel, AReasonThatIsTooLongIsCut) {
  ChannelEnds ends;
  ends.proxy->Lose(std::string(5000, 'x'));
  EXPECT_EQ(ends.client->end_reason(), std::string(511, 'x'));
}

TEST(Channel, AReasonBehindTheEndIsNotHeard) {
  ChannelEnds closed;
  closed.client->Close(false);
  closed.proxy->Lose("too late");
  EXPECT_EQ(closed.proxy->end_reason(), "");
  ChannelEnds lost;
  lost.client->Close(true);
  lost.proxy->Lose("too late");
  EXPECT_EQ(lost.client->end_reason(), "");
}

// A proxy's last frame must arrive, though the proxy closes the channel afterwards.
TEST(Channel, FramesPostedBeforeTheEndCanBeRead) {
  ChannelEnds ends;
  DeviceFault fault;
  fault.result = 700;
  EXPECT_GT(ends.proxy->Post(fault), 0U);
  ends.proxy->Close(true);
  const std::optional<Frame> frame = NextFrame(*ends.client);
  ASSERT_TRUE(frame);
  EXPECT_EQ(ParseMessage<DeviceFault>(*frame)->result, 700);
  ends.client->Pop();
  EXPECT_FALSE(NextFrame(*ends.client));
}

TEST(Channel, StatisticsAreSeenByWhoeverHoldsTheMemory) {
  ChannelEnds ends;
  for (int i = 0; i < 3; ++i) ends.client->statistics().Count<Launch>();
  ends.client->statistics().bytes_to_device += 1 << 20;
  ends.client.reset();
  EXPECT_EQ(ends.proxy->statistics().ops[Launch::kIndex], 3U);
  EXPECT_EQ(ends.proxy->statistics().bytes_to_device, 1U << 20);
}

// --- Layouts

TEST(ChannelLayout, ComesFromTheSettings) {
  ::unsetenv(settings::kStagingBuffers.name);
  ::unsetenv(settings::kStagingBytes.name);
  Result<ChannelLayout> layout = ChannelLayout::FromSettings();
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->staging_slots, 16U);
  EXPECT_EQ(layout->staging_bytes, 1U << 20);
  ::setenv(settings::kStagingBuffers.name, "3", 1);
  ::setenv(settings::kStagingBytes.name, "64K", 1);
  layout = ChannelLayout::FromSettings();
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->staging_slots, 3U);
  EXPECT_EQ(layout->staging_bytes, 64U << 10);
  EXPECT_TRUE(Channel::Create(*layout).ok());
  // Rounded up, since slots consist of whole pages.
  ::setenv(settings::kStagingBytes.name, "5000", 1);
  layout = ChannelLayout::FromSettings();
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(layout->staging_bytes, 8192U);
  for (const char* wrong : {"1", "65", "many"}) {
    ::setenv(settings::kStagingBuffers.name, wrong, 1);
    EXPECT_EQ(ChannelLayout::FromSettings().status().code(), StatusCode::kInvalid) << wrong;
  }
  ::setenv(settings::kStagingBuffers.name, "3", 1);
  for (const char* wrong : {"1K", "65M", "all"}) {
    ::setenv(settings::kStagingBytes.name, wrong, 1);
    EXPECT_EQ(ChannelLayout::FromSettings().status().code(), StatusCode::kInvalid) << wrong;
  }
  ::unsetenv(settings::kStagingBuffers.name);
  ::unsetenv(settings::kStagingBytes.name);
}

TEST(Channel, TheReceiverSetsTheSendersPace) {
  ChannelEnds ends;  // Four slots.
  const auto layout_bytes = static_cast<std::uint32_t>(ends.client->layout().staging_bytes);
  EXPECT_EQ(ends.client->MostChunkBytes(), layout_bytes);
  ends.proxy->SetPace({1024, 2});
  // At least a page.
  EXPECT_EQ(ends.client->MostChunkBytes(), std::min(layout_bytes, 4096U));
  EXPECT_EQ(ends.proxy->MostChunkBytes(), layout_bytes) << "the other direction has its own";
  const std::optional<std::uint32_t> first = ends.client->TryAcquireSlot();
  ASSERT_TRUE(first);
  EXPECT_TRUE(ends.client->TryAcquireSlot());
  EXPECT_FALSE(ends.client->TryAcquireSlot());
  EXPECT_TRUE(ends.proxy->TryAcquireSlot());
  ends.proxy->ReleaseSlot(*first);
  EXPECT_TRUE(ends.client->TryAcquireSlot());
  EXPECT_FALSE(ends.client->TryAcquireSlot());
  ends.proxy->SetPace({});
  EXPECT_EQ(ends.client->MostChunkBytes(), layout_bytes);
  EXPECT_TRUE(ends.client->TryAcquireSlot());
  EXPECT_TRUE(ends.client->TryAcquireSlot());
  EXPECT_FALSE(ends.client->TryAcquireSlot());
}

// Chunk sizes of a copy of `bytes`, in KiB.
std::vector<std::uint64_t> ChunksOf(const Channel& channel, std::uint64_t bytes) {
  std::vector<std::uint64_t> chunks;
  for (std::uint64_t offset = 0; offset < bytes; offset += chunks.back() << 10)
    chunks.push_back(channel.ChunkBytes(offset, bytes) >> 10);
  return chunks;
}

TEST(Channel, TheFirstChunksOfACopyAreSmaller) {
  ChannelLayout layout = kSmallLayout;
  layout.staging_bytes = 1 << 20;
  ChannelEnds ends(layout);
  EXPECT_EQ(ChunksOf(*ends.client, 4 << 20),
            (std::vector<std::uint64_t>{256, 256, 512, 1024, 1024, 1024}));
  EXPECT_EQ(ChunksOf(*ends.proxy, 1 << 20), (std::vector<std::uint64_t>{256, 256, 512}));
  EXPECT_EQ(ChunksOf(*ends.client, 640 << 10), (std::vector<std::uint64_t>{256, 256, 128}));
  ends.proxy->SetPace({512 << 10, 4});
  EXPECT_EQ(ChunksOf(*ends.client, 2 << 20), (std::vector<std::uint64_t>{256, 256, 512, 512, 512}));
  ends.proxy->SetPace({128 << 10, 4});
  EXPECT_EQ(ChunksOf(*ends.client, 512 << 10), (std::vector<std::uint64_t>{128, 128, 128, 128}));
}

TEST(Channel, WithOneSlotAllChunksAreOfOneSize) {
  ChannelLayout layout = kSmallLayout;
  layout.staging_bytes = 1 << 20;
  layout.staging_slots = 1;
  ChannelEnds ends(layout);
  EXPECT_EQ(ChunksOf(*ends.client, 2 << 20), (std::vector<std::uint64_t>{1024, 1024}));
}

TEST(Channel, AFasterPaceWakesWhoWaitsForASlot) {
  ChannelEnds ends;
  ends.proxy->SetPace({4096, 1});
  ASSERT_TRUE(ends.client->TryAcquireSlot());
  std::thread waiting([&] { EXPECT_TRUE(ends.client->AcquireSlot()); });
  ends.proxy->SetPace({4096, 2});
  waiting.join();
}

TEST(Channel, KeepsItsFileWhereThatIsAskedFor) {
  ChannelEnds ends;
  EXPECT_EQ(ends.client->fd(), -1);
  Bell bell = NewBell();
  const Result<std::unique_ptr<Channel>> kept =
      Channel::Attach(AnotherFd(ends.memory.get()), ChannelSide::kClient, &bell, OtherEnd(bell),
                      ChannelFile::kKeep);
  ASSERT_TRUE(kept.ok());
  EXPECT_GE((*kept)->fd(), 0);
}

}  // namespace
}  // namespace cuspan
