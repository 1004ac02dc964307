// Linkers of device code: cuLink*.
#include <algorithm>
#include <utility>

#include "common/log.h"
#include "protocol/fatbin/image.h"
#include "proxy/handlers/handlers.h"
#include "proxy/handlers/on_worker.h"

namespace cuspan::proxy {
namespace {

// An input, as received.
struct Input {
  std::vector<std::byte> bytes;  // Plus a NUL, needed by the driver after PTX.
  CUjitInputType kind;
  std::string name;
  JitArguments jit;
};

CUresult AddTo(DeviceSession& session, const Linker& linker, Input& input) {
  if (linker.result != CUDA_SUCCESS) return linker.result;
  if (const Status image = fatbin::CheckImage(input.bytes); !image.ok()) {
    LogError("{}", image.message());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  return session.faults().Check(session.driver().cuLinkAddData(
      linker.state, input.kind, input.bytes.data(), input.bytes.size() - 1, input.name.c_str(),
      input.jit.count(), input.jit.names(), input.jit.values()));
}

CUresult Complete(DeviceSession& session, Linker& linker) {
  if (linker.result != CUDA_SUCCESS) return linker.result;
  void* image = nullptr;
  std::size_t bytes = 0;
  linker.image = {};
  const CUresult result =
      session.faults().Check(session.driver().cuLinkComplete(linker.state, &image, &bytes));
  if (result == CUDA_SUCCESS) linker.image = {static_cast<const std::byte*>(image), bytes};
  return result;
}

}  // namespace

Status Handle(DeviceSession& session, const Origin& origin, const LinkerCreate& op) {
  CUSPAN_RETURN_IF_ERROR(session.objects().linkers.CheckNew(op.linker));
  CUSPAN_ASSIGN_OR_RETURN(JitArguments jit, JitArguments::Of(op.jit));
  const auto linker = std::make_shared<Linker>(session.driver());
  linker->jit = std::move(jit);
  session.objects().linkers.Add(op.linker, linker);
  return OnWorker<LinkerCreate>(session, origin, [&session, linker] {
    JitArguments& jit = linker->jit;
    linker->result = session.faults().Check(
        session.driver().cuLinkCreate(jit.count(), jit.names(), jit.values(), &linker->state));
    return linker->result;
  });
}

Status Handle(DeviceSession& session, const Origin&, const LinkerInput& op) {
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Linker> linker,
                          session.objects().linkers.Get(op.linker));
  if (op.offset == 0 && linker->input.empty()) linker->input_total = op.total;
  if (op.total == 0 || op.total > fatbin::kMaxModuleBytes || op.total != linker->input_total ||
      op.offset != linker->input.size() || op.data.empty() ||
      op.data.size() > op.total - linker->input.size())
    return Status::Invalid("bytes {} + {} of {} do not continue the input of linker 0x{:x}",
                           op.offset, op.data.size(), op.total, op.linker);
  linker->input.insert(linker->input.end(), op.data.begin(), op.data.end());
  return Status::Ok();
}

Status Handle(DeviceSession& session, const Origin& origin, const LinkerAdd& op) {
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Linker> linker,
                          session.objects().linkers.Get(op.linker));
  if (linker->input.empty() || linker->input.size() != linker->input_total)
    return Status::Invalid("linker 0x{:x} adds an input of {} bytes, but only {} have arrived",
                           op.linker, linker->input_total, linker->input.size());
  CUSPAN_ASSIGN_OR_RETURN(JitArguments jit, JitArguments::Of({op.options, 0, 0}));
  const auto input =
      std::make_shared<Input>(Input{std::exchange(linker->input, {}),
                                    static_cast<CUjitInputType>(op.kind), op.name, std::move(jit)});
  input->bytes.push_back(std::byte{0});
  return OnWorker<LinkerAdd>(session, origin, [&session, linker, input] {
    const CUresult result = AddTo(session, *linker, *input);
    return LinkerAdd::Reply{result, linker->jit.Answer()};
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const LinkerComplete& op) {
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Linker> linker,
                          session.objects().linkers.Get(op.linker));
  return OnWorker<LinkerComplete>(session, origin, [&session, linker] {
    const CUresult result = Complete(session, *linker);
    return LinkerComplete::Reply{result, linker->image.size(), linker->jit.Answer()};
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const LinkerImage& op) {
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Linker> linker,
                          session.objects().linkers.Get(op.linker));
  return OnWorker<LinkerImage>(session, origin, [linker, offset = op.offset] {
    if (offset >= linker->image.size()) return FailedReply<LinkerImage>(CUDA_ERROR_INVALID_VALUE);
    const auto piece =
        linker->image.subspan(offset, std::min(kMaxInlineBytes, linker->image.size() - offset));
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(piece.data());
    return LinkerImage::Reply{CUDA_SUCCESS, {bytes, bytes + piece.size()}};
  });
}

Status Handle(DeviceSession& session, const Origin& origin, const LinkerDestroy& op) {
  CUSPAN_ASSIGN_OR_RETURN(const std::shared_ptr<Linker> linker,
                          session.objects().linkers.Take(op.linker));
  return OnWorker<LinkerDestroy>(session, origin, [&session, linker] {
    const CUlinkState state = std::exchange(linker->state, nullptr);
    return state != nullptr ? session.driver().cuLinkDestroy(state) : CUDA_SUCCESS;
  });
}

}  // namespace cuspan::proxy
