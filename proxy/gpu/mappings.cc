#include "proxy/gpu/mappings.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "common/log.h"

namespace cuspan::proxy {
namespace {

// Removes a mapping, but keeps its addresses reserved.
void ReserveAgain(void* at, std::uint64_t bytes) {
  if (::mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0) == MAP_FAILED)
    LogError("cannot unmap a part of the shared region: {}", std::strerror(errno));
}

}  // namespace

Mappings::~Mappings() {
  for (auto& [address, mapped] : mapped_) {
    if (IsFile(address, mapped.bytes)) UnmapFile(address, mapped.bytes);
    for (Piece& piece : mapped.pieces) GiveBack(piece);
  }
}

CUresult Mappings::Map(std::uint64_t address, std::uint64_t bytes) {
  if (Meets(address, bytes)) return CUDA_ERROR_ALREADY_MAPPED;
  if (IsFile(address, bytes)) {
    const CUresult result = MapFile(address, bytes);
    const MutexLock lock(mutex_);
    if (result == CUDA_SUCCESS) mapped_[address] = {bytes, {}, nullptr};
    return result;
  }
  if (!device_.MayMap(address, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  MemoryAccount::Taken taken;
  if (const CUresult result = device_.memory().Take(bytes, &taken); result != CUDA_SUCCESS)
    return result;
  std::vector<Piece> pieces;
  for (std::uint64_t begun = 0; begun < bytes; begun += pieces.back().bytes)
    pieces.push_back({address + begun, std::min(bytes - begun, piece_bytes_), 0});
  const CUresult result =
      device_.memory().Obtain(bytes, [this, &pieces] { return BackAll(pieces); });
  if (result != CUDA_SUCCESS) return result;
  const MutexLock lock(mutex_);
  mapped_[address] = {bytes, std::move(pieces), std::move(taken)};
  return CUDA_SUCCESS;
}

CUresult Mappings::BackAll(std::vector<Piece>& pieces) const {
  for (Piece& piece : pieces) {
    const CUresult result = Back(piece);
    if (result == CUDA_SUCCESS) continue;
    for (Piece& before : pieces) GiveBack(before);
    return result;
  }
  return CUDA_SUCCESS;
}

CUresult Mappings::Back(Piece& piece) const {
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_.handle()};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (const CUresult result = CreateMemory(driver_, device_, piece.bytes, &piece.memory);
      result != CUDA_SUCCESS)
    return result;
  CUresult result = driver_.cuMemMap(piece.address, piece.bytes, 0, piece.memory, 0);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuMemSetAccess(piece.address, piece.bytes, &access, 1);
    if (result != CUDA_SUCCESS) driver_.cuMemUnmap(piece.address, piece.bytes);
  }
  if (result != CUDA_SUCCESS) driver_.cuMemRelease(std::exchange(piece.memory, 0));
  return result;
}

CUresult Mappings::GiveBack(Piece& piece) const {
  if (piece.memory == 0) return CUDA_SUCCESS;
  if (const CUresult result = driver_.cuMemUnmap(piece.address, piece.bytes);
      result != CUDA_SUCCESS)
    return result;
  return driver_.cuMemRelease(std::exchange(piece.memory, 0));
}

CUresult Mappings::SwapOut(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  std::vector<Piece*> going;
  std::uint64_t going_bytes = 0;
  // Pieces with host memory from an earlier swap go first.
  for (const bool known : {true, false})
    for (auto& [address, mapped] : mapped_)
      for (Piece& piece : mapped.pieces) {
        if (going_bytes >= bytes || piece.memory == 0 || copies_->Knows(piece.address) != known)
          continue;
        going.push_back(&piece);
        going_bytes += piece.bytes;
      }
  CUresult result = CUDA_SUCCESS;
  std::size_t saved = 0;
  while (saved < going.size() && result == CUDA_SUCCESS) {
    result = copies_->Save(going[saved]->address, going[saved]->bytes);
    if (result == CUDA_SUCCESS) ++saved;
  }
  if (const CUresult waited = copies_->Wait(); waited != CUDA_SUCCESS) return waited;
  // If host memory does not suffice for all, the saved part is still released.
  for (std::size_t i = 0; i < saved; ++i)
    if (const CUresult given = GiveBack(*going[i]); given != CUDA_SUCCESS) return given;
  return result;
}

