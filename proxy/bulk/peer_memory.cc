#include "proxy/bulk/peer_memory.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "common/log.h"

namespace cuspan::proxy {
namespace {

// Time limit for a reply from a proxy. Its exchange thread has no other work.
constexpr std::chrono::milliseconds kAnswerLimit{10'000};

CUresult Ask(ControlSocket& peer, const PeerExport& wanted, UniqueFd* file) {
  if (!peer.Send(wanted).ok()) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  const Result<PeerExported> exported = peer.Expect<PeerExported>(kAnswerLimit);
  if (!exported.ok()) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  if (exported->result != CUDA_SUCCESS) return static_cast<CUresult>(exported->result);
  *file = peer.ExtractFd();
  return file->valid() ? CUDA_SUCCESS : CUDA_ERROR_DEVICE_UNAVAILABLE;
}

bool Inside(const AddressWindow& window, std::uint64_t address, std::uint64_t bytes) {
  return address >= window.base && bytes <= window.bytes &&
         address - window.base <= window.bytes - bytes;
}

}  // namespace

PeerMemory::~PeerMemory() {
  while (!peers_.empty()) Close(peers_.begin()->first);
  for (const auto& [address, piece] : pieces_) Release(address, piece);
}

PeerMemory::Peer* PeerMemory::Find(std::uint64_t base) {
  const auto found = peers_.find(base);
  return found == peers_.end() ? nullptr : &found->second;
}

CUresult PeerMemory::Open(const std::string& exchange, std::uint32_t ordinal,
                          const AddressWindow& window) {
  if (!secret_ || Find(window.base) != nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUdevice other = 0;
  int can = 0;
  CUresult result = driver_.cuDeviceGet(&other, static_cast<int>(ordinal));
  if (result == CUDA_SUCCESS) result = driver_.cuDeviceCanAccessPeer(&can, device_.handle(), other);
  if (result != CUDA_SUCCESS) return result;
  if (can == 0) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  Result<ControlSocket> socket = ControlSocket::Connect(exchange);
  if (!socket.ok() || !socket->Send(PeerHello{*secret_, kOpTableHash}).ok()) {
    LogInfo("the proxy of GPU {} does not answer", ordinal);
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  }
  CUdeviceptr got = 0;
  if (driver_.cuMemAddressReserve(&got, window.bytes, 0, window.base, 0) != CUDA_SUCCESS)
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  if (got != window.base) {
    driver_.cuMemAddressFree(got, window.bytes);
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  }
  // The window is still empty, so one trial allocation is mapped: its result holds for all others.
  Peer peer{window, std::move(*socket)};
  Piece piece{};
  result = Import(peer.socket, {}, window.base, Mappings::kTrialBytes, &piece);
  if (result == CUDA_SUCCESS) {
    Release(window.base, piece);
    peers_.emplace(window.base, std::move(peer));
    return CUDA_SUCCESS;
  }
  LogInfo("no peer access to GPU {}: {}", ordinal, driver_.Describe(result));
  driver_.cuMemAddressFree(window.base, window.bytes);
  return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult PeerMemory::Import(ControlSocket& peer, const PeerExport& wanted, std::uint64_t address,
                            std::uint64_t bytes, Piece* piece) {
  UniqueFd file;
  CUresult result = Ask(peer, wanted, &file);
  if (result != CUDA_SUCCESS) return result;
  piece->bytes = bytes;
  result = driver_.cuMemImportFromShareableHandle(
      &piece->memory, reinterpret_cast<void*>(static_cast<std::intptr_t>(file.get())),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result != CUDA_SUCCESS) return result;
  result = driver_.cuMemMap(address, bytes, 0, piece->memory, 0);
  if (result == CUDA_SUCCESS) {
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_.handle()};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = driver_.cuMemSetAccess(address, bytes, &access, 1);
    if (result != CUDA_SUCCESS) driver_.cuMemUnmap(address, bytes);
  }
  if (result != CUDA_SUCCESS) driver_.cuMemRelease(piece->memory);
  return result;
}

void PeerMemory::Release(std::uint64_t address, const Piece& piece) {
  driver_.cuMemUnmap(address, piece.bytes);
  driver_.cuMemRelease(piece.memory);
}

CUresult PeerMemory::Map(std::uint64_t base, std::uint64_t address, std::uint64_t bytes) {
  Peer* const peer = Find(base);
  if (peer == nullptr || bytes == 0 || !Inside(peer->window, address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  {
    const MutexLock lock(mutex_);
    if (pieces_.contains(address)) return CUDA_ERROR_ALREADY_MAPPED;
  }
  Piece piece{};
  if (const CUresult result = Import(peer->socket, {address, bytes, 0}, address, bytes, &piece);
      result != CUDA_SUCCESS)
    return result;
  const MutexLock lock(mutex_);
  pieces_[address] = piece;
  return CUDA_SUCCESS;
}

CUresult PeerMemory::Connect(const std::string& exchange,
                             std::optional<ControlSocket>* socket) const {
  if (!secret_) return CUDA_ERROR_MAP_FAILED;
  Result<ControlSocket> connected = ControlSocket::Connect(exchange);
  if (!connected.ok() || !connected->Send(PeerHello{*secret_, kOpTableHash}).ok()) {
    LogInfo("the proxy that owns the memory exported by another process does not answer");
    return CUDA_ERROR_MAP_FAILED;
  }
  socket->emplace(std::move(*connected));
  return CUDA_SUCCESS;
}

CUresult PeerMemory::Fetch(const std::string& exchange, std::uint64_t theirs,
                           UniqueFd* file) const {
  std::optional<ControlSocket> socket;
  CUresult result = Connect(exchange, &socket);
  if (result == CUDA_SUCCESS) result = Ask(*socket, {0, 0, theirs}, file);
  return result == CUDA_SUCCESS ? result : CUDA_ERROR_MAP_FAILED;
}

CUresult PeerMemory::Borrow(const std::string& exchange, std::uint64_t theirs, std::uint64_t bytes,
                            std::uint64_t at) {
  if (bytes == 0 || !device_.InWindow(at, bytes)) return CUDA_ERROR_INVALID_VALUE;
  {
    const MutexLock lock(mutex_);
    if (pieces_.contains(at)) return CUDA_ERROR_ALREADY_MAPPED;
  }
  std::optional<ControlSocket> socket;
  if (const CUresult result = Connect(exchange, &socket); result != CUDA_SUCCESS) return result;
  Piece piece{};
  if (const CUresult result = Import(*socket, {theirs, bytes, 0}, at, bytes, &piece);
      result != CUDA_SUCCESS) {
    LogInfo("cannot map memory exported by another process: {}", driver_.Describe(result));
    return CUDA_ERROR_MAP_FAILED;
  }
  const MutexLock lock(mutex_);
  pieces_[at] = piece;
  return CUDA_SUCCESS;
}

CUresult PeerMemory::Return(std::uint64_t at, std::uint64_t bytes) {
  Piece piece{};
  {
    const MutexLock lock(mutex_);
    const auto found = pieces_.find(at);
    if (!device_.InWindow(at, bytes) || found == pieces_.end() || found->second.bytes != bytes)
      return CUDA_ERROR_INVALID_VALUE;
    piece = found->second;
    pieces_.erase(found);
  }
  Release(at, piece);
  return CUDA_SUCCESS;
}

CUresult PeerMemory::Unmap(std::uint64_t base, std::uint64_t address, std::uint64_t bytes) {
  if (Find(base) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Piece piece{};
  {
    const MutexLock lock(mutex_);
    const auto found = pieces_.find(address);
    if (found == pieces_.end() || found->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    piece = found->second;
    pieces_.erase(found);
  }
  Release(address, piece);
  return CUDA_SUCCESS;
}

CUresult PeerMemory::Close(std::uint64_t base) {
  Peer* const peer = Find(base);
  if (peer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::pair<std::uint64_t, Piece>> mapped;
  {
    const MutexLock lock(mutex_);
    std::erase_if(pieces_, [&](const auto& entry) {
      if (!Inside(peer->window, entry.first, entry.second.bytes)) return false;
      mapped.push_back(entry);
      return true;
    });
  }
  for (const auto& [address, piece] : mapped) Release(address, piece);
  driver_.cuMemAddressFree(peer->window.base, peer->window.bytes);
  peers_.erase(base);
  return CUDA_SUCCESS;
}

bool PeerMemory::Contains(std::uint64_t address, std::uint64_t bytes) const {
  const MutexLock lock(mutex_);
  const auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin()) return false;
  const auto& [start, piece] = *std::prev(after);
  return bytes <= piece.bytes && address - start <= piece.bytes - bytes;
}

}  // namespace cuspan::proxy
