// Frame: one op, reply or push in a ring, on a socket or in a message between agents.
//
//   offset  bytes  field
//        0      2  magic 0x6375 ("cu")
//        2      1  version of this layout
//        3      1  flags: bit 0 reply
//        4      2  op number
//        6      2  zero
//        8      4  payload bytes
//       12      4  request: a call's and its reply's number, or a posted op's thread of the program
//       16      8  sequence: rises from op to op of one session to one device
//       24      …  payload: the op's fields as written by protocol/api/codec.h
#pragma once

#include "common/status.h"
#include "ops.gen.h"
#include "protocol/api/codec.h"

namespace cuspan {

inline constexpr std::uint16_t kFrameMagic = 0x6375;
inline constexpr std::uint8_t kFrameVersion = 1;
inline constexpr std::uint8_t kFrameReply = 1;

struct FrameHeader {
  std::uint16_t magic = kFrameMagic;
  std::uint8_t version = kFrameVersion;
  std::uint8_t flags = 0;
  std::uint16_t op = 0;
  std::uint16_t zero = 0;
  std::uint32_t payload_bytes = 0;
  std::uint32_t request = 0;
  std::uint64_t sequence = 0;

  bool is_reply() const { return (flags & kFrameReply) != 0; }
};
static_assert(sizeof(FrameHeader) == 24);

// Maximum size of a frame, including the header. It must hold a launch with CUDA's 32,764 bytes of
// arguments, and fit a message between agents.
inline constexpr std::size_t kMaxFrameBytes = 48 * 1024;
// Maximum size of data inside an op (CopyToDeviceInline, ModuleImage).
inline constexpr std::size_t kMaxInlineBytes = 32 * 1024;
// Maximum size of an early copy to a device: the client sends its bytes with the op, and not after
// TransferClearToSend. And maximum of the bytes of all early copies not clear to send yet.
inline constexpr std::size_t kMaxEarlyBytes = 1024 * 1024;
inline constexpr std::size_t kMaxEarlyInAll = 8 * 1024 * 1024;
// Maximum size of control messages between agents and over sockets; some contain inventories.
inline constexpr std::size_t kMaxControlBytes = 1024 * 1024;

// A frame with a checked header. `payload` points into the memory it was read from.
struct Frame {
  FrameHeader header;
  Bytes payload;
  Op op() const { return static_cast<Op>(header.op); }
};

// Checks magic, version, flags and length of a header copied from untrusted bytes. Its payload may
// be incomplete.
Status CheckFrameHeader(const FrameHeader& header, std::size_t max_bytes);

// Checks the header and completeness of the frame at the start of `bytes`. More bytes may follow.
// The header is copied before it is checked.
Result<Frame> ParseFrame(Bytes bytes, std::size_t max_bytes);

// One whole frame in its own memory.
template <typename T>
std::vector<std::byte> MakeFrame(const T& message, std::uint32_t request = 0,
                                 std::uint64_t sequence = 0) {
  FrameHeader header;
  header.op = static_cast<std::uint16_t>(T::kOp);
  header.payload_bytes = static_cast<std::uint32_t>(EncodedSize(message));
  header.request = request;
  header.sequence = sequence;
  std::vector<std::byte> frame(sizeof header + header.payload_bytes);
  std::memcpy(frame.data(), &header, sizeof header);
  EncodeInto(std::span(frame).subspan(sizeof header), message);
  return frame;
}

// Decodes the message of a frame. kInvalid names the op if the payload is malformed.
template <typename T>
Result<T> ParseMessage(const Frame& frame) {
  T message;
  if (frame.op() != T::kOp || frame.header.is_reply())
    return Status::Invalid("expected {} and got op {} ({})", OpName(T::kOp), frame.header.op,
                           OpName(frame.op()));
  if (!DecodeFrom(frame.payload, message))
    return Status::Invalid("malformed {} of {} bytes", OpName(T::kOp), frame.payload.size());
  return message;
}

}  // namespace cuspan
