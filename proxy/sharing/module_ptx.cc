#include "proxy/sharing/module_ptx.h"

#include <algorithm>

#include "protocol/fatbin/fatbin.h"
#include "protocol/fatbin/image.h"
#include "protocol/fatbin/payload.h"

namespace cuspan::proxy {
namespace {

bool RunsOn(const fatbin::Entry& entry, std::uint32_t capability) {
  if (entry.architecture == capability) return true;
  if ((entry.flags & fatbin::kFlagExactOnly) != 0 || entry.architecture > capability) return false;
  // Machine code is for later ones of the same generation, PTX for all later ones.
  const bool same_generation = entry.architecture / 10 == capability / 10;
  return same_generation ||
         (entry.kind == fatbin::Kind::kPtx && (entry.flags & fatbin::kFlagFamilyOnly) == 0);
}

}  // namespace

Result<std::string> FindPtx(std::span<const std::byte> image, std::uint32_t capability) {
  const fatbin::ImageKind kind = fatbin::KindOf(image.data(), image.size());
  if (kind == fatbin::ImageKind::kText) {
    const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
    return std::string(text.substr(0, text.find('\0')));
  }
  if (kind != fatbin::ImageKind::kContainer)
    return Status::NotFound("the module is machine code without PTX");
  CUSPAN_ASSIGN_OR_RETURN(
      const fatbin::Container container,
      fatbin::ReadContainer({reinterpret_cast<const std::uint8_t*>(image.data()), image.size()}));
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
  return fatbin::DecodePtx(*ptx);
}

}  // namespace cuspan::proxy
