// Tests whole sessions with real drivers: the software GPU if it is built, and NVIDIA's driver if
// there is a GPU. The kernels are a fat binary of nvcc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>

#include "protocol/api/patch.h"
#include "proxy/gpu/inventory.h"
#include "tests/unit/proxy/loopback/loopback.h"

namespace cuspan::proxy {
namespace {

std::vector<std::byte> ReadFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const Bytes bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string FatbinPath() {
  const char* moved = std::getenv("CUSPAN_TEST_FATBIN");
  return moved == nullptr ? CUSPAN_TEST_FATBIN : moved;
}

template <typename T>
Bytes BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// Packs the arguments one after the other.
template <typename... T>
std::vector<std::byte> Arguments(const T&... values) {
  std::vector<std::byte> bytes;
  const auto add = [&](const auto& value) {
    const Bytes one = std::as_bytes(std::span(&value, 1));
    bytes.insert(bytes.end(), one.begin(), one.end());
  };
  (add(values), ...);
  return bytes;
}

class DriverTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    Result<LoadedDriver> loaded = LoadDriver(GetParam());
    if (!loaded.ok()) GTEST_SKIP() << loaded.status().message();
    driver = *loaded;
    ChannelLayout layout;
    layout.staging_bytes = 64 << 10;
    session = std::make_unique<Loopback>(driver.functions, layout);
    image = ReadFile(FatbinPath().c_str());
    ASSERT_FALSE(image.empty());
  }
  TestClient& client() { return session->client(); }
  std::uint64_t Kernel(const char* name) {
    if (module == 0) module = session->LoadModule(image);
    return session->FindKernel(module, name);
  }
  void Send(std::uint64_t stream, std::uint64_t address, Bytes bytes) {
    const std::uint64_t transfer = session->NewHandle();
    client().Post(CopyToDevice{stream, address, bytes.size(), transfer});
    ASSERT_TRUE(client().AwaitClearToSend(transfer));
    client().SendChunks(transfer, {bytes.begin(), bytes.end()});
  }
  template <typename T>
  std::vector<T> Receive(std::uint64_t stream, std::uint64_t address, std::size_t count) {
    std::vector<T> values(count);
    const std::uint64_t transfer = session->NewHandle();
    client().ReceiveTo(transfer, reinterpret_cast<std::byte*>(values.data()));
    client().Post(CopyFromDevice{stream, address, count * sizeof(T), transfer});
    const StreamSynchronize::Reply reply = client().Call(StreamSynchronize{stream});
    EXPECT_EQ(reply.result, CUDA_SUCCESS);
    EXPECT_TRUE(client().Await(
        [&](const Received& received) { return received.chunks.size() >= reply.chunks; }));
    return values;
  }

  LoadedDriver driver;
  std::unique_ptr<Loopback> session;
  std::vector<std::byte> image;
  std::uint64_t module = 0;
};

TEST_P(DriverTest, DevicesAreDescribed) {
  const Result<std::vector<DeviceDescription>> devices = DescribeDevices(driver);
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  ASSERT_FALSE(devices->empty());
  const DeviceDescription& device = devices->front();
  EXPECT_NE(device.name, "");
  EXPECT_NE(device.pci_bus_id, "");
  EXPECT_GT(device.memory_bytes, 0U);
  EXPECT_GE(device.driver_version, static_cast<std::uint32_t>(kOldestDriver));
  EXPECT_TRUE(device.virtual_memory);
  ASSERT_EQ(device.attributes.size(), static_cast<std::size_t>(CU_DEVICE_ATTRIBUTE_MAX));
  EXPECT_EQ(device.attributes[CU_DEVICE_ATTRIBUTE_WARP_SIZE], 32);
  EXPECT_GE(device.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR], 7);
}

TEST_P(DriverTest, VectorAddition) {
  constexpr int kCount = 1'000'003;
  const std::uint64_t a = session->Map(64 << 20);
  const std::uint64_t b = a + (16 << 20);
  const std::uint64_t sum = b + (16 << 20);
  std::vector<float> first(kCount);
  std::iota(first.begin(), first.end(), 0.0F);
  const std::vector<float> second(kCount, 0.5F);
  const std::uint64_t kernel = Kernel("vector_add");
  const std::uint64_t stream = session->NewStream();
  Send(stream, a, BytesOf(first));
  Send(stream, b, BytesOf(second));
  client().Post(Launch{kernel,
                       stream,
                       {(kCount + 255) / 256, 1, 1},
                       {256, 1, 1},
                       0,
                       false,
                       Arguments(a, b, sum, kCount)});
  const std::vector<float> result = Receive<float>(stream, sum, kCount);
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(result[i], first[i] + 0.5F) << i;
  EXPECT_TRUE(session->End().ok());
}

