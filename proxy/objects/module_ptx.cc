#include "proxy/objects/module_ptx.h"

#include <algorithm>

#include "protocol/fatbin/image.h"
#include "protocol/fatbin/payload.h"

namespace cuspan::proxy {
namespace {

bool RunsOn(const fatbin::Entry& entry, std::uint32_t capability) {
  if (entry.architecture == capability) return true;
  if ((entry.flags & fatbin::kFlagExactOnly) != 0 || entry.architecture > capability) return false;
  // Machine code runs on later architectures of the same generation, PTX on all later ones.
  const bool same_generation = entry.architecture / 10 == capability / 10;
  return same_generation ||
         (entry.kind == fatbin::Kind::kPtx && (entry.flags & fatbin::kFlagFamilyOnly) == 0);
}

}  // namespace

ModulePtx::ModulePtx(std::span<const std::byte> image, std::uint32_t capability) {
  found_ = Find(image, capability);
}

Result<std::string> ModulePtx::Text() const {
  if (!found_.ok()) return found_;
  fatbin::Entry entry = entry_;
  entry.payload = stored_;
  return fatbin::DecodePtx(entry);
}

void ModulePtx::Keep(const fatbin::Entry& entry) {
  entry_ = entry;
  stored_.assign(entry.payload.begin(), entry.payload.end());
  // These point into the image.
  entry_.payload = {};
  entry_.name = entry_.options = {};
}

Status ModulePtx::Find(std::span<const std::byte> image, std::uint32_t capability) {
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(image.data()), image.size());
  const fatbin::ImageKind kind = fatbin::KindOf(image.data(), image.size());
  if (kind == fatbin::ImageKind::kText) {
    fatbin::Entry text{};
    text.kind = fatbin::Kind::kPtx;
    text.payload = bytes;
    text.uncompressed_bytes = bytes.size();
    Keep(text);
    return Status::Ok();
  }
  if (kind != fatbin::ImageKind::kContainer)
    return Status::NotFound("the module is machine code without PTX");
  CUSPAN_ASSIGN_OR_RETURN(const fatbin::Container container, fatbin::ReadContainer(bytes));
  const fatbin::Entry* ptx = nullptr;
  std::uint32_t machine_code = 0;
  for (const fatbin::Entry& entry : container.entries) {
    if (!RunsOn(entry, capability)) continue;
    if (entry.kind == fatbin::Kind::kElf)
      machine_code = std::max(machine_code, entry.architecture);
    else if (entry.kind == fatbin::Kind::kPtx &&
             (ptx == nullptr || entry.architecture > ptx->architecture))
      ptx = &entry;
  }
  if (ptx == nullptr) return Status::NotFound("the module has no PTX for this GPU");
  if (ptx->architecture < machine_code)
    return Status::NotFound("the module's PTX is for an older GPU than its machine code");
  Keep(*ptx);
  return Status::Ok();
}

}  // namespace cuspan::proxy
