#include "launcher/allocator/node_locks.h"

#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <iterator>

#include "common/format.h"
#include "common/host_clock.h"
#include "common/log.h"
#include "common/settings.h"
#include "launcher/allocator/ticket.h"
#include "protocol/sharing/pair_folder.h"

namespace cuspan {
namespace {

// Maximum number of files read of one kind; far more than possible runs on a host.
constexpr std::size_t kMaxFiles = 4096;
// Attempts of a leaving run to lock the queue's file for removal; others hold it only for moments.
constexpr int kClearTries = 20;
constexpr useconds_t kClearPause = 1000;
// Memory is rounded up to this many bytes, so that not every allocation of a program changes the
// view.
constexpr std::uint64_t kMemoryStep = std::uint64_t{1} << 30;

// True if a share table has no room now, or cannot be changed now.
bool IsLater(const Status& status) {
  return status.code() == StatusCode::kExhausted || status.code() == StatusCode::kUnavailable;
}

// Copies the fields of a sharing run that affect the choice among GPUs.
SharingRun LoadOf(const SharingRun& run) {
  SharingRun load;
  load.terms = run.terms;
  load.bottleneck = run.bottleneck;
  const std::uint64_t left = run.memory % kMemoryStep;
  load.memory = left == 0 ? run.memory : run.memory - left + kMemoryStep;
  return load;
}

bool Earlier(const LeaseTicket& a, const LeaseTicket& b) {
  return a.order != b.order ? a.order < b.order : a.run < b.run;
}

// Nanoseconds since 1970.
std::uint64_t RealNow() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

ArrivalTimes ArrivalTimes::OfThisHost() {
  constexpr std::uint64_t kApart = 10 * 60 * std::uint64_t{1'000'000'000};
  const std::uint64_t running = HostUptime();
  const std::uint64_t now = RealNow();
  return {now > running + kApart ? now - running - kApart : 0, kApart};
}

bool ArrivalTimes::Allow(std::uint64_t order) const {
  if (order < earliest) return false;
  const std::uint64_t now = RealNow();
  return order <= now || order - now <= ahead;
}

std::string NodeLocks::QueueHolder() const { return folder_.DescribeLock(QueueName(host_)); }

Result<NodeLocks> NodeLocks::Open(const std::string& host) {
  return Open(host, SettingText(settings::kLeaseFolder), SettingText(settings::kShareFolder),
              LeaseLog::FromSettings(), ArrivalTimes::OfThisHost());
}

Result<NodeLocks> NodeLocks::Open(const std::string& host, const std::string& folder,
                                  const std::string& share_folder, LeaseLog log,
                                  const ArrivalTimes& times) {
  CUSPAN_ASSIGN_OR_RETURN(LockFolder opened, LockFolder::Open(folder));
  return NodeLocks(host, std::move(opened), share_folder, std::move(log), times);
}

NodeLocks::~NodeLocks() {
  // A moved-from object owns nothing.
  if (ticket_file_.valid()) Leave();
}

LeaseLog::Who NodeLocks::Who() const {
  if (!ticket_) return {host_, "-", "-", "-"};
  return {host_, Format("{:016x}", ticket_->order), ticket_->run, ticket_->user};
}

std::string NodeLocks::NameOf(uid_t user) {
  const auto [known, is_new] = users_.try_emplace(user);
  if (is_new) known->second = Printable(UserName(user), 32);
  return known->second;
}

Result<std::optional<UniqueFd>> NodeLocks::LockQueue() {
  return folder_.TryLock(QueueName(host_), true);
}

Result<NodeLocks::Outcome> NodeLocks::Enter(LeaseTicket ticket, const ShareTerms& terms,
                                            std::map<std::string, std::uint64_t> gpu_memory) {
  if (!times_.Allow(ticket.order))
    return Status::Invalid(
        "the run's start time is in the future, or before this host was booted: set the clocks of "
        "host {} and of the host where the run was started",
        host_);
  CUSPAN_ASSIGN_OR_RETURN(std::optional<UniqueFd> queue, LockQueue());
  if (!queue.has_value()) return Outcome::kBusy;
  ticket.host = host_;
  ticket.user = NameOf(::geteuid());
  ticket.waiting = true;
  Result<UniqueFd> file = folder_.CreateLocked(TicketName(ticket), TicketText(ticket));
  if (!file.ok()) {
    RemoveQueueFile(*queue);
    return file.status();
  }
  ticket_file_ = std::move(*file);
  ticket_ = std::move(ticket);
  terms_ = terms;
  gpu_memory_ = std::move(gpu_memory);
  log_.Add("arrive", Who());
  return Outcome::kDone;
}

Status NodeLocks::ReadTickets(bool waiting, std::vector<LeaseTicket>& tickets) {
  CUSPAN_ASSIGN_OR_RETURN(std::vector<std::string> names,
                          folder_.List(TicketPrefix(host_, waiting), kMaxFiles));
  for (const std::string& name : names) {
    std::optional<LeaseTicket> ticket = ParseTicketName(name, host_, waiting);
    if (!ticket || (ticket_ && ticket->run == ticket_->run)) continue;
    // A file that cannot be opened, or is not a regular file, is not a ticket.
    const Result<LockFolder::Found> found = folder_.Read(name, kTicketBytes);
    if (!found.ok()) continue;
    if (::flock(found->fd.get(), LOCK_EX | LOCK_NB) == 0) {
      folder_.Remove(name, found->fd);
      continue;
    }
    // No run has created it; its author would be ahead of all.
    if (!times_.Allow(ticket->order)) continue;
    ticket->user = NameOf(found->owner);
    ReadTicketText(found->content, *ticket);
    tickets.push_back(std::move(*ticket));
  }
  return Status::Ok();
}

Status NodeLocks::RemoveDeadLeases() {
  const std::string prefix = LeasePrefix(host_);
  CUSPAN_ASSIGN_OR_RETURN(std::vector<std::string> names, folder_.List(prefix, kMaxFiles));
  for (const std::string& name : names) {
    const std::string gpu = name.substr(prefix.size());
    if (!IsGpuKey(gpu) || leases_.contains(gpu)) continue;
    Result<std::optional<UniqueFd>> lock = folder_.TryLock(name, false);
    if (!lock.ok() || !lock->has_value()) continue;
    // No run takes the GPU before this is logged: the queue is locked.
    if (folder_.Remove(name, **lock)) log_.Add("lost", {host_, "-", "-", "-"}, gpu);
  }
  return Status::Ok();
}

Result<NodeLocks::Outcome> NodeLocks::Query(const std::vector<std::string>& gpus, NodeView& view) {
  // Without a ticket, no file is created: if the queue's file is missing, there are no runs.
  Result<std::optional<UniqueFd>> queue = folder_.TryLock(QueueName(host_), ticket_.has_value());
  const bool nobody = !queue.ok() && queue.status().code() == StatusCode::kNotFound;
  if (!queue.ok() && !nobody) return queue.status();
  if (queue.ok() && !queue->has_value()) return Outcome::kBusy;
  view = {};
  CUSPAN_RETURN_IF_ERROR(ReadTickets(true, view.tickets));
  CUSPAN_RETURN_IF_ERROR(ReadTickets(false, view.tickets));
  std::sort(view.tickets.begin(), view.tickets.end(), Earlier);
  CUSPAN_RETURN_IF_ERROR(RemoveDeadLeases());
  for (const std::string& gpu : gpus) {
    if (leases_.contains(gpu)) continue;
    CUSPAN_ASSIGN_OR_RETURN(const bool held, IsHeld(gpu, view));
    if (!held) continue;
    view.held.push_back(gpu);
    if (std::string stranger = StrangerWith(gpu, view); !stranger.empty())
      view.full.push_back(std::move(stranger));
  }
  if (!ticket_ && !nobody) {
    view.shared = SharedOf(gpus);
    RemoveQueueFile(**queue);
  }
  return Outcome::kDone;
}

// If the table has runs, only these are on the GPU: the first of them held its lock exclusively.
Result<std::optional<ShareTable>> NodeLocks::TableOfOthers(const std::string& gpu) const {
  if (!terms_.shared) return std::optional<ShareTable>();
  Result<ShareTable> table = ShareTable::Open(share_folder_, HostForNames(host_), gpu, terms_.pair);
  if (!table.ok() && table.status().code() != StatusCode::kNotFound) return table.status();
  if (!table.ok() || !table->HasRuns()) return std::optional<ShareTable>();
  return std::optional<ShareTable>(std::move(*table));
}

Result<bool> NodeLocks::IsHeld(const std::string& gpu, NodeView& view) {
  CUSPAN_ASSIGN_OR_RETURN(std::optional<ShareTable> table, TableOfOthers(gpu));
  if (table) {
    const Status may = table->MayJoin(terms_);
    if (!may.ok()) {
      if (!IsLater(may)) return may;
      if (std::find(view.full.begin(), view.full.end(), may.message()) == view.full.end())
        view.full.push_back(may.message());
      return true;
    }
    const Result<std::vector<SharingRun>> runs = table->Query();
    if (!runs.ok()) {
      LogInfo("GPU {}: {}", gpu, runs.status().message());
    } else if (!runs->empty()) {
      view.shared.push_back({host_, gpu, {}});
      std::transform(runs->begin(), runs->end(), std::back_inserter(view.shared.back().runs),
                     LoadOf);
    }
    return false;
  }
  const std::string name = LeasePrefix(host_) + gpu;
  Result<std::optional<UniqueFd>> lock = folder_.TryLock(name, false);
  if (!lock.ok()) {
    // The file was not created by a run: the runs waiting for this GPU must report it.
    if (lock.status().code() == StatusCode::kRefused) return lock.status();
    return lock.status().code() != StatusCode::kNotFound;
  }
  if (!lock->has_value()) return true;
  // The last holder may have ended since then without removing the file.
  folder_.GiveBack(name, std::move(**lock));
  return false;
}

std::string NodeLocks::StrangerWith(const std::string& gpu, const NodeView& view) const {
  const auto has = [&gpu](const LeaseTicket& ticket) {
    return std::find(ticket.gpus.begin(), ticket.gpus.end(), gpu) != ticket.gpus.end();
  };
  if (std::any_of(view.tickets.begin(), view.tickets.end(), has)) return "";
  const std::string name = LeasePrefix(host_) + gpu;
  const pid_t holder = folder_.LockHolder(name);
  if (holder == 0) return "";
  // The ticket of a run that is about to settle does not list its GPUs yet.
  for (const LeaseTicket& ticket : view.tickets)
    if (folder_.LockHolder(TicketName(ticket)) == holder) return "";
  // After the end of the holder, its proxies may keep the lock until they end.
  if (::kill(holder, 0) != 0 && errno == ESRCH) return "";
  return folder_.DescribeLock(name) + ", but not by a run";
}

std::vector<SharedGpu> NodeLocks::SharedOf(const std::vector<std::string>& gpus) const {
  std::vector<SharedGpu> shared;
  for (const std::string& gpu : gpus) {
    // If pairs have a table of their own, at most one of the two is in use.
    for (const bool pairs : {false, true}) {
      Result<ShareTable> table = ShareTable::Open(share_folder_, HostForNames(host_), gpu, pairs);
      if (!table.ok() && table.status().code() == StatusCode::kNotFound) continue;
      Result<std::vector<SharingRun>> runs =
          table.ok() ? table->Query() : Result<std::vector<SharingRun>>(table.status());
      // A failure for one GPU does not hide the others.
      if (!runs.ok()) {
        LogInfo("GPU {}: {}", gpu, runs.status().message());
      } else if (!runs->empty()) {
        shared.push_back({host_, gpu, std::move(*runs)});
        break;
      }
    }
  }
  return shared;
}

Result<bool> NodeLocks::SomebodyAhead() {
  std::vector<LeaseTicket> waiting;
  CUSPAN_RETURN_IF_ERROR(ReadTickets(true, waiting));
  return std::any_of(waiting.begin(), waiting.end(),
                     [this](const LeaseTicket& other) { return Earlier(other, *ticket_); });
}

Result<NodeLocks::Outcome> NodeLocks::Take(const std::vector<std::string>& gpus) {
  if (!ticket_) return Status::Internal("a request for GPUs has no position in the queue");
  CUSPAN_ASSIGN_OR_RETURN(std::optional<UniqueFd> queue, LockQueue());
  if (!queue.has_value()) return Outcome::kBusy;
  CUSPAN_ASSIGN_OR_RETURN(const bool ahead, SomebodyAhead());
  if (ahead) return Outcome::kRefused;
  std::map<std::string, Lease> taken;
  Status failure;
  bool refused = false;
  for (const std::string& gpu : gpus) {
    Result<std::optional<Lease>> lease = TakeOne(gpu);
    if (!lease.ok())
      failure = lease.status();
    else if (!lease->has_value())
      refused = true;
    else
      taken.emplace(gpu, std::move(**lease));
    if (!failure.ok() || refused) break;
  }
  if (!failure.ok() || refused) {
    for (auto& [gpu, lease] : taken) Drop(gpu, lease);
    if (!failure.ok()) return failure;
    return Outcome::kRefused;
  }
  for (const auto& [gpu, lease] : taken) log_.Add("grant", Who(), gpu);
  leases_.merge(taken);
  return Outcome::kDone;
}

Result<std::optional<NodeLocks::Lease>> NodeLocks::TakeOne(const std::string& gpu) {
  CUSPAN_ASSIGN_OR_RETURN(std::optional<ShareTable> table, TableOfOthers(gpu));
  CUSPAN_ASSIGN_OR_RETURN(
      std::optional<UniqueFd> lock,
      folder_.TryLock(LeasePrefix(host_) + gpu, true,
                      table ? LockFolder::Mode::kShared : LockFolder::Mode::kExclusive));
  if (!lock) return std::optional<Lease>();
  Lease lease{std::move(*lock), std::move(table)};
  if (!terms_.shared) return std::optional<Lease>(std::move(lease));
  if (!lease.table) {
    Result<ShareTable> made =
        ShareTable::OpenOrCreate(share_folder_, HostForNames(host_), gpu, terms_.pair);
    if (!made.ok()) {
      Drop(gpu, lease);
      return made.status();
    }
    lease.table.emplace(std::move(*made));
    if (const auto known = gpu_memory_.find(gpu); known != gpu_memory_.end())
      lease.table->SetGpuMemory(known->second);
  }
  Status joined = lease.table->JoinRun(ticket_->run, ticket_->user, ticket_->program, terms_);
  // From now on other runs may join.
  if (joined.ok()) joined = folder_.Share(lease.lock);
  if (joined.ok()) return std::optional<Lease>(std::move(lease));
  Drop(gpu, lease);
  if (IsLater(joined)) return std::optional<Lease>();
  return joined;
}

void NodeLocks::Drop(const std::string& gpu, Lease& lease) {
  // First: a run with the exclusive lock must find the table empty.
  lease.table.reset();
  folder_.GiveBack(LeasePrefix(host_) + gpu, std::move(lease.lock));
}

void NodeLocks::GiveBack() {
  for (auto& [gpu, lease] : leases_) {
    log_.Add("release", Who(), gpu);
    Drop(gpu, lease);
  }
  leases_.clear();
}

Status NodeLocks::Settle() {
  if (!ticket_ || !ticket_->waiting) return Status::Ok();
  if (leases_.empty()) {
    Leave();
    return Status::Ok();
  }
  ticket_->gpus.clear();
  for (const auto& [gpu, lease] : leases_) ticket_->gpus.push_back(gpu);
  const std::string before = TicketName(*ticket_);
  CUSPAN_RETURN_IF_ERROR(folder_.Write(before, ticket_file_, TicketText(*ticket_)));
  LeaseTicket after = *ticket_;
  after.waiting = false;
  // First: once the name is gone, the next run in the queue may take GPUs.
  log_.Add("leave", Who());
  CUSPAN_RETURN_IF_ERROR(folder_.Rename(before, TicketName(after)));
  ticket_ = std::move(after);
  return Status::Ok();
}

void NodeLocks::Leave() {
  GiveBack();
  if (!ticket_) return;
  if (ticket_->waiting) log_.Add("leave", Who());
  folder_.Remove(TicketName(*ticket_), ticket_file_);
  ticket_file_.Reset();
  ticket_.reset();
  terms_ = {};
  for (int i = 0; i < kClearTries; ++i) {
    const Result<std::optional<UniqueFd>> queue = folder_.TryLock(QueueName(host_), false);
    if (!queue.ok()) return;  // It is gone, or cannot be locked.
    if (queue->has_value()) return RemoveQueueFile(**queue);
    ::usleep(kClearPause);
  }
}

bool NodeLocks::Unused() const {
  for (const std::string& prefix :
       {TicketPrefix(host_, true), TicketPrefix(host_, false), LeasePrefix(host_)}) {
    const Result<std::vector<std::string>> names = folder_.List(prefix, 1);
    if (!names.ok() || !names->empty()) return false;
  }
  return true;
}

// Called with the queue locked by this process. The last run removes the file. A process waiting
// for the lock then finds the name gone and starts over.
void NodeLocks::RemoveQueueFile(const UniqueFd& queue) {
  ShareTable::RemoveUnused(share_folder_, HostForNames(host_));
  PairFolder::RemoveUnused(share_folder_);
  if (Unused()) folder_.Remove(QueueName(host_), queue);
}

int NodeLocks::LeaseFd(const std::string& gpu) const {
  const auto found = leases_.find(gpu);
  return found == leases_.end() ? -1 : found->second.lock.get();
}

}  // namespace cuspan
