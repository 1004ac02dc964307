#include <bit>

#include "protocol/api/patch.h"
#include "proxy/handlers/handlers.h"
#include "proxy/handlers/posted_op.h"

namespace cuspan::proxy {
namespace {

struct Patch final : PostedOp {
  using PostedOp::PostedOp;
  SubmitResult Submit() CUSPAN_REQUIRES(receiving_thread) override {
    if (!session->memory().MayTouch(destination, data.size()))
      return Finish(CUDA_ERROR_INVALID_VALUE);
    Timeline::Start start = session->timeline().Begin(stream->driver);
    // The patch kernel is used only if no other kernel runs. A kernel filling the device may wait
    // for data from the program, in this patch. Then only a copy is sure to make progress.
    const bool alone = session->collectives().idle() && session->streams().AllDone(stream.get()) &&
                       session->objects().patch_kernel.Ready();
    std::uint64_t units = 1 + data.size() / kInlineBytesPerUnit;
    const CUresult result =
        alone ? session->objects().patch_kernel.Launch(destination, mask, data, stream->driver)
              : CopyRuns(&units);
    if (result == CUDA_SUCCESS) {
      std::uint64_t bytes = 0;
      for (const std::byte word : mask)
        bytes += static_cast<unsigned>(std::popcount(std::to_integer<unsigned char>(word)));
      session->timeline().End(std::move(start), *stream, TraceKind::kToDevice, 0, 0, bytes);
    }
    return Finish(result, units);
  }
  std::size_t Keep() CUSPAN_REQUIRES(receiving_thread) override {
    kept.assign(mask.begin(), mask.end());
    kept.insert(kept.end(), data.begin(), data.end());
    mask = Bytes(kept).first(mask.size());
    data = Bytes(kept).subspan(mask.size());
    return kept.size();
  }

  std::uint64_t destination = 0;
  Bytes mask;
  Bytes data;
  std::vector<std::byte> kept;

 private:
  bool Masked(std::size_t at) const {
    return (std::to_integer<unsigned>(mask[at / kPatchWordBytes]) >> (at % kPatchWordBytes) & 1) !=
           0;
  }
  // Copies each run of bytes separately. The driver copies the bytes before it returns.
  CUresult CopyRuns(std::uint64_t* units) const {
    for (std::size_t at = 0; at < data.size();) {
      std::size_t end = at;
      while (end < data.size() && Masked(end)) ++end;
      if (end != at) {
        const CUresult result = session->driver().cuMemcpyHtoDAsync(
            destination + at, data.data() + at, end - at, stream->driver);
        if (result != CUDA_SUCCESS) return result;
        ++*units;
      }
      at = end + 1;
    }
    return CUDA_SUCCESS;
  }
};

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const PatchMemory& op) {
  CUSPAN_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, session.FindStream(op.stream));
  if (op.data.empty() || op.data.size() > kMaxPatchBytes ||
      op.data.size() != op.mask.size() * kPatchWordBytes)
    return Status::Invalid("a patch of {} bytes with a mask of {} bytes", op.data.size(),
                           op.mask.size());
  if (op.destination % kPatchWordBytes != 0)
    return Status::Invalid("a patch at 0x{:x}, not a multiple of {}", op.destination,
                           kPatchWordBytes);
  Patch patch(session, origin, std::move(stream));
  patch.destination = op.destination;
  patch.mask = op.mask;
  patch.data = op.data;
  return Queue(session, std::move(patch));
}

}  // namespace cuspan::proxy
