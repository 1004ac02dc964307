#include "proxy/objects/kernel_table.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "common/cache_folder.h"
#include "common/format.h"
#include "common/log.h"
#include "common/settings.h"

namespace cuspan::proxy {
namespace {

using scheduling::Bottleneck;
using Clock = std::chrono::steady_clock;

// First line of the file. It changes with the format, so files of other formats are discarded.
constexpr std::string_view kTableTitle = "cuspan kernel times 1";
constexpr std::string_view kNewSuffix = ".new";
constexpr std::size_t kHashedBytes = 1 << 20;
constexpr std::size_t kMaxFileName = 100;
// Index: Limits.
constexpr std::string_view kBottleneckWords[] = {"unknown", "compute", "memory"};
// Attempts while other processes write; this takes some milliseconds.
constexpr int kLastTries = 100;
constexpr useconds_t kBetweenAttempts = 10'000;

// --- Lines.

bool IsKept(std::string_view name) {
  return !name.empty() && name.size() <= KernelRecords::kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
}

// Removes and returns the text before the next space, including the space. Returns nullopt without
// a space.
std::optional<std::string_view> ConsumeWord(std::string_view& line) {
  const std::size_t end = line.find(' ');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end + 1);
  return word;
}

// Parses a word completely as a number. `base`: for integers.
template <typename Number, typename... Base>
bool ReadNumber(std::optional<std::string_view> word, Number* value, Base... base) {
  if (!word) return false;
  const char* const end = word->data() + word->size();
  const auto [at, error] = std::from_chars(word->data(), end, *value, base...);
  return error == std::errc() && at == end;
}

// Format: "<module> <limits> <count> <blocks> <squares> <time> <products> <name>"
std::optional<std::pair<KernelKey, KernelRecord>> ReadLine(std::string_view line) {
  KernelKey key;
  KernelRecord record;
  const auto module = ConsumeWord(line);
  if (!module || module->size() != 16 || !ReadNumber(module, &key.module, 16)) return std::nullopt;
  const auto word = ConsumeWord(line);
  const auto* const bottleneck =
      std::find(std::begin(kBottleneckWords), std::end(kBottleneckWords), word);
  if (bottleneck == std::end(kBottleneckWords)) return std::nullopt;
  record.bottleneck = static_cast<Bottleneck>(bottleneck - std::begin(kBottleneckWords));
  KernelTimeSums& sums = record.sums;
  for (double* const sum : {&sums.count, &sums.blocks, &sums.squares, &sums.time, &sums.products})
    if (!ReadNumber(ConsumeWord(line), sum)) return std::nullopt;
  if (sums != KernelTimeSums{} && !sums.sound()) return std::nullopt;
  if (!IsKept(line)) return std::nullopt;
  key.name = line;
  return std::pair(std::move(key), record);
}

std::string LineOf(const KernelKey& key, const KernelRecord& record) {
  const KernelTimeSums& sums = record.sums;
  return Format("{:016x} {} {} {} {} {} {} {}\n", key.module,
                kBottleneckWords[static_cast<std::size_t>(record.bottleneck)], sums.count,
                sums.blocks, sums.squares, sums.time, sums.products, key.name);
}

// --- Files.

std::string TableFileName(std::string_view gpu) {
  std::string name(gpu.substr(0, kMaxFileName));
  for (char& c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    if (!plain) c = '_';
  }
  return name.empty() ? "unnamed" : name;
}

Status CannotUse(std::string_view what, const std::string& path) {
  return Status::Unavailable("cannot {} {}: {}", what, path, std::strerror(errno));
}

// True for a regular file with a single link, writable by this user only.
bool IsOurs(const struct stat& status) {
  return S_ISREG(status.st_mode) && IsPrivate(status) && status.st_nlink <= 1;
}

bool WriteWhole(const UniqueFd& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(file.get(), text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace

// Four independent products at a time, similar to FNV-1a on 8 bytes.
std::uint64_t ModuleHash(std::span<const std::byte> image) {
  constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15;
  std::uint64_t lanes[4] = {image.size(), 1, 2, 3};
  std::span<const std::byte> rest = image.first(std::min(image.size(), kHashedBytes));
  const auto mix = [&](int lane, const std::byte* from, std::size_t bytes) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, bytes);
    lanes[lane] = std::rotl((lanes[lane] ^ word) * kPrime, 29);
  };
  for (; rest.size() >= 32; rest = rest.subspan(32))
    for (int lane = 0; lane < 4; ++lane) mix(lane, rest.data() + lane * 8, 8);
  for (; !rest.empty(); rest = rest.subspan(std::min<std::size_t>(rest.size(), 8)))
    mix(0, rest.data(), std::min<std::size_t>(rest.size(), 8));
  std::uint64_t hash = 0;
  for (const std::uint64_t lane : lanes) {
    hash = (hash ^ lane) * kPrime;
    hash ^= hash >> 32;
  }
  return hash;
}

// --- Records.

KernelRecords KernelRecords::Parse(std::string_view text) {
  KernelRecords records;
  bool title = true;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (std::exchange(title, false)) {
      if (line != kTableTitle) return {};
    } else if (const auto read = ReadLine(line)) {
      records.Put(read->first, read->second);
    }
  }
  return records;
}

