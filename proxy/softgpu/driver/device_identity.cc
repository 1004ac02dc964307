#include "proxy/softgpu/driver/device_identity.h"

#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>

#include "common/format.h"
#include "common/settings.h"
#include "common/visible_list.h"

namespace cuspan::softgpu {

CUuuid Uuid(int number) {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  std::string identity;
  std::getline(std::ifstream("/etc/machine-id"), identity);
  identity += '\0';
  identity += host;
  const XXH128_hash_t hash =
      XXH3_128bits_withSeed(identity.data(), identity.size(), static_cast<XXH64_hash_t>(number));
  CUuuid uuid;
  static_assert(sizeof(hash) == sizeof(uuid.bytes));
  std::memcpy(uuid.bytes, &hash, sizeof(hash));
  // Version and variant bits of a hash-based UUID (RFC 9562, version 8).
  uuid.bytes[6] = static_cast<char>((uuid.bytes[6] & 0x0f) | 0x80);
  uuid.bytes[8] = static_cast<char>((uuid.bytes[8] & 0x3f) | 0x80);
  return uuid;
}

Result<std::vector<int>> VisibleDevices(int devices) {
  if (devices == 0) return Status::NotFound("this host has no software GPU");
  std::vector<int> numbers(static_cast<std::size_t>(devices));
  std::iota(numbers.begin(), numbers.end(), 0);
  const std::string_view visible = SettingText(settings::kSoftVisible);
  if (visible != "all" && visible != "chosen")
    return Status::Invalid("{}='{}' is neither all nor chosen", settings::kSoftVisible.name,
                           visible);
  const char* const choice = std::getenv("CUDA_VISIBLE_DEVICES");
  if (choice == nullptr || visible == "all") return numbers;
  std::vector<std::string> identifiers;
  for (const int number : numbers) {
    const CUuuid uuid = Uuid(number);
    std::string& digits = identifiers.emplace_back();
    for (const char byte : uuid.bytes) digits += Format("{:02x}", static_cast<unsigned char>(byte));
  }
  const VisibleList list = ReadVisibleList(choice, identifiers);
  if (list.repeats)
    return Status::Refused("CUDA_VISIBLE_DEVICES='{}' names a device twice", choice);
  if (list.positions.empty())
    return Status::NotFound(
        "CUDA_VISIBLE_DEVICES='{}' selects no GPU among the {} software GPUs of this host", choice,
        devices);
  numbers.clear();
  for (const std::size_t position : list.positions) numbers.push_back(static_cast<int>(position));
  return numbers;
}

}  // namespace cuspan::softgpu
