#include "proxy/softgpu/analysis/dominators.h"

#include <algorithm>

#include "proxy/ptx/module.h"

namespace cuspan::softgpu::analysis {

using ptx::kNoIndex;

// K. Cooper, T. Harvey, K. Kennedy: "A Simple, Fast Dominance Algorithm".
Dominators::Dominators(const Lists& successors)
    : number(successors.size(), kNoIndex),
      immediate(successors.size(), kNoIndex),
      predecessors(successors.size()) {
  std::vector<std::size_t> next(successors.size(), 0);
  std::vector<bool> seen(successors.size(), false);
  std::vector<std::uint32_t> path = {0};
  seen[0] = true;
  while (!path.empty()) {
    const std::uint32_t block = path.back();
    if (next[block] < successors[block].size()) {
      const std::uint32_t to = successors[block][next[block]++];
      if (!seen[to]) path.push_back(to);
      seen[to] = true;
      continue;
    }
    path.pop_back();
    order.push_back(block);
  }
  std::reverse(order.begin(), order.end());
  for (std::uint32_t i = 0; i < order.size(); ++i) number[order[i]] = i;
  for (auto block : order)
    for (auto to : successors[block]) predecessors[to].push_back(block);

  immediate[0] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (auto block : order) {
      if (block == 0) continue;
      std::uint32_t found = kNoIndex;
      for (auto from : predecessors[block]) {
        if (immediate[from] == kNoIndex) continue;
        found = found == kNoIndex ? from : Meet(found, from);
      }
      changed = changed || immediate[block] != found;
      immediate[block] = found;
    }
  }
}

std::uint32_t Dominators::Meet(std::uint32_t x, std::uint32_t y) const {
  while (x != y) {
    while (number[x] > number[y]) x = immediate[x];
    while (number[y] > number[x]) y = immediate[y];
  }
  return x;
}

}  // namespace cuspan::softgpu::analysis