void KernelRecords::Put(const KernelKey& key, const KernelRecord& record) {
  if (IsKept(key.name)) records_[key] = {record, ++last_position_};
}

const KernelRecord* KernelRecords::Find(const KernelKey& key) const {
  const auto found = records_.find(key);
  return found == records_.end() ? nullptr : &found->second.record;
}

std::string KernelRecords::Text() const {
  std::vector<std::pair<std::uint64_t, std::string>> lines;  // Key: Placed::place.
  for (const auto& [key, placed] : records_)
    lines.emplace_back(placed.position, LineOf(key, placed.record));
  std::sort(lines.begin(), lines.end());
  std::size_t bytes = kTableTitle.size() + 1;
  std::size_t first = lines.size();
  while (first > 0 && lines.size() - first < kMaxKernels &&
         bytes + lines[first - 1].second.size() <= kMaxBytes)
    bytes += lines[--first].second.size();
  std::string text(kTableTitle);
  text.reserve(bytes);
  text += '\n';
  for (; first < lines.size(); ++first) text += lines[first].second;
  return text;
}

// --- The table.

std::unique_ptr<KernelTable> KernelTable::BySettings(std::string_view gpu) {
  const std::string folder = CacheFolder(settings::kKernelTimes);
  if (folder.empty()) return nullptr;
  Result<std::unique_ptr<KernelTable>> table = Open(folder, gpu);
  if (table.ok()) return *std::move(table);
  LogInfo("kernel times are not kept: {}", table.status().message());
  return nullptr;
}

Result<std::unique_ptr<KernelTable>> KernelTable::Open(const std::string& folder,
                                                       std::string_view gpu) {
  CUSPAN_ASSIGN_OR_RETURN(UniqueFd opened, OpenCacheFolder(folder, settings::kKernelTimes));
  const std::string file = TableFileName(gpu);
  return std::unique_ptr<KernelTable>(
      new KernelTable(std::move(opened), Format("{}/{}", folder, file), file));
}

void KernelTable::Report(const Status& status) {
  if (!status.ok() && !std::exchange(reported_, true))
    LogInfo("kernel times are not kept: {}", status.message());
}

