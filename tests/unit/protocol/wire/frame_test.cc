#include "protocol/wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

namespace cuspan {
namespace {

using testing::HasSubstr;

std::vector<std::byte> Sample() {
  GraphClear message;
  message.graph = 0x1122334455667788;
  return MakeFrame(message, 5, 6);
}

// The sample, with one byte of its header replaced.
std::vector<std::byte> SampleWith(std::size_t offset, int value) {
  std::vector<std::byte> frame = Sample();
  frame[offset] = static_cast<std::byte>(value);
  return frame;
}

Status Parse(Bytes bytes, std::size_t max_bytes = kMaxFrameBytes) {
  return ParseFrame(bytes, max_bytes).status();
}

TEST(Frame, ParsesWhatWasMade) {
  const std::vector<std::byte> bytes = Sample();
  const Result<Frame> frame = ParseFrame(bytes, kMaxFrameBytes);
  ASSERT_TRUE(frame.ok()) << frame.status().message();
  EXPECT_EQ(frame->op(), Op::kGraphClear);
  EXPECT_EQ(frame->header.request, 5U);
  EXPECT_EQ(frame->header.sequence, 6U);
  EXPECT_FALSE(frame->header.is_reply());
  EXPECT_EQ(frame->payload.data(), bytes.data() + sizeof(FrameHeader));
  EXPECT_EQ(frame->payload.size(), 8U);
  const Result<GraphClear> message = ParseMessage<GraphClear>(*frame);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->graph, 0x1122334455667788U);
}

TEST(Frame, MayBeFollowedByOtherBytes) {
  std::vector<std::byte> bytes = Sample();
  const std::size_t whole = bytes.size();
  bytes.resize(whole + 100, std::byte{0xff});
  const Result<Frame> frame = ParseFrame(bytes, kMaxFrameBytes);
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(frame->payload.size(), whole - sizeof(FrameHeader));
}

// The wire form by byte, as drawn in frame.h and written by the codecs. If two versions of cuspan
// differ here, their frame versions must differ.
TEST(Frame, IsWrittenAsTheFormatSays) {
  const std::byte arguments[] = {std::byte{0xaa}, std::byte{0xbb}};
  Launch launch;
  launch.kernel = 0x0102030405060708;
  launch.stream = 2;
  launch.grid = {3, 4, 5};
  launch.block = {32, 1, 1};
  launch.dynamic_shared = 0x400;
  launch.cooperative = true;
  launch.arguments = arguments;
  launch.mark = 7;
  launch.value = 0x108;
  constexpr int kGolden[] = {
      0x75, 0x63,                                                  // magic "cu"
      1,                                                           // version
      0,                                                           // flags
      140,  0,                                                     // op
      0,    0,                                                     // zero
      59,   0,    0,    0,                                         // payload bytes
      0x0d, 0x0c, 0x0b, 0x0a,                                      // request
      0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,              // sequence
      0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,              // kernel
      2,    0,    0,    0,    0,    0,    0,    0,                 // stream
      3,    0,    0,    0,    4,    0,    0,    0,    5, 0, 0, 0,  // grid
      32,   0,    0,    0,    1,    0,    0,    0,    1, 0, 0, 0,  // block
      0,    4,    0,    0,                                         // dynamic_shared
      1,                                                           // cooperative
      2,    0,    0,    0,    0xaa, 0xbb,                          // arguments
      7,    0,    0,    0,                                         // mark
      8,    1,    0,    0,                                         // value
  };
  std::vector<std::byte> golden;
  for (const int number : kGolden) golden.push_back(static_cast<std::byte>(number));
  EXPECT_EQ(MakeFrame(launch, 0x0a0b0c0d, 0x1112131415161718), golden);
}

TEST(Frame, RefusesEachWrongMagic) {
  for (const std::size_t offset : {0, 1}) {
    for (int value = 0; value < 256; ++value) {
      const std::vector<std::byte> frame = SampleWith(offset, value);
      const bool right = frame == Sample();
      EXPECT_EQ(Parse(frame).ok(), right);
      if (!right) {
        EXPECT_EQ(Parse(frame).code(), StatusCode::kInvalid);
      }
    }
  }
}

TEST(Frame, RefusesEachOtherVersionAndSaysWhatToDo) {
  for (int version = 0; version < 256; ++version) {
    if (version == kFrameVersion) continue;
    const Status status = Parse(SampleWith(2, version));
    EXPECT_EQ(status.code(), StatusCode::kRefused) << version;
    EXPECT_THAT(status.message(), HasSubstr("install one version"));
  }
}

TEST(Frame, RefusesUnknownFlags) {
  for (int flags = 0; flags < 256; ++flags) {
    const Result<Frame> frame = ParseFrame(SampleWith(3, flags), kMaxFrameBytes);
    EXPECT_EQ(frame.ok(), (flags & ~kFrameReply) == 0) << flags;
    if (frame.ok()) {
      EXPECT_EQ(frame->header.is_reply(), flags == kFrameReply);
    }
  }
}

TEST(Frame, RefusesAnythingInTheFieldThatIsZero) {
  for (const std::size_t offset : {6, 7})
    for (const int value : {1, 128, 255})
      EXPECT_EQ(Parse(SampleWith(offset, value)).code(), StatusCode::kInvalid);
}

TEST(Frame, RefusesALengthBeyondItsBytes) {
  EXPECT_TRUE(Parse(SampleWith(8, 8)).ok());
  EXPECT_TRUE(Parse(SampleWith(8, 0)).ok()) << "bytes may follow a frame";
  EXPECT_EQ(Parse(SampleWith(8, 9)).code(), StatusCode::kInvalid);
  for (const std::size_t offset : {9, 10, 11})
    EXPECT_EQ(Parse(SampleWith(offset, 255)).code(), StatusCode::kInvalid) << offset;
}

TEST(Frame, RefusesALengthBeyondTheLimitThoughTheBytesAreThere) {
  DeviceOutput message;
  const std::vector<std::byte> data(1000);
  message.data = data;
  const std::vector<std::byte> frame = MakeFrame(message);
  EXPECT_TRUE(Parse(frame, frame.size()).ok());
  EXPECT_EQ(Parse(frame, frame.size() - 1).code(), StatusCode::kInvalid);
}

TEST(Frame, RefusesHalfAHeader) {
  const std::vector<std::byte> frame = Sample();
  for (std::size_t length = 0; length < frame.size(); ++length) {
    // A separate allocation lets a sanitizer detect reads past its end.
    const std::vector<std::byte> cut(frame.begin(),
                                     frame.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(Parse(cut).code(), StatusCode::kInvalid) << length;
  }
}

TEST(FrameHeader, IsCheckedWithoutItsPayload) {
  FrameHeader header;
  header.payload_bytes = 1000;
  EXPECT_TRUE(CheckFrameHeader(header, 1024).ok());
  EXPECT_EQ(CheckFrameHeader(header, 1023).code(), StatusCode::kInvalid);
  header.payload_bytes = ~std::uint32_t{0};
  EXPECT_EQ(CheckFrameHeader(header, kMaxControlBytes).code(), StatusCode::kInvalid);
}

// --- ParseMessage

TEST(ParseMessage, RefusesAnotherOp) {
  const std::vector<std::byte> bytes = Sample();
  const Result<Frame> frame = ParseFrame(bytes, kMaxFrameBytes);
  ASSERT_TRUE(frame.ok());
  const Status status = ParseMessage<Launch>(*frame).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalid);
  EXPECT_THAT(status.message(), testing::AllOf(HasSubstr("Launch"), HasSubstr("GraphClear")));
}

TEST(ParseMessage, RefusesAReply) {
  const std::vector<std::byte> bytes = SampleWith(3, kFrameReply);
  const Result<Frame> frame = ParseFrame(bytes, kMaxFrameBytes);
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(ParseMessage<GraphClear>(*frame).status().code(), StatusCode::kInvalid);
}

TEST(ParseMessage, RefusesAPayloadThatIsNone) {
  for (const int length : {0, 1, 7}) {
    const std::vector<std::byte> bytes = SampleWith(8, length);
    const Result<Frame> frame = ParseFrame(bytes, kMaxFrameBytes);
    ASSERT_TRUE(frame.ok());
    const Status status = ParseMessage<GraphClear>(*frame).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalid);
    EXPECT_THAT(status.message(), HasSubstr("GraphClear"));
  }
}

