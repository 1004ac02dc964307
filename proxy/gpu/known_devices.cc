#include "proxy/gpu/known_devices.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>

#include "common/boot_id.h"
#include "common/cache_folder.h"
#include "common/log.h"
#include "common/private_file.h"
#include "common/settings.h"
#include "protocol/wire/frame.h"

namespace cuspan::proxy {
namespace {

constexpr std::int64_t kUsedSeconds = 24 * 3600;
constexpr std::int64_t kKeptSeconds = 7 * 24 * 3600;
constexpr std::string_view kSuffix = ".devices";
// Separates the state, a text, from the message behind it.
constexpr char kEndOfState = '\0';
// Far above the size for all devices of a host.
constexpr std::size_t kMaxFileBytes = kMaxControlBytes + (1 << 16);

// The boot, and FNV-1a with 64 bits (draft-eastlake-fnv). States are compared as a whole.
std::string FileName(std::string_view state) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : state) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return Format("{}-{}{}", BootId(), text, kSuffix);
}

// True if a server of MPS may answer the driver: the devices are those of the server.
bool HasMps() { return ::access("/tmp/nvidia-mps/control", F_OK) == 0; }

// Variables that change the driver's list of devices, sorted. Others may contain secrets.
std::vector<std::string> DriverVariables() {
  std::vector<std::string> found;
  for (char** variable = environ; *variable != nullptr; ++variable)
    for (const std::string_view prefix :
         {"CUDA_VISIBLE_DEVICES=", "CUDA_DEVICE_ORDER=", "CUDA_MPS_", "NVIDIA_VISIBLE_DEVICES="})
      if (std::string_view(*variable).starts_with(prefix)) found.emplace_back(*variable);
  std::sort(found.begin(), found.end());
  return found;
}

// One line for the GPU; empty if NVML does not know all of it.
std::string StateOfGpu(const Nvml& nvml, unsigned index) {
  auto* const by_index =
      nvml.Function<int(unsigned, nvml::Device*)>("nvmlDeviceGetHandleByIndex_v2");
  auto* const uuid = nvml.Function<int(nvml::Device, char*, unsigned)>("nvmlDeviceGetUUID");
  auto* const memory = nvml.Function<int(nvml::Device, nvml::Memory*)>("nvmlDeviceGetMemoryInfo");
  auto* const mode = nvml.Function<int(nvml::Device, unsigned*)>("nvmlDeviceGetComputeMode");
  auto* const mig = nvml.Function<int(nvml::Device, unsigned*, unsigned*)>("nvmlDeviceGetMigMode");
  if (by_index == nullptr || uuid == nullptr || memory == nullptr || mode == nullptr ||
      mig == nullptr)
    return "";
  nvml::Device gpu = nullptr;
  char name[96] = "";
  nvml::Memory bytes{};
  unsigned compute_mode = 0;
  unsigned divided = 0;
  unsigned will_be_divided = 0;
  if (by_index(index, &gpu) != nvml::kSuccess || uuid(gpu, name, sizeof name) != nvml::kSuccess ||
      memory(gpu, &bytes) != nvml::kSuccess || mode(gpu, &compute_mode) != nvml::kSuccess)
    return "";
  // GPUs without MIG do not support the question.
  if (mig(gpu, &divided, &will_be_divided) == nvml::kSuccess && divided != 0) return "";
  name[sizeof name - 1] = '\0';
  return Format("gpu {} {} {}\n", name, bytes.total, compute_mode);
}

// Whole content of a private file, up to kMaxFileBytes, not older than a day; else empty.
std::string ReadPrivate(int folder, const std::string& name) {
  const auto file = OpenPrivateFile(folder, name, kMaxFileBytes);
  if (!file || file->modified < ::time(nullptr) - kUsedSeconds) return "";
  std::string content(file->bytes, '\0');
  return ReadAll(file->file.get(), content.data(), content.size()) ? content : "";
}

}  // namespace