// Returns an empty text if the file is missing or too long.
Result<std::string> KernelTable::Read() const {
  const UniqueFd file(
      ::openat(folder_.get(), file_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid() && errno == ENOENT) return std::string();
  struct stat status {};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) return CannotUse("open", path_);
  if (!IsOurs(status)) return Status::Refused("{} is not a private file of this user", path_);
  std::string text;
  if (static_cast<std::uint64_t>(status.st_size) > KernelRecords::kMaxBytes) return text;
  text.resize(static_cast<std::size_t>(status.st_size));
  for (std::size_t bytes = 0; bytes < text.size();) {
    const ssize_t got = ::read(file.get(), text.data() + bytes, text.size() - bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotUse("read", path_);
    if (got == 0) text.resize(bytes);
    bytes += static_cast<std::size_t>(got);
  }
  return text;
}

KernelTable::Known* KernelTable::Get(const KernelKey& key) {
  if (!kept_) {
    const Result<std::string> text = Read();
    Report(text.status());
    kept_ = KernelRecords::Parse(text.ok() ? *text : "");
  }
  const MutexLock lock(mutex_);
  if (const auto found = known_.find(key); found != known_.end()) return &found->second;
  // The program keeps loading new modules.
  if (known_.size() >= KernelRecords::kMaxKernels) return nullptr;
  Known& known = known_[key];
  known.time = std::make_shared<KernelTime>();
  if (const KernelRecord* const record = kept_->Find(key); record != nullptr) {
    known.written = *record;
    known.bottleneck = record->bottleneck;
    known.time->Restore(record->sums);
  }
  return &known;
}

std::shared_ptr<KernelTime> KernelTable::TimeOf(const KernelKey& key) {
  const Known* const known = Get(key);
  return known == nullptr ? std::make_shared<KernelTime>() : known->time;
}

Bottleneck KernelTable::BottleneckOf(const KernelKey& key) {
  const Known* const known = Get(key);
  return known == nullptr ? Bottleneck::kUnknown : known->bottleneck;
}

void KernelTable::SetBottleneck(const KernelKey& key, Bottleneck bottleneck) {
  if (Known* const known = Get(key); known != nullptr) known->bottleneck = bottleneck;
}

PredictionErrors KernelTable::Errors() const {
  PredictionErrors errors;
  const MutexLock lock(mutex_);
  for (const auto& [key, known] : known_) errors.Add(known.time->Errors());
  return errors;
}

KernelTable::Updates KernelTable::FindUpdates() const {
  Updates updates;
  const MutexLock lock(mutex_);
  for (const auto& [key, known] : known_) {
    const KernelRecord record{known.time->Sums().value_or(known.written.sums), known.bottleneck};
    if (record != known.written) updates.emplace_back(key, record);
  }
  return updates;
}

// The new file is also the lock: a process holding its lock, under its name, may write. A file left
// by a killed process is reused.
Result<UniqueFd> KernelTable::LockNew(bool wait) const {
  const std::string name = file_ + std::string(kNewSuffix);
  for (int tries = wait ? kLastTries : 1; tries > 0; --tries) {
    UniqueFd file(::openat(folder_.get(), name.c_str(),
                           O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    struct stat locked {
    }, named{};
    if (!file.valid() || ::fstat(file.get(), &locked) != 0)
      return CannotUse("create", path_ + std::string(kNewSuffix));
    if (!IsOurs(locked) && locked.st_nlink != 0)
      return Status::Refused("{}{} is not a private file of this user", path_, kNewSuffix);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      if (::fstatat(folder_.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
          locked.st_ino == named.st_ino && locked.st_dev == named.st_dev)
        return file;
      // Another process has renamed it to the table meanwhile.
      continue;
    }
    if (errno != EWOULDBLOCK) return CannotUse("lock", path_ + std::string(kNewSuffix));
    if (tries > 1) ::usleep(kBetweenAttempts);
  }
  return UniqueFd();
}

// Writes the existing and the new records to `file`, and replaces the table by it.
Status KernelTable::Replace(const UniqueFd& file, Updates* updates) const {
  // Keeps records written by others meanwhile.
  CUSPAN_ASSIGN_OR_RETURN(const std::string text, Read());
  KernelRecords records = KernelRecords::Parse(text);
  for (auto& [key, record] : *updates) {
    if (const KernelRecord* const other = records.Find(key); other != nullptr) {
      if (record.sums.count == 0) record.sums = other->sums;
      if (record.bottleneck == Bottleneck::kUnknown) record.bottleneck = other->bottleneck;
    }
    records.Put(key, record);
  }
  if (::ftruncate(file.get(), 0) != 0 || !WriteWhole(file, records.Text()) ||
      ::renameat(folder_.get(), (file_ + std::string(kNewSuffix)).c_str(), folder_.get(),
                 file_.c_str()) != 0)
    return CannotUse("write", path_);
  return Status::Ok();
}

Status KernelTable::WriteUpdates(bool wait) {
  Updates updates = FindUpdates();
  if (updates.empty()) return Status::Ok();
  CUSPAN_ASSIGN_OR_RETURN(const UniqueFd file, LockNew(wait));
  if (!file.valid()) return Status::Ok();
  if (Status status = Replace(file, &updates); !status.ok()) {
    ::unlinkat(folder_.get(), (file_ + std::string(kNewSuffix)).c_str(), 0);
    return status;
  }
  const MutexLock lock(mutex_);
  for (const auto& [key, record] : updates) {
    Known& known = known_[key];
    known.written = record;
    if (known.bottleneck == Bottleneck::kUnknown) known.bottleneck = record.bottleneck;
  }
  return Status::Ok();
}

void KernelTable::Write(Clock::time_point now) {
  written_at_.store(now, std::memory_order_relaxed);
  Report(WriteUpdates(false));
}

void KernelTable::WriteLast() { Report(WriteUpdates(true)); }

}  // namespace cuspan::proxy
