#include "proxy/objects/launch_chains.h"

#include "common/log.h"

namespace cuspan::proxy {

CUresult LaunchChains::MakeOne(const Size& size, const KernelCall& call, Rotation& made) const {
  std::vector<void*> pointers;
  PointAtArguments(*call.kernel, call.arguments, pointers);
  CUresult result = driver_.cuGraphCreate(&made.graph, 0);
  for (std::size_t i = 0; i < size.nodes && result == CUDA_SUCCESS; ++i) {
    CUgraphNodeParams parameters = KernelNode(*call.kernel, call.shape, pointers);
    CUgraphNode node = nullptr;
    result = driver_.cuGraphAddNode(&node, made.graph, i == 0 ? nullptr : &made.nodes.back(),
                                    nullptr, i == 0 ? 0 : 1, &parameters);
    made.nodes.push_back(node);
  }
  made.chains.resize(size.chains);
  for (Chain& chain : made.chains) {
    chain.nodes = &made.nodes;
    if (result == CUDA_SUCCESS) result = driver_.cuGraphInstantiate(&chain.driver, made.graph, 0);
  }
  return result;
}

void LaunchChains::Make(const KernelCall& call) {
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    const CUresult result = MakeOne(kSizes[i], call, sizes_[i]);
    if (result == CUDA_SUCCESS) continue;
    LogDebug("launches of {} are submitted one by one: {}", call.kernel->name,
             driver_.Describe(result));
    return state_.store(State::kFailed, std::memory_order_release);
  }
  state_.store(State::kReady, std::memory_order_release);
}

void LaunchChains::End() {
  for (Rotation& size : sizes_) {
    for (const Chain& chain : size.chains)
      if (chain.driver != nullptr) driver_.cuGraphExecDestroy(chain.driver);
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
