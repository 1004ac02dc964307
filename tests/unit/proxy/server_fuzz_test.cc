// Sends random frames. A proxy survives all of them, and ends with a reason or not at all.
#include <deque>
#include <random>
#include <vector>

#include "protocol/api/address_plan.h"
#include "tests/unit/fuzz_seed.h"
#include "tests/unit/proxy/loopback/server_fixture.h"

namespace cuspan::proxy {
namespace {

using Random = std::mt19937_64;

std::uint64_t Below(Random& random, std::uint64_t limit) { return random() % limit; }

// Returns numbers near valid values: handles in use, addresses in the window, limits.
std::uint64_t Number(Random& random) {
  switch (Below(random, 14)) {
    case 0:
      return Below(random, 4);
    case 1:
    case 7:
    case 8:
    case 9:
    case 10:
      return 100 + Below(random, 12);
    case 2:
      return kWindow + Below(random, 1 << 20);
    case 3:
      return kWindow + kWindowBytes - Below(random, 8192);
    case 4:
      return std::uint64_t{1} << Below(random, 64);
    case 5:
      return ~Below(random, 16);
    case 12:
      return kReservationsBase + (Below(random, 4) << 21);
    case 13:
      return Below(random, 4) << 21;
    case 6:
      return 4096 * Below(random, 16);
    default:
      return Below(random, 100);
  }
}

// Fills in every field of any op. Each field of kind bytes gets its own element of `data`.
struct Filler {
  Random& random;
  std::deque<std::vector<std::byte>>& data;