TEST(ParseMessage, UnknownOpsHaveAFrameAndNoMessage) {
  const std::vector<std::byte> bytes = SampleWith(5, 255);
  const Result<Frame> frame = ParseFrame(bytes, kMaxFrameBytes);
  ASSERT_TRUE(frame.ok()) << "whoever takes frames decides about ops";
  EXPECT_STREQ(OpName(frame->op()), "unknown");
  EXPECT_FALSE(ParseMessage<GraphClear>(*frame).ok());
}

// --- Guarantees of the limits

TEST(Limits, ALaunchWithAllArgumentsFitsAFrame) {
  const std::vector<std::byte> arguments(32764);  // CUDA's limit of kernel parameters (bytes).
  Launch launch;
  launch.arguments = arguments;
  EXPECT_LE(MakeFrame(launch).size(), kMaxFrameBytes);
}

TEST(Limits, InlineDataFitsAFrame) {
  const std::vector<std::byte> data(kMaxInlineBytes);
  CopyToDeviceInline copy;
  copy.data = data;
  EXPECT_LE(MakeFrame(copy).size(), kMaxFrameBytes);
  ModuleImage image;
  image.data = data;
  EXPECT_LE(MakeFrame(image).size(), kMaxFrameBytes);
}

TEST(Limits, AnInventoryOf240DevicesFitsAControlMessage) {
  Welcome welcome;
  welcome.devices.resize(240);
  for (DeviceDescription& device : welcome.devices) {
    device.host = std::string(255, 'h');
    device.name = std::string(255, 'n');
    device.pci_bus_id = "0000:00:00.0";
    device.attributes.resize(200);
  }
  EXPECT_LE(MakeFrame(welcome).size(), kMaxControlBytes);
}

}  // namespace
}  // namespace cuspan