std::string StateOfDevices(const Nvml& nvml, const LoadedDriver& driver) {
  auto* const release = nvml.Function<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
  auto* const count = nvml.Function<int(unsigned*)>("nvmlDeviceGetCount_v2");
  const std::string boot = BootId();
  char version[80] = "";
  unsigned gpus = 0;
  if (HasMps() || boot.empty() || release == nullptr || count == nullptr ||
      release(version, sizeof version) != nvml::kSuccess || count(&gpus) != nvml::kSuccess ||
      gpus == 0)
    return "";
  version[sizeof version - 1] = '\0';
  std::string state =
      Format("cuspan {} {}\nboot {}\ndriver {} {} {}\n", kOpTableHash,
             static_cast<int>(CU_DEVICE_ATTRIBUTE_MAX), boot, driver.path, driver.version, version);
  for (const std::string& variable : DriverVariables()) state += variable + "\n";
  for (unsigned index = 0; index < gpus; ++index) {
    const std::string gpu = StateOfGpu(nvml, index);
    if (gpu.empty()) return "";
    state += gpu;
  }
  return state;
}

std::optional<KnownDevices> KnownDevices::Open() {
  const std::string folder = CacheFolder(settings::kDeviceCache);
  if (folder.empty()) return std::nullopt;
  Result<KnownDevices> opened = Open(folder);
  if (opened.ok()) return std::move(*opened);
  LogInfo("descriptions of GPUs are not kept: {}", opened.status().message());
  return std::nullopt;
}

Result<KnownDevices> KnownDevices::Open(const std::string& folder) {
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd opened, OpenCacheFolder(folder, settings::kDeviceCache));
  return KnownDevices(std::move(opened));
}

std::vector<DeviceDescription> KnownDevices::Find(std::string_view state) const {
  const std::string content = ReadPrivate(folder_.get(), FileName(state));
  if (!content.starts_with(state) || content.size() <= state.size() ||
      content[state.size()] != kEndOfState)
    return {};
  // A copy, aligned for the frame's header.
  std::vector<std::byte> bytes(content.size() - state.size() - 1);
  std::memcpy(bytes.data(), content.data() + state.size() + 1, bytes.size());
  const Result<Frame> frame = ParseFrame(bytes, kMaxControlBytes);
  if (!frame.ok()) return {};
  Result<InventoryAnswer> kept = ParseMessage<InventoryAnswer>(*frame);
  return kept.ok() ? std::move(kept->devices) : std::vector<DeviceDescription>();
}

Status KnownDevices::Keep(std::string_view state, std::vector<DeviceDescription> devices) const {
  Remove("", static_cast<std::int64_t>(::time(nullptr)) - kKeptSeconds);
  for (DeviceDescription& device : devices) device.free_bytes = kUnknownBytes;
  InventoryAnswer answer;
  answer.devices = std::move(devices);
  const std::vector<std::byte> frame = MakeFrame(answer);
  std::string content(state);
  content += kEndOfState;
  content.append(reinterpret_cast<const char*>(frame.data()), frame.size());
  if (content.size() > kMaxFileBytes) return Status::Exhausted("too many GPUs to be kept");
  const std::string name = FileName(state);
  Status replaced = ReplaceFile(folder_.get(), Format("{}.{}", name, ::getpid()), name, {content});
  if (replaced.ok()) return replaced;
  return Status::Unavailable("the descriptions of GPUs cannot be kept: {}", replaced.message());
}

void KnownDevices::Forget() const { Remove(BootId(), INT64_MAX); }

void KnownDevices::Remove(std::string_view prefix, std::int64_t before) const {
  const int copy = ::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const folder = copy < 0 ? nullptr : ::fdopendir(copy);
  if (folder == nullptr) {
    if (copy >= 0) ::close(copy);
    return;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> owner(folder, &::closedir);
  while (const dirent* entry = ::readdir(folder)) {
    struct stat status {};
    // Also files left behind by a killed process.
    const std::string_view name = entry->d_name;
    if (!name.starts_with(prefix) || name.find(kSuffix) == name.npos) continue;
    if (::fstatat(folder_.get(), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(status.st_mode) && status.st_mtim.tv_sec < before)
      ::unlinkat(folder_.get(), entry->d_name, 0);
  }
}

}  // namespace cuspan::proxy
