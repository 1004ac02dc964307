#include "interpose/cufile/parameters.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "common/file_bytes.h"
#include "common/log.h"
#include "common/regular_file.h"

namespace cuspan::cufile {
namespace {

using Json = nlohmann::json;

// Whole KiB of 64 bits.
constexpr std::size_t kMaxKib = (std::numeric_limits<std::size_t>::max() >> 10) / 4 * 4;

// Size of an H200's BAR.
constexpr std::size_t kBarKib = std::size_t{256} << 20;

// Defaults and ranges of NVIDIA's library (1.20.0.107) on a node with an H200, as it answers
// itself.
constexpr std::array<SizeRange, kSizeParameters> kSizes{{
    {"/profile/cufile_stats", 0, 0, 3},
    {"/execution/max_io_queue_depth", 128, 1, 256},
    {"/execution/max_io_threads", 4, 0, 128},
    {"/execution/min_io_threshold_size_kb", 8192, 4, std::numeric_limits<std::uint32_t>::max()},
    {"/execution/max_request_parallelism", 4, 0, 8},
    {"/properties/max_direct_io_size_kb", 16384, 64, 16384, 64},
    {"/properties/max_device_cache_size_kb", 131072, 0, kBarKib, 4},
    {"/properties/per_buffer_cache_size_kb", 1024, 64, 16384},
    {"/properties/max_device_pinned_mem_size_kb", std::size_t{32} << 20, 64, kBarKib, 4},
    {"/properties/io_batchsize", 128, 1, 256},
    {"/properties/poll_mode_max_size_kb", 4, 4, kMaxKib, 4},
    {"/properties/max_batch_io_timeout_msecs", 5, 1, 1000},
}};

constexpr std::array<SwitchEntry, kSwitchParameters> kSwitches{{
    {"/properties/use_poll_mode", false},
    {"/properties/allow_compat_mode", true},
    {"/properties/force_compat_mode", false},
    {nullptr, false},
    {"/execution/parallel_io", true},
    {"/profile/nvtx", false},
    {"/properties/allow_system_memory", true},
    {nullptr, false},
    {"/properties/prefer_iouring", false},
    {"/properties/force_odirect_mode", false},
    {nullptr, false},
    {nullptr, false},
    {"/properties/vanilla_posix_io_mode", false},
    {"/properties/gds_fallback_io", false},
}};

constexpr std::array<TextEntry, kTextParameters> kTexts{{
    {"/logging/level", "ERROR"},
    {nullptr, ""},
    {"/logging/dir", ""},
    {"/properties/rdma_transport_type", "DC_V1"},
}};

constexpr const char* kFileOfNode = "/etc/cufile.json";
constexpr std::size_t kLogFile = 1;
constexpr const char* kSlabSizes = "/properties/posix_pool_slab_size_kb";
constexpr const char* kSlabCounts = "/properties/posix_pool_slab_count";
constexpr std::size_t kMaxSlabs = 16;
constexpr std::size_t kMaxText = 4096;

template <typename Entries>
bool Knows(const Entries& entries, int number) {
  return number >= 0 && static_cast<std::size_t>(number) < entries.size();
}

bool IsSlabs(std::span<const std::size_t> sizes, std::span<const std::size_t> counts) {
  const bool whole = std::all_of(sizes.begin(), sizes.end(),
                                 [](std::size_t size) { return size != 0 && size % 4 == 0; });
  return whole && !sizes.empty() && sizes.size() <= kMaxSlabs && sizes.size() == counts.size() &&
         std::is_sorted(sizes.begin(), sizes.end()) &&
         std::find(counts.begin(), counts.end(), 0U) == counts.end();
}

// The text of a regular file.
std::optional<std::string> ReadSettings(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{1} << 20;
  OpenedFile opened = OpenRegular(path, O_RDONLY);
  if (!opened.fd.valid()) return std::nullopt;
  std::string text(kMost, '\0');
  const FileBytes file(std::move(opened.fd), {.reads = true});
  const FileOutcome read = file.Read(std::as_writable_bytes(std::span(text)), 0);
  if (read.error != 0 || read.bytes == kMost) return std::nullopt;
  text.resize(read.bytes);
  return text;
}

// Null if the document has no such value. `path` may be null.
const Json* Find(const Json& document, const char* path) {
  if (path == nullptr) return nullptr;
  const Json::json_pointer pointer(path);
  return document.contains(pointer) ? &document.at(pointer) : nullptr;
}

std::optional<std::vector<std::size_t>> NumbersAt(const Json& document, const char* path) {
  const Json* const list = Find(document, path);
  if (list == nullptr || !list->is_array()) return std::nullopt;
  std::vector<std::size_t> numbers;
  for (const Json& number : *list) {
    if (!number.is_number_unsigned()) return std::nullopt;
    numbers.push_back(number.get<std::size_t>());
  }
  return numbers;
}

}  // namespace

Parameters::Parameters() {
  for (std::size_t i = 0; i < kSizes.size(); ++i) sizes_[i] = kSizes[i].initial;
  for (std::size_t i = 0; i < kSwitches.size(); ++i) switches_[i] = kSwitches[i].initial;
  for (std::size_t i = 0; i < kTexts.size(); ++i) texts_[i] = kTexts[i].initial;
  slabs_.fill({{4, 1024, 16384}, {128, 64, 64}});
  if (const char* const log = std::getenv("CUFILE_LOGFILE_PATH"); log != nullptr)
    texts_[kLogFile] = log;
  const char* const path = std::getenv("CUFILE_ENV_PATH_JSON");
  if (path != nullptr && *path != '\0')
    Read(path);
  else if (::access(kFileOfNode, F_OK) == 0)
    Read(kFileOfNode);
}

void Parameters::Read(const std::string& path) {
  const std::optional<std::string> text = ReadSettings(path);
  if (!text) return LogError("the settings of cuFile, {}, cannot be read", path);
  const Json document = Json::parse(*text, nullptr, /*allow_exceptions=*/false,
                                    /*ignore_comments=*/true);
  if (!document.is_object())
    return LogError("the settings of cuFile, {}, are no JSON object: defaults are used", path);
  const auto ignored = [&](const char* name) {
    LogError("{} in {} has no value of its kind and range: the default is used", name, path);
  };
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const Json* const value = Find(document, kSizes[i].path);
    if (value == nullptr) continue;
    if (!value->is_number_unsigned() ||
        SetSize(static_cast<int>(i), value->get<std::size_t>()) != kSuccess)
      ignored(kSizes[i].path);
  }
  for (std::size_t i = 0; i < kSwitches.size(); ++i) {
    const Json* const value = Find(document, kSwitches[i].path);
    if (value == nullptr) continue;
    if (!value->is_boolean())
      ignored(kSwitches[i].path);
    else
      static_cast<void>(SetSwitch(static_cast<int>(i), value->get<bool>()));
  }
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    const Json* const value = Find(document, kTexts[i].path);
    if (value == nullptr) continue;
    if (!value->is_string() ||
        SetText(static_cast<int>(i), value->get_ref<const std::string&>().c_str()) != kSuccess)
      ignored(kTexts[i].path);
  }
  const auto sizes = NumbersAt(document, kSlabSizes);
  const auto counts = NumbersAt(document, kSlabCounts);
  if (sizes && counts && IsSlabs(*sizes, *counts)) {
    const MutexLock lock(mutex_);
    slabs_[0] = {*sizes, *counts};
  } else if (Find(document, kSlabSizes) != nullptr) {
    ignored(kSlabSizes);
  }
}

