#include "protocol/sharing/share_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "common/format.h"
#include "protocol/sharing/memory_room.h"
#include "protocol/sharing/share_file.h"
#include "protocol/sharing/share_layout.h"

namespace cuspan {
namespace {

using scheduling::kMaxSharingRuns;
using sharing::Layout;
using sharing::ShareFile;

constexpr std::size_t kMaxFiles = 4096;

constexpr const char* kOfAll = "all";

// The group sharing tables in this folder, or nothing. The folder is sticky: other files belong to
// their owners alone.
std::optional<gid_t> GroupOf(const std::string& folder) {
  struct stat found {};
  if (::stat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != 0)
    return std::nullopt;
  constexpr mode_t kMode = S_ISGID | S_ISVTX | S_IWGRP;
  if ((found.st_mode & (kMode | S_IWOTH)) != kMode) return std::nullopt;
  return found.st_gid;
}

std::string OwnSuffix() { return Format("-{}", static_cast<unsigned>(::geteuid())); }

ShareFile::Location LocationOf(const std::string& folder, const std::string& host,
                               const std::string& gpu, bool pairs) {
  const std::string start = Format("{}/cuspan-share-{}-{}", folder, host, gpu);
  // MPS serves one user.
  const std::optional<gid_t> group = pairs ? std::nullopt : GroupOf(folder);
  return {group ? Format("{}-{}", start, kOfAll) : start + OwnSuffix(), group};
}

template <std::size_t size>
void Store(char (&text)[size], const std::string& value) {
  std::memset(text, 0, size);
  value.copy(text, size - 1);
}

template <std::size_t size>
std::string Load(const char (&text)[size]) {
  return Printable(std::string(text, ::strnlen(text, size)), size);
}

// Accepts any value in the table.
std::uint32_t Thousandths(double part) {
  if (!(part > 0)) return 0;
  return static_cast<std::uint32_t>(std::lround(std::min(part, 1.0) * scheduling::kWhole));
}

std::uint32_t QuotaOf(const scheduling::SharingRun& run) {
  return std::min(run.quota, scheduling::kWhole);
}

}  // namespace

ShareTable::ShareTable(std::unique_ptr<ShareFile> file) : file_(std::move(file)) {}
ShareTable::ShareTable(ShareTable&&) noexcept = default;

ShareTable::~ShareTable() {
  if (file_ != nullptr && joined_) Leave();
}

Result<ShareTable> ShareTable::OpenOrCreate(const std::string& folder, const std::string& host,
                                            const std::string& gpu, bool pairs) {
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<ShareFile> file,
                          ShareFile::OpenOrCreate(LocationOf(folder, host, gpu, pairs)));
  return ShareTable(std::move(file));
}

Result<ShareTable> ShareTable::Open(const std::string& folder, const std::string& host,
                                    const std::string& gpu, bool pairs) {
  CUSPAN_ASSIGN_OR_RETURN(std::unique_ptr<ShareFile> file,
                          ShareFile::Open(LocationOf(folder, host, gpu, pairs)));
  return ShareTable(std::move(file));
}

void ShareTable::RemoveUnused(const std::string& folder, const std::string& host) {
  const std::string prefix = Format("cuspan-share-{}-", host);
  const std::optional<gid_t> group = GroupOf(folder);
  const std::string own = OwnSuffix(), all = Format("-{}", kOfAll);
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(folder.c_str()), ::closedir);
  if (!opened) return;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kMaxFiles; ++i) {
    const dirent* const entry = ::readdir(opened.get());  // NOLINT: a stream of our own.
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name.starts_with(prefix) && (name.ends_with(own) || (group && name.ends_with(all))))
      names.emplace_back(name);
  }
  for (const std::string& name : names) {
    const std::string path = Format("{}/{}", folder, name);
    const Result<std::unique_ptr<ShareFile>> file =
        ShareFile::Open({path, name.ends_with(own) ? std::nullopt : group});
    if (file.ok() && !(*file)->Used()) ::unlink(path.c_str());
  }
}