  template <typename T>
  void operator()(T& field) {
    if constexpr (std::is_same_v<T, bool>) {
      field = Below(random, 2) == 1;
    } else if constexpr (std::is_arithmetic_v<T>) {
      field = static_cast<T>(Number(random));
    } else if constexpr (std::is_same_v<T, std::string>) {
      static constexpr const char* kNames[] = {"add",      "nothing", "refused",
                                               "variable", "",        "no such"};
      field = kNames[Below(random, std::size(kNames))];
    } else if constexpr (std::is_same_v<T, Bytes>) {
      static constexpr std::size_t kSizes[] = {0, 4, 16, 44, 1000};
      field = data.emplace_back(kSizes[Below(random, std::size(kSizes))], std::byte{0x41});
    } else if constexpr (requires { T::VisitFields(field, *this); }) {
      T::VisitFields(field, *this);
    } else {
      // A list or an array; only a list is resized.
      if constexpr (requires { field.resize(0); }) field.resize(Below(random, 4));
      for (auto& element : field) (*this)(element);
    }
  }
};

// Ops allowed from a client.
std::vector<Op> ClientOps() {
  std::vector<Op> ops;
  for (unsigned number = 0; number <= 0xffff; ++number) {
    WithOp(static_cast<Op>(number), [&]<typename T>() {
      if (T::kClass == OpClass::kPosted || T::kClass == OpClass::kCall ||
          T::kClass == OpClass::kChunk || T::kOp == Op::kTransferClearToSend)
        ops.push_back(T::kOp);
    });
  }
  return ops;
}

// Posts a frame of `op` with random fields, or with a flipped bit.
void PostRandom(TestClient& client, Random& random, Op op, bool flip) {
  WithOp(op, [&]<typename T>() {
    T message;
    std::deque<std::vector<std::byte>> data;
    T::VisitFields(message, Filler{random, data});
    std::vector<std::byte> frame =
        MakeFrame(message, static_cast<std::uint32_t>(random()), random());
    if (frame.size() > kMaxFrameBytes) return;
    if (flip) frame[Below(random, frame.size())] ^= static_cast<std::byte>(1U << Below(random, 9));
    FrameHeader header;
    std::memcpy(&header, frame.data(), sizeof header);
    // Never blocks: an ended session makes no room.
    client.channel().TryPost(header, Bytes(frame).subspan(sizeof header));
  });
}

class FuzzTest : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(FuzzTest, RandomFramesEndASessionOrDoNot) {
  Random random(FuzzSeed(GetParam()));
  FakeGpu gpu;
  Loopback loopback(gpu.driver());
  TestClient& client = loopback.client();
  // Creates objects with the handles 101 … 111, hit by random handles.
  loopback.Map();
  const std::uint64_t module = loopback.LoadModule(AnyImage());
  loopback.FindKernel(module, "add");
  loopback.FindKernel(module, "nothing");
  loopback.NewStream();
  loopback.NewStream(CU_STREAM_NON_BLOCKING);
  client.Post(EventCreate{loopback.NewHandle(), 0});
  client.Post(EventCreate{loopback.NewHandle(), CU_EVENT_DISABLE_TIMING});
  client.Post(GraphCreate{loopback.NewHandle()});
  client.Call(AddressReserve{kReservationsBase, 8 << 21});
  client.Post(AllocationMake{loopback.NewHandle(), 2 << 20});
  client.Call(LinkerCreate{loopback.NewHandle(), {}});
  client.Call(ArrayCreate{loopback.NewHandle(), {64, 64, 0, CU_AD_FORMAT_FLOAT, 1, 0}, 0});
  const bool flip = GetParam() % 3 == 0;
  const std::vector<Op> ops = ClientOps();
  for (int i = 0; i < 400 && !loopback.ended(); ++i)
    PostRandom(client, random, ops[Below(random, ops.size())], flip && i % 10 == 9);
  const Status end = loopback.End();
  if (!end.ok()) {
    EXPECT_FALSE(end.message().empty());
    EXPECT_TRUE(client.channel().closed());
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, FuzzTest, ::testing::Range<std::uint64_t>(1, 201));

// Posts valid ops in random order. The session ends when asked to.
TEST_P(FuzzTest, HonestOpsInAnyOrderAllComplete) {
  Random random(FuzzSeed(GetParam()));
  FakeGpu gpu;
  Loopback loopback(gpu.driver());
  TestClient& client = loopback.client();
  const std::uint64_t block = loopback.Map();
  const std::uint64_t nothing = loopback.FindKernel(loopback.LoadModule(AnyImage()), "nothing");
  std::vector<std::uint64_t> streams = {0};
  for (std::uint32_t i = 0; i < 4; ++i) streams.push_back(loopback.NewStream(i % 2));
  std::uint64_t records = 0;
  const std::uint64_t event = loopback.NewHandle();
  client.Post(EventCreate{event, 0});
  std::vector<std::byte> place(1 << 20);
  std::vector<std::uint64_t> signals;
  std::uint64_t transfer = 0;
  std::uint64_t chunks = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> sends;
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t stream = streams[Below(random, streams.size())];
    const std::uint64_t bytes = 1 + Below(random, 5 * 4096);
    switch (Below(random, 9)) {
      case 0:
        client.Post(EventRecord{event, stream, ++records});
        break;
      case 1:
        client.Post(StreamWaitEvent{stream, event, Below(random, records + 1)});
        break;
      case 2:
        client.Post(StreamWaitSignal{stream, static_cast<std::uint64_t>(i)});
        signals.push_back(static_cast<std::uint64_t>(i));
        break;
      case 3:
        client.ReceiveTo(++transfer, place.data());
        client.Post(CopyFromDevice{stream, block, bytes, transfer});
        chunks += (bytes + 4095) / 4096;
        break;
      case 4:
        client.Post(CopyToDevice{stream, block, bytes, ++transfer, Below(random, 2) == 0});
        sends.emplace_back(transfer, bytes);
        break;
      case 6:
        client.Post(CopyToDevice{stream, block, bytes, ++transfer, true});
        client.SendChunks(transfer, std::vector<std::byte>(bytes));
        break;
      case 5:
        client.Post(Memset{stream, block, 1, 1, bytes});
        break;
      default:
        client.Post(Launch{nothing, stream, {1, 1, 1}, {1, 1, 1}, 0, false, {}});
        break;
    }
  }
  const std::uint32_t all = client.Ask(DeviceSynchronize{});
  for (const std::uint64_t signal : signals) client.Post(Signal{signal});
  for (const auto& [number, bytes] : sends) {
    ASSERT_TRUE(client.AwaitClearToSend(number));
    client.SendChunks(number, std::vector<std::byte>(bytes));
  }
  const DeviceSynchronize::Reply reply = client.AwaitReply<DeviceSynchronize>(all);
  EXPECT_EQ(reply.result, CUDA_SUCCESS);
  EXPECT_EQ(reply.chunks, chunks);
  EXPECT_TRUE(
      client.Await([&](const Received& received) { return received.reached.size() == records; }));
  const Received received = client.Now();
  EXPECT_TRUE(received.failures.empty());
  EXPECT_EQ(received.wrong, "");
  EXPECT_TRUE(loopback.End().ok());
}

}  // namespace
}  // namespace cuspan::proxy