const SizeRange* Parameters::RangeOf(int number) {
  return Knows(kSizes, number) ? &kSizes[static_cast<std::size_t>(number)] : nullptr;
}

Code Parameters::Size(int number, std::size_t* value) const {
  if (!Knows(kSizes, number) || value == nullptr) return kInvalidValue;
  *value = size(static_cast<SizeParameter>(number));
  return kSuccess;
}

bool Parameters::IsValid(int number, std::size_t value) {
  const SizeRange* const range = RangeOf(number);
  return range != nullptr && value >= range->least && value <= range->most &&
         value % range->step == 0;
}

Code Parameters::SetSize(int number, std::size_t value) {
  if (!IsValid(number, value)) return kInvalidValue;
  const MutexLock lock(mutex_);
  sizes_[static_cast<std::size_t>(number)] = value;
  return kSuccess;
}

Code Parameters::Switch(int number, bool* value) const {
  if (!Knows(kSwitches, number) || value == nullptr) return kInvalidValue;
  *value = is_set(static_cast<SwitchParameter>(number));
  return kSuccess;
}

Code Parameters::SetSwitch(int number, bool value) {
  if (!Knows(kSwitches, number)) return kInvalidValue;
  const MutexLock lock(mutex_);
  switches_[static_cast<std::size_t>(number)] = value;
  return kSuccess;
}

Code Parameters::Text(int number, char* text, std::size_t room) const {
  if (!Knows(kTexts, number) || text == nullptr) return kInvalidValue;
  const MutexLock lock(mutex_);
  const std::string& known = texts_[static_cast<std::size_t>(number)];
  if (room <= known.size()) return kInvalidValue;
  std::memcpy(text, known.c_str(), known.size() + 1);
  return kSuccess;
}

Code Parameters::SetText(int number, const char* text) {
  if (!Knows(kTexts, number) || text == nullptr) return kInvalidValue;
  const std::size_t length = ::strnlen(text, kMaxText);
  if (length == 0 || length == kMaxText) return kInvalidValue;
  const MutexLock lock(mutex_);
  texts_[static_cast<std::size_t>(number)].assign(text, length);
  return kSuccess;
}

Code Parameters::GetSlabs(std::size_t list, std::size_t* sizes, std::size_t* counts,
                          std::size_t length) const {
  if (sizes == nullptr || counts == nullptr) return kInvalidValue;
  const MutexLock lock(mutex_);
  const Slabs& known = slabs_[list];
  if (length != known.sizes.size()) return kInvalidValue;
  std::copy(known.sizes.begin(), known.sizes.end(), sizes);
  std::copy(known.counts.begin(), known.counts.end(), counts);
  return kSuccess;
}

Code Parameters::SetSlabs(std::size_t list, const std::size_t* sizes, const std::size_t* counts,
                          std::size_t length) {
  if (sizes == nullptr || counts == nullptr || length > kMaxSlabs ||
      !IsSlabs({sizes, length}, {counts, length}))
    return kInvalidValue;
  const MutexLock lock(mutex_);
  slabs_[list] = {{sizes, sizes + length}, {counts, counts + length}};
  return kSuccess;
}

std::size_t Parameters::size(SizeParameter number) const {
  const MutexLock lock(mutex_);
  return sizes_[static_cast<std::size_t>(number)];
}

bool Parameters::is_set(SwitchParameter number) const {
  const MutexLock lock(mutex_);
  return switches_[static_cast<std::size_t>(number)];
}

}  // namespace cuspan::cufile