bool ShareTable::HasRuns() const { return file_->HasRuns(); }

void ShareTable::SetGpuMemory(std::uint64_t bytes) { file_->layout().gpu_memory = bytes; }

Result<UniqueFd> ShareTable::OpenAgain() const { return file_->OpenAgain(); }

Status ShareTable::MayJoinLocked(const ShareTerms& terms) const {
  const Layout& table = file_->layout();
  std::uint32_t runs = 0, promised = terms.quota, most = terms.most_runs;
  // Clamped: a larger size never fits.
  const std::uint64_t wanted = std::min(terms.memory, table.gpu_memory + 1);
  std::uint64_t kept = wanted, used = 0, most_swapped = 0;
  for (std::uint32_t i = 0; i < kMaxSharingRuns; ++i) {
    const scheduling::SharingRun& run = table.turns.runs[i];
    if (!run.present) continue;
    ++runs;
    if ((table.turns.pairs != 0) != terms.pair)
      return Status::Exhausted("runs share it {}, but this run would share it {}",
                               table.turns.pairs != 0 ? "in pairs" : "by time",
                               terms.pair ? "in pairs" : "by time");
    if (table.memory_caps[i] == 0 && terms.memory == 0 && (table.swaps[i] != 0) != terms.swap)
      return Status::Exhausted(
          "{}: its memory cannot be moved to the host",
          terms.swap
              ? "a run sharing it has neither --memory all nor a size"
              : "a run sharing it has --memory all, but this run has neither that nor a size");
    promised += QuotaOf(run);
    kept += std::min(table.memory_caps[i], table.gpu_memory);
    const std::uint64_t has = std::min(sharing::RoomOf(table, i).used, table.gpu_memory);
    if (table.swaps[i] != 0)
      most_swapped = std::max(most_swapped, has);  // They swap for each other.
    else if (table.memory_caps[i] == 0)
      used += has;
    most = std::min(most, table.most_runs[i]);
  }
  if (runs >= std::min(most, kMaxSharingRuns))
    return Status::Exhausted("{} runs share it already, the limit of one of them", runs);
  if (promised > scheduling::kWhole)
    return Status::Exhausted(
        "the quotas of its runs are {} % of its time, so less than {} % is left",
        (promised - terms.quota) / 10.0, terms.quota / 10.0);
  used += most_swapped;
  const std::uint64_t contexts = (runs + 1) * sharing::ContextBytes(table.gpu_memory);
  // The first run may use all memory. Swapping runs have left memory for the contexts of as many
  // runs as their share limit allows.
  if (runs != 0 && kept != 0 && kept + used + contexts > table.gpu_memory)
    return Status::Exhausted(
        "of its {} MiB of memory its runs use or reserve {} MiB, so less than {} MiB is left "
        "beside the memory of contexts",
        table.gpu_memory >> 20, (kept - wanted + used) >> 20, terms.memory >> 20);
  return Status::Ok();
}

Status ShareTable::MayJoin(const ShareTerms& terms) {
  CUSPAN_ASSIGN_OR_RETURN(const ShareFile::Changing changing, file_->Change());
  file_->ForgetDead();
  return MayJoinLocked(terms);
}

