#include "proxy/objects/launch_chains.h"

#include "common/log.h"

namespace cuspan::proxy {

CUresult LaunchChains::MakeGraph(const Size& size, Rotation& made) const {
  std::vector<void*> pointers;
  PointAtArguments(*model_.kernel, model_.arguments, pointers);
  CUresult result = driver_.cuGraphCreate(&made.graph, 0);
  for (std::size_t i = 0; i < size.nodes && result == CUDA_SUCCESS; ++i) {
    CUgraphNodeParams parameters = KernelNode(*model_.kernel, model_.shape, pointers);
    CUgraphNode node = nullptr;
    result = driver_.cuGraphAddNode(&node, made.graph, i == 0 ? nullptr : &made.nodes.back(),
                                    nullptr, i == 0 ? 0 : 1, &parameters);
    made.nodes.push_back(node);
  }
  return result;
}

CUresult LaunchChains::MakeIn(const Size& size, Rotation& made) const {
  if (made.graph == nullptr)
    if (const CUresult result = MakeGraph(size, made); result != CUDA_SUCCESS) return result;
  Chain chain;
  chain.nodes = &made.nodes;
  const CUresult result = driver_.cuGraphInstantiate(&chain.driver, made.graph, 0);
  if (result == CUDA_SUCCESS) made.chains.push_back(std::move(chain));
  return result;
}

void LaunchChains::MakeNext() {
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    if (sizes_[i].chains.size() == kSizes[i].chains) continue;
    const CUresult result = MakeIn(kSizes[i], sizes_[i]);
    if (result != CUDA_SUCCESS) {
      LogDebug("launches of {} are submitted one by one: {}", model_.kernel->name,
               driver_.Describe(result));
      state_ = State::kFailed;
    } else if (i + 1 == kSizes.size() && sizes_[i].chains.size() == kSizes[i].chains) {
      state_ = State::kReady;
    }
    return;
  }
}

void LaunchChains::End() {
  for (Rotation& size : sizes_) {
    for (const Chain& chain : size.chains) driver_.cuGraphExecDestroy(chain.driver);
    if (size.graph != nullptr) driver_.cuGraphDestroy(size.graph);
    size = {};
  }
}

LaunchChains::Chain* LaunchChains::FindFree(std::size_t launches) {
  for (Rotation& size : sizes_) {
    if (launches < size.nodes.size()) continue;
    // Chains of slow streams may run much longer than the next ones.
    for (std::size_t i = 0; i < size.chains.size(); ++i) {
      Chain& chain = size.chains[size.next];
      size.next = (size.next + 1) % size.chains.size();
      if (!chain.Runs()) return &chain;
    }
    return nullptr;
  }
  return nullptr;
}

CUresult LaunchChains::Set(const Chain& chain, std::size_t node, const KernelCall& call,
                           std::vector<void*>& pointers) {
  modules_.insert(call.kernel->module);
  PointAtArguments(*call.kernel, call.arguments, pointers);
  CUgraphNodeParams parameters = KernelNode(*call.kernel, call.shape, pointers);
  return driver_.cuGraphExecNodeSetParams(chain.driver, (*chain.nodes)[node], &parameters);
}

}  // namespace cuspan::proxy
