#include "proxy/gpu/mappings.h"

#include <iterator>

namespace cuspan::proxy {

Mappings::~Mappings() {
  for (const auto& [address, memory] : mapped_) {
    driver_.cuMemUnmap(address, memory.first);
    driver_.cuMemRelease(memory.second);
  }
}

CUresult Mappings::Map(std::uint64_t address, std::uint64_t bytes) {
  if (Meets(address, bytes)) return CUDA_ERROR_ALREADY_MAPPED;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device_.handle()}};
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemGenericAllocationHandle memory = 0;
  if (const CUresult result = driver_.cuMemCreate(&memory, bytes, &properties, 0); result != CUDA_SUCCESS)
    return result;
  CUresult result = driver_.cuMemMap(address, bytes, 0, memory, 0);
  if (result == CUDA_SUCCESS) {
    result = driver_.cuMemSetAccess(address, bytes, &access, 1);
    if (result != CUDA_SUCCESS) driver_.cuMemUnmap(address, bytes);
  }
  if (result != CUDA_SUCCESS) {
    driver_.cuMemRelease(memory);
    return result;
  }
  mapped_[address] = {bytes, memory};
  return CUDA_SUCCESS;
}

CUresult Mappings::Unmap(std::uint64_t address, std::uint64_t bytes) {
  const auto found = mapped_.find(address);
  if (found == mapped_.end() || found->second.first != bytes) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = driver_.cuMemUnmap(address, bytes); result != CUDA_SUCCESS) return result;
  const CUresult result = driver_.cuMemRelease(found->second.second);
  mapped_.erase(found);
  return result;
}

bool Mappings::Meets(std::uint64_t address, std::uint64_t bytes) const {
  const auto after = mapped_.lower_bound(address);
  if (after != mapped_.end() && after->first - address < bytes) return true;
  if (after == mapped_.begin()) return false;
  const auto before = std::prev(after);
  return address - before->first < before->second.first;
}

}  // namespace cuspan::proxy