// Overwrites every second and third byte, and whole words.
TEST_P(DriverTest, PatchesWriteWhatTheirMasksSay) {
  const std::uint64_t block = session->Map(64 << 20);
  const std::uint64_t stream = session->NewStream(CU_STREAM_NON_BLOCKING);
  constexpr std::size_t kBytes = kMaxPatchBytes;
  std::vector<std::uint8_t> expected(kBytes + 8, 7);
  client().Post(Memset{stream, block, 7, 1, expected.size()});
  std::vector<std::uint8_t> data(kBytes);
  std::iota(data.begin(), data.end(), std::uint8_t{10});
  std::vector<std::uint8_t> mask(kBytes / kPatchWordBytes);
  for (std::size_t i = 0; i < kBytes; ++i) {
    if (i % 2 != 0 && i % 3 != 0 && i / 64 % 4 != 0) continue;
    mask[i / kPatchWordBytes] |= static_cast<std::uint8_t>(1U << (i % kPatchWordBytes));
    expected[i] = data[i];
  }
  client().Post(PatchMemory{stream, block, BytesOf(mask), BytesOf(data)});
  EXPECT_EQ(Receive<std::uint8_t>(stream, block, expected.size()), expected);
  // A short patch.
  data = {1, 2, 3, 4, 5, 6, 7, 8};
  mask = {0x81};
  expected[kBytes] = 1;
  expected[kBytes + 7] = 8;
  client().Post(PatchMemory{stream, block + kBytes, BytesOf(mask), BytesOf(data)});
  EXPECT_EQ(Receive<std::uint8_t>(stream, block, expected.size()), expected);
  EXPECT_TRUE(session->End().ok());
}

TEST_P(DriverTest, ParameterSizesAndVariables) {
  const std::uint64_t block = session->Map(64 << 20);
  if (module == 0) module = session->LoadModule(image);
  const std::uint64_t kernel = session->NewHandle();
  const KernelFind::Reply found = client().Call(KernelFind{module, kernel, "mixed"});
  ASSERT_EQ(found.result, CUDA_SUCCESS);
  EXPECT_THAT(found.parameter_bytes, ::testing::ElementsAre(1, 16, 2, 8));
  EXPECT_GT(found.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK], 0);
  const VariableFind::Reply variable = client().Call(VariableFind{module, "offset"});
  ASSERT_EQ(variable.result, CUDA_SUCCESS);
  ASSERT_EQ(variable.bytes, 4U);
  struct Pair {
    char first;
    double second;
  };
  Pair pair{};
  pair.first = 2;
  pair.second = 0.25;
  std::vector<std::byte> arguments = Arguments(char{1});
  const auto append = [&](const std::vector<std::byte>& more) {
    arguments.insert(arguments.end(), more.begin(), more.end());
  };
  append(Arguments(pair));
  append(Arguments(short{30}, block));
  const auto launch = [&] {
    client().Post(Launch{kernel, 0, {1, 1, 1}, {1, 1, 1}, 0, false, arguments});
    return Receive<double>(0, block, 1)[0];
  };
  EXPECT_EQ(launch(), 1033.25);
  const std::vector<int> changed = {2000};
  client().Post(CopyToDeviceInline{0, variable.address, BytesOf(changed)});
  EXPECT_EQ(launch(), 2033.25);
  EXPECT_EQ(client().Call(KernelOccupancy{kernel, 128, 0, 0}).result, CUDA_SUCCESS);
  EXPECT_GT(client().Call(KernelOccupancy{kernel, 128, 0, 0}).blocks, 0);
  const MemoryInfo::Reply memory = client().Call(MemoryInfo{});
  EXPECT_EQ(memory.result, CUDA_SUCCESS);
  EXPECT_GT(memory.total, memory.free);
}

