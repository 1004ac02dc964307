#include "interpose/client/communicators.h"

#include <set>
#include <utility>
#include <vector>

#include "interpose/client/base/handles.h"
#include "interpose/client/context_connection.h"

namespace cuspan {
namespace {

constexpr std::chrono::seconds kOwnLossReportDelay{5};

}  // namespace

Communicator::Communicator(std::uint64_t number, std::uint64_t family,
                           const ContextConnection& connection, bool blocking)
    : number(number),
      family(family),
      connection(connection.number()),
      device(connection.device()),
      blocking(blocking) {}

Communicator::State Communicator::AwaitJoined() {
  MutexLock lock(mutex_);
  // All waits here end with the proxy's answer, with the loss or reset of a rank's device
  // (FailAll), or when the program ends the communicator.
  changed_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) { return !joining_; });
  return failure_;
}

Communicator::State Communicator::AwaitEnded() {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) { return ended_; });
  return failure_;
}

Communicator::State Communicator::Now() const {
  const MutexLock lock(mutex_);
  return NowLocked();
}

Communicator::State Communicator::NowLocked() const {
  if (failure_.result != nccl::kSuccess) return failure_;
  // Finalizing a blocking communicator is complete for the program when the function returns.
  if (joining_ || (under_way_ != 0 && !blocking)) return {nccl::kInProgress, ""};
  return {};
}

Communicator::State Communicator::AsynchronousError() const {
  const MutexLock lock(mutex_);
  if (std::chrono::steady_clock::now() < report_from_) return {};
  return NowLocked();
}

int Communicator::size() const {
  const MutexLock lock(mutex_);
  return size_;
}

int Communicator::rank() const {
  const MutexLock lock(mutex_);
  return rank_;
}

void Communicator::Begin() {
  const MutexLock lock(mutex_);
  ++under_way_;
  report_from_ = {};
}

Communicator::State Communicator::AwaitFinalized() {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() CUSPAN_REQUIRES(mutex_) {
    return under_way_ == 0 || failure_.result != nccl::kSuccess;
  });
  return failure_;
}

void Communicator::FailJoining(int result, const std::string& problem) {
  {
    const MutexLock lock(mutex_);
    if (!joining_) return;
  }
  Fail(result, problem);
}

void Communicator::Notify(const CommunicatorNotice& notice) {
  {
    const MutexLock lock(mutex_);
    if (notice.outcome != nccl::kSuccess && failure_.result == nccl::kSuccess)
      failure_ = {notice.outcome, std::string(notice.problem)};
    switch (static_cast<nccl::Step>(notice.step)) {
      case nccl::Step::kJoined:
        joining_ = false;
        size_ = static_cast<int>(notice.size);
        rank_ = static_cast<int>(notice.rank);
        break;
      case nccl::Step::kFinalized:
        if (under_way_ != 0) --under_way_;
        break;
      case nccl::Step::kEnded:
        ended_ = true;
        under_way_ = 0;
        if (std::exchange(joining_, false) && failure_.result == nccl::kSuccess)
          failure_ = {nccl::kInvalidUsage, "the communicator was ended by another thread"};
        break;
      case nccl::Step::kFailed:
        joining_ = false;
        break;
    }
  }
  Changed();
}

void Communicator::Fail(int result, const std::string& problem) {
  {
    const MutexLock lock(mutex_);
    if (failure_.result == nccl::kSuccess) failure_ = {result, problem};
    joining_ = false;
  }
  Changed();
}

void Communicator::Lose(const std::string& problem) {
  {
    const MutexLock lock(mutex_);
    if (failure_.result == nccl::kSuccess) {
      failure_ = {nccl::kRemoteError, problem};
      // Delayed only if no thread waits for an operation.
      if (!joining_ && under_way_ == 0)
        report_from_ = std::chrono::steady_clock::now() + kOwnLossReportDelay;
    }
    joining_ = false;
  }
  Changed();
}

void Communicator::JoinFor(std::shared_ptr<Communicator> whole) {
  whole->Begin();
  {
    const MutexLock lock(mutex_);
    whole_ = std::move(whole);
  }
  // It may have been created meanwhile.
  Changed();
}

