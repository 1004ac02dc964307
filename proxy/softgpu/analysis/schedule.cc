#include "proxy/softgpu/analysis/schedule.h"

#include <algorithm>
#include <map>
#include <set>

#include "proxy/softgpu/analysis/dominators.h"

namespace cuspan::softgpu::analysis {
namespace {

using ptx::kNoIndex;

// Limit of the analysis tables.
constexpr std::size_t kMaxBlocks = 3000;

struct Loop {
  std::uint32_t header;
  Bits blocks;
  std::uint32_t parent = kNoIndex;
  std::size_t size = 0;
};

class Scheduler {
 public:
  Scheduler(const ptx::Body& body, const FlowGraph& graph, bool is_kernel)
      : body_(body), graph_(graph), is_kernel_(is_kernel), count_(graph.blocks.size()) {}

  std::optional<Schedule> Build() {
    if (count_ == 0 || count_ > kMaxBlocks) return std::nullopt;
    FindEnds();
    FindSuccessors();
    if (!FindLoops()) return std::nullopt;
    out_.node_of.assign(count_, kNoIndex);
    out_.loop_ends.assign(count_, kNoIndex);
    Place(kNoIndex);
    if (!is_kernel_) {
      out_.return_node = static_cast<std::uint32_t>(out_.nodes.size());
      out_.nodes.emplace_back();
      out_.nodes.back().leaves = true;
    }
    Connect();
    FindJoins();
    return std::move(out_);
  }

 private:
  bool Leaves(const Block& block) const {
    const auto& last = body_.instructions[block.end - 1];
    const bool goes_on = !IsBranch(last) || last.guard != kNoIndex;
    return LeavesFunction(last) || (goes_on && block.end == body_.instructions.size());
  }

  void FindEnds() {
    out_.ends.assign(count_, false);
    if (!is_kernel_) return;
    for (std::uint32_t i = 1; i < count_; ++i) {
      const Block& block = graph_.blocks[i];
      const auto& only = body_.instructions[block.begin];
      out_.ends[i] = block.end == block.begin + 1 && only.guard == kNoIndex &&
                     (only.opcode == "ret" || only.opcode == "exit");
    }
  }

  void FindSuccessors() {
    successors_.resize(count_);
    for (std::uint32_t i = 0; i < count_; ++i) {
      for (auto next : graph_.blocks[i].successors) {
        auto& list = successors_[i];
        if (out_.ends[next] || std::find(list.begin(), list.end(), next) != list.end()) continue;
        list.push_back(next);
      }
    }
    blocks_ = Dominators(successors_);
  }

  bool FindLoops() {
    std::map<std::uint32_t, std::vector<std::uint32_t>> back;  // Sources of back edges, by header.
    for (auto block : blocks_.order) {
      for (auto to : successors_[block]) {
        if (blocks_.number[to] > blocks_.number[block]) continue;
        if (!blocks_.Dominates(to, block)) return false;
        back[to].push_back(block);
      }
    }
    for (const auto& [header, sources] : back) {
      Loop loop{header, Bits(count_)};
      loop.blocks.Add(header);
      std::vector<std::uint32_t> work = sources;
      while (!work.empty()) {
        const std::uint32_t block = work.back();
        work.pop_back();
        if (loop.blocks.Has(block)) continue;
        loop.blocks.Add(block);
        work.insert(work.end(), blocks_.predecessors[block].begin(),
                    blocks_.predecessors[block].end());
      }
      loop.blocks.ForEach([&](std::uint32_t) { ++loop.size; });
      loops_.push_back(std::move(loop));
    }
    std::sort(loops_.begin(), loops_.end(),
              [](const Loop& x, const Loop& y) { return x.size > y.size; });
    innermost_.assign(count_, kNoIndex);
    for (std::uint32_t i = 0; i < loops_.size(); ++i) {
      loops_[i].parent = innermost_[loops_[i].header];
      loops_[i].blocks.ForEach([&](std::uint32_t block) { innermost_[block] = i; });
    }
    return true;
  }

  // Item of `block` in the region of `loop`: the block itself, or its inner loop. Items are
  // numbered blocks first, then loops.
  std::uint32_t ItemOf(std::uint32_t block, std::uint32_t loop) const {
    std::uint32_t inner = innermost_[block];
    if (inner == loop) return block;
    while (loops_[inner].parent != loop) inner = loops_[inner].parent;
    return static_cast<std::uint32_t>(count_) + inner;
  }
  bool Contains(std::uint32_t loop, std::uint32_t block) const {
    return loop == kNoIndex || loops_[loop].blocks.Has(block);
  }

