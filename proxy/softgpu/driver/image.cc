#include "proxy/softgpu/driver/image.h"

#include <cctype>
#include <cstring>
#include <set>
#include <span>

#include "common/log.h"
#include "protocol/fatbin/fatbin.h"
#include "protocol/fatbin/payload.h"

namespace cuspan::softgpu {
namespace {

bool IsElf(const void* image) { return std::memcmp(image, "\177ELF", 4) == 0; }

// Whether a device of `capability` runs PTX compiled for the entry's
// architecture: any older one; sm_90a only itself, sm_100f only its family.
bool Runs(const fatbin::Entry& entry, std::uint32_t capability) {
  if (entry.architecture > capability) return false;
  if (entry.flags & fatbin::kFlagExactOnly) return entry.architecture == capability;
  if (entry.flags & fatbin::kFlagFamilyOnly) return entry.architecture / 10 == capability / 10;
  return true;
}

std::string Kinds(const fatbin::Container& container) {
  std::set<std::string> kinds;
  for (const fatbin::Entry& entry : container.entries) {
    const char* kind = entry.kind == fatbin::Kind::kPtx   ? "PTX"
                       : entry.kind == fatbin::Kind::kElf ? "machine code"
                                                          : "other code";
    kinds.insert(Format("{} for sm_{}", kind, entry.architecture));
  }
  if (kinds.empty()) return "nothing";
  std::string text;
  for (const std::string& kind : kinds) text += (text.empty() ? "" : ", ") + kind;
  return text;
}

CUresult FromContainer(const void* image, std::uint32_t capability, std::string* ptx) {
  const Result<std::uint64_t> bytes = fatbin::ContainerBytes(image);
  if (!bytes.ok()) {
    LogError("software GPU: {}", bytes.status().message());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  const Result<fatbin::Container> container =
      fatbin::ReadContainer({static_cast<const std::uint8_t*>(image), *bytes});
  if (!container.ok()) {
    LogError("software GPU: {}", container.status().message());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  const fatbin::Entry* best = nullptr;
  for (const fatbin::Entry& entry : container->entries) {
    if (entry.kind != fatbin::Kind::kPtx || !Runs(entry, capability)) continue;
    if (best == nullptr || entry.architecture > best->architecture) best = &entry;
  }
  if (best == nullptr) {
    LogError(
        "software GPU: the fat binary holds {}; the software GPU runs PTX for sm_{} or older "
        "(nvcc option -gencode arch=compute_XX,code=compute_XX)",
        Kinds(*container), capability);
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  Result<std::string> text = fatbin::DecodePtx(*best);
  if (!text.ok()) {
    LogError("software GPU: {}", text.status().message());
    return text.status().code() == StatusCode::kUnsupported ? CUDA_ERROR_NO_BINARY_FOR_GPU
                                                            : CUDA_ERROR_INVALID_IMAGE;
  }
  *ptx = std::move(*text);
  return CUDA_SUCCESS;
}

// PTX text starts with comments, blanks and directives; the driver tells other
// things from damaged PTX by that.
bool LooksLikePtx(const char* text) {
  while (std::isspace(static_cast<unsigned char>(*text))) ++text;
  return *text == '.' || (text[0] == '/' && (text[1] == '/' || text[1] == '*'));
}

}  // namespace

CUresult SelectPtx(const void* image, int capability, std::string* ptx) {
  const auto* text = static_cast<const char*>(image);
  // Byte by byte: a short text may end before a fourth.
  if (LooksLikePtx(text)) {
    *ptx = text;
    return CUDA_SUCCESS;
  }
  if (*text == '\0') return CUDA_ERROR_INVALID_IMAGE;
  if (fatbin::IsContainer(image)) {
    return FromContainer(image, static_cast<std::uint32_t>(capability), ptx);
  }
  if (IsElf(image)) {
    LogError("software GPU: the image is machine code; the software GPU runs PTX");
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  LogError("software GPU: the image is neither a fat binary nor PTX");
  return CUDA_ERROR_INVALID_IMAGE;
}

}  // namespace cuspan::softgpu
