// Launches of graphs: the tasks of their nodes, with the decisions of conditional nodes in between.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "proxy/softgpu/driver/graph.h"

namespace cuspan::softgpu {
namespace {

// A loop that executes nothing keeps a worker no busier than this.
constexpr std::chrono::microseconds kPause{50};

// Goes before another round of a loop that has nothing to execute.
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
    places_.emplace_back(program_->steps);
  }

  std::unique_ptr<Task> Next() override {
    while (!places_.empty() && program_->context->error() == CUDA_SUCCESS) {
      std::unique_ptr<Task> task = places_.back().left == 0 ? EndBody() : BeginNext();
      if (task == nullptr) continue;
      if (loops_ != 0) task->SetRepeats();
      ++tasks_;
      return task;
    }
    return nullptr;
  }

 private:
  // Where the execution is in the graph or in a body.
  struct Place {
    explicit Place(const std::vector<GraphStep>& graph) : steps(&graph) { Restart(); }
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
    const GraphStep& Take(std::size_t step) {
      begun[step] = true;
      --left;
      while (first != begun.size() && begun[first]) ++first;
      return (*steps)[step];
    }

    const std::vector<GraphStep>* steps;
    std::vector<bool> begun;  // And over, but for a body that is the place after this one.
    std::size_t first = 0;    // The first that is not.
    std::size_t left = 0;     // How many are not.
    const ConditionalStep* loop = nullptr;  // The while that it is the body of.
    std::uint64_t tasks_before = 0;         // Those that were there when the round began.
  };

  // What is ready and waits for no value goes first; then there is nothing else to do than to wait
  // for the first value that is there.
  std::unique_ptr<Task> BeginNext() {
    Place& place = places_.back();
    // The values that the last task has waited for: one is there.
    if (!waits_.empty()) {
      place.Take(waits_[found_]);
      waits_.clear();
      return nullptr;
    }
    std::vector<std::size_t> waits;
    std::vector<MemoryOperation> values;
    for (std::size_t i = place.first; i < place.steps->size(); ++i) {
      if (!place.IsReady(i)) continue;
      const auto* const operation = std::get_if<MemoryOperation>(&(*place.steps)[i].work);
      if (operation == nullptr || !operation->wait)
        return std::visit([&](const auto& work) { return Begin(work); }, place.Take(i).work);
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
    // The body of a false `if` is the one of its `else`, if there is one.
    const std::size_t chosen = step.type == CU_GRAPH_COND_TYPE_SWITCH ? value : value != 0 ? 0 : 1;
    if (chosen >= step.bodies.size()) return nullptr;
    Place body(step.bodies[chosen]);
    if (step.type == CU_GRAPH_COND_TYPE_WHILE) {
      body.loop = &step;
      body.tasks_before = tasks_;
      ++loops_;
    }
    places_.push_back(body);
    return nullptr;
  }

  std::unique_ptr<Task> EndBody() {
    Place& place = places_.back();
    if (place.loop == nullptr || conditions_->Get(place.loop->condition) == 0) {
      if (place.loop != nullptr) --loops_;
      places_.pop_back();
      return nullptr;
    }
    const bool idle = place.tasks_before == tasks_;
    place.Restart();
    place.tasks_before = tasks_;
    return idle ? std::make_unique<PauseTask>(priority_, program_->context) : nullptr;
  }

  Driver& driver_;
  const std::shared_ptr<const GraphProgram> program_;
  const int priority_;
  const std::shared_ptr<GraphConditions> conditions_;
  std::vector<Place> places_;  // The innermost last.
  std::size_t loops_ = 0;      // How many of them are bodies of a while.
  std::uint64_t tasks_ = 0;    // How many there were.
  // The steps whose values the task waits for, and which of them found its value.
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
