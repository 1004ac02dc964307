#include "protocol/wire/frame.h"

namespace cuspan {

Status CheckFrameHeader(const FrameHeader& header, std::size_t max_bytes) {
  if (header.magic != kFrameMagic)
    return Status::Invalid("frame magic is 0x{:04x}, not 0x{:04x}", header.magic, kFrameMagic);
  if (header.version != kFrameVersion)
    return Status::Refused(
        "the other side uses frame version {}, this one {}: install one version of cuspan "
        "everywhere",
        header.version, kFrameVersion);
  if ((header.flags & ~kFrameReply) != 0 || header.zero != 0)
    return Status::Invalid("unknown frame flags 0x{:02x}", header.flags);
  if (header.payload_bytes > max_bytes - sizeof header)
    return Status::Invalid("frame of op {} ({}) claims {} bytes of payload; the maximum is {}",
                           header.op, OpName(static_cast<Op>(header.op)), header.payload_bytes,
                           max_bytes - sizeof header);
  return Status::Ok();
}

Result<Frame> ParseFrame(Bytes bytes, std::size_t max_bytes) {
  Frame frame;
  if (bytes.size() < sizeof frame.header)
    return Status::Invalid("a frame of {} bytes is shorter than its header", bytes.size());
  std::memcpy(&frame.header, bytes.data(), sizeof frame.header);
  CUSPAN_RETURN_IF_ERROR(CheckFrameHeader(frame.header, max_bytes));
  if (frame.header.payload_bytes > bytes.size() - sizeof frame.header)
    return Status::Invalid("frame of op {} ({}) claims {} bytes of payload and has {}",
                           frame.header.op, OpName(frame.op()), frame.header.payload_bytes,
                           bytes.size() - sizeof frame.header);
  frame.payload = bytes.subspan(sizeof frame.header, frame.header.payload_bytes);
  return frame;
}

}  // namespace cuspan
