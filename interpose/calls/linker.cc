#include "interpose/calls/linker.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "interpose/calls/base/ways_in.h"
#include "interpose/calls/library.h"
#include "interpose/client/base/handles.h"
#include "protocol/fatbin/image.h"

namespace cuspan {
namespace {

// A linker of one generation of a context.
struct ContextLinker {
  ContextLinker(std::shared_ptr<ContextConnection> owner, JitOptions wanted)
      : link(std::move(owner)), options(std::move(wanted)) {}
  const std::shared_ptr<ContextConnection> link;
  const std::uint64_t number = NextHandle();  // Handle for the proxy and the program.
  const JitOptions options;
  Mutex mutex;  // Held during a call: the pieces of an input must be consecutive.
  std::vector<std::uint8_t> image CUSPAN_GUARDED_BY(mutex);
};

// The session's linkers. Threads: any.
class Linkers final : public ContextTable {
 public:
  void Add(std::shared_ptr<ContextLinker> linker) {
    const MutexLock lock(mutex_);
    linkers_.emplace(linker->number, std::move(linker));
  }
  // Null if unknown. `remove` also removes it from the table.
  std::shared_ptr<ContextLinker> Find(CUlinkState handle, bool remove = false) {
    const MutexLock lock(mutex_);
    const auto known = linkers_.find(NumberOf(handle));
    if (known == linkers_.end()) return nullptr;
    std::shared_ptr<ContextLinker> linker = known->second;
    if (remove) linkers_.erase(known);
    return linker;
  }
  void Forget(const ContextConnection& ended) override {
    const MutexLock lock(mutex_);
    std::erase_if(linkers_, [&](const auto& entry) {
      return entry.second->link->number() == ended.number();
    });
  }