void Communicator::Changed() {
  std::shared_ptr<Communicator> whole;
  State result;
  {
    const MutexLock lock(mutex_);
    if (!joining_) whole = std::exchange(whole_, nullptr);
    if (!ended_) result = failure_;
  }
  changed_.notify_all();
  if (whole != nullptr) whole->EndOperation(result);
}

void Communicator::EndOperation(const State& result) {
  {
    const MutexLock lock(mutex_);
    if (failure_.result == nccl::kSuccess) failure_ = result;
    if (under_way_ != 0) --under_way_;
  }
  changed_.notify_all();
}

std::uint32_t Communicator::NextPart() {
  const MutexLock lock(mutex_);
  return ++parts_;
}

std::shared_ptr<Communicator> Communicators::Add(std::uint64_t family,
                                                 const ContextConnection& connection,
                                                 bool blocking) {
  auto made = std::make_shared<Communicator>(NextHandle(), family, connection, blocking);
  const WriterLock lock(mutex_);
  communicators_.emplace(made->number, made);
  return made;
}

std::shared_ptr<Communicator> Communicators::Find(std::uint64_t number) const {
  const ReaderLock lock(mutex_);
  const auto known = communicators_.find(number);
  return known == communicators_.end() ? nullptr : known->second;
}

void Communicators::Remove(std::uint64_t number) {
  std::shared_ptr<Communicator> removed;
  {
    const WriterLock lock(mutex_);
    const auto known = communicators_.find(number);
    if (known == communicators_.end()) return;
    removed = std::move(known->second);
    communicators_.erase(known);
  }
  // No more notifications follow: ends all waits.
  CommunicatorNotice ended;
  ended.step = static_cast<std::uint32_t>(nccl::Step::kEnded);
  removed->Notify(ended);
}

std::size_t Communicators::count() const {
  const ReaderLock lock(mutex_);
  return communicators_.size();
}

void Communicators::OnNotice(const ContextConnection& connection,
                             const CommunicatorNotice& notice) {
  const std::shared_ptr<Communicator> known = Find(notice.communicator);
  if (known == nullptr) return;
  // A fault of its own device, known from the ContextConnection: NCCL would not report it.
  if (static_cast<nccl::Step>(notice.step) == nccl::Step::kFailed &&
      connection.fault() != CUDA_SUCCESS)
    return known->Lose(std::string(notice.problem));
  known->Notify(notice);
  if (static_cast<nccl::Step>(notice.step) != nccl::Step::kJoined ||
      notice.outcome == nccl::kSuccess)
    return;
  // Ranks waiting for this one would never join.
  const ReaderLock lock(mutex_);
  for (const auto& [number, other] : communicators_)
    if (other->family == known->family)
      other->FailJoining(nccl::kRemoteError, std::string(notice.problem));
}

void Communicators::FailAll(const ContextConnection& connection, End end, const char* problem) {
  std::vector<std::shared_ptr<Communicator>> failed;
  {
    const ReaderLock lock(mutex_);
    std::set<std::uint64_t> families;
    for (const auto& [number, communicator] : communicators_)
      if (communicator->connection == connection.number()) families.insert(communicator->family);
    for (const auto& [number, communicator] : communicators_)
      if (families.contains(communicator->family)) failed.push_back(communicator);
  }
  for (const auto& communicator : failed) {
    if (communicator->connection != connection.number()) {
      communicator->Fail(nccl::kRemoteError, problem);
      continue;
    }
    if (end == End::kLost)
      communicator->Lose(problem);
    else
      communicator->Fail(nccl::kRemoteError, problem);
    // No more notifications follow for this one.
    CommunicatorNotice ended;
    ended.step = static_cast<std::uint32_t>(nccl::Step::kEnded);
    communicator->Notify(ended);
  }
}

void Communicators::Forget(const ContextConnection& ended) {
  FailAll(ended, End::kReset, "the device of a rank was reset");
  const WriterLock lock(mutex_);
  std::erase_if(communicators_,
                [&](const auto& entry) { return entry.second->connection == ended.number(); });
}

void Communicators::Lost(const ContextConnection& lost) {
  FailAll(lost, End::kLost, "the device of a rank was lost");
}

}  // namespace cuspan