Status ShareTable::JoinRun(const std::string& run, const std::string& user,
                           const std::string& program, const ShareTerms& terms) {
  CUSPAN_ASSIGN_OR_RETURN(const ShareFile::Changing changing, file_->Change());
  file_->ForgetDead();
  CUSPAN_RETURN_IF_ERROR(MayJoinLocked(terms));
  Layout& table = file_->layout();
  for (std::uint32_t i = 0; i < kMaxSharingRuns; ++i) {
    if (table.turns.runs[i].present || !file_->AcquireSlot(sharing::kFirstRunByte + i)) continue;
    // Closes the accounts first: the new run is not charged for the time before.
    file_->DecideNow();
    scheduling::SharingRun& made = table.turns.runs[i];
    made = {};
    made.niceness = terms.niceness;
    made.process_niceness = terms.process_niceness;
    made.quota = std::min(terms.quota, scheduling::kWhole);
    made.limit = std::clamp(terms.limit, 1U, scheduling::kWhole);
    made.bottleneck = scheduling::BottleneckOf(terms.bottleneck);
    Store(table.names[i].run, run);
    Store(table.names[i].user, user);
    Store(table.names[i].program, program);
    table.most_runs[i] = terms.most_runs;
    table.memory_caps[i] = terms.memory;
    table.swaps[i] = terms.swap ? 1 : 0;
    table.turns.pairs = terms.pair ? 1 : 0;
    table.turns.ForgetPairs(i);
    ++table.serials[i];
    table.busy_before[i] = 0;
    made.present = true;
    joined_ = i;
    file_->DecideNow();
    file_->RingAll();
    return Status::Ok();
  }
  return Status::Exhausted("{} runs share it already, the maximum", kMaxSharingRuns);
}

void ShareTable::Leave() {
  // If this fails, the next process searching for dead ones clears the slot.
  if (const Result<ShareFile::Changing> changing = file_->Change(); changing.ok()) {
    file_->layout().turns.runs[*joined_].present = false;
    file_->ReleaseSlot(sharing::kFirstRunByte + *joined_);
    file_->DecideNow();
    file_->RingAll();
  }
  joined_.reset();
}

Result<std::uint32_t> ShareTable::FindRun(const std::string& run) {
  CUSPAN_ASSIGN_OR_RETURN(const ShareFile::Changing changing, file_->Change());
  const Layout& table = file_->layout();
  for (std::uint32_t i = 0; i < kMaxSharingRuns; ++i)
    if (table.turns.runs[i].present && Load(table.names[i].run) == run) return i;
  return Status::NotFound("run {} has no slot in {}", run, file_->path());
}

Result<std::vector<SharingRun>> ShareTable::Query() {
  CUSPAN_ASSIGN_OR_RETURN(const ShareFile::Changing changing, file_->Change());
  file_->ForgetDead();
  file_->DecideNow();
  const Layout& table = file_->layout();
  std::vector<SharingRun> views;
  for (std::uint32_t i = 0; i < kMaxSharingRuns; ++i) {
    const scheduling::SharingRun& run = table.turns.runs[i];
    if (!run.present) continue;
    SharingRun view;
    view.run = Load(table.names[i].run);
    view.user = Load(table.names[i].user);
    view.program = Load(table.names[i].program);
    view.terms = file_->TermsOf(i);
    view.part_now = Thousandths(run.now.Value());
    view.part_lately = Thousandths(run.lately.Value());
    view.memory = sharing::RoomOf(table, i).used;
    view.swapped = sharing::SwappedOf(table, i);
    view.bottleneck = static_cast<std::uint8_t>(
        scheduling::BottleneckOf(static_cast<std::uint8_t>(run.bottleneck)));
    view.used = run.used;
    view.waited = run.waited;
    view.turns = run.turns;
    view.preempted = run.preempted;
    for (const sharing::SessionSlot& session : file_->sessions())
      if (sharing::RunOf(table, session) == i) ++view.sessions;
    const std::uint32_t holder = sharing::Once(table.turns.holder);
    const std::uint32_t partner = sharing::Once(table.turns.partner);
    if (run.open && holder < kMaxSharingRuns && partner < kMaxSharingRuns) {
      const scheduling::PairRecord& record = file_->layout().turns.RecordOf(holder, partner);
      view.paired = true;
      view.pair_sum = Thousandths(record.sum / 2) * 2;
    }
    view.has_turn = (holder == i || view.paired) && run.wants;
    view.waiting = run.waiting_since != 0;
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace cuspan
