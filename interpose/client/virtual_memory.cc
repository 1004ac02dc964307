#include "interpose/client/virtual_memory.h"

#include <poll.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/log.h"
#include "interpose/client/base/handles.h"
#include "interpose/client/memory/addresses.h"
#include "protocol/api/address_plan.h"

namespace cuspan {
namespace {

// Share of a device's free memory allocated without asking again, and its validity: other processes
// may use the device, too.
constexpr std::uint64_t kCreditShare = 8;
constexpr std::chrono::milliseconds kCreditTime{50};

// True if no process has the other end open.
bool IsClosed(const UniqueFd& end) {
  pollfd watched{end.get(), 0, 0};
  return ::poll(&watched, 1, 0) > 0;
}

constexpr bool IsMultiple(std::uint64_t value) { return value % kDriverGranularity == 0; }

std::optional<std::uint64_t> AlignUp(std::uint64_t address, std::uint64_t alignment) {
  const std::uint64_t behind = address % alignment;
  if (behind == 0) return address;
  std::uint64_t aligned = 0;
  if (__builtin_add_overflow(address, alignment - behind, &aligned)) return std::nullopt;
  return aligned;
}

}  // namespace

// --- Addresses

std::optional<std::uint64_t> VirtualMemory::Place(std::uint64_t bytes, std::uint64_t alignment,
                                                  std::uint64_t hint) const {
  const auto fits = [&](std::uint64_t address, std::uint64_t limit) {
    return address <= limit && bytes <= limit - address;
  };
  if (MayReserve(hint, bytes) && hint % alignment == 0) {
    const auto next = reserved_.lower_bound(hint);
    const bool before =
        next == reserved_.begin() || std::prev(next)->first + std::prev(next)->second.bytes <= hint;
    if (before && fits(hint, next == reserved_.end() ? kReservationsEnd : next->first)) return hint;
  }
  std::uint64_t start = kReservationsBase;
  for (const auto& [address, reserved] : reserved_) {
    const auto candidate = AlignUp(start, alignment);
    if (!candidate) return std::nullopt;
    if (fits(*candidate, address)) return candidate;
    start = address + reserved.bytes;
  }
  const auto last = AlignUp(start, alignment);
  return last && fits(*last, kReservationsEnd) ? last : std::nullopt;
}

CUresult VirtualMemory::Reserve(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t hint,
                                std::uint64_t* address) {
  if (bytes > kReservationsEnd - kReservationsBase) return CUDA_ERROR_OUT_OF_MEMORY;
  const MutexLock lock(mutex_);
  const auto place = Place(bytes, std::max(alignment, kDriverGranularity), hint);
  if (!place) return CUDA_ERROR_OUT_OF_MEMORY;
  reserved_[*place] = {bytes, {}};
  *address = *place;
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::Free(std::uint64_t address, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  const auto found = reserved_.find(address);
  if (found == reserved_.end() || found->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto mapped = mapped_.lower_bound(address);
  if (mapped != mapped_.end() && mapped->first - address < found->second.bytes)
    return CUDA_ERROR_INVALID_VALUE;
  AddressFree op;
  op.address = address;
  for (const std::uint64_t number : found->second.known_at)
    // A lost device has no reservations.
    if (const auto connection = ConnectionOf(number)) static_cast<void>(Post(*connection, op));
  reserved_.erase(found);
  return CUDA_SUCCESS;
}

VirtualMemory::Reservations::iterator VirtualMemory::FindReserved(std::uint64_t address,
                                                                  std::uint64_t bytes) {
  const auto after = reserved_.upper_bound(address);
  if (after == reserved_.begin()) return reserved_.end();
  const auto found = std::prev(after);
  const std::uint64_t offset = address - found->first;
  const bool inside = offset < found->second.bytes && bytes <= found->second.bytes - offset;
  return inside ? found : reserved_.end();
}

std::optional<BlockAllocator::Range> VirtualMemory::Reservation(std::uint64_t address) {
  const MutexLock lock(mutex_);
  const auto found = FindReserved(address, 1);
  if (found == reserved_.end()) return std::nullopt;
  return BlockAllocator::Range{found->first, found->second.bytes};
}

// --- Allocations

bool VirtualMemory::ConsumeCredit(const ContextConnection& connection, std::uint64_t bytes) {
  const auto known = credits_.find(connection.number());
  if (known == credits_.end() || known->second.bytes < bytes ||
      known->second.growth != connection.memory().growth() ||
      std::chrono::steady_clock::now() >= known->second.until)
    return false;
  known->second.bytes -= bytes;
  return true;
}

CUresult VirtualMemory::TryMake(ContextConnection& connection, const AllocationTry& op) {
  AllocationTry::Reply reply;
  CUresult result = connection.Call(op, &reply);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    // Memory kept for the program's other allocations is usable, too.
    connection.memory().GiveBackIdle();
    result = connection.Call(op, &reply);
  }
  if (result != CUDA_SUCCESS) return result;
  const MutexLock lock(mutex_);
  credits_[connection.number()] = {reply.free / kCreditShare, connection.memory().growth(),
                                   std::chrono::steady_clock::now() + kCreditTime};
  return CUDA_SUCCESS;
}

std::uint64_t VirtualMemory::Add(const AllocationFacts& facts, const ContextConnection& connection,
                                 std::uint64_t number) {
  allocations_[number] =
      std::make_shared<Allocation>(Allocation{number, facts, 1, 0, {connection.number()}, {}});
  return number;
}

CUresult VirtualMemory::Create(const AllocationFacts& facts, std::uint64_t* handle) {
  if (facts.bytes == 0 || !IsMultiple(facts.bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (facts.bytes > devices_.description(facts.device).memory_bytes)
    return CUDA_ERROR_OUT_OF_MEMORY;
  EndClosed();
  std::shared_ptr<ContextConnection> connection;
  if (const CUresult result = devices_.Open(facts.device, &connection); result != CUDA_SUCCESS)
    return result;
  const std::uint64_t number = NextHandle();
  {
    const MutexLock lock(mutex_);
    if (ConsumeCredit(*connection, facts.bytes)) {
      AllocationMake op;
      op.allocation = number;
      op.bytes = facts.bytes;
      if (const CUresult result = Post(*connection, op); result != CUDA_SUCCESS) return result;
      *handle = Add(facts, *connection, number);
      return CUDA_SUCCESS;
    }
  }
  AllocationTry op;
  op.allocation = number;
  op.bytes = facts.bytes;
  if (const CUresult result = TryMake(*connection, op); result != CUDA_SUCCESS) return result;
  const MutexLock lock(mutex_);
  *handle = Add(facts, *connection, number);
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::Import(const ExportedAllocation& exported, std::uint64_t* handle) {
  std::shared_ptr<ContextConnection> connection;
  if (const CUresult result = devices_.Open(exported.facts.device, &connection);
      result != CUDA_SUCCESS)
    return result;
  AllocationImport op;
  op.allocation = NextHandle();
  op.exchange = exported.exchange;
  op.theirs = exported.number;
  AllocationImport::Reply reply;
  if (const CUresult result = connection->Call(op, &reply); result != CUDA_SUCCESS) return result;
  const MutexLock lock(mutex_);
  *handle = Add(exported.facts, *connection, op.allocation);
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::Export(std::uint64_t handle, ExportedAllocation* exported) {
  const MutexLock lock(mutex_);
  const auto allocation = FindAllocation(handle);
  if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto holder = HolderOf(*allocation);
  if (holder == nullptr || holder->place().exchange.empty()) return CUDA_ERROR_NOT_SUPPORTED;
  *exported = {allocation->facts, holder->place().exchange, allocation->number};
  // Waits for its creation: another process may ask for it now.
  MemoryInfo::Reply reply;
  return holder->Call(MemoryInfo{}, &reply);
}

CUresult VirtualMemory::KeepFor(std::uint64_t handle, UniqueFd end) {
  const MutexLock lock(mutex_);
  const auto allocation = FindAllocation(handle);
  if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::erase_if(allocation->exports, IsClosed);
  allocation->exports.push_back(std::move(end));
  return CUDA_SUCCESS;
}

void VirtualMemory::EndClosed() {
  const MutexLock lock(mutex_);
  std::erase_if(kept_, [this](std::uint64_t number) CUSPAN_REQUIRES(mutex_) {
    return EndIfUnused(*allocations_.at(number));
  });
}

std::shared_ptr<VirtualMemory::Allocation> VirtualMemory::FindAllocation(std::uint64_t handle) {
  const auto found = allocations_.find(handle);
  return found != allocations_.end() && found->second->references > 0 ? found->second : nullptr;
}

std::optional<AllocationFacts> VirtualMemory::Find(std::uint64_t handle) {
  const MutexLock lock(mutex_);
  const auto allocation = FindAllocation(handle);
  if (allocation == nullptr) return std::nullopt;
  return allocation->facts;
}

std::uint64_t VirtualMemory::BytesOn(int device) {
  const MutexLock lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [number, allocation] : allocations_)
    if (allocation->facts.device == device) bytes += allocation->facts.bytes;
  return bytes;
}

CUresult VirtualMemory::Release(std::uint64_t handle) {
  const MutexLock lock(mutex_);
  const auto allocation = FindAllocation(handle);
  if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  --allocation->references;
  if (!EndIfUnused(*allocation)) kept_.insert(handle);
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::Retain(std::uint64_t address, std::uint64_t* handle) {
  const MutexLock lock(mutex_);
  const auto mapped = FindMapped(address);
  if (mapped == mapped_.end()) return CUDA_ERROR_INVALID_VALUE;
  ++mapped->second.allocation->references;
  *handle = mapped->second.allocation->number;
  return CUDA_SUCCESS;
}

bool VirtualMemory::EndIfUnused(Allocation& allocation) {
  if (allocation.references != 0 || allocation.mappings != 0) return true;
  std::erase_if(allocation.exports, IsClosed);
  if (!allocation.exports.empty()) return false;
  AllocationEnd op;
  op.allocation = allocation.number;
  for (const std::uint64_t number : allocation.known_at)
    if (const auto connection = ConnectionOf(number)) static_cast<void>(Post(*connection, op));
  allocations_.erase(op.allocation);
  return true;
}

// --- Mappings

VirtualMemory::Mappings::iterator VirtualMemory::FindMapped(std::uint64_t address) {
  const auto after = mapped_.upper_bound(address);
  if (after == mapped_.begin()) return mapped_.end();
  const auto found = std::prev(after);
  return address - found->first < found->second.bytes ? found : mapped_.end();
}

bool VirtualMemory::FindWhole(std::uint64_t address, std::uint64_t bytes, Mappings::iterator* first,
                              Mappings::iterator* last) {
  *first = mapped_.find(address);
  *last = *first;
  std::uint64_t found = 0;
  for (; *last != mapped_.end() && (*last)->first == address + found && found < bytes; ++*last)
    found += (*last)->second.bytes;
  // Never beyond a reservation.
  return found != 0 && found == bytes && FindReserved(address, bytes) != reserved_.end();
}

CUresult VirtualMemory::Map(std::uint64_t address, std::uint64_t bytes, std::uint64_t handle) {
  if (bytes == 0 || !IsMultiple(address)) return CUDA_ERROR_INVALID_VALUE;
  const MutexLock lock(mutex_);
  const auto allocation = FindAllocation(handle);
  if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The driver maps entire allocations only.
  if (bytes != allocation->facts.bytes) return CUDA_ERROR_NOT_SUPPORTED;
  if (FindReserved(address, bytes) == reserved_.end()) return CUDA_ERROR_INVALID_VALUE;
  const auto next = mapped_.lower_bound(address);
  if (FindMapped(address) != mapped_.end() ||
      (next != mapped_.end() && next->first - address < bytes))
    return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<ContextConnection> holder = HolderOf(*allocation);
  if (holder == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const auto mapped = mapped_.emplace(address, Mapped{bytes, allocation, {}, {}}).first;
  const CUresult result = MapAt(*holder, mapped);
  if (result == CUDA_SUCCESS)
    ++allocation->mappings;
  else
    mapped_.erase(mapped);
  return result;
}

CUresult VirtualMemory::MapAt(ContextConnection& connection, Mappings::iterator mapped) {
  auto& [address, mapping] = *mapped;
  if (mapping.known_at.contains(connection.number())) return CUDA_SUCCESS;
  if (const CUresult result = ImportAt(connection, *mapping.allocation); result != CUDA_SUCCESS)
    return result;
  auto& [base, reservation] = *FindReserved(address, mapping.bytes);
  if (!reservation.known_at.contains(connection.number())) {
    AddressReserve reserve;
    reserve.address = base;
    reserve.bytes = reservation.bytes;
    AddressReserve::Reply reply;
    if (const CUresult result = connection.Call(reserve, &reply); result != CUDA_SUCCESS)
      return result;
    reservation.known_at.insert(connection.number());
  }
  AllocationMap map;
  map.address = address;
  map.bytes = mapping.bytes;
  map.allocation = mapping.allocation->number;
  if (const CUresult result = Post(connection, map); result != CUDA_SUCCESS) return result;
  mapping.known_at.insert(connection.number());
  connection.memory().AddMapped({address, mapping.bytes},
                                mapping.allocation->facts.device == connection.device());
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::ImportAt(ContextConnection& connection, Allocation& allocation) {
  if (allocation.known_at.contains(connection.number())) return CUDA_SUCCESS;
  const std::shared_ptr<ContextConnection> holder = HolderOf(allocation);
  if (holder == nullptr || holder->place().exchange.empty()) return CUDA_ERROR_NOT_SUPPORTED;
  if (holder->device() != connection.device() && !peers_.CanAccess(connection, *holder))
    return CUDA_ERROR_NOT_SUPPORTED;
  // The holder has created it when it has answered.
  MemoryInfo::Reply made;
  if (const CUresult result = holder->Call(MemoryInfo{}, &made); result != CUDA_SUCCESS)
    return result;
  AllocationImport op;
  op.allocation = op.theirs = allocation.number;
  op.exchange = holder->place().exchange;
  AllocationImport::Reply reply;
  const CUresult result = connection.Call(op, &reply);
  if (result == CUDA_SUCCESS) allocation.known_at.insert(connection.number());
  return result;
}

CUresult VirtualMemory::Unmap(std::uint64_t address, std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  if (bytes == 0 || FindReserved(address, bytes) == reserved_.end())
    return CUDA_ERROR_INVALID_VALUE;
  const auto next = mapped_.lower_bound(address);
  if (FindMapped(address) == mapped_.end() &&
      (next == mapped_.end() || next->first - address >= bytes))
    return CUDA_SUCCESS;  // Success with any start if nothing is mapped there. Measured natively.
  Mappings::iterator first;
  Mappings::iterator last;
  if (!FindWhole(address, bytes, &first, &last)) return CUDA_ERROR_INVALID_VALUE;
  ConnectionNumbers users;
  for (auto mapped = first; mapped != last; ++mapped)
    users.merge(ConnectionNumbers(mapped->second.known_at));
  for (const std::uint64_t number : users) {
    const auto connection = ConnectionOf(number);
    // A lost device uses no memory.
    if (connection == nullptr || connection->fault() != CUDA_SUCCESS) continue;
    if (const CUresult result = WaitFor(*connection); result != CUDA_SUCCESS) return result;
  }
  for (auto mapped = first; mapped != last; mapped = mapped_.erase(mapped)) UnmapEverywhere(mapped);
  return CUDA_SUCCESS;
}

void VirtualMemory::UnmapEverywhere(Mappings::iterator mapped) {
  auto& [address, mapping] = *mapped;
  AllocationUnmap op;
  op.address = address;
  op.bytes = mapping.bytes;
  for (const std::uint64_t number : mapping.known_at) {
    const auto connection = ConnectionOf(number);
    if (connection == nullptr) continue;
    connection->memory().RemoveMapped(address);
    static_cast<void>(Post(*connection, op));
  }
  --mapping.allocation->mappings;
  if (!EndIfUnused(*mapping.allocation)) kept_.insert(mapping.allocation->number);
}

CUresult VirtualMemory::SetAccess(std::uint64_t address, std::uint64_t bytes, int device,
                                  CUmemAccess_flags flags) {
  // Ensures at least one context of the device.
  std::shared_ptr<ContextConnection> connection;
  if (const CUresult result = devices_.Open(device, &connection); result != CUDA_SUCCESS)
    return result;
  const MutexLock lock(mutex_);
  Mappings::iterator first;
  Mappings::iterator last;
  if (!FindWhole(address, bytes, &first, &last)) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& context : devices_.ContextConnections()) {
    if (context->device() != device || context->fault() != CUDA_SUCCESS) continue;
    if (const CUresult result = SetAccessAt(*context, first, last, flags); result != CUDA_SUCCESS)
      return result;
  }
  for (auto mapped = first; mapped != last; ++mapped) mapped->second.access[device] = flags;
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::SetAccessAt(ContextConnection& connection, Mappings::iterator first,
                                    Mappings::iterator last, CUmemAccess_flags flags) {
  AllocationAccess op;
  op.address = first->first;
  op.flags = flags;
  for (auto mapped = first; mapped != last; ++mapped) {
    if (const CUresult result = MapAt(connection, mapped); result != CUDA_SUCCESS) return result;
    op.bytes += mapped->second.bytes;
  }
  if (const CUresult result = Post(connection, op); result != CUDA_SUCCESS) return result;
  for (auto mapped = first; mapped != last; ++mapped)
    connection.memory().SetMappedAccess(mapped->first, flags != CU_MEM_ACCESS_FLAGS_PROT_NONE);
  return CUDA_SUCCESS;
}

CUresult VirtualMemory::GetAccess(std::uint64_t address, int device, CUmemAccess_flags* flags) {
  const MutexLock lock(mutex_);
  const auto mapped = FindMapped(address);
  if (mapped == mapped_.end()) return CUDA_ERROR_INVALID_VALUE;
  const auto known = mapped->second.access.find(device);
  *flags = known == mapped->second.access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : known->second;
  return CUDA_SUCCESS;
}

std::optional<AllocationFacts> VirtualMemory::At(std::uint64_t address, std::uint64_t* base) {
  const MutexLock lock(mutex_);
  const auto mapped = FindMapped(address);
  if (mapped == mapped_.end()) return std::nullopt;
  if (base != nullptr) *base = mapped->first;
  return mapped->second.allocation->facts;
}

// --- Devices

std::shared_ptr<ContextConnection> VirtualMemory::ConnectionOf(std::uint64_t number) const {
  for (auto& connection : devices_.ContextConnections())
    if (connection->number() == number) return std::move(connection);
  return nullptr;
}

std::shared_ptr<ContextConnection> VirtualMemory::HolderOf(const Allocation& allocation) const {
  std::shared_ptr<ContextConnection> holder;
  for (const std::uint64_t number : allocation.known_at) {
    auto connection = ConnectionOf(number);
    if (connection == nullptr) continue;
    if (connection->fault() == CUDA_SUCCESS) return connection;
    if (holder == nullptr) holder = std::move(connection);
  }
  return holder;
}

template <typename T>
CUresult VirtualMemory::Post(ContextConnection& connection, const T& op) {
  std::uint64_t sequence = 0;
  const CUresult result = connection.Send(op, &sequence);
  std::uint64_t& quiet = quiet_[connection.number()];
  if (result == CUDA_SUCCESS &&
      (quiet + 1 == sequence || connection.memory().completed() + 1 >= sequence))
    quiet = sequence;
  return result;
}

CUresult VirtualMemory::WaitFor(ContextConnection& connection) {
  std::uint64_t& quiet = quiet_[connection.number()];
  const std::uint64_t last = connection.LastPosted();
  if (quiet == last || connection.memory().completed() >= last) return CUDA_SUCCESS;
  return connection.Synchronize(DeviceSynchronize{}, &quiet);
}

void VirtualMemory::Began(ContextConnection& connection) {
  const MutexLock lock(mutex_);
  for (auto mapped = mapped_.begin(); mapped != mapped_.end(); ++mapped) {
    const auto access = mapped->second.access.find(connection.device());
    if (access == mapped->second.access.end() || HolderOf(*mapped->second.allocation) == nullptr)
      continue;
    if (const CUresult result = SetAccessAt(connection, mapped, std::next(mapped), access->second);
        result != CUDA_SUCCESS)
      LogError("a new context of device {} gets no access to the memory at 0x{:x}: CUDA error {}",
               connection.device(), mapped->first, static_cast<int>(result));
  }
}

void VirtualMemory::Forget(const ContextConnection& ended) {
  const MutexLock lock(mutex_);
  for (auto& [address, mapping] : mapped_) mapping.known_at.erase(ended.number());
  for (auto& [address, reservation] : reserved_) reservation.known_at.erase(ended.number());
  for (auto& [number, allocation] : allocations_) {
    allocation->known_at.erase(ended.number());
    if (allocation->known_at.empty())
      LogInfo("memory of cuMemCreate on device {} was freed with its last context",
              allocation->facts.device);
  }
  credits_.erase(ended.number());
  quiet_.erase(ended.number());
}

}  // namespace cuspan
