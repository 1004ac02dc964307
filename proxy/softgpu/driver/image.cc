#include "proxy/softgpu/driver/image.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>
#include <span>
#include <vector>

#include "common/log.h"
#include "protocol/fatbin/fatbin.h"
#include "protocol/fatbin/payload.h"
#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/ptx/link.h"

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
    if (entry.kind == fatbin::Kind::kObject) continue;
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

CUresult Read(std::span<const std::uint8_t> bytes, fatbin::Container* container) {
  Result<fatbin::Container> read = fatbin::ReadContainer(bytes);
  if (!read.ok()) {
    LogError("software GPU: {}", read.status().message());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *container = std::move(*read);
  return CUDA_SUCCESS;
}

CUresult Decode(const fatbin::Entry& entry, std::string* ptx) {
  Result<std::string> text = fatbin::DecodePtx(entry);
  if (!text.ok()) {
    LogError("software GPU: {}", text.status().message());
    return text.status().code() == StatusCode::kUnsupported ? CUDA_ERROR_NO_BINARY_FOR_GPU
                                                            : CUDA_ERROR_INVALID_IMAGE;
  }
  *ptx = std::move(*text);
  return CUDA_SUCCESS;
}

// The newest PTX that a device of `capability` runs; null when there is none.
const fatbin::Entry* Newest(const fatbin::Container& container, std::uint32_t capability) {
  const fatbin::Entry* best = nullptr;
  for (const fatbin::Entry& entry : container.entries) {
    if (entry.kind != fatbin::Kind::kPtx || !Runs(entry, capability)) continue;
    if (best == nullptr || entry.architecture > best->architecture) best = &entry;
  }
  return best;
}

CUresult NoPtx(const fatbin::Container& container, std::uint32_t capability) {
  LogError(
      "software GPU: the fat binary holds {}; the software GPU runs PTX for sm_{} or older "
      "(nvcc option -gencode arch=compute_XX,code=compute_XX)",
      Kinds(container), capability);
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

// Whether an object is the toolkit's device runtime (libcudadevrt.a), in whose place the software
// GPU has its own.
bool IsDeviceRuntime(const std::string& ptx) {
  static constexpr std::string_view kName = " __cudaCDP2LaunchDeviceV2";
  for (std::size_t at = ptx.find(kName); at != std::string::npos; at = ptx.find(kName, at + 1)) {
    const std::size_t line = ptx.rfind('\n', at) + 1;
    if (ptx.compare(line, 8, ".visible") == 0) return true;
  }
  return false;
}

// Appends the PTX of one object of a link to `texts`, if it is to be linked.
CUresult FromObject(const fatbin::Entry& object, std::uint32_t capability,
                    std::vector<std::string>* texts) {
  fatbin::Container container;
  CUSPAN_SOFT_RETURN_IF_ERROR(Read(object.payload, &container));
  const fatbin::Entry* const best = Newest(container, capability);
  const fatbin::Entry* const any = best != nullptr ? best : Newest(container, UINT32_MAX);
  std::string text;
  if (any != nullptr) CUSPAN_SOFT_RETURN_IF_ERROR(Decode(*any, &text));
  if (IsDeviceRuntime(text)) return CUDA_SUCCESS;
  if (best == nullptr) return NoPtx(container, capability);
  texts->push_back(std::move(text));
  return CUDA_SUCCESS;
}

CUresult LinkObjects(const fatbin::Container& container, std::uint32_t capability,
                     std::string* ptx) {
  std::vector<std::string> texts;
  for (const fatbin::Entry& entry : container.entries)
    if (entry.kind == fatbin::Kind::kObject)
      CUSPAN_SOFT_RETURN_IF_ERROR(FromObject(entry, capability, &texts));
  if (texts.empty()) return NoPtx(container, capability);
  Result<std::string> linked = ptx::LinkModules(texts);
  if (!linked.ok()) {
    LogError("software GPU: {}", linked.status().message());
    return CUDA_ERROR_INVALID_PTX;
  }
  *ptx = std::move(*linked);
  return CUDA_SUCCESS;
}

CUresult FromContainer(const void* image, std::uint32_t capability, std::string* ptx) {
  const Result<std::uint64_t> bytes = fatbin::ContainerBytes(image);
  if (!bytes.ok()) {
    LogError("software GPU: {}", bytes.status().message());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  fatbin::Container container;
  CUSPAN_SOFT_RETURN_IF_ERROR(Read({static_cast<const std::uint8_t*>(image), *bytes}, &container));
  if (const fatbin::Entry* best = Newest(container, capability)) return Decode(*best, ptx);
  const bool has_objects =
      std::any_of(container.entries.begin(), container.entries.end(),
                  [](const fatbin::Entry& entry) { return entry.kind == fatbin::Kind::kObject; });
  return has_objects ? LinkObjects(container, capability, ptx) : NoPtx(container, capability);
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
