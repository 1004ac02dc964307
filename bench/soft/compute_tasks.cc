// Tasks compared with plain C++.
#include "bench/soft/compute_tasks.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "bench/soft/host_threads.h"
#include "bench/soft/local_stacks.h"
#include "bench/soft/reference.h"
#include "bench/soft/unrolled.h"

namespace cuspan::bench::soft {
namespace {

using Clock = std::chrono::steady_clock;

// An array in device memory, accessible to this process.
template <typename T>
class Array {
 public:
  Status Allocate(Gpu& gpu, std::size_t count) {
    CUSPAN_ASSIGN_OR_RETURN(CUdeviceptr address, gpu.Allocate(count * sizeof(T)));
    data_ = reinterpret_cast<T*>(address);
    return Status::Ok();
  }
  T* data() const { return data_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  // Kernel parameter.
  void* parameter() { return &data_; }

 private:
  T* data_ = nullptr;
};

// Base of all: times each side, and checks the results once.
class ComputeTask : public Task {
 public:
  ComputeTask(Gpu& gpu, unsigned threads, const char* kernel)
      : gpu_(gpu), threads_(threads), kernel_(kernel) {}

  Status Prepare() final {
    CUSPAN_ASSIGN_OR_RETURN(function_, gpu_.Function(kernel_));
    CUSPAN_RETURN_IF_ERROR(Fill());
    CUSPAN_RETURN_IF_ERROR(Launch());
    Compute();
    if (!Equal()) return Status::Internal("kernel {}: its results are wrong", kernel_);
    return Status::Ok();
  }

  Result<double> OnGpu() final {
    const Clock::time_point start = Clock::now();
    CUSPAN_RETURN_IF_ERROR(Launch());
    return SecondsSince(start);
  }

  Result<double> OnHost() final {
    const Clock::time_point start = Clock::now();
    Compute();
    return SecondsSince(start);
  }

 protected:
  // Allocates and fills the inputs.
  virtual Status Fill() = 0;
  virtual Status Launch() = 0;
  virtual void Compute() = 0;
  // True if both sides have the same results.
  virtual bool Equal() = 0;

  Gpu& gpu_;
  const unsigned threads_;
  CUfunction function_ = nullptr;

 private:
  const char* const kernel_;
};

class MultiplyTask final : public ComputeTask {
 public:
  MultiplyTask(Gpu& gpu, unsigned threads, unsigned tile)
      : ComputeTask(gpu, threads, tile == 32 ? "multiply_32" : "multiply_16"), tile_(tile) {}

 private:
  static constexpr unsigned kRows = 1024;

  Status Fill() override {
    for (Array<float>* array : {&a_, &b_, &on_gpu_, &on_host_})
      CUSPAN_RETURN_IF_ERROR(array->Allocate(gpu_, kRows * kRows));
    for (std::size_t i = 0; i < kRows * kRows; ++i) {
      a_[i] = static_cast<float>(i * 7919 % 2001) * 1e-3f - 1.0f;
      b_[i] = static_cast<float>(i * 6421 % 1999) * 1e-3f - 1.0f;
    }
    return Status::Ok();
  }
  Status Launch() override {
    int rows = kRows;
    return gpu_.Run(function_, {kRows / tile_, kRows / tile_}, {tile_, tile_},
                    {a_.parameter(), b_.parameter(), on_gpu_.parameter(), &rows});
  }
  void Compute() override {
    InParallel(threads_, kRows / 32, [&](unsigned, std::size_t begin, std::size_t end) {
      MultiplyTiles(a_.data(), b_.data(), on_host_.data(), kRows, begin, end);
    });
  }
  bool Equal() override {
    // Elements are at most 1, so the error of 1024 roundings is at most 1024 times half an ulp of
    // 1024.
    for (std::size_t i = 0; i < kRows * kRows; ++i)
      if (!(std::fabs(on_gpu_[i] - on_host_[i]) <= 0.03f)) return false;
    return true;
  }

  const unsigned tile_;
  Array<float> a_, b_, on_gpu_, on_host_;
};

class AddTask final : public ComputeTask {
 public:
  AddTask(Gpu& gpu, unsigned threads) : ComputeTask(gpu, threads, "add_vectors") {}

 private:
  static constexpr std::size_t kCount = std::size_t{16} << 20;

