#include "interpose/calls/graph/graph.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "interpose/client/base/handles.h"

namespace cuspan {

GraphNode* Graph::Add(Work work, std::vector<GraphNode*> dependencies, int device) {
  auto node = std::make_unique<GraphNode>();
  node->handle = NextHandle();
  node->device = device;
  node->work = std::move(work);
  node->dependencies = std::move(dependencies);
  return nodes.emplace_back(std::move(node)).get();
}

std::shared_ptr<Graph> Graphs::Create() {
  auto graph = std::make_shared<Graph>();
  graph->handle = NextHandle();
  graphs_.emplace(graph->handle, graph);
  return graph;
}

std::shared_ptr<Graph> Graphs::Clone(const Graph& graph) {
  std::shared_ptr<Graph> clone = Create();
  clone->on_device = graph.on_device;
  clone->objects = graph.objects;
  std::unordered_map<const GraphNode*, GraphNode*> copies;
  for (const auto& node : graph.nodes) {
    Work work = node->work;
    if (auto* const child = std::get_if<ChildWork>(&work)) {
      child->graph = Clone(*child->graph);
      child->graph->child = true;
    }
    if (auto* const condition = std::get_if<ConditionWork>(&work)) {
      for (auto& body : condition->bodies) {
        body = Clone(*body);
        body->child = true;
      }
    }
    GraphNode* const copy = clone->Add(std::move(work), {}, node->device);
    copy->origin = node->handle;
    copies[node.get()] = copy;
    Name(clone, copy);
  }
  for (const auto& node : graph.nodes) {
    for (const GraphNode* dependency : node->dependencies) {
      copies[node.get()]->dependencies.push_back(copies.at(dependency));
    }
  }
  return clone;
}

std::shared_ptr<Graph> Graphs::Find(CUgraph graph) {
  const auto known = graphs_.find(NumberOf(graph));
  return known == graphs_.end() ? nullptr : known->second;
}

NodeInGraph Graphs::Find(CUgraphNode node) {
  const auto known = nodes_.find(NumberOf(node));
  return known == nodes_.end() ? NodeInGraph{} : known->second;
}

void Graphs::Destroy(std::uint64_t graph) {
  const auto known = graphs_.find(graph);
  if (known == graphs_.end()) return;
  const std::shared_ptr<Graph> gone = std::move(known->second);
  graphs_.erase(known);
  for (const auto& node : gone->nodes) {
    nodes_.erase(node->handle);
    DestroyPartsOf(*node);
  }
}

void Graphs::DestroyPartsOf(const GraphNode& node) {
  if (const auto* const child = std::get_if<ChildWork>(&node.work)) Destroy(child->graph->handle);
  if (const auto* const condition = std::get_if<ConditionWork>(&node.work))
    for (const auto& body : condition->bodies) Destroy(body->handle);
}

void Graphs::DestroyNode(const NodeInGraph& place) {
  for (const auto& other : place.graph->nodes) std::erase(other->dependencies, place.node);
  DestroyPartsOf(*place.node);
  nodes_.erase(place.node->handle);
  std::erase_if(place.graph->nodes, [&](const auto& node) { return node.get() == place.node; });
}

void Graphs::Add(std::shared_ptr<GraphExec> exec) {
  exec->handle = NextHandle();
  execs_.emplace(exec->handle, std::move(exec));
}

std::shared_ptr<GraphExec> Graphs::Find(CUgraphExec exec) {
  const auto known = execs_.find(NumberOf(exec));
  return known == execs_.end() ? nullptr : known->second;
}

bool Graphs::Destroy(CUgraphExec exec) {
  const auto known = execs_.find(NumberOf(exec));
  if (known == execs_.end()) return false;
  Destroy(known->second->graph->handle);
  execs_.erase(known);
  return true;
}

void Graphs::Name(const std::shared_ptr<Graph>& graph, GraphNode* node) {
  nodes_.insert_or_assign(node->handle, NodeInGraph{graph, node});
}

std::set<const GraphNode*> WithAncestors(const std::vector<GraphNode*>& nodes) {
  std::set<const GraphNode*> found;
  std::vector<const GraphNode*> open(nodes.begin(), nodes.end());
  while (!open.empty()) {
    const GraphNode* const node = open.back();
    open.pop_back();
    if (!found.insert(node).second) continue;
    open.insert(open.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return found;
}

bool WaitsForValue(const GraphNode& node) {
  if (const auto* const batch = std::get_if<MemoryBatchWork>(&node.work))
    return WaitsForValue(*batch);
  const auto* const child = std::get_if<ChildWork>(&node.work);
  return child != nullptr && std::any_of(child->graph->nodes.begin(), child->graph->nodes.end(),
                                         [](const auto& inner) { return WaitsForValue(*inner); });
}

std::optional<std::vector<GraphNode*>> InOrder(const Graph& graph) {
  std::unordered_map<const GraphNode*, std::size_t> missing;
  std::unordered_map<const GraphNode*, std::vector<GraphNode*>> dependents;
  std::vector<GraphNode*> order;
  order.reserve(graph.nodes.size());
  std::deque<GraphNode*> waiting;
  const auto add = [&](GraphNode* node) {
    if (WaitsForValue(*node))
      waiting.push_back(node);
    else
      order.push_back(node);
  };
  for (const auto& node : graph.nodes) {
    missing[node.get()] = node->dependencies.size();
    if (node->dependencies.empty()) add(node.get());
    for (const GraphNode* dependency : node->dependencies)
      dependents[dependency].push_back(node.get());
  }
  for (std::size_t i = 0; i < order.size() || !waiting.empty(); ++i) {
    if (i == order.size()) {
      order.push_back(waiting.front());
      waiting.pop_front();
    }
    for (GraphNode* dependent : dependents[order[i]]) {
      if (--missing[dependent] == 0) add(dependent);
    }
  }
  if (order.size() != graph.nodes.size()) return std::nullopt;
  return order;
}

}  // namespace cuspan
