// Tasks for the software GPU alone: costs of barriers, launches, modules and blocks.
#include "bench/soft/tasks.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "bench/soft/compute_tasks.h"
#include "bench/soft/host_threads.h"
#include "bench/soft/unrolled.h"

namespace cuspan::bench::soft {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kFirstLaunchKernel = "of_ordinary_size";
constexpr const char* kFirstLargeLaunchKernel = "solve_large";

// Seconds per barrier of a block of 1024 threads.
class BarrierTask final : public Task {
 public:
  explicit BarrierTask(Gpu& gpu) : gpu_(gpu) {}
  Status Prepare() override {
    CUSPAN_ASSIGN_OR_RETURN(function_, gpu_.Function("meet_often"));
    return OnGpu().status();
  }
  Result<double> OnGpu() override {
    int times = 2000;
    const Clock::time_point start = Clock::now();
    CUSPAN_RETURN_IF_ERROR(gpu_.Run(function_, {1}, {1024}, {&times}));
    return SecondsSince(start) / times;
  }

 private:
  Gpu& gpu_;
  CUfunction function_ = nullptr;
};

// Seconds from the look-up of a kernel to the end of its first launch. Once per process.
class FirstLaunchTask final : public Task {
 public:
  // `kernel` takes three arrays, with at most `each` elements per thread, and a count.
  FirstLaunchTask(Gpu& gpu, const char* kernel, std::size_t each)
      : gpu_(gpu), kernel_(kernel), each_(each) {}
  Status Prepare() override {
    for (CUdeviceptr* address : {&arrays_[0], &arrays_[1], &arrays_[2]}) {
      CUSPAN_ASSIGN_OR_RETURN(*address, gpu_.Allocate(kCount * each_ * sizeof(float)));
    }
    return Status::Ok();
  }
  Result<double> OnGpu() override {
    int count = kCount;
    const Clock::time_point start = Clock::now();
    CUSPAN_ASSIGN_OR_RETURN(CUfunction function, gpu_.Function(kernel_));
    CUSPAN_RETURN_IF_ERROR(
        gpu_.Run(function, {1}, {kCount}, {&arrays_[0], &arrays_[1], &arrays_[2], &count}));
    return SecondsSince(start);
  }

 private:
  static constexpr unsigned kCount = 256;
  Gpu& gpu_;
  const char* const kernel_;
  const std::size_t each_;
  CUdeviceptr arrays_[3] = {};
};

// A module of `bytes` bytes or slightly more: repeats all kernels under new names.
std::string LargeModule(std::size_t bytes) {
  const std::string_view text = KernelsPtx();
  const std::size_t first = text.find(".visible .entry");
  std::string module(text.substr(0, first));
  const std::string_view kernels = text.substr(first);
  constexpr std::string_view kEntry = ".entry ";
  for (int copy = 0; module.size() < bytes; ++copy) {
    // Each name occurs only in its own kernel, as a whole or before "_param_".
    for (std::size_t at = 0; at < kernels.size();) {
      const std::size_t next = kernels.find(".visible .entry", at + 1);
      std::string kernel(kernels.substr(at, next - at));
      const std::size_t begin = kernel.find(kEntry) + kEntry.size();
      const std::string name = kernel.substr(begin, kernel.find('(', begin) - begin);
      const std::string suffix = "_" + std::to_string(copy);
      for (std::size_t place = kernel.find(name); place != std::string::npos;
           place = kernel.find(name, place + name.size())) {
        kernel.insert(place + name.size(), suffix);
        place += suffix.size();
      }
      module += kernel;
      at = next == std::string_view::npos ? kernels.size() : next;
    }
  }
  return module;
}

// Seconds to load 20 MB of PTX.
class LoadModuleTask final : public Task {
 public:
  explicit LoadModuleTask(Gpu& gpu) : gpu_(gpu), ptx_(LargeModule(20'000'000)) {}
  Result<double> OnGpu() override {
    const Clock::time_point start = Clock::now();
    CUSPAN_RETURN_IF_ERROR(gpu_.LoadAndUnload(ptx_));
    return SecondsSince(start);
  }

 private:
  Gpu& gpu_;
  const std::string ptx_;
};

Result<double> ResidentBytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return Status::Internal("/proc/self/statm cannot be read");
  unsigned long pages = 0;
  const int read = std::fscanf(file, "%*u %lu", &pages);
  std::fclose(file);
  if (read != 1) return Status::Internal("/proc/self/statm cannot be read");
  return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Bytes per resident block of 1024 threads. Once per process.
class ResidentMemoryTask final : public Task {
 public:
  explicit ResidentMemoryTask(Gpu& gpu) : gpu_(gpu) {}
  Status Prepare() override {
    CUSPAN_ASSIGN_OR_RETURN(function_, gpu_.Function("be_resident"));
    CUSPAN_ASSIGN_OR_RETURN(CUdeviceptr memory, gpu_.Allocate(sizeof(unsigned)));
    arrived_ = reinterpret_cast<unsigned*>(memory);
    return Run(1);  // Creates the code and the first block's memory.
  }
  Result<double> OnGpu() override {
    constexpr unsigned kBlocks = 7;
    CUSPAN_ASSIGN_OR_RETURN(double before, ResidentBytes());
    CUSPAN_RETURN_IF_ERROR(Run(kBlocks));
    CUSPAN_ASSIGN_OR_RETURN(double after, ResidentBytes());
    return (after - before) / (kBlocks - 1);
  }

 private:
  Status Run(unsigned blocks) {
    *arrived_ = 0;
    return gpu_.Run(function_, {blocks}, {1024}, {&arrived_, &blocks}, /*cooperative=*/true);
  }
  Gpu& gpu_;
  CUfunction function_ = nullptr;
  unsigned* arrived_ = nullptr;
};

}  // namespace

int FirstLaunchInstructions(TaskId task) {
  std::string_view text = KernelsPtx();
  text = text.substr(
      text.find(std::string(".entry ") +
                (task == TaskId::kFirstLaunch ? kFirstLaunchKernel : kFirstLargeLaunchKernel)));
  text = text.substr(0, text.find("\n}"));
  int instructions = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const std::size_t word = line.find_first_not_of(" \t");
    if (line.ends_with(';') && word != std::string_view::npos && line[word] != '.') ++instructions;
    at = end + 1;
  }
  return instructions;
}

std::unique_ptr<Task> MakeTask(TaskId id, Gpu& gpu, unsigned threads) {
  switch (id) {
    case TaskId::kBarrier:
      return std::make_unique<BarrierTask>(gpu);
    case TaskId::kFirstLaunch:
      return std::make_unique<FirstLaunchTask>(gpu, kFirstLaunchKernel, 1);
    case TaskId::kFirstLargeLaunch:
      return std::make_unique<FirstLaunchTask>(gpu, kFirstLargeLaunchKernel,
                                               kLargeSystem * kLargeSystem);
    case TaskId::kLoadModule:
      return std::make_unique<LoadModuleTask>(gpu);
    case TaskId::kResidentMemory:
      return std::make_unique<ResidentMemoryTask>(gpu);
    default:
      return MakeComputeTask(id, gpu, threads);
  }
}

}  // namespace cuspan::bench::soft