  Status Fill() override {
    for (Array<float>* array : {&a_, &b_, &on_gpu_, &on_host_})
      CUSPAN_RETURN_IF_ERROR(array->Allocate(gpu_, kCount));
    for (std::size_t i = 0; i < kCount; ++i) {
      a_[i] = static_cast<float>(i % 1000);
      b_[i] = static_cast<float>(i % 777) * 0.5f;
    }
    return Status::Ok();
  }
  Status Launch() override {
    int count = kCount;
    return gpu_.Run(function_, {kCount / 256}, {256},
                    {a_.parameter(), b_.parameter(), on_gpu_.parameter(), &count});
  }
  void Compute() override {
    InParallel(threads_, kCount, [&](unsigned, std::size_t begin, std::size_t end) {
      Add(a_.data(), b_.data(), on_host_.data(), begin, end);
    });
  }
  bool Equal() override {
    for (std::size_t i = 0; i < kCount; ++i)
      if (on_gpu_[i] != on_host_[i]) return false;
    return true;
  }

  Array<float> a_, b_, on_gpu_, on_host_;
};

class SumTask final : public ComputeTask {
 public:
  SumTask(Gpu& gpu, unsigned threads, bool striding)
      : ComputeTask(gpu, threads, striding ? "sum_striding" : "sum_each"),
        blocks_(striding ? 256 : kCount / kBlock) {}

 private:
  static constexpr unsigned kCount = 16u << 20;
  static constexpr unsigned kBlock = 1024;

  Status Fill() override {
    CUSPAN_RETURN_IF_ERROR(values_.Allocate(gpu_, kCount));
    CUSPAN_RETURN_IF_ERROR(sums_.Allocate(gpu_, blocks_));
    // Small integers around 0: their sums are exact in any order.
    for (std::size_t i = 0; i < kCount; ++i) values_[i] = static_cast<float>(i * 31 % 15) - 7.0f;
    return Status::Ok();
  }
  Status Launch() override {
    int count = kCount;
    CUSPAN_RETURN_IF_ERROR(
        gpu_.Run(function_, {blocks_}, {kBlock}, {values_.parameter(), sums_.parameter(), &count}));
    on_gpu_ = 0;
    for (unsigned i = 0; i < blocks_; ++i) on_gpu_ += sums_[i];
    return Status::Ok();
  }
  void Compute() override {
    std::vector<float> parts(threads_);
    InParallel(threads_, kCount, [&](unsigned thread, std::size_t begin, std::size_t end) {
      parts[thread] = Sum(values_.data(), begin, end);
    });
    on_host_ = 0;
    for (const float part : parts) on_host_ += part;
  }
  bool Equal() override { return on_gpu_ == on_host_; }

  const unsigned blocks_;
  Array<float> values_, sums_;
  double on_gpu_ = 0, on_host_ = 0;
};

class TransformTask final : public ComputeTask {
 public:
  TransformTask(Gpu& gpu, unsigned threads) : ComputeTask(gpu, threads, "transform_1024") {}

 private:
  static constexpr unsigned kPoints = 1024;
  static constexpr unsigned kTransforms = 4096;
  static constexpr std::size_t kCount = std::size_t{kPoints} * kTransforms;

  Status Fill() override {
    for (Array<Complex>* array : {&input_, &on_gpu_, &on_host_})
      CUSPAN_RETURN_IF_ERROR(array->Allocate(gpu_, kCount));
    CUSPAN_RETURN_IF_ERROR(turns_.Allocate(gpu_, kPoints / 2));
    for (std::size_t i = 0; i < kCount; ++i)
      input_[i] = {static_cast<float>(i * 37 % 101) * 0.02f - 1.0f,
                   static_cast<float>(i * 53 % 103) * 0.02f - 1.0f};
    for (std::size_t i = 0; i < kPoints / 2; ++i) {
      const std::complex<double> turn =
          std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(i) / kPoints);
      turns_[i] = {static_cast<float>(turn.real()), static_cast<float>(turn.imag())};
    }
    return Status::Ok();
  }
  Status Launch() override {
    return gpu_.Run(function_, {kTransforms}, {kPoints / 2},
                    {input_.parameter(), turns_.parameter(), on_gpu_.parameter()});
  }
  void Compute() override {
    InParallel(threads_, kTransforms, [&](unsigned, std::size_t begin, std::size_t end) {
      Transform1024(input_.data(), turns_.data(), on_host_.data(), begin, end);
    });
  }
  bool Equal() override {
    // Ten stages with values up to 2 * 1024: the rounding error of each is at most half an ulp of
    // 2048.
    for (std::size_t i = 0; i < kCount; ++i) {
      if (!(std::fabs(on_gpu_[i].x - on_host_[i].x) <= 5e-3f &&
            std::fabs(on_gpu_[i].y - on_host_[i].y) <= 5e-3f))
        return false;
    }
    return true;
  }

  Array<Complex> input_, turns_, on_gpu_, on_host_;
};

class CountStepsTask final : public ComputeTask {
 public:
  CountStepsTask(Gpu& gpu, unsigned threads) : ComputeTask(gpu, threads, "count_steps") {}

 private:
  static constexpr unsigned kCount = 1u << 20;

