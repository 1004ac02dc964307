// Launches of graphs: the tasks of their nodes, and the decisions of conditional nodes.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "proxy/softgpu/driver/graph.h"

namespace cuspan::softgpu {
namespace {

// Pause between iterations of a loop executing nothing, to keep a worker mostly idle.
constexpr std::chrono::microseconds kPause{50};

// Runs before the next iteration of a loop executing nothing.
class PauseTask final : public Task {
 public:
  PauseTask(int priority, std::shared_ptr<Context> context)
      : Task(1, 1, priority, false), context_(std::move(context)) {}
  bool Cancelled() const override { return context_->error() != CUDA_SUCCESS; }
  Resident* Start(Worker&, std::uint64_t) override {
    std::this_thread::sleep_for(kPause);
    return nullptr;
  }

 private:
  const std::shared_ptr<Context> context_;
};

class GraphRun final : public TaskSequence {
 public:
  GraphRun(Driver& driver, std::shared_ptr<const GraphProgram> program, int priority)
      : driver_(driver),
        program_(std::move(program)),
        priority_(priority),
        conditions_(std::make_shared<GraphConditions>(program_->conditions)) {
    levels_.emplace_back(program_->steps);
  }

  std::unique_ptr<Task> Next() override {
    while (!levels_.empty() && program_->context->error() == CUDA_SUCCESS) {
      std::unique_ptr<Task> task = levels_.back().left == 0 ? EndBody() : BeginNext();
      if (task == nullptr) continue;
      if (loops_ != 0) task->SetRepeats();
      ++tasks_;
      return task;
    }
    return nullptr;
  }

 private:
  // Position of the execution in the graph or in a body.
  struct Level {
    explicit Level(const std::vector<GraphStep>& graph) : steps(&graph) { Restart(); }
    void Restart() {
      begun.assign(steps->size(), false);
      first = 0;
      left = steps->size();
    }
    bool IsReady(std::size_t step) const {
      const auto& after = (*steps)[step].after;
      return !begun[step] &&
             std::all_of(after.begin(), after.end(), [&](std::size_t one) { return begun[one]; });
    }
    const GraphStep& BeginStep(std::size_t step) {
      begun[step] = true;
      --left;
      while (first != begun.size() && begun[first]) ++first;
      return (*steps)[step];
    }

    const std::vector<GraphStep>* steps;
    // Steps begun. They are finished, except a conditional with its body executing next in levels_.
    std::vector<bool> begun;
    std::size_t first = 0;                  // First step not begun.
    std::size_t left = 0;                   // Number of steps not begun.
    const ConditionalStep* loop = nullptr;  // Set for the body of a while.
    std::uint64_t tasks_before = 0;         // tasks_ at the start of the iteration.
  };

  // Ready steps go first, except waits for values. If only waits are left, the next task waits for
  // the first value to arrive.
  std::unique_ptr<Task> BeginNext() {
    Level& level = levels_.back();
    // The last task waited for these values, and one has arrived.
    if (!waits_.empty()) {
      level.BeginStep(waits_[found_]);
      waits_.clear();
      return nullptr;
    }
    std::vector<std::size_t> waits;
    std::vector<MemoryOperation> values;
    for (std::size_t i = level.first; i < level.steps->size(); ++i) {
      if (!level.IsReady(i)) continue;
      const auto* const operation = std::get_if<MemoryOperation>(&(*level.steps)[i].work);
      if (operation == nullptr || !operation->wait)
        return std::visit([&](const auto& work) { return Begin(work); }, level.BeginStep(i).work);
      waits.push_back(i);
      values.push_back(*operation);
    }
    waits_ = std::move(waits);
    return std::make_unique<FirstValueTask>(std::move(values), priority_, program_->context,
                                            &found_);
  }

  std::unique_ptr<Task> Begin(const EmptyNode&) { return nullptr; }
  std::unique_ptr<Task> Begin(const KernelStep& step) {
    Launch launch = step.launch;
    launch.conditions = conditions_;
    return MakeGridTask(driver_, program_->context, step.module, std::move(launch), priority_);
  }
  std::unique_ptr<Task> Begin(const Fill& fill) {
    return std::make_unique<FillTask>(fill, priority_, program_->context);
  }
  std::unique_ptr<Task> Begin(const BoxCopy& copy) {
    return MakeBoxCopyTask(copy, priority_, program_->context);
  }
  std::unique_ptr<Task> Begin(const MemoryOperation& write) {
    return std::make_unique<MemoryBatchTask>(std::vector{write}, priority_, program_->context);
  }
  std::unique_ptr<Task> Begin(const ConditionalStep& step) {
    const std::uint32_t value = conditions_->Get(step.condition);
    // Body 1 of an `if` is its `else`, if it has one.
    const std::size_t chosen = step.type == CU_GRAPH_COND_TYPE_SWITCH ? value : value != 0 ? 0 : 1;
    if (chosen >= step.bodies.size()) return nullptr;
    Level body(step.bodies[chosen]);
    if (step.type == CU_GRAPH_COND_TYPE_WHILE) {
      body.loop = &step;
      body.tasks_before = tasks_;
      ++loops_;
    }
    levels_.push_back(body);
    return nullptr;
  }

  std::unique_ptr<Task> EndBody() {
    Level& level = levels_.back();
    if (level.loop == nullptr || conditions_->Get(level.loop->condition) == 0) {
      if (level.loop != nullptr) --loops_;
      levels_.pop_back();
      return nullptr;
    }
    const bool idle = level.tasks_before == tasks_;
    level.Restart();
    level.tasks_before = tasks_;
    return idle ? std::make_unique<PauseTask>(priority_, program_->context) : nullptr;
  }

  Driver& driver_;
  const std::shared_ptr<const GraphProgram> program_;
  const int priority_;
  const std::shared_ptr<GraphConditions> conditions_;
  std::vector<Level> levels_;  // The innermost is the last.
  std::size_t loops_ = 0;      // Number of while bodies in levels_.
  std::uint64_t tasks_ = 0;    // Number of tasks so far.
  // Steps with values awaited by the present task, and the index of the one found.
  std::vector<std::size_t> waits_;
  std::size_t found_ = 0;
};

}  // namespace

std::unique_ptr<TaskSequence> MakeGraphRun(Driver& driver,
                                           std::shared_ptr<const GraphProgram> program,
                                           int priority) {
  return std::make_unique<GraphRun>(driver, std::move(program), priority);
}

}  // namespace cuspan::softgpu