TEST_P(DriverTest, LaunchesBehindACopyHeldBackWaitAndOtherStreamsGoOn) {
  const std::uint64_t block = session->Map(64 << 20);
  const std::uint64_t kernel = Kernel("increment");
  for (const std::uint64_t held : {session->NewStream(), std::uint64_t{0}}) {
    const std::uint64_t other = session->NewStream(CU_STREAM_NON_BLOCKING);
    const std::uint64_t word = block + 4096;
    client().Post(Memset{other, word, 0, 4, 1});
    const std::uint64_t transfer = session->NewHandle();
    client().Post(CopyToDevice{held, block, 4, transfer});
    for (int i = 0; i < 5000; ++i)
      client().Post(Launch{kernel, held, {1, 1, 1}, {1, 1, 1}, 0, false, Arguments(block)});
    client().Post(Launch{kernel, other, {1, 1, 1}, {1, 1, 1}, 0, false, Arguments(word)});
    session->Map(64 << 20);
    session->LoadModule(image);
    EXPECT_EQ(Receive<std::uint32_t>(other, word, 1)[0], 1U);
    EXPECT_EQ(client().Call(StreamQuery{held}).result, CUDA_ERROR_NOT_READY);
    ASSERT_TRUE(client().AwaitClearToSend(transfer));
    client().SendChunks(transfer, std::vector<std::byte>(4));
    EXPECT_EQ(Receive<std::uint32_t>(held, block, 1)[0], 5000U);
  }
}

TEST_P(DriverTest, EventsOrderStreamsAndMeasureTime) {
  const std::uint64_t block = session->Map(64 << 20);
  const std::uint64_t kernel = Kernel("increment");
  const std::uint64_t first = session->NewStream(CU_STREAM_NON_BLOCKING);
  const std::uint64_t second = session->NewStream(CU_STREAM_NON_BLOCKING);
  const std::uint64_t start = session->NewHandle();
  const std::uint64_t end = session->NewHandle();
  client().Post(EventCreate{start, 0});
  client().Post(EventCreate{end, 0});
  client().Post(Memset{first, block, 0, 4, 1});
  client().Post(EventRecord{start, first, 1});
  for (int i = 0; i < 100; ++i)
    client().Post(Launch{kernel, first, {1, 1, 1}, {1, 1, 1}, 0, false, Arguments(block)});
  client().Post(EventRecord{end, first, 1});
  client().Post(StreamWaitEvent{second, end, 1});
  EXPECT_EQ(Receive<std::uint32_t>(second, block, 1)[0], 100U);
  ASSERT_TRUE(
      client().Await([](const Received& received) { return received.reached.size() == 2; }));
  const std::vector<EventReached> reached = client().Now().reached;
  EXPECT_EQ(reached[0].event, start);
  EXPECT_EQ(reached[1].event, end);
  EXPECT_GT(reached[1].time, reached[0].time) << "of two events, a hundred kernels apart";
}

// Large inline copies after pending work: the receiving thread must not wait for the device.
TEST_P(DriverTest, InlineCopiesOfTheLargestSize) {
  const std::uint64_t block = session->Map(64 << 20);
  const std::uint64_t stream = session->NewStream();
  const std::vector<std::byte> bytes = Pattern(kMaxInlineBytes, 3);
  for (std::uint64_t i = 0; i < 100; ++i)
    client().Post(CopyToDeviceInline{stream, block + i * bytes.size(), bytes});
  EXPECT_EQ(Receive<std::byte>(stream, block + 99 * bytes.size(), bytes.size()), bytes);
}

TEST_P(DriverTest, ABadAddressLosesTheContextAndIsTold) {
  session->Map(64 << 20);
  const std::uint64_t kernel = Kernel("touch");
  const std::uint64_t stream = session->NewStream();
  const std::uint64_t unmapped = kWindow + kWindowBytes - 4096;
  client().Post(Launch{kernel, stream, {1, 1, 1}, {1, 1, 1}, 0, false, Arguments(unmapped)});
  EXPECT_EQ(client().Call(StreamSynchronize{stream}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(client().Call(DeviceSynchronize{}).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(client().Now().faults.size(), 1U);
  EXPECT_TRUE(session->End().ok());
}

INSTANTIATE_TEST_SUITE_P(Drivers, DriverTest, ::testing::Values(CUSPAN_TEST_DRIVERS),
                         [](const auto& info) {
                           return std::string(std::strchr(info.param, '/') == nullptr ? "Vendor"
                                                                                      : "Software");
                         });

}  // namespace
}  // namespace cuspan::proxy
