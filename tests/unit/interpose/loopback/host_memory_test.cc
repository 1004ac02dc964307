// Page-locked memory of the program, allocated and registered.
#include <sys/mman.h>

#include "tests/unit/interpose/loopback/loopback.h"

namespace cuspan {
namespace {

class HostMemoryTest : public LoopbackTest {
 protected:
  static std::uint32_t* NewPinned(std::size_t words, unsigned flags = cudaHostAllocDefault) {
    void* memory = nullptr;
    EXPECT_CUDA(cudaHostAlloc(&memory, words * sizeof(std::uint32_t), flags));
    return static_cast<std::uint32_t*>(memory);
  }
};

TEST_F(HostMemoryTest, SaysHowItWasMade) {
  for (const unsigned flags :
       {cudaHostAllocDefault, cudaHostAllocPortable, cudaHostAllocWriteCombined,
        cudaHostAllocPortable | cudaHostAllocWriteCombined}) {
    std::uint32_t* const words = NewPinned(4, flags);
    unsigned told = 99;
    EXPECT_CUDA(cudaHostGetFlags(&told, words));
    EXPECT_EQ(told & flags, flags);
    cudaPointerAttributes attributes{};
    EXPECT_CUDA(cudaPointerGetAttributes(&attributes, words + 1));
    EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
    EXPECT_EQ(attributes.hostPointer, words + 1);
    EXPECT_CUDA(cudaFreeHost(words));
    EXPECT_CUDA_ERROR(cudaHostGetFlags(&told, words), cudaErrorInvalidValue);
  }
}

TEST_F(HostMemoryTest, WrongArgumentsAreRefused) {
  void* memory = nullptr;
  int here = 0;
  std::uint32_t* const words = NewPinned(4);
  EXPECT_CUDA_ERROR(cudaHostAlloc(&memory, 16, 0x100), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaHostAlloc(nullptr, 16, 0), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaMallocHost(static_cast<void**>(nullptr), 16), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaFreeHost(&here), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaFreeHost(words + 1), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeHost(words));
  EXPECT_CUDA_ERROR(cudaFreeHost(words), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeHost(nullptr));
}

TEST_F(HostMemoryTest, IsTheProgramsOwn) {
  std::uint32_t* const first = NewPinned(100'000);
  std::uint32_t* const second = NewPinned(100'000);
  std::fill_n(first, 100'000, 1);
  std::fill_n(second, 100'000, 2);
  EXPECT_EQ(std::count(first, first + 100'000, 1), 100'000);
  EXPECT_CUDA(cudaFreeHost(first));
  EXPECT_EQ(std::count(second, second + 100'000, 2), 100'000);
  EXPECT_CUDA(cudaFreeHost(second));
}

TEST_F(HostMemoryTest, RegisteredMemoryIsPageLocked) {
  std::vector<std::uint32_t> words = Count(50'000);
  const std::size_t bytes = words.size() * sizeof words[0];
  ASSERT_CUDA(cudaHostRegister(words.data(), bytes, cudaHostRegisterDefault));
  cudaPointerAttributes attributes{};
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, &words[5]));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);

  // Copies from it return at once.
  std::uint32_t* const there = NewWords(words.size());
  cudaStream_t stream = NewStream();
  Hold(stream);
  ASSERT_CUDA(cudaMemcpyAsync(there, words.data(), bytes, cudaMemcpyHostToDevice, stream));
  ASSERT_CUDA(Add(there, 50'000, 1, stream));
  ASSERT_CUDA(cudaMemcpyAsync(words.data(), there, bytes, cudaMemcpyDeviceToHost, stream));
  EXPECT_CUDA_ERROR(cudaStreamQuery(stream), cudaErrorNotReady);
  Let(stream);
  ASSERT_CUDA(cudaStreamSynchronize(stream));
  for (std::uint32_t i = 0; i < 50'000; ++i) ASSERT_EQ(words[i], i + 1);

  EXPECT_CUDA(cudaHostUnregister(words.data()));
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, words.data()));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
}

TEST_F(HostMemoryTest, IsRegisteredOnce) {
  std::vector<std::uint32_t> words(5000);
  ASSERT_CUDA(cudaHostRegister(words.data(), 20'000, cudaHostRegisterPortable));
  EXPECT_CUDA_ERROR(cudaHostRegister(words.data(), 20'000, 0),
                    cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_CUDA_ERROR(cudaHostRegister(&words[10], 100, 0), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_CUDA(cudaHostUnregister(words.data()));
  EXPECT_CUDA_ERROR(cudaHostUnregister(words.data()), cudaErrorHostMemoryNotRegistered);
}

TEST_F(HostMemoryTest, OnlyMemoryOfTheProgramIsRegistered) {
  std::uint32_t* const words = NewWords(16);
  std::uint32_t* const pinned = NewPinned(16);
  EXPECT_CUDA_ERROR(cudaHostRegister(nullptr, 16, 0), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaHostRegister(words, 64, 0), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaHostRegister(pinned, 0, 0), cudaErrorInvalidValue);
  EXPECT_NE(cudaHostUnregister(pinned), cudaSuccess);
  int here = 0;
  EXPECT_CUDA_ERROR(cudaHostRegister(&here, sizeof here, 0x100), cudaErrorInvalidValue);
  void* const gone = ::mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(static_cast<std::byte*>(gone) + 4096, 4096);
  EXPECT_CUDA_ERROR(cudaHostRegister(gone, 8192, 0), cudaErrorInvalidValue);
  ::munmap(gone, 4096);
  EXPECT_CUDA(cudaFreeHost(pinned));
}

// Pinning needs the access granted to devices: writable, or readable if devices only read.
TEST_F(HostMemoryTest, OnlyMemoryThatTheProgramMayUseIsRegistered) {
  constexpr std::size_t kBytes = std::size_t{4} * 4096;
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto protect = [&](int protection) {
    ASSERT_EQ(::mprotect(static_cast<std::byte*>(memory) + 4096, 4096, protection), 0);
  };
  const auto expect = [&](cudaError_t plain, cudaError_t read_only) {
    EXPECT_EQ(cudaHostRegister(memory, kBytes, cudaHostRegisterDefault), plain);
    if (plain == cudaSuccess) {
      EXPECT_CUDA(cudaHostUnregister(memory));
    }
    EXPECT_EQ(cudaHostRegister(memory, kBytes, cudaHostRegisterReadOnly), read_only);
    if (read_only == cudaSuccess) {
      EXPECT_CUDA(cudaHostUnregister(memory));
    }
  };
  expect(cudaSuccess, cudaSuccess);
  protect(PROT_READ);
  expect(cudaErrorInvalidValue, cudaSuccess);
  protect(PROT_NONE);
  expect(cudaErrorInvalidValue, cudaErrorInvalidValue);
  ::munmap(memory, kBytes);

  // Another process's memory, read-only in this one.
  const int file = ::memfd_create("shared", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(file, kBytes), 0);
  void* const theirs = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0);
  EXPECT_CUDA_ERROR(cudaHostRegister(theirs, kBytes, cudaHostRegisterMapped),
                    cudaErrorInvalidValue);
  EXPECT_CUDA(cudaHostRegister(theirs, kBytes, cudaHostRegisterReadOnly));
  unsigned flags = 0;
  EXPECT_CUDA(cudaHostGetFlags(&flags, theirs));
  EXPECT_EQ(flags, unsigned{cudaHostRegisterMapped});
  EXPECT_CUDA(cudaHostUnregister(theirs));
  ::munmap(theirs, kBytes);
  // The mapping extends beyond the end of the file.
  void* const longer = ::mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  EXPECT_CUDA_ERROR(cudaHostRegister(longer, 2 * kBytes, 0), cudaErrorInvalidValue);
  ::munmap(longer, 2 * kBytes);
  ::close(file);

  void* managed = nullptr;
  ASSERT_CUDA(cudaMallocManaged(&managed, kBytes, cudaMemAttachGlobal));
  EXPECT_CUDA_ERROR(cudaHostRegister(managed, kBytes, 0), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFree(managed));
}

TEST_F(HostMemoryTest, OtherMemoryHasNoDevicePointer) {
  int here = 0;
  void* there = nullptr;
  std::uint32_t* const words = NewPinned(4);
  EXPECT_CUDA_ERROR(cudaHostGetDevicePointer(&there, &here, 0), cudaErrorInvalidValue);
  EXPECT_CUDA_ERROR(cudaHostGetDevicePointer(&there, words, 1), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeHost(words));
}

TEST_F(HostMemoryTest, AllDevicesCopyFromAndToIt) {
  std::uint32_t* const words = NewPinned(10'000, cudaHostAllocPortable);
  for (std::uint32_t i = 0; i < 10'000; ++i) words[i] = i;
  for (int device = 0; device < kDevices; ++device) {
    ASSERT_CUDA(cudaSetDevice(device));
    std::uint32_t* const there = NewWords(10'000);
    ASSERT_CUDA(cudaMemcpyAsync(there, words, 40'000, cudaMemcpyHostToDevice, nullptr));
    ASSERT_CUDA(Add(there, 10'000, 10, nullptr));
    ASSERT_CUDA(cudaMemcpyAsync(words, there, 40'000, cudaMemcpyDeviceToHost, nullptr));
    ASSERT_CUDA(cudaDeviceSynchronize());
  }
  for (std::uint32_t i = 0; i < 10'000; ++i) ASSERT_EQ(words[i], i + 20);
  EXPECT_CUDA(cudaFreeHost(words));
}

}  // namespace
}  // namespace cuspan
