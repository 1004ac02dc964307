// Tasks compared with plain C++.
#pragma once

#include <memory>

#include "bench/soft/tasks.h"

namespace cuspan::bench::soft {

// Null if `id` is not such a task.
std::unique_ptr<Task> MakeComputeTask(TaskId id, Gpu& gpu, unsigned threads);

}  // namespace cuspan::bench::soft