  // Appends the nodes of the loop, or of the whole body.
  void Place(std::uint32_t loop) {
    std::map<std::uint32_t, std::set<std::uint32_t>> next;  // Edges between items.
    std::map<std::uint32_t, std::uint32_t> waiting;
    for (auto block : blocks_.order) {
      if (!Contains(loop, block)) continue;
      const std::uint32_t item = ItemOf(block, loop);
      waiting.try_emplace(item, 0);
      for (auto to : successors_[block]) {
        if (!Contains(loop, to) || (loop != kNoIndex && to == loops_[loop].header)) continue;
        const std::uint32_t other = ItemOf(to, loop);
        if (other != item && next[item].insert(other).second) ++waiting[other];
      }
    }
    // Ready items are taken in textual order.
    const auto text = [&](std::uint32_t item) {
      return item < count_ ? item : loops_[item - count_].header;
    };
    std::set<std::pair<std::uint32_t, std::uint32_t>> ready;
    for (const auto& [item, count] : waiting)
      if (count == 0) ready.emplace(text(item), item);
    while (!ready.empty()) {
      const std::uint32_t item = ready.begin()->second;
      ready.erase(ready.begin());
      if (item < count_) {
        out_.node_of[item] = static_cast<std::uint32_t>(out_.nodes.size());
        out_.nodes.emplace_back();
        out_.nodes.back().block = item;
      } else {
        Place(item - static_cast<std::uint32_t>(count_));
      }
      for (auto other : next[item])
        if (--waiting[other] == 0) ready.emplace(text(other), other);
    }
    if (loop == kNoIndex) return;
    out_.loop_ends[loops_[loop].header] = static_cast<std::uint32_t>(out_.nodes.size());
    out_.nodes.emplace_back();
  }

  void Connect() {
    for (std::uint32_t block = 0; block < count_; ++block) {
      if (out_.loop_ends[block] != kNoIndex)
        out_.nodes[out_.loop_ends[block]].successors = {out_.node_of[block]};
    }
    for (std::uint32_t i = 0; i < out_.nodes.size(); ++i) {
      Node& node = out_.nodes[i];
      if (node.block == kNoIndex) continue;
      const Block& block = graph_.blocks[node.block];
      for (auto to : block.successors) {
        const std::uint32_t target = out_.Target(i, to);
        if (target == kNoIndex) {
          node.leaves = true;
        } else if (std::find(node.successors.begin(), node.successors.end(), target) ==
                   node.successors.end()) {
          node.successors.push_back(target);
        }
      }
      if (!Leaves(block)) continue;
      if (out_.return_node != kNoIndex && body_.instructions[block.end - 1].opcode != "trap" &&
          body_.instructions[block.end - 1].opcode != "brkpt") {
        node.successors.push_back(out_.return_node);
      } else {
        node.leaves = true;
      }
    }
  }

  // Computes sets of post-dominators; the nearest has the most post-dominators of its own.
  void FindJoins() {
    const std::size_t count = out_.nodes.size();
    std::vector<Bits> after(count, Bits(count));
    Bits ends(count);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = count; i-- > 0;) {
        const Node& node = out_.nodes[i];
        const bool may_end =
            node.leaves || std::any_of(node.successors.begin(), node.successors.end(),
                                       [&](auto next) { return ends.Has(next); });
        if (may_end && !ends.Has(i)) {
          ends.Add(i);
          changed = true;
        }
      }
    }
    for (auto& set : after) set.AddEverything();
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = count; i-- > 0;) {
        const Node& node = out_.nodes[i];
        Bits set(count);
        if (!node.leaves && !node.successors.empty()) {
          set.AddEverything();
          for (auto next : node.successors) set.KeepOnly(after[next]);
        }
        set.Add(i);
        if (set == after[i]) continue;
        after[i] = set;
        changed = true;
      }
    }
    std::vector<std::size_t> depth(count, 0);
    for (std::size_t i = 0; i < count; ++i)
      if (ends.Has(i)) after[i].ForEach([&](std::uint32_t j) { depth[i] += j < count ? 1 : 0; });
    out_.join.assign(count, kNoIndex);
    for (std::size_t i = 0; i < count; ++i) {
      if (!ends.Has(i)) continue;
      after[i].ForEach([&](std::uint32_t j) {
        if (j == i || j >= count) return;
        if (out_.join[i] == kNoIndex || depth[j] > depth[out_.join[i]]) out_.join[i] = j;
      });
    }
  }

  const ptx::Body& body_;
  const FlowGraph& graph_;
  const bool is_kernel_;
  const std::size_t count_;
  std::vector<std::vector<std::uint32_t>> successors_;
  Dominators blocks_;
  std::vector<Loop> loops_;
  std::vector<std::uint32_t> innermost_;
  Schedule out_;
};

}  // namespace

std::uint32_t Schedule::Target(std::uint32_t from, std::uint32_t block) const {
  if (ends[block]) return kNoIndex;
  const std::uint32_t node = node_of[block];
  return node <= from ? loop_ends[block] : node;
}

std::optional<Schedule> BuildSchedule(const ptx::Body& body, const FlowGraph& graph,
                                      bool is_kernel) {
  return Scheduler(body, graph, is_kernel).Build();
}

Bits ReachedFrom(const Schedule& schedule, std::uint32_t first, std::uint32_t end) {
  Bits reached(schedule.nodes.size());
  if (first == end) return reached;
  std::vector<std::uint32_t> work = {first};
  reached.Add(first);
  while (!work.empty()) {
    const std::uint32_t node = work.back();
    work.pop_back();
    for (auto next : schedule.nodes[node].successors) {
      if (next == end || reached.Has(next)) continue;
      reached.Add(next);
      work.push_back(next);
    }
  }
  return reached;
}

}  // namespace cuspan::softgpu::analysis
