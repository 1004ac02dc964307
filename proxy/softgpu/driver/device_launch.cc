// Dynamic parallelism: grids launched by kernels. They run one after another after the end of their
// parent, each followed by its own children. CUDA allows this order: launches of a thread in one
// stream are ordered, and a grid ends after its children. Only the end of the parent waits for a
// child.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "common/log.h"
#include "proxy/softgpu/driver/errors.h"
#include "proxy/softgpu/driver/launch.h"
#include "proxy/softgpu/driver/limits.h"
#include "proxy/softgpu/rt/child_launches.h"
#include "proxy/softgpu/rt/grid.h"

namespace cuspan::softgpu {
namespace {

// Values of cudaError_t returned to kernels.
constexpr std::uint32_t kInvalidValue = 1, kMemoryAllocation = 2, kInvalidConfiguration = 9,
                        kMaxDepthExceeded = 65, kInvalidDeviceFunction = 98;
// Levels of grids below the grid launched by the host. (CUDA C++ Programming Guide, "Technical
// Specifications": maximum nesting depth of dynamic parallelism)
constexpr int kMaxLaunchLevels = 24;
// cudaStreamTailLaunch (cuda_device_runtime_api.h): runs after the grid and all its other launches.
constexpr std::uint64_t kTailLaunch = 3;
// Limit of the arguments of one grid's pending launches, far above a GPU's. Further launches are
// refused.
constexpr std::size_t kMaxArgumentBytes = std::size_t{1} << 30;

struct Child {
  std::string kernel;
  LaunchShape shape;
  std::uint32_t parameter_bytes = 0;
  std::vector<std::uint64_t> parameters;
  std::optional<MemoryWork> work;  // Replaces a kernel.
  int level = 0;
};

// State shared by all grids descending from one launch by the host. Only one of them runs at a
// time.
struct Family {
  Driver& driver;
  std::shared_ptr<Context> context;
  std::shared_ptr<Module> module;
  int priority;
  std::shared_ptr<GraphConditions> conditions;
  std::map<std::string, std::unique_ptr<Function>> functions;
  std::vector<Child> pending;  // The next one is the last.
};

// Copy or memset requested by a kernel. Its addresses are unchecked.
class MemoryTask final : public Task {
 public:
  MemoryTask(const MemoryWork& work, const Family& family, std::shared_ptr<ChildLaunches> rest)
      : Task(1, 1, family.priority, false),
        work_(work),
        context_(family.context),
        rest_(std::move(rest)) {}

  bool Cancelled() const override { return context_->error() != CUDA_SUCCESS; }
  std::unique_ptr<Task> Next() override { return Cancelled() ? nullptr : rest_->Next(); }
  Resident* Start(Worker& worker, std::uint64_t) override {
    const auto move = [](void* argument) {
      const auto& work = *static_cast<const MemoryWork*>(argument);
      if (work.from != nullptr)
        std::memmove(work.to, work.from, work.bytes);
      else
        std::memset(work.to, work.value, work.bytes);
    };
    if (!worker.RunGuarded(move, &work_)) {
      context_->Raise(CUDA_ERROR_ILLEGAL_ADDRESS,
                      Format("a {} of {} bytes at {}, started by a kernel, failed",
                             work_.from != nullptr ? "copy" : "memset", work_.bytes, work_.to));
    }
    return nullptr;
  }

 private:
  MemoryWork work_;
  const std::shared_ptr<Context> context_;
  const std::shared_ptr<ChildLaunches> rest_;
};

class Children final : public ChildLaunches {
 public:
  // `level`: 0 for a grid launched by the host.
  Children(std::shared_ptr<Family> family, int level) : family_(std::move(family)), level_(level) {
    arguments_.SetLimit(kMaxArgumentBytes);
  }

