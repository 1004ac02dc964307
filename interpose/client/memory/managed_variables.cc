#include "interpose/client/memory/managed_variables.h"

#include <algorithm>
#include <cstring>

#include "interpose/client/connection/connection.h"
#include "interpose/client/memory/shared_region.h"

namespace cuspan {
namespace {

std::byte* Pointer(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

}  // namespace

ManagedVariables::Variable* ManagedVariables::Find(const FatbinRecord& fatbin,
                                                   const ManagedRecord& record) {
  for (Variable& variable : variables_)
    if (variable.fatbin == &fatbin && *record.host == Pointer(variable.address)) return &variable;
  return nullptr;
}

bool ManagedVariables::Has(const Variable& variable, const Connection& connection) {
  return std::any_of(variable.places.begin(), variable.places.end(),
                     [&](const Copy& place) { return place.number == connection.number(); });
}

bool ManagedVariables::PlaceAt(Connection& connection, const FatbinRecord& fatbin,
                               const ManagedRecord& record, std::uint64_t address) {
  if (!connection.place().places_variables) return false;
  VariablePlace place;
  place.module = fatbin.module;
  place.name = record.name;
  place.address = address;
  VariablePlace::Reply reply;
  return connection.Call(place, &reply) == CUDA_SUCCESS;
}

CUresult ManagedVariables::Read(Connection& connection, std::uint64_t address,
                                std::vector<std::byte>* bytes) {
  auto incoming = std::make_shared<Incoming>();
  incoming->owned.resize(bytes->size());
  incoming->destination = incoming->owned.data();
  incoming->bytes = bytes->size();
  CopyFromDevice op;
  if (const CUresult result = connection.MemoryStream(&op.stream); result != CUDA_SUCCESS)
    return result;
  op.source = address;
  op.bytes = bytes->size();
  op.transfer = connection.transfers().BeginIncoming(incoming);
  if (const CUresult result = connection.Send(op); result != CUDA_SUCCESS) {
    static_cast<void>(connection.transfers().Forget(op.transfer));
    return result;
  }
  const CUresult result = connection.transfers().WaitComplete(*incoming);
  if (result == CUDA_SUCCESS) bytes->swap(incoming->owned);
  return result;
}

CUresult ManagedVariables::Write(Connection& connection, std::uint64_t address,
                                 const std::vector<std::byte>& bytes) {
  OutgoingTransfers& outgoing = connection.transfers().outgoing();
  CopyToDevice op;
  if (const CUresult result = connection.MemoryStream(&op.stream); result != CUDA_SUCCESS)
    return result;
  op.destination = address;
  op.bytes = bytes.size();
  op.transfer = outgoing.Begin(SpanOf({}, bytes.data(), 0, bytes.size()));
  CUresult result = connection.Send(op);
  if (result != CUDA_SUCCESS) {
    outgoing.Forget(op.transfer);
    return result;
  }
  result = outgoing.Send(op.transfer, bytes.data(), bytes.size());
  // Makes it visible to kernels on all streams.
  return result != CUDA_SUCCESS ? result : connection.CallAndStore(StreamSynchronize{op.stream});
}

CUresult ManagedVariables::Loaded(Connection& connection, const FatbinRecord& fatbin) {
  const std::vector<const ManagedRecord*> records = Registry::Get().ManagedOf(fatbin);
  if (records.empty()) return CUDA_SUCCESS;
  const MutexLock lock(mutex_);
  for (const ManagedRecord* record : records) {
    VariableFind find;
    find.module = fatbin.module;
    find.name = record->name;
    VariableFind::Reply reply;
    CUresult result = connection.Call(find, &reply);
    // Not in the image run by this device, so no kernel there can name it.
    if (result == CUDA_ERROR_NOT_FOUND) continue;
    if (result != CUDA_SUCCESS) return result;
    Copy place{connection.weak_from_this(), connection.number(), reply.address, {}};
    Variable* variable = Find(fatbin, *record);
    // A library's variable is placed at the program's request; kernels may have run before. On
    // further devices, only its definition counts.
    place.ran = variable == nullptr && record->host == &record->place;
    // Placed there by an earlier call.
    if (variable != nullptr && reply.address == variable->address) continue;
    if (variable != nullptr && Has(*variable, connection)) continue;
    bool in_place = false;
    if (variable == nullptr) {
      std::uint64_t address = 0;
      result = region_->Allocate(SharedRegion::Kind::kManaged, reply.bytes, &address);
      if (result != CUDA_SUCCESS) return result;
      in_place = PlaceAt(connection, fatbin, *record, address);
      // The initial value of its definition is in the image alone.
      place.last.resize(reply.bytes);
      if ((result = Read(connection, reply.address, &place.last)) != CUDA_SUCCESS) return result;
      std::memcpy(Pointer(address), place.last.data(), reply.bytes);
      variable = &variables_.emplace_back(Variable{&fatbin, address, reply.bytes, {}});
      *record->host = Pointer(address);
    } else {
      in_place = PlaceAt(connection, fatbin, *record, variable->address);
    }
    if (!in_place) variable->places.push_back(std::move(place));
    any_.store(true, std::memory_order_release);
  }
  return CUDA_SUCCESS;
}

CUresult ManagedVariables::BeforeLaunch(Connection& connection) {
  if (!any_.load(std::memory_order_acquire)) return CUDA_SUCCESS;
  MutexLock lock(mutex_);
  const std::vector<DeviceThatRan> others = OthersThatRan(connection);
  if (!others.empty()) {
    // Their work may wait for a function of the program, and its thread needs this mutex as well.
    lock.unlock();
    for (const DeviceThatRan& other : others)
      // A lost one has no updates.
      static_cast<void>(other.connection->CallAndStore(DeviceSynchronize{}));
    lock.lock();
  }
  for (Variable& variable : variables_) {
    Copy* here = nullptr;
    for (Copy& place : variable.places) {
      if (place.number == connection.number()) {
        here = &place;
        continue;
      }
      const auto other =
          std::find_if(others.begin(), others.end(), [&](const DeviceThatRan& ran_device) {
            return ran_device.connection->number() == place.number;
          });
      if (!place.ran || other == others.end() || other->connection->fault() != CUDA_SUCCESS)
        continue;
      if (const CUresult result = Pull(variable, place, *other->connection); result != CUDA_SUCCESS)
        return result;
      place.ran = launches_[place.number] != other->launches;
    }
    if (here == nullptr) continue;
    if (const CUresult result = Push(variable, *here, connection); result != CUDA_SUCCESS)
      return result;
  }
  return CUDA_SUCCESS;
}

CUresult ManagedVariables::SendUpdates(Connection& connection) {
  if (!any_.load(std::memory_order_acquire)) return CUDA_SUCCESS;
  const MutexLock lock(mutex_);
  for (Variable& variable : variables_) {
    for (Copy& place : variable.places) {
      if (place.number != connection.number()) continue;
      if (const CUresult result = Push(variable, place, connection); result != CUDA_SUCCESS)
        return result;
    }
  }
  return CUDA_SUCCESS;
}

CUresult ManagedVariables::Push(Variable& variable, Copy& place, Connection& connection) {
  if (!place.check) return CUDA_SUCCESS;
  const std::byte* const bytes = Pointer(variable.address);
  if (place.last.size() != variable.bytes ||
      std::memcmp(place.last.data(), bytes, variable.bytes) != 0) {
    place.last.assign(bytes, bytes + variable.bytes);
    if (const CUresult result = Write(connection, place.address, place.last);
        result != CUDA_SUCCESS)
      return result;
  }
  place.check = false;
  return CUDA_SUCCESS;
}

std::vector<ManagedVariables::DeviceThatRan> ManagedVariables::OthersThatRan(
    const Connection& connection) {
  std::vector<DeviceThatRan> others;
  for (const Variable& variable : variables_) {
    for (const Copy& place : variable.places) {
      const bool known =
          std::any_of(others.begin(), others.end(), [&](const DeviceThatRan& ran_device) {
            return ran_device.connection->number() == place.number;
          });
      if (!place.ran || known || place.number == connection.number()) continue;
      if (auto other = place.connection.lock())
        others.push_back({std::move(other), launches_[place.number]});
    }
  }
  return others;
}

void ManagedVariables::AfterLaunch(Connection& connection) {
  if (!any_.load(std::memory_order_acquire)) return;
  const MutexLock lock(mutex_);
  ++launches_[connection.number()];
  for (Variable& variable : variables_)
    for (Copy& place : variable.places)
      if (place.number == connection.number()) place.ran = true;
}

CUresult ManagedVariables::Pull(Variable& variable, Copy& place, Connection& connection) {
  std::vector<std::byte> contents(variable.bytes);
  if (const CUresult result = Read(connection, place.address, &contents); result != CUDA_SUCCESS)
    return result;
  std::byte* const bytes = Pointer(variable.address);
  if (place.last.size() == contents.size() &&
      std::memcmp(place.last.data(), contents.data(), contents.size()) == 0)
    return CUDA_SUCCESS;
  for (std::size_t i = 0; i < contents.size(); ++i)
    if (place.last.size() != contents.size() || contents[i] != place.last[i])
      bytes[i] = contents[i];
  place.last = std::move(contents);
  for (Copy& other : variable.places) other.check = true;
  return CUDA_SUCCESS;
}

CUresult ManagedVariables::Synchronized(Connection& connection, bool all) {
  if (!any_.load(std::memory_order_acquire)) return CUDA_SUCCESS;
  const MutexLock lock(mutex_);
  for (Variable& variable : variables_) {
    for (Copy& place : variable.places) {
      place.check = true;
      if (place.number != connection.number() || !place.ran) continue;
      if (const CUresult result = Pull(variable, place, connection); result != CUDA_SUCCESS)
        return result;
      place.ran = !all;
    }
  }
  return CUDA_SUCCESS;
}

void ManagedVariables::Forget(const Connection& connection) {
  const MutexLock lock(mutex_);
  launches_.erase(connection.number());
  for (Variable& variable : variables_)
    variable.places.remove_if(
        [&](const Copy& place) { return place.number == connection.number(); });
}

void ManagedVariables::Unload(const FatbinRecord& fatbin) {
  std::vector<std::uint64_t> gone;
  {
    const MutexLock lock(mutex_);
    variables_.remove_if([&](const Variable& variable) {
      if (variable.fatbin != &fatbin) return false;
      gone.push_back(variable.address);
      return true;
    });
  }
  // Free waits for devices.
  for (const std::uint64_t address : gone) static_cast<void>(region_->Free(address));
}

std::optional<BlockAllocator::Range> ManagedVariables::At(std::uint64_t address) const {
  if (!any_.load(std::memory_order_acquire)) return std::nullopt;
  const MutexLock lock(mutex_);
  for (const Variable& variable : variables_)
    if (address - variable.address < variable.bytes)
      return BlockAllocator::Range{variable.address, variable.bytes};
  return std::nullopt;
}

}  // namespace cuspan