CUresult Mappings::SwapIn() {
  const MutexLock lock(mutex_);
  CUresult result = CUDA_SUCCESS;
  for (auto& [address, mapped] : mapped_)
    for (Piece& piece : mapped.pieces) {
      if (piece.memory != 0 || result != CUDA_SUCCESS) continue;
      result = Back(piece);
      if (result != CUDA_SUCCESS) continue;
      result = copies_->Restore(piece.address);
      if (result != CUDA_SUCCESS) GiveBack(piece);
    }
  const CUresult waited = copies_->Wait();
  return result != CUDA_SUCCESS ? result : waited;
}

std::uint64_t Mappings::swapped_bytes() const {
  const MutexLock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [address, mapped] : mapped_)
    for (const Piece& piece : mapped.pieces)
      if (piece.memory == 0) bytes += piece.bytes;
  return bytes;
}

CUresult Mappings::Export(std::uint64_t address, std::uint64_t bytes, UniqueFd* file) {
  if (copies_ != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUmemGenericAllocationHandle trial = 0;
  if (address == 0 && bytes == 0) {
    if (const CUresult result = CreateMemory(driver_, device_, kTrialBytes, &trial);
        result != CUDA_SUCCESS)
      return result;
  }
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  {
    // The lock keeps the memory from being unmapped.
    const MutexLock lock(mutex_);
    const auto found = mapped_.find(address);
    CUmemGenericAllocationHandle memory = trial;
    if (trial == 0 && found != mapped_.end() && found->second.bytes == bytes &&
        !found->second.pieces.empty())
      memory = found->second.pieces.front().memory;
    int exported = -1;
    if (memory != 0)
      result = driver_.cuMemExportToShareableHandle(&exported, memory,
                                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result == CUDA_SUCCESS) *file = UniqueFd(exported);
  }
  if (trial != 0) driver_.cuMemRelease(trial);
  return result;
}

CUresult Mappings::Unmap(std::uint64_t address, std::uint64_t bytes) {
  Mapped mapped;  // Counts as used until the driver has released it.
  {
    const MutexLock lock(mutex_);
    const auto found = mapped_.find(address);
    if (found == mapped_.end() || found->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    mapped = std::move(found->second);
    mapped_.erase(found);
  }
  if (IsFile(address, bytes)) return UnmapFile(address, bytes);
  CUresult result = CUDA_SUCCESS;
  for (Piece& piece : mapped.pieces) {
    const CUresult given = GiveBack(piece);
    if (result == CUDA_SUCCESS) result = given;
    if (copies_ != nullptr) copies_->Forget(piece.address);
  }
  return result;
}

CUresult Mappings::MapFile(std::uint64_t address, std::uint64_t bytes) {
  void* const at = reinterpret_cast<void*>(address);
  if (::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, device_.shared_file(),
             static_cast<off_t>(address - device_.shared().base)) == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = driver_.cuMemHostRegister(
      at, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  if (result == CUDA_SUCCESS) {
    // The region needs one address in all processes.
    CUdeviceptr mapped = 0;
    result = driver_.cuMemHostGetDevicePointer(&mapped, at, 0);
    if (result == CUDA_SUCCESS && mapped != address) result = CUDA_ERROR_NOT_SUPPORTED;
    if (result != CUDA_SUCCESS) driver_.cuMemHostUnregister(at);
  }
  if (result != CUDA_SUCCESS) ReserveAgain(at, bytes);
  return result;
}

CUresult Mappings::UnmapFile(std::uint64_t address, std::uint64_t bytes) {
  void* const at = reinterpret_cast<void*>(address);
  const CUresult result = driver_.cuMemHostUnregister(at);
  ReserveAgain(at, bytes);
  return result;
}

bool Mappings::Meets(std::uint64_t address, std::uint64_t bytes) const {
  const MutexLock lock(mutex_);
  const auto after = mapped_.lower_bound(address);
  if (after != mapped_.end() && after->first - address < bytes) return true;
  if (after == mapped_.begin()) return false;
  const auto before = std::prev(after);
  return address - before->first < before->second.bytes;
}

}  // namespace cuspan::proxy
