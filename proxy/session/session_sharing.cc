#include "proxy/session/session_sharing.h"

#include <future>
#include <utility>

#include "common/log.h"
#include "proxy/session/device_session.h"
#include "proxy/sharing/pair_server.h"

namespace cuspan::proxy {
namespace {

// Time limit for writing kernel times at the end of a session.
constexpr std::chrono::seconds kTimesLimit{2};

}  // namespace

void SessionSharing::Begin(std::unique_ptr<ShareSlot> slot) {
  const Driver& driver = session_.driver();
  const Device& device = session_.device();
  char name[256] = {};
  if (driver.cuDeviceGetName(name, sizeof name - 1, device.handle()) == CUDA_SUCCESS)
    kernel_table_ = KernelTable::BySettings(name);
  // Faults of other runs come only through MPS, not used for software GPUs.
  const bool pairs = slot->terms().pair && !driver.software;
  // Runs sharing in pairs do not swap for each other.
  const bool swaps = !slot->terms().pair && (slot->terms().swap || slot->terms().memory != 0);
  shared_ = std::make_unique<SharedSession>(session_);
  gate_ = std::make_unique<ShareGate>(*shared_, std::move(slot));
  if (ShareMemory* const memory = device.memory().counted(); swaps && memory != nullptr)
    gate_->MaySwap(*memory);
  if (pairs)
    session_.faults().SetExplanation(
        [this](CUresult result) { return ExplainPairFault(result, gate_->MayHaveWork()); });
}

void SessionSharing::KeepKernelTimes() {
  const auto now = std::chrono::steady_clock::now();
  if (kernel_table_ == nullptr || !kernel_table_->WantsWrite(now) || keeping_times_->exchange(true))
    return;
  // Runs ahead of the queue: it needs no device memory.
  session_.worker().RunFirst([table = kernel_table_.get(), keeping = keeping_times_, now] {
    table->Write(now);
    keeping->store(false);
  });
}

void SessionSharing::End() {
  if (gate_ == nullptr) return;
  gate_->End();
  if (kernel_table_ != nullptr) WriteKernelTimes();
  // Last: the worker may still have tasks of the session.
  gate_->ReleaseSlot();
}

void SessionSharing::WriteKernelTimes() {
  const auto written = std::make_shared<std::promise<void>>();
  // Runs ahead of the queue: the worker may be held or have long tasks.
  session_.worker().RunFirst([table = kernel_table_.get(), written] {
    table->WriteLast();
    written->set_value();
  });
  written->get_future().wait_for(kTimesLimit);
  const PredictionErrors errors = kernel_table_->Errors();
  if (const std::optional<double> median = errors.Median())
    LogInfo("the times of {} kernels were predicted with a median error of {:.1f} %",
            errors.count(), *median * 100);
}

}  // namespace cuspan::proxy