  Status Fill() override {
    CUSPAN_RETURN_IF_ERROR(starts_.Allocate(gpu_, kCount));
    for (Array<std::uint32_t>* array : {&on_gpu_, &on_host_})
      CUSPAN_RETURN_IF_ERROR(array->Allocate(gpu_, kCount));
    // Starts below 113383 never exceed 2^32.
    for (std::uint32_t i = 0; i < kCount; ++i) starts_[i] = i % 100000 + 1;
    return Status::Ok();
  }
  Status Launch() override {
    int count = kCount;
    return gpu_.Run(function_, {kCount / 256}, {256},
                    {starts_.parameter(), on_gpu_.parameter(), &count});
  }
  void Compute() override {
    InParallel(threads_, kCount, [&](unsigned, std::size_t begin, std::size_t end) {
      CountSteps(starts_.data(), on_host_.data(), begin, end);
    });
  }
  bool Equal() override {
    for (std::size_t i = 0; i < kCount; ++i)
      if (on_gpu_[i] != on_host_[i]) return false;
    return true;
  }

  Array<std::uint32_t> starts_, on_gpu_, on_host_;
};

// Threads searching with a stack each.
class CountQueensTask final : public ComputeTask {
 public:
  CountQueensTask(Gpu& gpu, unsigned threads) : ComputeTask(gpu, threads, "count_queens") {}

 private:
  static constexpr int kSize = 13;
  static constexpr unsigned kCount = kSize * kSize * kSize;

  Status Fill() override {
    for (Array<std::uint32_t>* array : {&on_gpu_, &on_host_})
      CUSPAN_RETURN_IF_ERROR(array->Allocate(gpu_, kCount));
    return Status::Ok();
  }
  Status Launch() override {
    int size = kSize, count = kCount;
    return gpu_.Run(function_, {(kCount + 127) / 128}, {128}, {&size, on_gpu_.parameter(), &count});
  }
  void Compute() override {
    // Distributes the work: some starts have far more solutions.
    constexpr std::size_t kTogether = 13;
    InParallel(threads_, kTogether, [&](unsigned, std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < kCount; i += kTogether)
        for (std::size_t k = i; k < std::min<std::size_t>(i + end - begin, kCount); ++k)
          CountQueens(kSize, on_host_.data(), k, k + 1);
    });
  }
  bool Equal() override {
    return std::equal(on_gpu_.data(), on_gpu_.data() + kCount, on_host_.data());
  }

  Array<std::uint32_t> on_gpu_, on_host_;
};

// Threads interpreting a different program each.
class RunMachinesTask final : public ComputeTask {
 public:
  RunMachinesTask(Gpu& gpu, unsigned threads) : ComputeTask(gpu, threads, "run_machines") {}

 private:
  static constexpr unsigned kCount = 1U << 14;
  static constexpr int kSteps = 2000;

  Status Fill() override {
    CUSPAN_RETURN_IF_ERROR(programs_.Allocate(gpu_, kCount * kMachineBytes));
    for (Array<std::uint32_t>* array : {&on_gpu_, &on_host_})
      CUSPAN_RETURN_IF_ERROR(array->Allocate(gpu_, kCount));
    std::uint32_t random = 1;
    for (std::size_t i = 0; i < kCount * kMachineBytes; ++i) {
      random = random * 1664525U + 1013904223U;
      programs_[i] = static_cast<std::uint8_t>(random >> 24);
    }
    return Status::Ok();
  }
  Status Launch() override {
    int steps = kSteps, count = kCount;
    return gpu_.Run(function_, {kCount / 128}, {128},
                    {programs_.parameter(), &steps, on_gpu_.parameter(), &count});
  }
  void Compute() override {
    InParallel(threads_, kCount, [&](unsigned, std::size_t begin, std::size_t end) {
      RunMachines(programs_.data(), kSteps, on_host_.data(), begin, end);
    });
  }
  bool Equal() override {
    return std::equal(on_gpu_.data(), on_gpu_.data() + kCount, on_host_.data());
  }

  Array<std::uint8_t> programs_;
  Array<std::uint32_t> on_gpu_, on_host_;
};

// Systems of equations, one in the registers of each thread.
class SolveSystemsTask final : public ComputeTask {
 public:
  SolveSystemsTask(Gpu& gpu, unsigned threads) : ComputeTask(gpu, threads, "solve_small") {}

 private:
  static constexpr unsigned kCount = 1U << 18;
  static constexpr std::size_t kSize = kSmallSystem;

