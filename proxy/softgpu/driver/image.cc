#include "proxy/softgpu/driver/image.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "protocol/fatbin/fatbin.h"
#include "protocol/fatbin/image.h"
#include "protocol/fatbin/payload.h"
#include "proxy/softgpu/driver/elf.h"
#include "proxy/softgpu/driver/errors.h"

namespace cuspan::softgpu {
namespace {

// True if a device of `capability` runs PTX for the entry's architecture: any older one; sm_90a
// only on itself, sm_100f only on its family.
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

CUresult Decode(const fatbin::Entry& entry, std::string* ptx, std::string* why) {
  Result<std::string> text = fatbin::DecodePtx(entry);
  if (!text.ok()) {
    *why = text.status().message();
    return text.status().code() == StatusCode::kUnsupported ? CUDA_ERROR_NO_BINARY_FOR_GPU
                                                            : CUDA_ERROR_INVALID_IMAGE;
  }
  *ptx = std::move(*text);
  return CUDA_SUCCESS;
}

// Returns the newest PTX runnable on a device of `capability`, or null.
const fatbin::Entry* Newest(const fatbin::Container& container, std::uint32_t capability) {
  const fatbin::Entry* best = nullptr;
  for (const fatbin::Entry& entry : container.entries) {
    if (entry.kind != fatbin::Kind::kPtx || !Runs(entry, capability)) continue;
    if (best == nullptr || entry.architecture > best->architecture) best = &entry;
  }
  return best;
}

}  // namespace

// PTX starts with comments, blanks and directives, so the first bytes distinguish damaged PTX from
// other formats. Checks byte by byte: a short text may end before the fourth byte.
bool IsPtxText(const void* image) {
  const auto* text = static_cast<const char*>(image);
  while (std::isspace(static_cast<unsigned char>(*text))) ++text;
  return *text == '.' || (text[0] == '/' && (text[1] == '/' || text[1] == '*'));
}

CUresult PtxOfFatbin(std::span<const std::uint8_t> bytes, int capability, std::string* ptx,
                     std::string* why) {
  const Result<fatbin::Container> container = fatbin::ReadContainer(bytes);
  if (!container.ok()) {
    *why = container.status().message();
    return CUDA_ERROR_INVALID_IMAGE;
  }
  if (const fatbin::Entry* best = Newest(*container, static_cast<std::uint32_t>(capability)))
    return Decode(*best, ptx, why);
  *why = Format(
      "the fat binary holds {}; the software GPU runs PTX for sm_{} or older "
      "(nvcc option -gencode arch=compute_XX,code=compute_XX)",
      Kinds(*container), capability);
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

CUresult PtxOfElf(std::span<const std::uint8_t> elf, std::string* ptx, std::string* why) {
  std::optional<std::string> text = PtxOfImage(elf);
  if (!text) {
    *why =
        "the image is machine code; the software GPU runs PTX (docs/frameworks.md lists the "
        "settings of frameworks for PTX)";
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  *ptx = std::move(*text);
  return CUDA_SUCCESS;
}

CUresult SelectPtx(const void* image, int capability, std::string* ptx, std::string* why) {
  const auto* text = static_cast<const char*>(image);
  if (IsPtxText(image)) {
    *ptx = text;
    return CUDA_SUCCESS;
  }
  if (*text == '\0') return CUDA_ERROR_INVALID_IMAGE;
  const fatbin::ImageKind kind = fatbin::KindOf(image);
  if (kind != fatbin::ImageKind::kContainer && kind != fatbin::ImageKind::kElf) {
    *why = "the image is neither a fat binary nor PTX";
    return CUDA_ERROR_INVALID_IMAGE;
  }
  const Result<std::uint64_t> bytes = fatbin::ImageBytes(image);
  if (!bytes.ok()) {
    *why = bytes.status().message();
    return CUDA_ERROR_INVALID_IMAGE;
  }
  const std::span whole(static_cast<const std::uint8_t*>(image), *bytes);
  return kind == fatbin::ImageKind::kElf ? PtxOfElf(whole, ptx, why)
                                         : PtxOfFatbin(whole, capability, ptx, why);
}

}  // namespace cuspan::softgpu