 private:
  Mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<ContextLinker>> linkers_
      CUSPAN_GUARDED_BY(mutex_);
};

// Calls body(ContextLinker&) → Error.
template <typename Body>
Error WithLinker(CUlinkState handle, Body&& body) {
  return WithSession([&](Session& session) -> Error {
    const std::shared_ptr<ContextLinker> linker = session.TableOf<Linkers>().Find(handle);
    return linker == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*linker);
  });
}

CUresult SendInput(const ContextLinker& linker, const LinkerInputData& input) {
  const std::span bytes(static_cast<const std::byte*>(input.data), input.bytes);
  for (std::size_t offset = 0; offset < bytes.size(); offset += kMaxInlineBytes) {
    LinkerInput piece;
    piece.linker = linker.number;
    piece.total = bytes.size();
    piece.offset = offset;
    piece.data = bytes.subspan(offset, std::min(kMaxInlineBytes, bytes.size() - offset));
    if (const CUresult result = linker.link->Send(piece); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

// Fails for a complete linker: it takes no more input (measured natively).
Error CheckOpen(const ContextLinker& linker) CUSPAN_REQUIRES(linker.mutex) {
  return linker.image.empty() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// `input` is not empty.
Error AddInput(const ContextLinker& linker, const LinkerInputData& input, const JitRequest& own)
    CUSPAN_REQUIRES(linker.mutex) {
  if (input.bytes > fatbin::kMaxModuleBytes) return CUDA_ERROR_INVALID_IMAGE;
  CUSPAN_RETURN_IF_FAILED(CheckOpen(linker));
  CUSPAN_RETURN_IF_FAILED(SendInput(linker, input));
  LinkerAdd op;
  op.linker = linker.number;
  op.kind = static_cast<std::uint32_t>(input.kind);
  // Enough for a log, and fits a frame.
  constexpr std::size_t kMaxName = 4096;
  if (input.name != nullptr) op.name.assign(input.name, strnlen(input.name, kMaxName));
  op.options = own.options;
  LinkerAdd::Reply reply;
  const CUresult result = linker.link->Call(op, &reply);
  linker.options.Answer(reply.jit);
  return result;
}

// Fetches the linked image, of `bytes` bytes, from the proxy.
CUresult FetchImage(const ContextLinker& linker, std::uint64_t bytes,
                    std::vector<std::uint8_t>* image) {
  std::vector<std::uint8_t> fetched;
  while (fetched.size() < bytes) {
    LinkerImage::Reply piece;
    const CUresult result = linker.link->Call(LinkerImage{linker.number, fetched.size()}, &piece);
    if (result != CUDA_SUCCESS) return result;
    if (piece.data.empty()) return CUDA_ERROR_UNKNOWN;
    fetched.insert(fetched.end(), piece.data.begin(), piece.data.end());
  }
  *image = std::move(fetched);
  return CUDA_SUCCESS;
}

}  // namespace

Error CreateLinker(const Options<CUjit_option>& options, CUlinkState* linker) {
  JitOptions jit;
  CUSPAN_RETURN_IF_FAILED(jit.Read(options));
  return WithSession([&](Session& session) -> Error {
    std::shared_ptr<ContextConnection> link;
    CUSPAN_RETURN_IF_FAILED(session.devices().OpenCurrent(&link));
    const auto made = std::make_shared<ContextLinker>(link, std::move(jit));
    LinkerCreate::Reply reply;
    const CUresult result = link->Call(LinkerCreate{made->number, made->options.request()}, &reply);
    if (result != CUDA_SUCCESS) {
      static_cast<void>(link->Send(LinkerDestroy{made->number}));  // Fails on a lost device.
      return result;
    }
    session.TableOf<Linkers>().Add(made);
    *linker = HandleOf<CUlinkState>(made->number);
    return CUDA_SUCCESS;
  });
}

Error AddToLinker(CUlinkState handle, const LinkerInputData& input,
                  const Options<CUjit_option>& options) {
  if (input.data == nullptr || input.bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  JitOptions own;
  CUSPAN_RETURN_IF_FAILED(own.Read(options));
  return WithLinker(handle, [&](ContextLinker& linker) {
    const MutexLock lock(linker.mutex);
    return AddInput(linker, input, own.request());
  });
}

Error AddFileToLinker(CUlinkState handle, CUjitInputType kind, const char* path,
                      const Options<CUjit_option>& options) {
  JitOptions own;
  CUSPAN_RETURN_IF_FAILED(own.Read(options));
  return WithLinker(handle, [&](ContextLinker& linker) -> Error {
    const MutexLock lock(linker.mutex);
    CUSPAN_RETURN_IF_FAILED(CheckOpen(linker));  // Before reading the file.
    LargeBytes code;
    CUSPAN_RETURN_IF_FAILED(ReadCodeFile(path, &code));
    const std::size_t bytes = code.size() - 1;  // Without the NUL at its end.
    if (bytes == 0) return CUDA_ERROR_INVALID_IMAGE;
    return AddInput(linker, {kind, code.data(), bytes, path}, own.request());
  });
}

Error CompleteLinker(CUlinkState handle, void** image, std::size_t* bytes) {
  return WithLinker(handle, [&](ContextLinker& linker) -> Error {
    const MutexLock lock(linker.mutex);
    LinkerComplete::Reply reply;
    const CUresult result = linker.link->Call(LinkerComplete{linker.number}, &reply);
    linker.options.Answer(reply.jit);
    if (result != CUDA_SUCCESS) return result;
    // The program may still use the image returned by an earlier call.
    if (linker.image.empty())
      CUSPAN_RETURN_IF_FAILED(FetchImage(linker, reply.bytes, &linker.image));
    *image = linker.image.data();
    if (bytes != nullptr) *bytes = linker.image.size();
    return CUDA_SUCCESS;
  });
}

Error DestroyLinker(CUlinkState handle) {
  return WithSession([&](Session& session) -> Error {
    const std::shared_ptr<ContextLinker> linker = session.TableOf<Linkers>().Find(handle, true);
    if (linker == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return linker->link->Send(LinkerDestroy{linker->number});
  });
}

}  // namespace cuspan