  Status Fill() override {
    CUSPAN_RETURN_IF_ERROR(matrix_.Allocate(gpu_, kSize * kSize * kCount));
    for (Array<float>* array : {&right_, &on_gpu_, &on_host_})
      CUSPAN_RETURN_IF_ERROR(array->Allocate(gpu_, kSize * kCount));
    // Diagonally dominant, so pivots are not needed.
    for (std::size_t i = 0; i < kSize * kSize * kCount; ++i) {
      const std::size_t element = i / kCount;
      matrix_[i] = static_cast<float>(i * 7919 % 2001) * 1e-3f - 1.0f +
                   (element % kSize == element / kSize ? 10.0f : 0.0f);
    }
    for (std::size_t i = 0; i < kSize * kCount; ++i)
      right_[i] = static_cast<float>(i * 6421 % 1999) * 1e-3f - 1.0f;
    return Status::Ok();
  }
  Status Launch() override {
    int count = kCount;
    return gpu_.Run(function_, {kCount / 128}, {128},
                    {matrix_.parameter(), right_.parameter(), on_gpu_.parameter(), &count});
  }
  void Compute() override {
    InParallel(threads_, kCount, [&](unsigned, std::size_t begin, std::size_t end) {
      SolveSmallSystems(matrix_.data(), right_.data(), on_host_.data(), kCount, begin, end);
    });
  }
  bool Equal() override {
    // Diagonals are at least 9 and right sides at most 1, so results are below 1.
    for (std::size_t i = 0; i < kSize * kCount; ++i)
      if (!(std::fabs(on_gpu_[i] - on_host_[i]) <= 1e-5f)) return false;
    return true;
  }

  Array<float> matrix_, right_, on_gpu_, on_host_;
};

// Fourier transforms of few points, one in the registers of each thread.
class TransformPointsTask final : public ComputeTask {
 public:
  TransformPointsTask(Gpu& gpu, unsigned threads) : ComputeTask(gpu, threads, "transform_points") {}

 private:
  static constexpr unsigned kCount = 1U << 17;
  static constexpr std::size_t kFloats = std::size_t{2} * kPointsOfThread * kCount;

  Status Fill() override {
    for (Array<float>* array : {&input_, &on_gpu_, &on_host_})
      CUSPAN_RETURN_IF_ERROR(array->Allocate(gpu_, kFloats));
    CUSPAN_RETURN_IF_ERROR(turns_.Allocate(gpu_, kPointsOfThread));
    for (std::size_t i = 0; i < kFloats; ++i)
      input_[i] = static_cast<float>(i * 37 % 101) * 0.02f - 1.0f;
    for (std::size_t k = 0; k < kPointsOfThread / 2; ++k) {
      const std::complex<double> turn =
          std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k) / kPointsOfThread);
      turns_[2 * k] = static_cast<float>(turn.real());
      turns_[2 * k + 1] = static_cast<float>(turn.imag());
    }
    return Status::Ok();
  }
  Status Launch() override {
    int count = kCount;
    return gpu_.Run(function_, {kCount / 128}, {128},
                    {input_.parameter(), turns_.parameter(), on_gpu_.parameter(), &count});
  }
  void Compute() override {
    InParallel(threads_, kCount, [&](unsigned, std::size_t begin, std::size_t end) {
      TransformFewPoints(input_.data(), turns_.data(), on_host_.data(), kCount, begin, end);
    });
  }
  bool Equal() override {
    // Five stages with values up to 64: the rounding error of each is at most half an ulp of 64.
    for (std::size_t i = 0; i < kFloats; ++i)
      if (!(std::fabs(on_gpu_[i] - on_host_[i]) <= 1e-4f)) return false;
    return true;
  }

  Array<float> input_, turns_, on_gpu_, on_host_;
};

}  // namespace

std::unique_ptr<Task> MakeComputeTask(TaskId id, Gpu& gpu, unsigned threads) {
  switch (id) {
    case TaskId::kMultiply32:
      return std::make_unique<MultiplyTask>(gpu, threads, 32);
    case TaskId::kMultiply16:
      return std::make_unique<MultiplyTask>(gpu, threads, 16);
    case TaskId::kAdd:
      return std::make_unique<AddTask>(gpu, threads);
    case TaskId::kSumStriding:
      return std::make_unique<SumTask>(gpu, threads, true);
    case TaskId::kSumEach:
      return std::make_unique<SumTask>(gpu, threads, false);
    case TaskId::kTransform:
      return std::make_unique<TransformTask>(gpu, threads);
    case TaskId::kCountSteps:
      return std::make_unique<CountStepsTask>(gpu, threads);
    case TaskId::kCountQueens:
      return std::make_unique<CountQueensTask>(gpu, threads);
    case TaskId::kRunMachines:
      return std::make_unique<RunMachinesTask>(gpu, threads);
    case TaskId::kSolveSystems:
      return std::make_unique<SolveSystemsTask>(gpu, threads);
    case TaskId::kTransformPoints:
      return std::make_unique<TransformPointsTask>(gpu, threads);
    default:
      return nullptr;
  }
}

}  // namespace cuspan::bench::soft
