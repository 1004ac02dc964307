// Tests operations consisting of several tasks.
#include "proxy/softgpu/rt/queue.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace cuspan::softgpu {
namespace {

// Appends its number, once for each unit.
class NoteTask final : public Task {
 public:
  NoteTask(std::uint64_t units, int number, std::vector<int>* notes, bool cancelled = false)
      : Task(units, units == 0 ? 1 : units, 0, false),
        number_(number),
        notes_(notes),
        cancelled_(cancelled) {}
  bool Cancelled() const override { return cancelled_; }
  Resident* Start(Worker&, std::uint64_t) override {
    notes_->push_back(number_);
    return nullptr;
  }

 private:
  const int number_;
  std::vector<int>* const notes_;
  const bool cancelled_;
};

class Tasks final : public TaskSequence {
 public:
  explicit Tasks(std::function<std::unique_ptr<Task>(int)> make) : make_(std::move(make)) {}
  std::unique_ptr<Task> Next() override { return make_(asked_++); }

 private:
  const std::function<std::unique_ptr<Task>(int)> make_;
  int asked_ = 0;
};

class QueueTest : public testing::Test {
 protected:
  // Executes the tasks returned by `make` for 0, 1, … until it returns null, and waits for them.
  void Run(std::function<std::unique_ptr<Task>(int)> make) {
    const auto operation = std::make_shared<Operation>(std::make_unique<Tasks>(std::move(make)));
    queue_.Submit(operation, {});
    operation->Wait();
  }

  WorkerPool pool_{2};
  OperationQueue queue_{pool_};
  std::vector<int> notes_;
};

TEST_F(QueueTest, TheTasksOfASequenceRunOneAfterAnother) {
  Run([&](int i) { return i == 5 ? nullptr : std::make_unique<NoteTask>(2, i, &notes_); });
  EXPECT_EQ(notes_, (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4}));
  EXPECT_EQ(pool_.finished_units(), 10U);
}

TEST_F(QueueTest, TasksWithNothingToDoAreLeftOut) {
  Run([&](int i) {
    return i == 6 ? nullptr : std::make_unique<NoteTask>(i % 2, i, &notes_, /*cancelled=*/i == 3);
  });
  EXPECT_EQ(notes_, (std::vector<int>{1, 5}));
}

TEST_F(QueueTest, ASequenceMayBeEmpty) {
  Run([](int) { return nullptr; });
  EXPECT_EQ(pool_.finished_units(), 0U);
}

// An ending context waits while there is progress. Repeated tasks do not count, or an endless loop
// would keep it.
TEST_F(QueueTest, TasksOfLoopsAreNoProgress) {
  Run([&](int i) {
    auto task = i == 4 ? nullptr : std::make_unique<NoteTask>(3, i, &notes_);
    if (task != nullptr && i != 0) task->SetRepeats();
    return task;
  });
  EXPECT_EQ(notes_.size(), 12U);
  EXPECT_EQ(pool_.finished_units(), 3U);
}

}  // namespace
}  // namespace cuspan::softgpu
