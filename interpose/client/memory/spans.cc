#include "interpose/client/memory/spans.h"

#include <algorithm>
#include <array>

#include "interpose/client/connection/connection.h"
#include "interpose/client/connection/early_copy.h"
#include "protocol/api/patch.h"

namespace cuspan {
namespace {

using Spans = std::span<const BlockAllocator::Range>;

// Returns the start of a patch with its first span at `from`.
constexpr std::uint64_t PatchStart(std::uint64_t from) {
  return from / kPatchWordBytes * kPatchWordBytes;
}

// Returns the number of spans, from the first on, fitting one patch. A patch is worthwhile from two
// spans on: it is one op, and one call of the driver.
std::size_t FitPatch(Spans spans) {
  const std::uint64_t most = PatchStart(spans.front().base) + kMaxPatchBytes;
  std::size_t count = 0;
  while (count < spans.size() && spans[count].base + spans[count].bytes <= most) ++count;
  return count;
}

void CountBytes(Connection& connection, std::uint64_t bytes) {
  connection.channel().statistics().bytes_to_device.fetch_add(bytes, std::memory_order_relaxed);
}

CUresult SendOne(Connection& connection, std::uint64_t stream, std::uint64_t destination,
                 const std::byte* source, std::uint64_t bytes) {
  if (bytes <= kMaxInlineBytes) {
    CopyToDeviceInline op;
    op.stream = stream;
    op.destination = destination;
    op.data = {source, bytes};
    CountBytes(connection, bytes);
    return connection.Send(op);
  }
  OutgoingTransfers& outgoing = connection.transfers().outgoing();
  CopyToDevice op;
  op.stream = stream;
  op.destination = destination;
  op.bytes = bytes;
  const auto sent = SendEarly(outgoing, op, source, bytes, {}, true,
                              [&](const CopyToDevice& early) { return connection.Send(early); });
  if (sent) return *sent;
  if (const CUresult started = outgoing.StartSender(); started != CUDA_SUCCESS) return started;
  op.transfer = outgoing.Begin(SpanOf({}, source, 0, bytes));
  if (const CUresult result = connection.Send(op); result != CUDA_SUCCESS) {
    outgoing.Forget(op.transfer);
    return result;
  }
  outgoing.SendLater(op.transfer, source, bytes);
  return CUDA_SUCCESS;
}

CUresult SendPatch(Connection& connection, std::uint64_t stream, std::uint64_t base,
                   const std::byte* memory, Spans spans) {
  const std::uint64_t start = PatchStart(spans.front().base);
  std::array<std::byte, kMaxPatchBytes / kPatchWordBytes> mask{};
  for (const auto& span : spans) {
    for (std::uint64_t at = span.base - start; at < span.base + span.bytes - start; ++at)
      mask[at / kPatchWordBytes] |= std::byte{1} << (at % kPatchWordBytes);
  }
  const std::uint64_t end = spans.back().base + spans.back().bytes;
  const std::uint64_t words = (end - start + kPatchWordBytes - 1) / kPatchWordBytes;
  PatchMemory op;
  op.stream = stream;
  op.destination = base + start;
  op.mask = Bytes(mask).first(words);
  op.data = {memory + start, words * kPatchWordBytes};
  CountBytes(connection, op.data.size());
  return connection.Send(op);
}

}  // namespace

CUresult PostSpans(Connection& connection, std::uint64_t base, const std::byte* memory,
                   Spans spans) {
  if (spans.empty()) return CUDA_SUCCESS;
  std::uint64_t stream = 0;
  const CUresult result = connection.MemoryStream(&stream);
  return result == CUDA_SUCCESS ? PostSpans(connection, stream, base, memory, spans) : result;
}

CUresult PostSpans(Connection& connection, std::uint64_t stream, std::uint64_t base,
                   const std::byte* memory, Spans spans) {
  while (!spans.empty()) {
    const std::size_t count = std::max<std::size_t>(FitPatch(spans), 1);
    const auto& first = spans.front();
    const CUresult result =
        count == 1
            ? SendOne(connection, stream, base + first.base, memory + first.base, first.bytes)
            : SendPatch(connection, stream, base, memory, spans.first(count));
    if (result != CUDA_SUCCESS) return result;
    spans = spans.subspan(count);
  }
  return CUDA_SUCCESS;
}

CUresult SettleSpans(Connection& connection) {
  std::uint64_t stream = 0;
  if (const CUresult result = connection.MemoryStream(&stream); result != CUDA_SUCCESS)
    return result;
  return connection.CallAndStore(StreamSynchronize{stream});
}

CUresult BeginReceive(Connection& connection, std::uint64_t stream,
                      const BlockAllocator::Range& part,
                      const std::shared_ptr<Incoming>& incoming) {
  incoming->bytes = part.bytes;
  CopyFromDevice op;
  op.stream = stream;
  op.source = part.base;
  op.bytes = part.bytes;
  op.transfer = connection.transfers().BeginIncoming(incoming);
  if (const CUresult result = connection.Send(op); result != CUDA_SUCCESS) {
    static_cast<void>(connection.transfers().Forget(op.transfer));
    return result;
  }
  return CUDA_SUCCESS;
}

}  // namespace cuspan
