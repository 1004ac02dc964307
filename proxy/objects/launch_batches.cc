#include "proxy/objects/launch_batches.h"

#include <algorithm>

namespace cuspan::proxy {

bool LaunchBatches::ready() const {
  return std::any_of(chains_.begin(), chains_.end(),
                     [](const auto& some) { return some->state() == LaunchChains::State::kReady; });
}

void LaunchBatches::Count(const KernelCall& call) {
  if (++counted_ < worth_graphs_) return;
  if (!chains_.empty() && (wants_graphs() || !all_run_ || chains_.size() == kMost)) return;
  chains_.push_back(std::make_shared<LaunchChains>(driver_, call));
}

void LaunchBatches::MakeNext() {
  chains_.back()->MakeNext();
  if (chains_.back()->state() == LaunchChains::State::kFailed) return GiveUp();
  if (!wants_graphs()) all_run_ = false;  // It concerned the ones made before.
}

LaunchBatches::Found LaunchBatches::FindFree(std::size_t launches) {
  for (const auto& some : chains_) {
    if (some->state() != LaunchChains::State::kReady) continue;
    if (LaunchChains::Chain* const chain = some->FindFree(launches)) return {some.get(), chain};
  }
  return {};
}

std::size_t LaunchBatches::Launch(const Stream& stream, std::span<const KernelCall* const> calls) {
  if (calls.size() < LaunchChains::kShortest) return 0;
  const auto [owner, chain] = FindFree(calls.size());
  if (chain == nullptr) {
    all_run_ = true;
    return 0;
  }
  const std::size_t count = chain->nodes->size();
  for (std::size_t i = 0; i < count; ++i) {
    if (owner->Set(*chain, i, *calls[i], pointers_) == CUDA_SUCCESS) continue;
    calls[i]->kernel->launched_alone = true;
    return 0;
  }
  if (driver_.cuGraphLaunch(chain->driver, stream.driver) != CUDA_SUCCESS) {
    GiveUp();
    return 0;
  }
  chain->stream = stream.progress;
  chain->last_launch = stream.submitted + count;
  return count;
}

std::vector<std::shared_ptr<LaunchChains>> LaunchBatches::Extract(
    std::optional<std::uint64_t> module) {
  std::vector<std::shared_ptr<LaunchChains>> taken;
  std::erase_if(chains_, [&](const auto& some) {
    if (module.has_value() && !some->MadeOf(*module)) return false;
    taken.push_back(some);
    return true;
  });
  return taken;
}

void LaunchBatches::GiveUp() {
  counted_ = 0;
  worth_graphs_ = std::min(kPatience * worth_graphs_, kMostWorth);
  worker_.Run([taken = Extract({})] {
    for (const auto& some : taken) some->End();
  });
}

}  // namespace cuspan::proxy