  void* Prepare(const void* kernel, const std::uint32_t* grid, const std::uint32_t* block,
                std::uint32_t shared_bytes) override {
    const auto found = family_->module->program().KernelAt(kernel);
    if (!found) return Fail(kInvalidDeviceFunction);
    Child child{found->first,
                {{grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, shared_bytes},
                found->second,
                {},
                {}};
    if (CheckShape(child.shape) != CUDA_SUCCESS || shared_bytes > limits::kSharedPerBlockOptIn) {
      return Fail(kInvalidConfiguration);
    }
    // A kernel without arguments gets memory, too.
    void* const memory = arguments_.Allocate(std::max<std::size_t>(child.parameter_bytes, 16));
    if (memory == nullptr) return Fail(kMemoryAllocation);
    std::lock_guard lock(mutex_);
    prepared_.emplace(memory, std::move(child));
    return memory;
  }

  std::uint32_t Launch(const void* arguments, std::uint64_t stream) override {
    std::lock_guard lock(mutex_);
    auto known = prepared_.extract(arguments);
    if (known.empty()) return error_ = kInvalidValue;
    Child& child = known.mapped();
    // A tail launch has the level of the launching grid.
    child.level = stream == kTailLaunch ? level_ : level_ + 1;
    if (child.level > kMaxLaunchLevels) {
      arguments_.Free(const_cast<void*>(arguments));
      return error_ = kMaxDepthExceeded;
    }
    child.parameters.assign((child.parameter_bytes + 7) / 8, 0);
    if (child.parameter_bytes != 0) {
      std::memcpy(child.parameters.data(), arguments, child.parameter_bytes);
    }
    arguments_.Free(const_cast<void*>(arguments));
    (stream == kTailLaunch ? last_ : launched_).push_back(std::move(child));
    return kDeviceSuccess;
  }

  void AddMemoryWork(const MemoryWork& work) override {
    if (work.bytes == 0) return;
    Child child;
    child.work = work;
    std::lock_guard lock(mutex_);
    launched_.push_back(std::move(child));
  }

  bool Contains(const void* memory, std::size_t bytes) const override {
    return arguments_.Contains(memory, bytes);
  }

  std::uint32_t Error(bool take) override {
    return take ? error_.exchange(kDeviceSuccess) : error_.load();
  }

  std::unique_ptr<Task> Next() override {
    for (std::vector<Child>* list : {&last_, &launched_}) {
      std::move(list->rbegin(), list->rend(), std::back_inserter(family_->pending));
      list->clear();
    }
    if (family_->pending.empty()) return nullptr;
    Child child = std::move(family_->pending.back());
    family_->pending.pop_back();
    return Begin(std::move(child));
  }

 private:
  void* Fail(std::uint32_t error) {
    error_ = error;
    return nullptr;
  }

  // Launch errors found only now end the context, as on a GPU.
  std::unique_ptr<Task> Begin(Child child) {
    if (child.work) {
      return std::make_unique<MemoryTask>(*child.work, *family_,
                                          std::make_shared<Children>(family_, child.level));
    }
    softgpu::Launch launch;
    CUresult result = CUDA_SUCCESS;
    Function* const function = Find(child.kernel, &result);
    if (function != nullptr) {
      result = PrepareLaunch(family_->driver, family_->context, *function, child.shape, &launch);
    }
    if (result != CUDA_SUCCESS) {
      family_->context->Raise(
          CUDA_ERROR_LAUNCH_FAILED,
          Format("a kernel cannot launch kernel {} with blocks of {} x {} x {} threads and {} "
                 "bytes of shared memory: CUDA error {}",
                 child.kernel, child.shape.block.x, child.shape.block.y, child.shape.block.z,
                 child.shape.dynamic_shared, static_cast<int>(result)));
      return nullptr;
    }
    launch.params = std::move(child.parameters);
    launch.kept = family_->module;
    launch.grid_id = family_->driver.next_grid.fetch_add(1);
    launch.conditions = family_->conditions;
    launch.children = std::make_shared<Children>(family_, child.level);
    return std::make_unique<GridTask>(std::move(launch), family_->priority,
                                      family_->driver.pool.threads());
  }

  Function* Find(const std::string& name, CUresult* result) {
    std::unique_ptr<Function>& function = family_->functions[name];
    if (function == nullptr) {
      const Result<const KernelInfo*> info = family_->module->program().Kernel(name);
      if (!info.ok()) {
        LogError("software GPU: kernel {}: {}", name, info.status().message());
        *result = CUDA_ERROR_INVALID_PTX;
        return nullptr;
      }
      function = std::make_unique<Function>(family_->module, **info);
    }
    return function.get();
  }

  const std::shared_ptr<Family> family_;
  const int level_;
  DeviceHeap arguments_;
  std::atomic<std::uint32_t> error_{kDeviceSuccess};
  std::mutex mutex_;  // Guards the members below until the grid ends.
  std::map<const void*, Child> prepared_;
  std::vector<Child> launched_, last_;
};

}  // namespace

std::shared_ptr<ChildLaunches> MakeChildLaunches(Driver& driver, std::shared_ptr<Context> context,
                                                 std::shared_ptr<Module> module, int priority,
                                                 std::shared_ptr<GraphConditions> conditions) {
  auto family = std::make_shared<Family>(Family{
      driver, std::move(context), std::move(module), priority, std::move(conditions), {}, {}});
  return std::make_shared<Children>(std::move(family), 0);
}

}  // namespace cuspan::softgpu
