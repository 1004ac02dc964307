#include "proxy/handlers/handlers.h"

namespace cuspan::proxy {
namespace {

// Whether [address, address + bytes) meets a mapped range.
bool Overlaps(const Session& session, std::uint64_t address, std::uint64_t bytes) {
  const auto after = session.mappings.lower_bound(address);
  if (after != session.mappings.end() && after->first - address < bytes) return true;
  if (after == session.mappings.begin()) return false;
  const auto before = std::prev(after);
  return address - before->first < before->second.first;
}

CUresult Map(Session& session, std::uint64_t address, std::uint64_t bytes) {
  if (Overlaps(session, address, bytes)) return CUDA_ERROR_ALREADY_MAPPED;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {session.device.handle()}};
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const Driver& driver = session.driver;
  CUmemGenericAllocationHandle memory = 0;
  if (const CUresult result = driver.cuMemCreate(&memory, bytes, &properties, 0); result != CUDA_SUCCESS)
    return result;
  CUresult result = driver.cuMemMap(address, bytes, 0, memory, 0);
  if (result == CUDA_SUCCESS) {
    result = driver.cuMemSetAccess(address, bytes, &access, 1);
    if (result != CUDA_SUCCESS) driver.cuMemUnmap(address, bytes);
  }
  if (result != CUDA_SUCCESS) {
    driver.cuMemRelease(memory);
    return result;
  }
  session.mappings[address] = {bytes, memory};
  return CUDA_SUCCESS;
}

CUresult Unmap(Session& session, std::uint64_t address, std::uint64_t bytes) {
  const auto found = session.mappings.find(address);
  if (found == session.mappings.end() || found->second.first != bytes) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult result = session.driver.cuMemUnmap(address, bytes); result != CUDA_SUCCESS) return result;
  const CUresult result = session.driver.cuMemRelease(found->second.second);
  session.mappings.erase(found);
  return result;
}

}  // namespace

Status Handle(Session& session, const Origin& origin, const MemoryMap& op) {
  if (op.bytes == 0 || !session.device.InWindow(op.address, op.bytes))
    return Status::Invalid("mapping 0x{:x} + {} bytes: outside the window", op.address, op.bytes);
  session.worker.Run([&session, origin, op] {
    session.channel.Reply<MemoryMap>(origin.request, {session.faults.Check(Map(session, op.address, op.bytes))});
  });
  return Status::Ok();
}

Status Handle(Session& session, const Origin& origin, const MemoryUnmap& op) {
  session.WhenDeviceDone([&session, origin, op](CUresult result, std::uint64_t) {
    session.worker.Run([&session, origin, op, result] {
      const CUresult unmapped = session.faults.Check(Unmap(session, op.address, op.bytes));
      session.channel.Reply<MemoryUnmap>(origin.request, {result == CUDA_SUCCESS ? unmapped : result});
    });
  });
  return Status::Ok();
}

Status Handle(Session& session, const Origin& origin, const MemoryInfo&) {
  session.worker.Run([&session, origin] {
    std::size_t free = 0;
    std::size_t total = 0;
    const CUresult result = session.faults.Check(session.driver.cuMemGetInfo(&free, &total));
    session.channel.Reply<MemoryInfo>(origin.request, {result, free, total});
  });
  return Status::Ok();
}

}  // namespace cuspan::proxy
